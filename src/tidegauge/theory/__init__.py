"""One theorem, one function: exact rationals in and out.

    T1  sensitivity          one window
    T2  most_span, dcr_folds disjoint windows
    T3  swcr_folds           sliding windows
    T4  hdcr_folds           a hierarchy of windows
    T5  cover                a stretch of time as nodes of a hierarchy
    T6  sliding_from_hierarchy, hierarchy_beats_sliding
    T7  local=True           of the folds
    T9  joint, hdcr_joint    all measurements together

Every claim is proved in docs/theory/ and checked against an enumeration of small worlds in tests/theory/.
"""

from tidegauge.theory.cover import cover, cover_bound, hierarchy_beats_sliding, sliding_from_hierarchy
from tidegauge.theory.folds import dcr_folds, hdcr_folds, load_folds, most_span, swcr_folds
from tidegauge.theory.joint import hdcr_joint, joint
from tidegauge.theory.lives import Life, lives
from tidegauge.theory.sensitivity import Sensitivity, most_counted, sensitivity

__all__ = [
    "Life",
    "Sensitivity",
    "cover",
    "cover_bound",
    "dcr_folds",
    "hdcr_folds",
    "hdcr_joint",
    "hierarchy_beats_sliding",
    "joint",
    "lives",
    "load_folds",
    "most_counted",
    "most_span",
    "sensitivity",
    "sliding_from_hierarchy",
    "swcr_folds",
]

"""Bounds on what one unit can change in a release: one theorem, one function, exact rationals in and out.

    T1  sensitivity            one window
    T2  most_span, dcr_folds   disjoint windows; constraint_cases
    T3  swcr_folds             sliding windows
    T4  hdcr_folds             a hierarchy of windows
    T5  cover                  a range of windows as nodes of a hierarchy
    T6  sliding_from_hierarchy, hierarchy_beats_sliding
    T7  local=True             of the folds: local privacy
    T8  compose, worst         several privacy losses together; rho and (epsilon, delta)
    T9  joint, hdcr_joint      all measurements together
    T10, T13, T14              theory.paths: all measurements over every path of a unit
    T15 renewed                what one unit does in one term

docs/theory/README.md lists every theorem with its proof; tests/theory/ compares each with an enumeration of
small worlds.
"""

from tidegauge.theory.accounting.composition import Composition, compose, flatten, worst
from tidegauge.theory.accounting.conversion import epsilon_to_rho, rho_to_delta, rho_to_epsilon
from tidegauge.theory.accounting.events import Approximate, Concentrated, Event, Gaussian, Laplace, Repeated
from tidegauge.theory.cover import cover, cover_bound, hierarchy_beats_sliding, sliding_from_hierarchy
from tidegauge.theory.folds import dcr_folds, hdcr_folds, load_folds, most_span, swcr_folds
from tidegauge.theory.joint import hdcr_joint, joint
from tidegauge.theory.paths.cases import ConstraintCase, constraint_cases
from tidegauge.theory.renewal import renewed
from tidegauge.theory.sensitivity import Sensitivity, most_counted, sensitivity

Life = ConstraintCase
"""The earlier name of ConstraintCase; still valid."""
lives = constraint_cases
"""The earlier name of constraint_cases; still valid."""

__all__ = [
    "Approximate",
    "Composition",
    "Concentrated",
    "ConstraintCase",
    "Event",
    "Gaussian",
    "Laplace",
    "Repeated",
    "Sensitivity",
    "compose",
    "constraint_cases",
    "cover",
    "cover_bound",
    "dcr_folds",
    "epsilon_to_rho",
    "flatten",
    "hdcr_folds",
    "hdcr_joint",
    "hierarchy_beats_sliding",
    "joint",
    "lives",
    "load_folds",
    "most_counted",
    "most_span",
    "renewed",
    "rho_to_delta",
    "rho_to_epsilon",
    "sensitivity",
    "sliding_from_hierarchy",
    "swcr_folds",
    "worst",
]

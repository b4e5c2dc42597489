"""Corrections of decoded estimates: parts that add up to their whole, counts that are not negative."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class AddedUp(NamedTuple):
    """Parts that add up to their whole, and all variances.  The correction adds no bias."""

    parts: Floats
    whole: float
    part_variances: Floats
    whole_variance: float


def add_up(parts: Floats, whole: float, part_variances: Floats, whole_variance: float) -> AddedUp:
    """Correct independent estimates by least squares, so that the parts add up to the whole."""
    total = part_variances.sum() + whole_variance
    missing = whole - parts.sum()
    return AddedUp(
        parts + part_variances / total * missing,
        float(whole - whole_variance / total * missing),
        part_variances * (1 - part_variances / total),
        float(whole_variance * (1 - whole_variance / total)),
    )


class Clipped(NamedTuple):
    """A count that is not negative, and its bias if the true count equals this value."""

    value: float
    bias: float


def not_negative(value: float, stderr: float) -> Clipped:
    """The estimate, but at least 0, and its bias for normal errors: at most 0.4 standard errors."""
    kept = max(value, 0.0)
    if not stderr:
        return Clipped(kept, 0.0)
    normal = NormalDist()
    return Clipped(kept, stderr * normal.pdf(kept / stderr) - kept * normal.cdf(-kept / stderr))

"""AVG: the ratio of a measured sum and a measured count.  The error depends on the number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, ClassVar, Final

from tidegauge.mechanism.aggregate import Aggregate, Estimate, Estimates, Formula, Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.mechanism.aggregate import Error, Floats
    from tidegauge.mechanism.noise.errors import Errors
    from tidegauge.model.json import JsonObject
    from tidegauge.model.query import Component, Query

SIZES: Final = (1000, 100)
"""Numbers of rows for which examples of the formula are shown."""


@dataclass(frozen=True)
class MeanError(Formula):
    """95 % half-width of a mean over n rows: `middle` / n in the middle of its bounds, `bound` / n at them.

    That holds where n is well above the 95 % half-width of the count; for fewer rows intervals are wider,
    and for very few no value is published.
    """

    middle: float
    bound: float
    count: float

    def as_json(self) -> JsonObject:
        """The fields that plan --json shows."""
        return {
            "formula": "half_width = half_width_times_rows / rows",
            "half_width_times_rows": self.middle,
            "half_width_times_rows_at_bounds": self.bound,
            "half_width_of_count": self.count,
            "examples": {str(rows): self.middle / rows for rows in SIZES},
        }

    def __str__(self) -> str:
        examples = ", ".join(f"± {self.middle / rows:,.4g} for n = {rows:,}" for rows in SIZES)
        return (
            f"A mean over n rows: ± {self.middle:,.4g} / n ({examples}); "
            f"up to ± {self.bound:,.4g} / n for a mean at its bounds. For n near ± {self.count:,.4g}, "
            "the error of the count, it is wider or nothing is published"
        )


class Mean(Aggregate):
    """AVG of an expression between declared bounds."""

    name: ClassVar[str] = "avg"
    parts: ClassVar[tuple[Part, ...]] = ("distances", "numbers")
    unit: ClassVar[str] = "units of the values"
    no_windows: ClassVar[str] = (
        "is a mean, and the change of a mean does not follow from changes of its sum and count over a window"
    )
    zero_is_nothing: ClassVar[bool] = False
    planned_rows: ClassVar[int] = 1000
    promise: ClassVar[str] = f"of a mean over {planned_rows:,} rows in the middle of its bounds"

    def decode(self, query: Query, values: Sequence[Floats], errors: Sequence[Error]) -> list[Estimate]:
        """Means within their bounds; no value where the count cannot be distinguished from zero."""
        part = query.components[0]
        pairs = zip(*values, strict=True)
        return [_estimate(part, float(total), float(count), errors) for total, count in pairs]

    def estimates(self, query: Query, values: Sequence[Floats], errors: Sequence[Errors]) -> Estimates:
        """All at once: what `decode` does for one reading."""
        import numpy as np  # noqa: PLC0415  (whoever only shows readings does without)

        part, (total, count) = query.components[0], values
        low, high = _bounds(part)
        sum_stderr, count_stderr = (error.stderrs[:, None] for error in errors)
        sum_half, count_half = (error.half_widths(0.95)[:, None] for error in errors)
        hidden = (count <= 0) | (count < 2.5 * count_stderr)
        curve = count**2 - count_half**2
        open_ = (count <= 0) | (curve <= 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            means = total / count
            stderrs = np.sqrt(sum_stderr**2 + (means * count_stderr) ** 2) / count
            middle, spread = total * count, np.sqrt((total * count_half) ** 2 + sum_half**2 * curve)
            bottom = np.where(open_, -np.inf, (middle - spread) / curve)
            top = np.where(open_, np.inf, (middle + spread) / curve)
        centre = float(part.centre)
        return Estimates(
            np.where(hidden, np.nan, np.clip(means + centre, low, high)),
            np.where(hidden, np.nan, stderrs),
            np.where(hidden, low, np.maximum(low, bottom + centre)),
            np.where(hidden, high, np.minimum(high, top + centre)),
        )

    def exact(self, query: Query, sums: Sequence[int]) -> float | None:
        """The mean distance from the middle, and the middle; None where there are no rows."""
        part, (total, count) = query.components[0], sums
        return float(total * part.grid / count + part.centre) if count else None

    def half_width(self, errors: Sequence[Error], stderr: float, level: float) -> float:
        """The standard error of the reading, times the widest relative tail: of a sum, or a normal one.

        The errors of the two sums add up, so their law lies between the wider of the two and a normal law.
        Laplace noise has the longer tail at high levels, and the shorter one at low levels.
        """
        tails = [error.half_width(level) / error.stderr for error in errors if error.stderr]
        return stderr * max(NormalDist().inv_cdf((1 + level) / 2), *tails, 0.0)

    def formula(self, component: Component, errors: Sequence[Error], half_width: float) -> MeanError:
        """The error by the number of rows; the errors of sum and count are proportional."""
        total, count = errors
        middle = half_width * self.planned_rows
        if not total.stderr:
            return MeanError(middle, middle, 0.0)
        largest = float(component.grid) * max(abs(component.lower), abs(component.upper))
        share = count.stderr / total.stderr
        return MeanError(middle, middle * sqrt(1 + (largest * share) ** 2), middle * share)


def _bounds(part: Component) -> tuple[float, float]:
    """The least and the largest mean."""
    low, high = (float(bound * part.grid + part.centre) for bound in (part.lower, part.upper))
    return low, high


def _estimate(part: Component, total: float, count: float, errors: Sequence[Error]) -> Estimate:
    from tidegauge.mechanism.noise.error import ratio, ratio_interval  # noqa: PLC0415  (needs numpy)

    low, high = _bounds(part)
    found = ratio(
        sum_value=total, sum_stderr=errors[0].stderr, count_value=count, count_stderr=errors[1].stderr
    )
    if found is None:
        return Estimate(None, None, low, high)
    mean, stderr = found
    centre, widths = float(part.centre), [error.half_width(0.95) for error in errors]
    bottom, top = ratio_interval(
        sum_value=total, sum_half_width=widths[0], count_value=count, count_half_width=widths[1]
    )
    value = min(high, max(low, mean + centre))
    return Estimate(value, stderr, max(low, bottom + centre), min(high, top + centre))


KIND: Final = Mean()

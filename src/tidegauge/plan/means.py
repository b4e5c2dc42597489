"""How far a mean is off: that depends on how many rows it is over, so it is told as a formula."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidegauge.plan.plan import ReleasePlan

SIZES: Final = (1000, 100)
"""Numbers of rows for which the formula is also worked out."""
PLANNED: Final = 1000
"""The number of rows for which candidates are compared."""


@dataclass(frozen=True)
class MeanError:
    """95 % half-width of a mean over n rows: `middle` / n for a mean in the middle of its bounds, up to `bound` / n at them.

    That holds where n is well above the 95 % half-width of the count; for fewer rows intervals are wider, and for very few
    nothing is published.
    """

    middle: float
    bound: float
    count: float

    def as_json(self) -> dict[str, Any]:
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
            f"A mean over n rows: ± {self.middle:,.4g} / n ({examples}); up to ± {self.bound:,.4g} / n for a mean at its bounds. "
            f"For n near ± {self.count:,.4g}, the error of the count, it is wider or nothing is published"
        )


def mean_error(plan: ReleasePlan) -> MeanError | None:
    """How far the release's means are off at their worst; None for a release that is none."""
    query, schedule = plan.release.query, plan.release.schedule
    if query.aggregate != "avg":
        return None
    part, bin_ = query.components[0], schedule.bin_of_reading(0)
    total, count = (plan.decoder.law(component, bin_) for component in (0, 1))
    middle = plan.chosen.half_width_worst * PLANNED
    if not total.stderr:
        return MeanError(middle, middle, 0.0)
    reach = float(part.grid) * max(abs(part.lower), abs(part.upper))
    share = count.stderr / total.stderr  # both are measured by one strategy: the same at every reading
    return MeanError(middle, middle * sqrt(1 + (reach * share) ** 2), middle * share)

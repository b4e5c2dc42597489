"""The paths that one unit's contribution can take through the bins of a schedule.

A unit contributes s in [lo, hi] to a stock and changes s in at most k bins, all within a span of consecutive
bins. Linear measurements of s are linear in the values that it takes, so every norm is largest where these
are at the ends of the range. The changes then alternate between +S and -S, S = hi - lo (T10).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from tidegauge.errors import SpecError
from tidegauge.theory.folds import most_span
from tidegauge.theory.paths.cases import constraint_cases

if TYPE_CHECKING:
    from tidegauge.model.constraint import Constraint
    from tidegauge.model.quantity import Exact
    from tidegauge.model.schedule import Schedule

_SHORTEST_MONTH = 28 * 24 * 3600 * 10**6


class BinCase(NamedTuple):
    """A case of a constraint in bins: most bins with a change, and most bins from the first to the last.

    None: no such bound.
    """

    changes: int | None
    bins: int | None

    def within(self, count: int) -> tuple[int, int]:
        """(changes, span) for a schedule of `count` bins."""
        bins = count if self.bins is None else min(self.bins, count)
        return bins if self.changes is None else min(self.changes, bins), bins

    def after_load(self, count: int) -> tuple[int, int]:
        """(changes, span) left in `count` bins for a unit whose first change lies before them."""
        bins = count if self.bins is None else min(self.bins - 1, count)
        return bins if self.changes is None else min(self.changes - 1, bins), bins


class Domain(NamedTuple):
    """The contributions that a change can lead to: from -`low` to `high`, in one of `groups` groups.

    Each group is measured separately.  `loaded`: the unit may contribute before the first bin, by the first
    of its changes; measurements then count from there.
    """

    high: float = 1.0
    low: float = 0.0
    groups: int = 1
    loaded: bool = False


ON_OFF: Final = Domain()
"""Between nothing and 1, not in groups."""


def bin_cases(constraint: Constraint, schedule: Schedule) -> tuple[BinCase, ...]:
    """The cases of a constraint, in bins of a schedule.  [T10]

    Bins:     bin 0 is (-inf, t0], bin i is (t(i-1), t(i)].
    Requires: the constraint is enforced.
    Raises:   SpecError if the schedule has no end and a case has no bound.
    Proof:    docs/theory/T10-paths.md
    """
    found = dict.fromkeys(
        BinCase(case.mutations, None if case.bound is None else bins_touched(case.bound, schedule))
        for case in constraint_cases(constraint)
    )
    if schedule.bins is None and BinCase(None, None) in found:
        raise SpecError(
            "nothing bounds the loss: without a constraint on every unit the release must end (give 'for')"
        )
    return tuple(found)


def bins_touched(bound: Exact, schedule: Schedule) -> int:
    """Most bins from the first change to the last if these are at most `bound` apart.  [T10]

    Proof:    docs/theory/T10-paths.md, docs/theory/T10-local-bins.md
    """
    if not bound.temporal:
        raise SpecError("a release on the clock needs a length of time: write within = '30 days'")
    width, apart = schedule.bin_width, bound.value + schedule.slack
    if not width.months:
        return ceil(apart / width.micros) + 1
    if schedule.bins is None:
        return ceil(apart / (width.months * _SHORTEST_MONTH)) + 1
    return most_span([schedule.bin_end(i) for i in range(schedule.bins)], apart)


def bins_ending(length: Exact, schedule: Schedule) -> int:
    """Most bins whose ends lie in a half-open interval [p, p + length).  [T15]

    Proof:    docs/theory/T15-levels.md
    """
    if schedule.bins is None or not schedule.bin_width.months:
        return bins_touched(length, schedule) - 1
    ends = [schedule.bin_end(index) for index in range(schedule.bins)]
    apart = length.value + schedule.slack
    return most_span([*ends, ends[-1] + apart], apart) - 1  # with a bin after the last one

"""The paths that one entry's contribution can take through the bins of a schedule.

A stock's entry contributes s in [lo, hi] and changes it in at most `changes` bins, all among `bins` that follow one
another.  What it adds to linear measurements is linear in the values it takes, so every norm of it is largest where
they lie at the ends of the range: its changes alternate between +S and -S, S = hi - lo (T10).
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


class Limits(NamedTuple):
    """Changes in at most `changes` bins, the last less than `bins` after the first; None is no limit."""

    changes: int | None
    bins: int | None

    def within(self, count: int) -> tuple[int, int]:
        """The limits in a stretch of so many bins."""
        bins = count if self.bins is None else min(self.bins, count)
        return bins if self.changes is None else min(self.changes, bins), bins

    def after_load(self, count: int) -> tuple[int, int]:
        """What is left of them in so many bins for an entry whose first change lies before these."""
        bins = count if self.bins is None else min(self.bins - 1, count)
        return bins if self.changes is None else min(self.changes - 1, bins), bins


class Domain(NamedTuple):
    """Where a change may lead: to a value from -`low` to `high` in one of so many groups, each measured by itself.

    `loaded`: the entry may be somewhere before the first bin, by the first of its changes; levels count from there.
    """

    high: float = 1.0
    low: float = 0.0
    groups: int = 1
    loaded: bool = False


ON_OFF: Final = Domain()
"""Between nothing and 1, not in groups."""


def limits(constraint: Constraint, schedule: Schedule) -> tuple[Limits, ...]:
    """What the constraint leaves an entry's path, one of these.  [T10]

    Bins:     bin 0 is (-inf, t0], bin i is (t(i-1), t(i)].
    Requires: the constraint is enforced; without end in time it must limit something.
    Proof:    docs/theory/T10.md
    """
    found = dict.fromkeys(
        Limits(case.mutations, _touched(case.bound, schedule)) for case in constraint_cases(constraint)
    )
    if schedule.bins is None and Limits(None, None) in found:
        raise SpecError(
            "nothing bounds the loss: without a constraint on every entry the release must end (give 'for')"
        )
    return tuple(found)


def _touched(bound: Exact | None, schedule: Schedule) -> int | None:
    """Most bins that a life of this length reaches, counted from its first to its last."""
    if bound is None:
        return None
    if not bound.temporal:
        raise SpecError("a release on the clock needs a length of time: write within = '30 days'")
    width = schedule.bin_width
    if not width.months:
        return ceil(bound.value / width.micros) + 1
    if schedule.bins is None:
        return ceil(bound.value / (width.months * _SHORTEST_MONTH)) + 1
    return most_span([schedule.bin_end(i) for i in range(schedule.bins)], bound.value)

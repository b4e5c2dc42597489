"""Disjoint windows: every bin is measured once, and a reading is a sum of bins.  [T2, T9]"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from math import gcd
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.decoding.sums import Summed
from tidegauge.mechanism.strategy import Row, Strategy, StrategyKind
from tidegauge.model.constraint import AtMost, Both, Either, Within
from tidegauge.model.quantity import DAY, Span
from tidegauge.theory.folds import dcr_folds, most_span
from tidegauge.theory.joint import joint
from tidegauge.theory.paths.cases import constraint_cases
from tidegauge.theory.paths.path import bins_touched
from tidegauge.theory.sensitivity import Sensitivity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.windows import Windows
    from tidegauge.mechanism.search.task import Search
    from tidegauge.mechanism.strategy import Exposure
    from tidegauge.model.constraint import Constraint
    from tidegauge.model.quantity import Exact
    from tidegauge.model.schedule import Schedule

_GREGORIAN: Final = 4800
"""Months after which the calendar repeats ..."""
_CENTURIES: Final = 146_097 * DAY
"""... and how long they are."""


@dataclass(frozen=True)
class Disjoint(Strategy):
    """Measures bins `base`, base + 1, ... as they end."""

    name: ClassVar[str] = "disjoint"
    base: int = 0

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """The first measured bin."""
        return {"base": self.base}

    def rows(self, bin_: int) -> tuple[Row, ...]:
        """The bin itself."""
        return (Row(0, bin_ - self.base, ((bin_, bin_, 1),)),) if bin_ >= self.base else ()

    def folds(self, exposure: Exposure) -> int | None:
        """Most bins that one unit can change."""
        measured = self._measured(exposure.schedule)
        return bin_folds(exposure.constraint, exposure.schedule, measured, first=self.base)

    @property
    def plain_sums(self) -> bool:
        """Readings add up measured bins."""
        return True

    def _measured(self, schedule: Schedule) -> int | None:
        """The number of measured bins; None: without end."""
        return None if schedule.bins is None else schedule.bins - self.base

    def needed_from(self, bin_: int) -> int:
        """The next bin: a measured bin is not needed again."""
        return bin_ + 1

    def weights(self, bin_: int, span: int | None) -> NDArray[np.float64]:
        """One for each bin in the span."""
        rows = bin_ - self.base + 1
        weights = np.ones(rows)
        if span is not None:
            weights[: max(0, rows - span)] = 0
        return weights

    def decoding(self, cells: int) -> Summed:
        """Sums of the measured bins."""
        return Summed(self.base, cells)

    def powers(self, windows: Windows, power: int) -> NDArray[np.float64]:
        """The number of bins in each window."""
        del power
        return self.equal(windows).astype(np.float64)[:, None]

    def equal(self, windows: Windows) -> NDArray[np.int64]:
        """Every weight is 1."""
        return windows.last - np.maximum(windows.after, self.base - 1)

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """One unit changes at most `folds` bins.  If bin 0 is not measured, the unit may exist before."""
        measured = self._measured(exposure.schedule)
        folds = bin_folds(exposure.constraint, exposure.schedule, measured, first=self.base)
        entering = self._joint(exposure, folds, firsts=1)
        if not self.base:
            return entering
        inside = (
            bin_folds(exposure.constraint, exposure.schedule, None if measured is None else measured + 1) - 1
        )
        already = self._joint(exposure, inside, firsts=0)
        return Sensitivity(max(entering.l1, already.l1), max(entering.l2_squared, already.l2_squared))

    @staticmethod
    def _joint(exposure: Exposure, folds: int, *, firsts: int) -> Sensitivity:
        return joint(
            folds=folds,
            firsts=firsts,
            kind=exposure.kind,
            lower=exposure.lower,
            upper=exposure.upper,
            grouped=exposure.grouped,
            rows=exposure.rows,
            mutations=most_mutations(exposure.constraint),
            clip=exposure.clip,
        )


def bin_folds(constraint: Constraint, schedule: Schedule, count: int | None, *, first: int = 0) -> int:
    """Most bins of a schedule that one unit can change, of `count` bins from the `first` on.  [T2]

    Requires: the constraint is enforced.
    Proof:    docs/theory/T2-months.md
    """
    width = schedule.bin_width
    if schedule.slack:
        constraint = eased(constraint, schedule.slack)
    if not width.months:
        return dcr_folds(constraint, width=f"{width.micros} microseconds", count=count)
    if count is not None:
        times = [schedule.bin_moment(index) for index in range(first, first + count)]
        return dcr_folds(constraint, times=times)
    found = []
    for case in constraint_cases(constraint):
        most = [] if case.mutations is None else [case.mutations]
        most += [] if case.bound is None else [_endless_months(case.bound, schedule)]
        if not most:
            raise SpecError("nothing bounds the loss: without a constraint the release must end (give 'for')")
        found.append(min(most))
    return max(found)


def _endless_months(bound: Exact, schedule: Schedule) -> int:
    """Most bins of months without end that a closed interval of this length touches."""
    if bound.value > _CENTURIES:
        return bins_touched(bound, schedule)
    months = replace(schedule, every=Span(months=1), window=None)
    width = schedule.bin_width.months
    length, end = timedelta(microseconds=int(bound.value)), 2 * _GREGORIAN + width
    return max(
        most_span([months.bin_moment(month) for month in range(first, end, width)], length)
        for first in range(0, width, gcd(width, _GREGORIAN))
    )


def eased(constraint: Constraint, slack: int) -> Constraint:
    """The constraint with every bound on time longer by `slack` microseconds.

    Local bins are bins of equal length for a unit that has so much more time (docs/theory/T10-local-bins.md).
    """
    match constraint:
        case Within(bound=bound, temporal=True):
            return Within(f"{int(bound) + slack} microseconds")
        case Both(left, right):
            return Both(eased(left, slack), eased(right, slack))
        case Either(left, right):
            return Either(eased(left, slack), eased(right, slack))
        case _:
            return constraint


def most_mutations(constraint: Constraint) -> int | None:
    """Most changes that the constraint accepts for a unit; None if it sets no number."""
    match constraint:
        case AtMost(mutations):
            return mutations
        case Both(left, right):
            counts = [count for part in (left, right) if (count := most_mutations(part)) is not None]
            return min(counts, default=None)
        case Either(left, right):
            one, other = most_mutations(left), most_mutations(right)
            return None if one is None or other is None else max(one, other)
        case _:
            return None


def _candidates(search: Search) -> Iterator[Disjoint]:
    yield Disjoint(search.schedule.base)


def _describe(schedule: Schedule) -> str:
    if schedule.span == 1:
        return "measures every window once, and each is a reading"
    return "measures every window once and adds them up, so errors add up too"


KIND: Final = StrategyKind(Disjoint, _describe, _candidates, fixed={"base": "base"})

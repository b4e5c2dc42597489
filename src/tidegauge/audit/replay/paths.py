"""The changes of one unit that cost the most: a search, which no certificate is asked for.

The search knows the strategy's rows, the noise, the constraint that is enforced, and which contributions rows
can have.  It does not know the certified sensitivity, so what it finds is evidence for it or against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from tidegauge.audit.worlds.palette import Contribution
    from tidegauge.audit.worlds.world import Random
    from tidegauge.mechanism.encode import ComponentPlan
    from tidegauge.model.program import Allowance
    from tidegauge.model.schedule import Schedule
    from tidegauge.plan.plan import ReleasePlan

    Floats = NDArray[np.float64]

LONGEST: Final = 1200
"""Bins of a plan that the search and the replay look at; of a longer plan, the first so many."""
_MANY_CHANGES: Final = 16
"""Changes beyond which only regular paths are tried."""
_SWEEPS: Final = 3
_FEW_ROWS: Final = 64
"""Rows up to which every shift of shared noise is tried."""


class Change(NamedTuple):
    """In this bin the unit's contribution becomes this one (None: nothing); of a flow, a change counts."""

    bin: int
    contribution: Contribution | None


@dataclass(frozen=True)
class Path:
    """Changes of one unit, under the constraint of this label, and what they cost as the search finds."""

    changes: tuple[Change, ...]
    label: str | None
    cost: float
    instants: tuple[int, ...] = ()
    """When the changes happen; empty: as late in their bins as the constraint allows."""
    ends: int | None = None
    """When the term of the unit ends, where the constraint renews: the unit is gone by then."""
    full: bool = True
    """Whether they are as many as the constraint allows, so that further changes must not count."""


class Rows:
    """The measurements of a component in the first bins, each over the width of its noise.

    If noise is drawn ahead: the nodes that the draws hide, also of later bins.
    """

    def __init__(self, component_plan: ComponentPlan, bins: int) -> None:
        strategy, noise = component_plan.strategy, component_plan.noise
        if strategy.ahead is None:
            rows = [row for bin_ in range(bins) for row in strategy.rows(bin_)]
        else:  # its nodes are hidden by independent draws
            rows = list(strategy.ahead.nodes)
        matrix = np.zeros((len(rows), bins))
        shared = np.zeros(len(rows))
        for n, row in enumerate(rows):
            width = width_of(component_plan.noise_of(row.layer))
            for first, last, factor in row.ranges:
                matrix[n, max(first, 0) : last + 1] += factor * component_plan.refine / width
            shared[n] = row.shared / width
        self.matrix, self.pure = matrix, isinstance(noise, DiscreteLaplace)
        hidden = component_plan.shared_noise
        self._shared = None if hidden is None else shared
        self._hidden = 0.0 if hidden is None else width_of(hidden)

    def cost(self, moved: Floats) -> Floats:
        """The loss of moving the measurements (rows by cases), for the best shift of the shared noise.

        For Laplace noise over many rows some shifts are tried, and the cost may be above the true one.
        """
        plain: Floats = np.abs(moved).sum(axis=0) if self.pure else (moved**2).sum(axis=0) / 2
        if self._shared is None or not moved.size:
            return plain
        along = self._shared[:, None]
        if not self.pure:
            overlap = (along * moved).sum(axis=0)
            gained: Floats = plain - overlap**2 / (2 * (float((along**2).sum()) + 1 / self._hidden**2))
            return gained
        best = plain
        for shift in self._shifts(moved):
            best = np.minimum(best, np.abs(moved - along * shift).sum(axis=0) + np.abs(shift) / self._hidden)
        return best

    def _shifts(self, moved: Floats) -> Iterator[Floats]:
        """Shifts of shared Laplace noise that may cost least: all of them where there are few rows."""
        assert self._shared is not None
        held = np.flatnonzero(self._shared)
        if len(held) <= _FEW_ROWS:
            yield from (moved[row] / self._shared[row] for row in held)
            return
        top = held[np.argmax(np.abs(self._shared[held]))]
        yield from (part * moved[top] / self._shared[top] for part in (0.25, 0.5, 0.75, 1.0))


def width_of(noise: object) -> float:
    """The scale of Laplace noise, the standard deviation of Gaussian noise."""
    if isinstance(noise, DiscreteLaplace):
        return float(noise.scale)
    assert isinstance(noise, DiscreteGaussian)
    return sqrt(noise.sigma_squared)


def horizon(schedule: Schedule, most: int = LONGEST) -> int:
    """How many bins are looked at."""
    return most if schedule.bins is None else min(most, schedule.bins)


class Search:
    """The search for one release."""

    def __init__(self, plan: ReleasePlan, bins: int, rng: Random, *, rows: int = 1) -> None:
        self._schedule, self._bins, self._rng = plan.release.schedule, bins, rng
        self._parts = [Rows(one, bins) for one in plan.component_plans]
        self._rows, self._flow = rows, plan.release.query.kind == "flow"
        self._clip = plan.release.clip
        self._ends = [self._schedule.bin_end(bin_) for bin_ in range(bins)]

    def cost(self, changes: Sequence[Change]) -> float:
        """What the steps cost."""
        return float(self._cost(self._moved(changes)).sum())

    def _cost(self, moved: dict[int, list[Floats]]) -> Floats:
        total = np.zeros(1)
        for parts in moved.values():
            for part, amounts in zip(self._parts, parts, strict=True):
                total = total + part.cost(self._rows * amounts)
        return total

    def _moved(self, changes: Sequence[Change]) -> dict[int, list[Floats]]:
        """By cell and component, the measurements that move (rows by 1)."""
        by_cell: dict[int, Floats] = {}
        before: Contribution | None = None
        for bin_, after in changes:
            for one, sign in ((None if self._flow else before, -1), (after, 1)):
                if one is not None:
                    cell = by_cell.setdefault(one.cell, np.zeros((len(self._parts), self._bins)))
                    cell[:, bin_] += sign * np.array(one.amounts, dtype=np.float64)
            before = after
        return {
            cell: [part.matrix @ each[:, None] for part, each in zip(self._parts, amounts, strict=True)]
            for cell, amounts in by_cell.items()
        }

    def last_bin(self, first: int, allowance: Allowance) -> int:
        """The last bin in which a unit may change whose first change is at the end of bin `first`."""
        if allowance.within is None:
            return self._bins - 1
        latest = self._ends[first] + allowance.within
        last = first
        while last + 1 < self._bins and self._ends[last] + 1 <= latest:
            last += 1
        return last

    def worst(
        self,
        allowances: Sequence[tuple[str | None, Allowance]],
        contributions: Sequence[Contribution],
        *,
        retire: bool = False,
    ) -> Path:
        """The path with the largest cost that was found; an empty one where no row contributes."""
        best = Path((), allowances[0][0], 0.0)
        for label, allowance in allowances:
            for changes in self._found(allowance, contributions, retire=retire):
                cost = self.cost(changes)
                if cost > best.cost:
                    best = Path(tuple(changes), label, cost)
        return best

    def _found(
        self, allowance: Allowance, contributions: Sequence[Contribution], *, retire: bool
    ) -> Iterator[list[Change]]:
        if not contributions:
            return
        if self._flow:
            yield from self._flows(allowance, contributions[0])
            return
        for cycle in cycles(contributions):
            for bins in self._starts(allowance):
                changes = [Change(bin_, cycle[n % len(cycle)]) for n, bin_ in enumerate(bins)]
                if retire and len(changes) > 1:
                    changes[-1] = Change(changes[-1].bin, None)
                yield self._improved(changes, allowance) if len(changes) <= _MANY_CHANGES else changes

    def _flows(self, allowance: Allowance, one: Contribution) -> Iterator[list[Change]]:
        """All changes in one bin, or as many in each as the clip lets count."""
        for bin_ in range(self._bins):
            left = allowance.at_most if allowance.at_most is not None else 10**6
            changes: list[Change] = []
            for each in range(bin_, self.last_bin(bin_, allowance) + 1):
                count = min(left, self._clip or left)
                if not count:
                    break
                changes += [Change(each, one)] * count
                left -= count
            yield changes
            if bin_ >= 64:  # later bins have fewer measurements after them
                return

    def _starts(self, allowance: Allowance) -> Iterator[list[int]]:
        """Bins to begin the search with."""
        most = self._bins if allowance.at_most is None else min(allowance.at_most, self._bins)
        for first in {0, 1 % self._bins, self._bins // 2}:
            last = self.last_bin(first, allowance)
            count = min(most, last - first + 1)
            yield list(range(first, first + count))
            if count > 1:
                spread = np.unique(np.linspace(first, last, count).astype(int))
                yield spread.tolist()
                yield sorted(self._rng.sample(range(first, last + 1), count))

    def _improved(self, changes: list[Change], allowance: Allowance) -> list[Change]:
        """Move one change at a time to the bin where it costs most."""
        for _ in range(_SWEEPS):
            before = [change.bin for change in changes]
            for n in range(len(changes)):
                low = changes[n - 1].bin + 1 if n else 0
                high = (
                    changes[n + 1].bin - 1
                    if n + 1 < len(changes)
                    else self.last_bin(changes[0].bin, allowance)
                )
                if n == 0 and allowance.within is not None:
                    low = next(
                        b for b in range(changes[0].bin + 1) if self.last_bin(b, allowance) >= changes[-1].bin
                    )
                if len(changes) == 1:
                    low, high = 0, self._bins - 1
                if high > low:
                    changes = self._moved_to_best(changes, n, range(low, high + 1))
            if before == [change.bin for change in changes]:
                break
        return changes

    def _moved_to_best(self, changes: list[Change], n: int, bins: range) -> list[Change]:
        before = changes[n - 1].contribution if n else None
        after = changes[n].contribution
        rest = self._moved([*changes[:n], *(Change(s.bin, s.contribution) for s in changes[n:])])
        costs = np.zeros(len(bins))
        cells = {one.cell for one in (before, after) if one is not None}
        for cell in cells:
            amounts = np.zeros(len(self._parts))
            for one, sign in ((before, -1.0), (after, 1.0)):
                if one is not None and one.cell == cell:
                    amounts += sign * np.array(one.amounts, dtype=np.float64)
            for part, amount, whole in zip(self._parts, amounts, rest[cell], strict=True):
                fixed = whole - amount * part.matrix[:, [changes[n].bin]]
                moved = fixed + amount * part.matrix[:, bins.start : bins.stop]
                costs += part.cost(self._rows * moved)
        found = list(changes)
        found[n] = Change(bins[int(np.argmax(costs))], after)
        return found


def cycles(contributions: Sequence[Contribution]) -> Iterator[tuple[Contribution | None, ...]]:
    """What a unit may change between: a value and nothing, two values, two cells, three cells."""
    top = contributions[0]
    yield (top, None)
    for other in contributions[1:]:
        if other.cell == top.cell and other.amounts != top.amounts:
            yield (top, other)
            yield (other, top)
            break
    elsewhere = {one.cell: one for one in reversed(contributions) if one.cell != top.cell}
    beyond = list(elsewhere.values())[:2]
    for one in contributions:  # two cells with values of different signs
        if one.cell != top.cell and one.amounts[0] * top.amounts[0] < 0:
            yield (top, one)
            break
    if beyond:
        yield (top, beyond[0])
    if len(beyond) > 1:
        yield (top, beyond[0], beyond[1])

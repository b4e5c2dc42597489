"""Exact sums of the latest reading of every release: accepted, and dropped by the constraint.  All secret.

They are for the operator, who sees with `status` by how much the constraint moves a reading.  Earlier bins of
a running value are kept as one sum, and bins before the latest window are erased.  Once a release has ended,
its last running value is kept only as long as the rows of the state, which are at the same instant, show it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidegauge.model.program import Total
    from tidegauge.model.tick import Measured, TickResult
    from tidegauge.store.secret.secrets import Secrets

    Sums = dict[tuple[int, int, int], tuple[int, int]]
    """(component, bin, cell) -> (accepted, dropped)."""
    Levels = Mapping[str, Mapping[tuple[int, int], int]]
    """Release -> (component, cell) -> running value."""

EARLIER: Final = -1
"""The bin that stands for all bins of a running value that are measured."""
_WIDTH: Final = 40
"""Characters of a sealed number, so that its length says nothing of its size."""
_SINCE: Final = "exact_since"
_ENDED: Final = "exact_ended"
"""The releases that ended with the last tick."""


class ExactSums:
    """One secret per release, written in the tick that changes it."""

    def __init__(self, secrets: Secrets, *, sealed: bool) -> None:
        self._secrets, self._width = secrets, _WIDTH if sealed else 0

    @property
    def since(self) -> int | None:
        """When the store began to keep what the constraint drops; None: from its beginning."""
        found: int | None = self._secrets.get(_SINCE)
        return found

    def begin(self, at: int, levels: Levels) -> None:
        """Nothing is known of what was dropped before; inside a transaction.

        `levels`: the running values as the rows of the state give them, by release, component and cell.
        """
        self._secrets.set(_SINCE, at)
        for release, amounts in levels.items():
            self._set(release, {(j, EARLIER, cell): [amount, 0] for (j, cell), amount in amounts.items()})

    def of(self, release: str) -> Sums | None:
        """The sums of a release; None: they are not known, or were erased."""
        stored = self._secrets.get(_key(release))
        if stored is None:
            return None
        return {(j, bin_, cell): (int(one), int(other)) for j, bin_, cell, one, other in stored}

    def take(self, result: TickResult) -> None:
        """Add the sums of a tick; inside its transaction."""
        measured = {one.release: one for one in result.measured}
        self._forget_ended(measured)
        accepted = _by_release(total for part in result.folded for total in part.totals)
        dropped = _by_release(total for part in result.folded for total in part.dropped)
        for release in sorted({*accepted, *dropped, *measured}):
            sums: dict[tuple[int, int, int], list[int]] = defaultdict(lambda: [0, 0])
            known = ((key, amounts) for key, amounts in (self.of(release) or {}).items())
            fresh = ((_spot(one), (one.amount, 0)) for one in accepted.get(release, ()))
            lost = ((_spot(one), (0, one.amount)) for one in dropped.get(release, ()))
            for part in (known, fresh, lost):
                for (component, bin_, cell), (one, other) in part:
                    place = _kept(bin_, measured.get(release))
                    if place is not None:
                        sums[component, place, cell][0] += one
                        sums[component, place, cell][1] += other
            self._set(release, sums)
            last = measured.get(release)
            if last is not None and last.sums_from is None and last.reading_from is not None:
                self._secrets.set(_key(release), None)

    def _forget_ended(self, measured: Mapping[str, Measured]) -> None:
        """Erase the last value of a release that had ended before: the rows no longer show it either."""
        for release in self._secrets.get(_ENDED) or ():
            self._secrets.set(_key(release), None)
        ended = sorted(name for name, one in measured.items() if one.sums_from is None)
        self._secrets.set(_ENDED, ended or None)

    def _set(self, release: str, sums: dict[tuple[int, int, int], list[int]]) -> None:
        rows = [
            [*key, *(str(amount).rjust(self._width) for amount in amounts)]
            for key, amounts in sorted(sums.items())
            if any(amounts)
        ]
        self._secrets.set(_key(release), rows)


def _kept(bin_: int, measured: Measured | None) -> int | None:
    """The bin under which a sum is kept once these bins are measured; None: it is erased."""
    if measured is None:
        return bin_
    if measured.reading_from is None:
        return EARLIER if bin_ < measured.next_bin else bin_
    return bin_ if bin_ >= measured.reading_from else None


def _by_release(totals: Iterable[Total]) -> dict[str, list[Total]]:
    found: dict[str, list[Total]] = defaultdict(list)
    for one in totals:
        found[one.release].append(one)
    return found


def _spot(total: Total) -> tuple[int, int, int]:
    return total.component, total.bin, total.cell


def _key(release: str) -> str:
    return f"exact:{release}"

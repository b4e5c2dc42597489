"""Enforcement over arrays for units that own several rows: what the rows of a unit contribute together.

All that happens to the rows of a unit at one instant is one change of the unit, by its net effect, and none
where this is nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.engine.duckdb.past.admit import RowChanges, admitted, crowded, together
from tidegauge.engine.duckdb.past.enforce import Enforced, judged, net
from tidegauge.engine.duckdb.past.owned import codes
from tidegauge.engine.duckdb.past.parts import Part
from tidegauge.engine.duckdb.past.stamps import NO_CHANGE, NOT_COUNTED, Stamps, stamped
from tidegauge.engine.duckdb.sorting import begins, order_of
from tidegauge.engine.duckdb.views import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidegauge.engine.duckdb.past.enforce import Flags, Ints, Rules
    from tidegauge.engine.duckdb.past.owned import UnitVersions

_LARGE: Final = 2**62
"""Sums that can reach this are sums of Python's integers."""


@dataclass(frozen=True)
class Amounts:
    """What each contribution adds to the sums: those of number n are from bounds[n] to bounds[n + 1]."""

    bounds: Ints
    place: Ints
    """A number for each release, component and cell."""
    amount: Ints

    names: pa.Array
    """For each of these numbers the beginning of a text: release:component:cell:"""

    @classmethod
    def of(cls, parts: pa.Table, width: int) -> Amounts:
        """`parts`: the table of this name, see `PastViews`; `width`: the number of contributions."""
        code, amount = (parts[name].to_numpy().astype(np.int64) for name in ("code", "amount"))
        order = np.argsort(code, kind="stable")
        columns = np.stack([parts[name].to_numpy() for name in ("release", "component", "cell")])
        known, place = np.unique(columns, axis=1, return_inverse=True)
        texts = [pa.array(column).cast(pa.string()) for column in known]
        names = pc.binary_join_element_wise(*texts, "", ":")
        bounds = np.searchsorted(code[order], np.arange(width + 1))
        return cls(bounds, place.ravel()[order], amount[order], names)

    def sums(self, group: Ints, codes_: NDArray[np.int32], times: Ints) -> tuple[Ints, Ints, NDArray[Any]]:
        """The exact sums of groups of contributions: group, place and what is not 0, in this order.

        `times`: how often each contribution counts.
        """
        lengths = self.bounds[codes_ + 1] - self.bounds[codes_]
        at = np.repeat(self.bounds[codes_] - (np.cumsum(lengths) - lengths), lengths)
        at += np.arange(len(at))
        size = len(self.names)
        keys = np.repeat(group, lengths) * size + self.place[at]
        most = int(np.abs(times).max(initial=0)) * max(
            -int(self.amount.min(initial=0)), int(self.amount.max(initial=0))
        )
        amount: NDArray[Any] = self.amount[at]
        if most * len(at) >= _LARGE:
            amount = amount.astype(object)  # Python's integers do not overflow
        amount = amount * np.repeat(times, lengths)
        order = order_of(keys)
        keys = keys[order]
        starts = np.flatnonzero(begins(keys))
        if not len(starts):
            return starts, starts, starts
        total = np.add.reduceat(amount[order], starts)
        some = np.flatnonzero(total)
        found, place = np.divmod(keys[starts[some]], size)
        return found, place, total[some]

    def some(self, group: Ints, codes_: NDArray[np.int32], signs: Ints, groups: int) -> Flags:
        """For each group of signed contributions: whether anything remains of their sum."""
        found = np.zeros(groups, bool)
        found[self.sums(group, codes_, signs)[0]] = True
        return found

    def texts(self, group: Ints, codes_: NDArray[np.int32], times: Ints, groups: int) -> pa.Array:
        """The sum of each group as `units.excess` has it; null where nothing remains."""
        who, place, total = self.sums(group, codes_, times)
        if total.dtype == object:
            written = pa.array(list(map(str, total)), pa.string())
        else:
            written = pa.array(total).cast(pa.string())
        parts = pc.binary_join_element_wise(self.names.take(pa.array(place)), written, "")
        first = np.flatnonzero(begins(who))
        lists = pa.ListArray.from_arrays(pa.array(np.append(first, len(who)), pa.int32()), parts)
        at = np.full(groups, -1)
        at[who[first]] = np.arange(len(first))
        return pc.binary_join(lists, " ").take(pa.array(at, mask=at < 0))


@dataclass(frozen=True)
class Owners:
    """The unit of every version, as a number below `count`."""

    unit: NDArray[np.int32]
    count: int


class Several:
    """Enforces a program in which at most `most` rows of a unit count at any time."""

    def __init__(
        self, rules: Sequence[Rules], amounts: Sequence[Amounts], most: int, ends: Ints, reached: int
    ) -> None:
        self._rules, self._amounts, self._most = rules, amounts, most
        self._ends, self._reached = ends, reached

    def part(self, versions: UnitVersions, *, stamp: bool) -> Part:
        """The counters of the units of a part, in every scope.  `stamp`: also return every change."""
        encoded = pa.array(versions.unit).dictionary_encode()
        names: Any = encoded.dictionary
        owners = Owners(encoded.indices.to_numpy(), len(names))
        enforced = [self._enforced(versions, owners, s, stamp=stamp) for s in range(len(self._rules))]
        units = names.cast(pa.string()) if stamp else None
        stamps = [stamped(s, units, of_scope.stamps) for s, of_scope in enumerate(enforced)] if stamp else ()
        none = np.zeros(0, np.int64)
        return Part(
            names, none.astype(np.int32), none, none,
            tuple(replace(of_scope, stamps=None) for of_scope in enforced), {}, 0, stamps=tuple(stamps),
        )  # fmt: skip

    def _enforced(self, versions: UnitVersions, owners: Owners, s: int, *, stamp: bool) -> Enforced:
        rules, unit, units = self._rules[s], owners.unit, owners.count
        width, fresh, picture = rules.width, (versions.version & 1).astype(bool), versions.version >> 1
        code, was = codes(picture, fresh, rules)
        at = np.flatnonzero(code != was)
        every = RowChanges(unit[at], versions.time[at], versions.bin[at], was[at], code[at])
        row = np.cumsum(fresh, dtype=np.int32)[at]
        changes = admitted(every, row, versions.place[at], self._most, self._ends)
        order, starts = together(changes.unit, changes.time)
        changes = changes.at(order)
        group = np.cumsum(starts) - 1  # of each row change: the instant of its unit
        some = self._changes(changes, group, np.flatnonzero(starts), self._amounts[s])
        at = np.flatnonzero(starts)[some]  # the first row change of each change of a unit
        time, who = changes.time[at], changes.unit[at]
        first = np.flatnonzero(begins(who))
        lengths = np.diff(np.append(first, len(who)))
        label = self._labels(versions, owners, who[first], time[first], rules)
        found = judged(time, time[first], lengths, label, rules=rules, reached=self._reached)
        accepted = np.zeros(len(some), bool)
        accepted[some] = found.accepts
        accepts = accepted[group]
        place = np.full(units, -1, np.int64)
        place[who[first]] = np.arange(len(first))
        mine = place[changes.unit]  # of each row change: its unit among those that change; -1: it never does
        counts, left = changes.at(accepts), np.append(found.left, [False])
        away = np.flatnonzero(accepts & left[mine])
        goes = np.searchsorted(self._ends, found.leaves[mine[away]]) * width
        stamps = None
        if stamp:
            number = (np.cumsum(some) - 1)[group]  # of each row change: the change of its unit
            kept = np.flatnonzero(some[group])
            ordinal = np.arange(len(who)) - np.repeat(first, lengths) + 1
            begun = np.repeat(time[first], lengths)
            full = crowded(every, row, self._most)
            gone = changes.at(away)
            stamps = Stamps.joined(
                Stamps(changes.unit[kept], changes.time[kept], ordinal[number[kept]], begun[number[kept]],
                       changes.bin[kept], changes.was[kept], changes.now[kept], accepts[kept]),
                Stamps.like(gone.unit, found.leaves[mine[away]], goes // width, gone.now, gone.was,
                            ordinal=NO_CHANGE, first=begun[number[away]]),
                _beyond(every.at(full[every.unit]), changes.at(full[changes.unit]), self._ends),
            )  # fmt: skip
        rest = np.flatnonzero(some[group] & (left[mine] | ~accepts))
        base = mine[rest] * width
        places, times = net([(base + changes.now[rest], 1), (base + changes.was[rest], -1)], width)
        excess = self._amounts[s].texts(*np.divmod(places, width), times, len(first))
        return Enforced(
            units=who[first],
            changes=found.changes,
            first=time[first],
            labels=label,
            leaves=found.leaves,
            settled=found.settled,
            accepted=(none := np.zeros(len(first), np.int32)),
            true=none,
            excess=excess,
            accepted_changes=net(_signed(counts, width), width),
            other_changes=net([*_signed(every, width), *_signed(counts, width, -1)], width),
            exits=net([(goes + changes.now[away], -1), (goes + changes.was[away], 1)], width),
            dropped=found.dropped,
            stamps=stamps,
        )

    @staticmethod
    def _changes(changes: RowChanges, group: Ints, starts: Ints, amounts: Amounts) -> Flags:
        """For each instant of a unit: whether its contribution changes."""
        sizes = np.diff(np.append(starts, len(group)))
        several = np.flatnonzero(sizes > 1)
        some = np.ones(len(starts), bool)
        if not len(several):
            return some
        number = np.full(len(starts), -1)
        number[several] = np.arange(len(several))
        at = np.flatnonzero(sizes[group] > 1)
        mine = number[group[at]]
        sign = np.ones(len(at), np.int64)
        some[several] = amounts.some(
            np.concatenate([mine, mine]),
            np.concatenate([changes.now[at], changes.was[at]]),
            np.concatenate([sign, -sign]),
            len(several),
        )
        return some

    @staticmethod
    def _labels(
        versions: UnitVersions, owners: Owners, who: NDArray[np.int32], first: Ints, rules: Rules
    ) -> NDArray[np.int32] | None:
        """The label of each unit: that of its first version, in the log, at the time of its first change."""
        if rules.labels is None:
            return None
        unit, units = owners.unit, owners.count
        begun = np.full(units, NEVER)
        begun[who] = first
        at = np.flatnonzero(versions.time == begun[unit])
        at = at[np.lexsort((versions.place[at], unit[at]))]
        at = at[begins(unit[at])]
        picture = versions.version >> 1
        seen = np.where(picture[at] > 0, picture[at], picture[at - 1])  # of a row that ends: as it was
        label = np.full(units, -1, np.int32)
        label[unit[at]] = rules.labels[seen]
        found: NDArray[np.int32] = label[who]
        return found


class _Signed(NamedTuple):
    """Places to which 1 is added, or from which it is taken."""

    places: Ints
    sign: int


def _signed(changes: RowChanges, width: int, sign: int = 1) -> list[_Signed]:
    """The places of what row changes add and take away."""
    base = changes.bin.astype(np.int64) * width
    return [_Signed(base + changes.now, sign), _Signed(base + changes.was, -sign)]


def _beyond(every: RowChanges, changes: RowChanges, ends: Ints) -> Stamps:
    """What rows that do not count add to the true sums.

    `every`: the changes of all rows; `changes`: those of rows while they count.  `ends`: of all bins.
    """
    sides = (
        (every.now, 1, every),
        (every.was, -1, every),
        (changes.now, -1, changes),
        (changes.was, 1, changes),
    )
    code = np.concatenate([number for number, _, _ in sides])
    unit = np.concatenate([one.unit for _, _, one in sides])
    time: Ints = np.concatenate([one.time for _, _, one in sides])
    sign = np.concatenate([np.full(len(number), sign) for number, sign, _ in sides])
    order = np.lexsort((code, time, unit))
    code, unit, time, sign = code[order], unit[order], time[order], sign[order]
    starts = np.flatnonzero(begins(unit, time, code))
    times: Ints = np.add.reduceat(sign, starts) if len(starts) else starts
    rows = np.where(code[starts] > 0, np.abs(times), 0)
    at, more = np.repeat(starts, rows), np.repeat(times > 0, rows)
    bins = np.searchsorted(ends, time[at])
    was, now = np.where(more, 0, code[at]), np.where(more, code[at], 0)
    return Stamps.like(unit[at], time[at], bins, was, now, ordinal=NOT_COUNTED)

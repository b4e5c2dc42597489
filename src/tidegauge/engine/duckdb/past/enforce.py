"""Enforcement over arrays, for rows that are units; their changes are sorted by key and time.

Everything here is exact: integers in, integers out.  The state before the first change is empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidegauge.engine.duckdb.past.labels import labels_of
from tidegauge.engine.duckdb.past.shuffle import taken, wide
from tidegauge.engine.duckdb.past.stamps import NO_CHANGE, Stamps
from tidegauge.engine.duckdb.sorting import begins, order_of
from tidegauge.engine.duckdb.views import NEVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tidegauge.engine.duckdb.past.flows import Flows
    from tidegauge.engine.duckdb.past.shuffle import Changes

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

ALIVE: Final = 1
"""Bit of `flags`: the new row exists."""
INFORMED: Final = 2
"""Bit of `flags`: the source delivered the old row, or said that there was none."""
BEFORE: Final = 4
"""Bit of `flags`: the source delivered an old row that exists."""
_WIDE: Final = 1 << 32
"""Keys that are farther apart are numbered before they are sorted."""
MOST_WITHIN: Final = 2**62
"""The longest `within`, in microseconds; a longer one is cut to it, so that no sum overflows."""


@dataclass(frozen=True)
class Rules:
    """The constraint of one scope, as arrays indexed by the number of a distinct row or of a label."""

    codes: NDArray[np.int32]
    """Per distinct row: the number of its contribution in the scope; 0: it contributes nothing."""
    labels: NDArray[np.int32] | None
    """Per distinct row: the number of its label; None: all units have one allowance."""
    texts: tuple[str | None, ...]
    """The labels."""
    at_most: Ints
    """Per label, as `within`; NEVER: there is none."""
    within: Ints
    declared: Flags
    """Per label: whether an allowance is declared for it."""
    retire: bool
    flows: Flows | None = None

    @cached_property
    def width(self) -> int:
        """The number of contributions, nothing included, and of what flows count."""
        most = 0 if self.flows is None else self.flows.numbers.max(initial=0)
        return int(max(self.codes.max(initial=0), most)) + 1

    @property
    def timed(self) -> bool:
        """Whether the time of a change can decide about it."""
        return self.retire or bool((self.within != NEVER).any())


@dataclass(frozen=True)
class Enforced:
    """The result for the units of a part in one scope: one element per unit that ever contributed."""

    units: NDArray[np.int32]
    """Their places among the keys of the part."""
    changes: Ints
    first: Ints
    labels: NDArray[np.int32] | None
    leaves: Ints
    """When a unit that has not left must leave."""
    settled: Flags
    """Whether a unit never has to leave, or has left."""
    accepted: NDArray[np.int32]
    """The contribution that counts after the last change, by its number."""
    true: NDArray[np.int32]
    accepted_changes: tuple[Ints, Ints]
    """Places (bin * contributions + number), and how often each was added less how often taken away."""
    other_changes: tuple[Ints, Ints]
    """The same for changes that were not accepted."""
    exits: tuple[Ints, Ints]
    """The same for units that the constraint removed."""
    dropped: int
    stamps: Stamps | None = None
    """None unless `enforce` was called with `stamp`."""
    leaving: Ints | None = None
    """Where constraints renew: the column `leaves` of the state; null where it is not after the history."""
    excess: pa.Array | None = None
    """The texts of `units.excess`; None: they follow from `true` and `accepted`, as units are rows."""


@dataclass(frozen=True)
class Log:
    """The changes of a part, sorted by row and then in the order of the log."""

    keys: Ints | pa.Array
    """The keys of the part, as the source has them."""
    key: NDArray[np.int32]
    """Of each change: the number of its row."""
    time: Ints
    bin: NDArray[np.int32]
    version: NDArray[np.int32] | Ints
    place: Ints
    """The place of the change in the part."""
    fresh: Flags
    """Whether it is the first change of its row."""

    @classmethod
    def of(cls, part: Changes, ends: Ints) -> Log:
        """Sort the changes of a part, which come in the order of the log.  `ends`: of all bins."""
        time, by_time = part.time, None
        if (time[1:] < time[:-1]).any():
            by_time = np.argsort(time, kind="stable")
            time = time[by_time]
        bins = _bins(time, ends)
        place, fresh = _order(part.key, by_time, part.bits)
        order = place if by_time is None else by_time[place]
        starts = order[fresh]
        keys = wide(taken(part.key, starts))
        key = np.cumsum(fresh, dtype=np.int32)
        key -= 1
        return cls(keys, key, time[place], bins[place], part.version[order], order, fresh)


@dataclass(frozen=True)
class Versions:
    """The rows of a part: the last change of each row at each instant, sorted by key and time."""

    keys: Ints | pa.Array
    """The keys of the part, as the source has them."""
    key: NDArray[np.int32]
    time: Ints
    bin: NDArray[np.int32]
    picture: NDArray[np.int32] | Ints
    alive: Flags
    place: Ints
    """The place of the change in the part."""
    fresh: Flags
    """Whether it is the first version of its key."""
    counts: Mapping[str, int]

    @classmethod
    def of(cls, log: Log, part: Changes) -> Versions:
        """The last change of each row at each instant; `part`: what `log` is of."""
        fresh, flags = log.fresh, (log.version & 7).astype(np.uint8)
        old = new = None if part.hashes is None else part.hashes.take(log.place)
        key, time, bins, version, order, begins = log.key, log.time, log.bin, log.version, log.place, flags
        tie = ~fresh[1:] & (time[1:] == time[:-1])
        if tie.any():
            last, first = np.append(~tie, [True]), np.append([True], ~tie)
            begins = flags[first]
            old = None if old is None else old[first]
            new = None if new is None else new[last]
            key, time, bins, version, order, flags = (
                one[last] for one in (key, time, bins, version, order, flags)
            )
            fresh = fresh[first]
        alive = (flags & ALIVE) > 0
        existed = np.append([False], alive[:-1])[: len(key)] & ~fresh
        has_before = (begins & BEFORE) > 0
        counts = {
            "unknown_before": _count(has_before & ~existed),
            "other_before": 0,
            "inserted_twice": _count(((begins & INFORMED) > 0) & ~has_before & alive & existed),
            "deleted_unknown": _count(((begins & ALIVE) == 0) & ~existed),
        }
        if old is not None and new is not None:
            other = (old[1:] & 0xFFFF) != new[:-1] >> 16
            counts["other_before"] = _count(has_before[1:] & existed[1:] & other)
        return cls(log.keys, key, time, bins, version >> 3, alive, order, fresh, counts)

    @property
    def last(self) -> Flags:
        """Whether it is the last version of its key."""
        return np.append(self.fresh[1:], [True])[: len(self.fresh)]


@dataclass(frozen=True)
class Verdict:
    """What the constraint makes of the changes of some units."""

    accepts: Flags
    """Per change."""
    count: Ints
    """Per unit, as everything below: how many of its changes are accepted, which are its first ones."""
    changes: Ints
    leaves: Ints
    left: Flags
    settled: Flags
    dropped: int


def judged(
    time: Ints | None,
    first: Ints,
    lengths: Ints,
    label: NDArray[np.int32] | None,
    *,
    rules: Rules,
    reached: int,
) -> Verdict:
    """Decide which changes count.  The changes of a unit are together, in the order of time.

    `time`: of each change; None where nothing limits it (see `Rules.timed`).  `first`: of each unit the time
    of its first change; `lengths`: how many it has; `label`: the number of its label.
    """
    which = np.zeros(len(lengths), np.int32) if label is None else label
    most, period, declared = rules.at_most[which], rules.within[which], rules.declared[which]
    until = np.where(period == NEVER, NEVER, first + np.minimum(period, MOST_WITHIN))
    count = np.where(declared, np.minimum(lengths, most), 0)
    inside = _beginnings(count, lengths)
    if time is not None:
        inside &= time <= np.repeat(until, lengths)
    accepts, leaves, starts = inside, until, np.cumsum(lengths) - lengths
    if rules.retire:
        assert time is not None
        reaches = lengths >= most
        leaves = until.copy()
        leaves[reaches] = np.minimum(time[starts[reaches] + most[reaches] - 1], until[reaches])
        leaves[~declared] = -NEVER
        accepts = time < np.repeat(leaves, lengths)
    if time is not None and len(starts):
        count = np.add.reduceat(accepts, starts, dtype=np.int64)
    left = declared & (leaves <= reached) if rules.retire else np.zeros(len(starts), bool)
    return Verdict(
        accepts=accepts,
        count=count,
        changes=np.where(declared, np.minimum(lengths, most), lengths),
        leaves=leaves,
        left=left,
        settled=left | ~declared if rules.retire else np.ones(len(starts), bool),
        dropped=len(inside) - _count(inside),
    )


class Changed(NamedTuple):
    """The changes of the units in one scope."""

    at: Ints
    """Which versions they are."""
    was: NDArray[np.int32]
    now: NDArray[np.int32]
    """The contribution before and after each."""
    flow: NDArray[np.int32] | None
    """What flows count of it; None: there are no flows."""


def changes_of(rows: Versions, rules: Rules) -> Changed:
    """The versions that change a contribution, or that a flow counts."""
    code = rules.codes[rows.picture]
    was = np.append(np.zeros(1, np.int32), code[:-1])[: len(code)]
    was[rows.fresh] = 0
    if rules.flows is None:
        at = np.flatnonzero(code != was)
        return Changed(at, was[at], code[at], None)
    flow = rules.flows.counted(rows.picture, rows.fresh)
    at = np.flatnonzero((code != was) | (flow != 0))
    return Changed(at, was[at], code[at], flow[at])


def enforce(rows: Versions, rules: Rules, *, ends: Ints, reached: int, stamp: bool = False) -> Enforced:
    """Decide which changes of the contributions in one scope count.  `stamp`: also return every change."""
    width = rules.width
    changes = changes_of(rows, rules)
    at, was, now, _ = changes
    key, bins = rows.key[at], rows.bin[at]
    base = (
        bins * np.int32(width) if 2 * (len(ends) + 1) * width < _WIDE >> 1 else bins.astype(np.int64) * width
    )
    starts = np.flatnonzero(np.append([True], key[1:] != key[:-1])[: len(key)])
    lengths = np.diff(np.append(starts, len(key)))
    first = rows.time[at[starts]]
    label = labels_of(rows, rules, at[starts])
    time = rows.time[at] if stamp or rules.timed else None
    found = judged(time, first, lengths, label, rules=rules, reached=reached)
    count, accepts = found.count, found.accepts
    standing = np.where(count > 0, now[np.maximum(starts + count - 1, 0)], 0) if len(starts) else now
    gone = found.left & (standing > 0)
    goes = np.searchsorted(ends, found.leaves[gone])
    flows = accepts
    if rules.flows is not None and rules.retire:  # the change at which a unit leaves still counts
        assert time is not None
        flows = time <= np.repeat(found.leaves, lengths)
    stamps = None
    if stamp:
        assert time is not None
        ordinal = np.arange(len(key)) - np.repeat(starts, lengths) + 1
        every = Stamps(key, time, ordinal, np.repeat(first, lengths), bins, was, now, accepts)
        leaves, none = found.leaves[gone], np.zeros(len(goes), np.int32)
        stamps = Stamps.joined(
            every.with_flows(changes.flow, flows),
            Stamps.like(key[starts][gone], leaves, goes, standing[gone], none, ordinal=NO_CHANGE,
                        first=first[gone]),
        )  # fmt: skip
    counted, others = _moved(changes, base, accepts, flows, width)
    return Enforced(
        units=key[starts],
        changes=found.changes,
        first=first,
        labels=label,
        leaves=found.leaves,
        settled=found.settled,
        accepted=np.where(found.left, 0, standing).astype(np.int32),
        true=now[starts + lengths - 1],
        accepted_changes=counted,
        other_changes=others,
        exits=net([(goes * width + standing[gone], -1)], width),
        dropped=found.dropped,
        stamps=stamps,
    )


def _bins(time: Ints, ends: Ints) -> NDArray[np.int32]:
    """The bin of each time; `time` is sorted."""
    if len(ends) > len(time):
        return np.searchsorted(ends, time).astype(np.int32)
    bounds = np.concatenate([[0], np.searchsorted(time, ends, side="right"), [len(time)]])
    return np.repeat(np.arange(len(ends) + 1, dtype=np.int32), np.diff(bounds))


def _order(key: Ints | pa.Array, by_time: Ints | None, bits: int) -> tuple[Ints, Flags]:
    """Changes in the order of time, sorted by key (`bits`: see `Changes`); which are the first of theirs."""
    numbers = key >> bits if isinstance(key, np.ndarray) and bits else key
    if not isinstance(numbers, np.ndarray) or int(numbers.max()) - int(numbers.min()) >= _WIDE:
        numbers = pa.array(numbers).dictionary_encode(null_encoding="encode").indices.to_numpy()
    if by_time is not None:
        numbers = numbers[by_time]
    order = order_of(numbers)
    return order, begins(numbers[order])


def _beginnings(counts: Ints, lengths: Ints) -> Flags:
    """For each run of these lengths: true for its first `counts` elements, and false for the rest."""
    if (counts == lengths).all():
        return np.ones(int(lengths.sum()), bool)
    flags = np.tile(np.array([True, False]), len(counts))
    return np.repeat(flags, np.column_stack([counts, lengths - counts]).ravel())


def _moved(
    changes: Changed, base: NDArray[Any], accepts: Flags, flows: Flags, width: int
) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Add up the changes of contributions and what flows count: those that are accepted, and the others.

    `base`: of each change its bin times `width`, in integers that twice the last base does not overflow.
    """
    _, was, now, flow = changes
    size = int(base.max(initial=0)) + width
    if size <= 2 * len(base) + (1 << 15):
        place = base + ~accepts * base.dtype.type(size)
        sums = np.bincount(place + now, minlength=2 * size) - np.bincount(place + was, minlength=2 * size)
        if flow is not None:
            place = base + ~flows * base.dtype.type(size)
            sums += np.bincount(place + flow, minlength=2 * size)
        sums[::width] = 0
        counted, others = ((np.flatnonzero(one), one[one != 0]) for one in (sums[:size], sums[size:]))
        return counted, others
    wide = base.astype(np.int64)
    found = []
    for mine, also in ((accepts, flows), (~accepts, ~flows)):
        counted_flows = [] if flow is None else [((wide + flow)[also], 1)]
        found.append(net([((wide + now)[mine], 1), ((wide + was)[mine], -1), *counted_flows], width))
    return found[0], found[1]


def net(moved: Sequence[tuple[Ints, int]], width: int) -> tuple[Ints, Ints]:
    """Add up signed places; a place whose number is 0 (nothing) is left out."""
    size = max((int(places.max(initial=-1)) + 1 for places, _ in moved), default=0)
    if size <= 4 * sum(len(places) for places, _ in moved) + (1 << 16):
        sums = np.zeros(size, np.int64)
        for places, sign in moved:
            sums += sign * np.bincount(places, minlength=size)
        sums[::width] = 0
        found = np.flatnonzero(sums)
        return found, sums[found]
    places = np.concatenate([places for places, _ in moved])
    signs = np.concatenate([np.full(len(one), sign) for one, sign in moved])
    order = order_of(places)
    places = places[order]
    starts = np.flatnonzero(begins(places))
    found, sums = places[starts], np.add.reduceat(signs[order], starts)
    some = (sums != 0) & (found % width != 0)
    return found[some], sums[some]


def _count(flags: Flags) -> int:
    return int(np.count_nonzero(flags))

"""Rows of units that own several: the unit of every change, and the state that its row ends with.

A part has all changes of its keys.  A row that goes from one unit to another ends in one and begins in the
other, so what is followed here is the row of a unit: a key together with a unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tidegauge.engine.duckdb.past.enforce import ALIVE, BEFORE, INFORMED, Log, Versions
from tidegauge.engine.duckdb.past.parts import Part
from tidegauge.engine.duckdb.sorting import begins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidegauge.engine.duckdb.past.enforce import Flags, Ints, Rules
    from tidegauge.engine.duckdb.past.shuffle import Changes, Column


@dataclass(frozen=True)
class UnitVersions:
    """The versions of rows of units.  Those of one row are together, in the order of time."""

    unit: Column
    time: Ints
    bin: NDArray[np.int32]
    version: NDArray[np.int32] | Ints
    """The number of the distinct row (0: it ends), and in the lowest bit whether it is the row's first."""
    place: NDArray[np.uint32] | Ints
    """The place of the change in the scan."""


@dataclass(frozen=True)
class _Owners:
    """The units of the changes of a part, sorted as its log."""

    who: NDArray[Any]
    """A number for each unit: the unit itself where units are integers, else its place in `texts`."""
    home: NDArray[np.uint8] | None
    """A part for each unit that is a text."""
    texts: pa.Array | None

    @classmethod
    def of(cls, part: Changes, order: Ints) -> _Owners:
        assert part.owner is not None
        if isinstance(part.owner, np.ndarray):
            return cls(part.owner[order], None, None)
        encoded = part.owner.dictionary_encode(null_encoding="encode")
        home = None if part.home is None else part.home[order]
        return cls(encoded.indices.to_numpy()[order], home, encoded.dictionary)

    def units(self, who: NDArray[Any]) -> Column:
        """The units with these numbers."""
        return who if self.texts is None else self.texts.take(pa.array(who))


@dataclass(frozen=True)
class _Events:
    """What the changes of a part do to rows of units, sorted by row and then in the order of the log."""

    change: Ints
    """The place of the change in the log."""
    ends: Flags
    """Whether the row ends; otherwise it begins or stays."""
    handed: Flags
    """Whether the row comes from another unit."""
    who: NDArray[Any]
    owner: Ints
    """The place in the log of a change that names the unit."""
    fresh: Flags


def _events(log: Log, who: NDArray[Any]) -> _Events:
    alive = (log.version & ALIVE) > 0
    before = np.append([False], alive[:-1])[: len(alive)] & ~log.fresh
    same = np.append([False], who[1:] == who[:-1])[: len(who)]
    ended = before & ~(alive & same)
    if not (handed := bool((ended & alive).any())):
        change = np.flatnonzero(alive | ended)
        stops = ~alive[change]
    else:  # a row that is handed over ends and begins
        new, ends = np.flatnonzero(alive), np.flatnonzero(ended)
        change = np.concatenate([ends, new])
        stops = np.arange(len(change)) < len(ends)
    owner = change - stops
    if handed or _returns(log.key[change], who[owner]):
        order = np.lexsort((change, who[owner], log.key[change]))
        change, stops, owner = change[order], stops[order], owner[order]
    unit = who[owner]
    return _Events(
        change=change,
        ends=stops,
        handed=ended[change] & ~stops,
        who=unit,
        owner=owner,
        fresh=begins(log.key[change], unit),
    )


def _returns(key: NDArray[np.int32], unit: NDArray[Any]) -> bool:
    """Whether two neighbours have the same key and not the same unit."""
    return bool(((key[1:] == key[:-1]) & (unit[1:] != unit[:-1])).any())


class OwnedRows:
    """The rows of units of one part; makes what is known of them when all changes have taken effect."""

    def __init__(self, part: Changes, ends: Ints, outside: Ints) -> None:
        log = Log.of(part, ends)
        owners = _Owners.of(part, log.place)
        events = _events(log, owners.who)
        new = ~events.ends
        version = log.version[events.change]
        version[events.ends] &= INFORMED | BEFORE
        version[events.handed] &= ~(INFORMED | BEFORE)
        self._row_key = log.key[events.change[events.fresh]]
        first = events.owner[events.fresh]
        self._owners, self._who = owners, owners.who[first]
        self._home = None if owners.home is None else owners.home[first]
        row = np.cumsum(events.fresh, dtype=np.int32)
        row -= 1
        at = events.change
        mine = Log(log.keys, row, log.time[at], log.bin[at], version, log.place[at], events.fresh)
        self.versions = Versions.of(mine, part)
        self._outside = int(outside[version[new] >> 3].sum()) if outside.any() else 0
        self._place = part.row[self.versions.place]
        self._counts = self._unowned(log, events)

    @staticmethod
    def _unowned(log: Log, events: _Events) -> dict[str, int]:
        """Changes that are of no unit.  A change with a distinct row that does not exist has no unit."""
        dead = (log.version & ALIVE) == 0
        lost = dead & (log.version >> 3 > 0)
        nothing = dead & ~lost
        nothing[events.change[events.ends]] = False
        return {
            "without_unit": int(np.count_nonzero(lost)),
            "deleted_unknown": int(np.count_nonzero(nothing)),
        }

    def part(self, rules: Sequence[Rules]) -> Part:
        """The state of the rows."""
        rows = self.versions
        exists = np.flatnonzero(rows.last & rows.alive)
        number = rows.key[exists]
        columns = {"unit": _text(self._owners.units(self._who[number]))}
        starts = np.flatnonzero(rows.fresh)
        for s, one in enumerate(rules):
            code, was = codes(rows.picture, rows.fresh, one)
            enters = np.flatnonzero((code > 0) & (was == 0))
            last = np.searchsorted(enters, exists, side="right") - 1
            since = enters[np.maximum(last, 0)] if len(enters) else np.zeros(len(last), np.int64)
            never = (last < 0) | (since < starts[number])
            columns[f"since{s}"] = pa.array(rows.time[since], mask=never)
            columns[f"order{s}"] = pa.array(self._place[since].astype(np.int64), mask=never)
        counts = {name: count + self._counts.get(name, 0) for name, count in rows.counts.items()}
        return Part(
            rows.keys,
            self._row_key[number],
            rows.picture[exists],
            self._place[exists],
            (),
            {**self._counts, **counts},
            self._outside,
            columns=columns,
        )

    def unit_versions(self, rules: Sequence[Rules]) -> tuple[dict[str, Column], NDArray[np.uint8] | None]:
        """The versions that can change what a unit contributes, and the parts of their units, if known."""
        rows = self.versions
        before = np.append([False], rows.alive[:-1])[: len(rows.alive)] & ~rows.fresh
        some = rows.alive | before
        if all(one.labels is None for one in rules):
            changed = np.zeros(len(some), bool)
            for one in rules:
                code, was = codes(rows.picture, rows.fresh, one)
                changed |= code != was
            some = changed
        at = np.flatnonzero(some)
        number = rows.key[at]
        version = rows.picture[at] << 1
        version[begins(number)] |= 1
        columns: dict[str, Column] = {
            "unit": self._owners.units(self._who[number]),
            "time": rows.time[at],
            "bin": rows.bin[at].astype(np.int32),
            "version": version,
            "place": self._place[at],
        }
        return columns, None if self._home is None else self._home[number]


def codes(picture: NDArray[Any], fresh: Flags, rules: Rules) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The contribution of every version, and of the version before it."""
    code = rules.codes[picture]
    was = np.append(np.zeros(1, np.int32), code[:-1])[: len(code)]
    was[fresh] = 0
    return code, was


def _text(units: Column) -> pa.Array:
    return pa.array(units).cast(pa.string())

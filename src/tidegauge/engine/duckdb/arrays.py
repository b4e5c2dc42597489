"""The fold of a tick over arrays, for units that are rows and have no flows.

One query computes, for every change, the row's contribution to each release.  This module does everything
after it: it compares versions, and computes ordinals, sums and the new state.  It is exact: integers in,
integers out.

Most units have all their changes accepted.  The others (a change is dropped, or was dropped before; the
digest is of format 2) go through the statements of tidegauge.engine.duckdb.statements: `fold` returns their
names, and the result for all other units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.engine.duckdb.render import quote, render
from tidegauge.engine.duckdb.sorting import order_of
from tidegauge.engine.duckdb.views import NEVER, arrow_schema
from tidegauge.model.program import Folded, Total

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from tidegauge.engine.duckdb.views import Views
    from tidegauge.model.program import Program, Release, Scope, State

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Places = NDArray[np.intp]

_HALF: Final = 32
"""Bits of the lower half of a sum: sums are kept in two halves, so that none overflows."""
_LOW: Final = 2**_HALF - 1
_DENSE: Final = 1 << 22
"""Up to this many pairs of cell and bin, sums are added up in an array that has all of them."""


def can_fold(program: Program, views: Views) -> bool:
    """Whether the ticks of this program are folded here."""
    simple = (scope.by is None and not scope.retire for scope in program.scopes)
    return program.terms is None and program.max_rows is None and not views.flows and all(simple)


@dataclass(frozen=True)
class _Column:
    """A column of integers: 0 where there is no value."""

    numbers: Ints
    there: Flags

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> _Column:
        if column.null_count == 0:
            return cls(column.to_numpy(), np.ones(len(column), bool))
        return cls(pc.fill_null(column, 0).to_numpy(), pc.is_valid(column).to_numpy())

    def at(self, places: Places) -> _Column:
        return _Column(self.numbers[places], self.there[places])

    def and_then(self, other: _Column) -> _Column:
        """The values of both columns, followed by one missing value."""
        return _Column(
            np.concatenate([self.numbers, other.numbers, [0]]),
            np.concatenate([self.there, other.there, [False]]),
        )


@dataclass(frozen=True)
class _Versions:
    """The last change of each unit at each instant, sorted by unit and instant."""

    names: pa.Array
    """The units, as `unit` numbers them."""
    unit: Places
    instant: Ints
    row: Places
    """Where the last change at this instant is among the changes; `begin`: where the first is."""
    begin: Places
    alive: Flags
    fresh: Flags
    """Whether it is the unit's first version in this fold."""
    was: Places
    """The place of the previous version; stored rows follow all versions; the place after both means none."""

    def pair(self, name: str, changes: pa.Table, known: pa.Table) -> tuple[_Column, _Column]:
        """A column after each version (no value where the row does not exist), and before it."""
        now = _Column.of(changes[name]).at(self.row)
        now = _Column(now.numbers, now.there & self.alive)
        return now, now.and_then(_Column.of(known[name])).at(self.was)


@dataclass(frozen=True)
class _Changes:
    """The versions that change the contribution of a unit in one scope."""

    version: Places
    unit: Places
    starts: Places
    """The place of each unit's first change among these."""
    ordinal: Ints
    first: Ints
    """The time of each unit's first change; one element per unit, as in `starts`."""


class ArrayFold:
    """Folds the changes of one program."""

    def __init__(self, program: Program, views: Views) -> None:
        self._program, self._views = program, views

    def selected(self) -> str:
        """SQL: the columns of the table `arrivals` that `fold` needs."""
        views = self._views
        outside = " + ".join(
            f"coalesce({render(stock.query.outside)}, false)::INTEGER" for stock in views.stocks
        )
        image = ""
        if views.image:
            some = " OR ".join(f"image.{quote(name)} IS NOT NULL" for name in views.image)
            image = f"REPLACE (CASE WHEN {some} THEN to_json(image)::VARCHAR END AS image)"
        return f"""
            SELECT * {image} FROM (
                SELECT seq, unit, instant, "after" IS NOT NULL AS alive, informed, before_digest,
                       ({outside or "0"})::BIGINT AS outside, {", ".join(views.computed())}
                FROM arrivals)"""

    def fold(self, changes: pa.Table, state: State, reached: int) -> tuple[Folded, pa.Array]:
        """The result for the units that are decided here, and the names of the others."""
        code = changes["unit"].combine_chunks().dictionary_encode()
        if isinstance(code, pa.ChunkedArray):
            code = code.combine_chunks()
        names, units = code.dictionary, code.indices.to_numpy().astype(np.intp)
        known = state.entries(names)
        versions = self._versions(changes, names, units, known)
        counters = state.units(names)
        hard = np.zeros(len(names), bool)
        old = _Column.of(known["digest"])
        hard[_places(known["entry"], names)[old.there & (old.numbers >= 0)]] = True
        views = {name: versions.pair(name, changes, known) for name in self._views.views}
        changed_in = [
            self._changed(scope, versions, views, counters.filter(pc.equal(counters["scope"], s)), hard)
            for s, scope in enumerate(self._program.scopes)
        ]
        plain = ~hard
        last = np.append(versions.fresh[1:], [True])[: len(versions.fresh)] & plain[versions.unit]
        exists, gone = (np.flatnonzero(last & flags) for flags in (versions.alive, ~versions.alive))
        entries = arrow_schema(self._views.layout.entries)
        rows = changes.take(pa.array(versions.row[exists]))
        rows = rows.append_column("entry", names.take(pa.array(versions.unit[exists])))
        outside = changes["outside"].to_numpy()
        counts = {"outside_domain": int(outside[plain[units]].sum()) if outside.any() else 0}
        return Folded(
            totals=list(self._totals(versions, views, changed_in, plain, reached)),
            entries=rows.select(entries.names).cast(entries),
            gone=pa.table({"entry": names.take(pa.array(versions.unit[gone]))}),
            units=self._units(versions, changed_in, plain),
            used=arrow_schema(self._views.layout.used).empty_table(),
            counts=counts | self._counts(versions, changes, known, plain),
        ), names.filter(pa.array(hard))

    @staticmethod
    def _versions(changes: pa.Table, names: pa.Array, units: Places, known: pa.Table) -> _Versions:
        """A unit's instants never fall in the order of the log."""
        seq, instant = changes["seq"].to_numpy(), changes["instant"].to_numpy()
        order = order_of(units) if (np.diff(seq) > 0).all() else np.lexsort((seq, units))
        unit, instant = units[order], instant[order]
        same = (unit[1:] == unit[:-1]) & (instant[1:] == instant[:-1])
        first, last = np.append([True], ~same)[: len(unit)], np.append(~same, [True])[: len(unit)]
        begin, row, unit, instant = order[first], order[last], unit[last], instant[last]
        alive = _flags(changes["alive"])[row]
        fresh = np.append([True], unit[1:] != unit[:-1])[: len(unit)]
        stored = np.full(len(names), len(unit) + known.num_rows)
        stored[_places(known["entry"], names)] = len(unit) + np.arange(known.num_rows)
        was = np.arange(-1, len(unit) - 1)
        was[~np.append([False], alive[:-1])[: len(unit)]] = len(unit) + known.num_rows
        was[fresh] = stored[unit[fresh]]
        return _Versions(names, unit, instant, row, begin, alive, fresh, was)

    def _changed(
        self,
        scope: Scope,
        versions: _Versions,
        views: dict[str, tuple[_Column, _Column]],
        mine: pa.Table,
        hard: Flags,
    ) -> _Changes:
        """The changes of the contributions in one scope; marks the units as hard that have a dropped change.

        `mine`: the counters of the units in this scope.
        """
        changed = np.zeros(len(versions.unit), bool)
        for stock in self._stocks(scope):
            cell, *values = self._views.view(stock)
            now, was = views[cell]
            same = now.there & was.there & (now.numbers == was.numbers)
            for value in values:
                amount, before = (one.numbers for one in views[value])
                changed |= now.there & np.where(same, amount != before, amount != 0)
                changed |= was.there & ~same & (before != 0)
        version = np.flatnonzero(changed)
        unit, instant = versions.unit[version], versions.instant[version]
        starts = np.flatnonzero(np.append([True], unit[1:] != unit[:-1])[: len(unit)])
        lengths = np.diff(np.append(starts, len(unit)))
        place = _places(mine["unit"], versions.names)
        earlier, first = np.zeros(len(hard), np.int64), np.full(len(hard), NEVER)
        earlier[place] = _Column.of(mine["moves"]).numbers
        begun = _Column.of(mine["first"])
        first[place[begun.there]] = begun.numbers[begun.there]
        for name in ("excess", "expires"):
            hard[place[pc.is_valid(mine[name]).to_numpy()]] = True
        own = np.where(first[unit[starts]] == NEVER, instant[starts], first[unit[starts]])
        ordinal = np.arange(len(unit)) - np.repeat(starts, lengths) + 1 + earlier[unit]
        ((_, allowed),) = scope.allowances
        for most, used in ((allowed.at_most, ordinal), (allowed.within, instant - np.repeat(own, lengths))):
            if most is not None:
                hard[unit[used > min(most, NEVER)]] = True
        return _Changes(version, unit, starts, ordinal, own)

    def _totals(
        self,
        versions: _Versions,
        views: dict[str, tuple[_Column, _Column]],
        changed_in: Sequence[_Changes],
        plain: Flags,
        reached: int,
    ) -> Iterator[Total]:
        """The exact change of every cell that changed, per bin, of all releases in their order."""
        earliest = int(versions.instant.min(initial=reached))
        for stock in self._views.stocks:
            scopes = zip(changed_in, self._program.scopes, strict=True)
            mine = [one.version[plain[one.unit]] for one, scope in scopes if stock.name in scope.releases]
            at = np.concatenate([np.empty(0, np.intp), *mine])
            bins = list(stock.schedule.covering(min(earliest, reached), reached))
            place = np.searchsorted(np.array([end for _, end in bins], np.int64), versions.instant[at])
            at, place = at[place < len(bins)], place[place < len(bins)]
            cell, *values = self._views.view(stock)
            now, was = (one.at(at) for one in views[cell])
            least = int(min(now.numbers.min(initial=0), was.numbers.min(initial=0)))
            width = int(max(now.numbers.max(initial=0), was.numbers.max(initial=0))) - least + 1
            for j, value in enumerate(values):
                amount, before = (one.numbers[at] for one in views[value])
                sums = _sums([
                    ((place * width + now.numbers - least)[now.there], amount[now.there], 1),
                    ((place * width + was.numbers - least)[was.there], before[was.there], -1),
                ])  # fmt: skip
                for number, total in sums:
                    bin_, index = divmod(number, width)
                    yield Total(stock.name, j, bins[bin_][0], index + least, total)

    def _units(self, versions: _Versions, changed_in: Sequence[_Changes], plain: Flags) -> pa.Table:
        """The new counters."""
        schema = arrow_schema(self._views.layout.units)
        tables = [schema.empty_table()]
        for s, one in enumerate(changed_in):
            units = one.unit[one.starts]
            mine = plain[units]
            last = np.append(one.starts[1:], len(one.unit))[: len(units)] - 1
            columns = {
                "unit": versions.names.take(pa.array(units[mine])),
                "scope": pa.array(np.full(int(mine.sum()), s, np.int64)),
                "moves": pa.array(one.ordinal[last][mine]),
                "first": pa.array(one.first[mine]),
            }
            nothing = int(mine.sum())
            tables.append(
                pa.table(
                    [columns.get(field.name, pa.nulls(nothing, field.type)) for field in schema],
                    schema=schema,
                )
            )
        return pa.concat_tables(tables)

    @staticmethod
    def _counts(versions: _Versions, changes: pa.Table, known: pa.Table, plain: Flags) -> dict[str, int]:
        """Changes that did not fit the stored state, by reason."""
        mine = plain[versions.unit]
        existed = versions.was < len(versions.unit) + known.num_rows
        before = _Column.of(changes["before_digest"]).at(versions.begin)
        _, was = versions.pair("digest", changes, known)
        informed, begins = (_flags(changes[name])[versions.begin] for name in ("informed", "alive"))
        found = {
            "unknown_before": before.there & ~was.there,
            "other_before": before.there & was.there & (was.numbers != before.numbers),
            "inserted_twice": informed & ~before.there & versions.alive & existed,
            "deleted_unknown": ~begins & ~existed,
        }
        return {name: int(np.count_nonzero(flags & mine)) for name, flags in found.items()} | {"dropped": 0}

    def _stocks(self, scope: Scope) -> list[Release]:
        return [stock for stock in self._views.stocks if stock.name in scope.releases]


def _places(some: pa.ChunkedArray, names: pa.Array) -> Places:
    """The place in `names` of each of these names, all of which it contains."""
    places: Places = pc.index_in(some, value_set=names).to_numpy().astype(np.intp)
    return places


def _flags(column: pa.ChunkedArray) -> Flags:
    flags: Flags = pc.fill_null(column, fill_value=False).to_numpy()
    return flags


def _sums(parts: Sequence[tuple[Ints, Ints, int]]) -> Iterator[tuple[int, int]]:
    """(place, sum) of signed values, in the order of places; sums that are 0 are left out."""
    size = 1 + max(int(places.max(initial=-1)) for places, _, _ in parts)
    distinct = None
    if size > _DENSE:
        distinct = np.unique(np.concatenate([places for places, _, _ in parts]))
        size = len(distinct)
    high, low = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for places, values, sign in parts:
        index = places if distinct is None else np.searchsorted(distinct, places)
        np.add.at(high, index, sign * (values >> _HALF))
        np.add.at(low, index, sign * (values & _LOW))
    for number in np.flatnonzero((high != 0) | (low != 0)).tolist():
        total = (int(high[number]) << _HALF) + int(low[number])
        if total:
            yield number if distinct is None else int(distinct[number]), total

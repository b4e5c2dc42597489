"""The state that a history leaves behind: tables of rows and of counters, sorted by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tidegauge.engine.duckdb.past.parts import in_line, named, ranked
from tidegauge.engine.duckdb.views import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidegauge.engine.duckdb.past.digests import Digests
    from tidegauge.engine.duckdb.past.enforce import Enforced, Ints, Rules
    from tidegauge.engine.duckdb.past.parts import Part, Texts
    from tidegauge.engine.duckdb.past.terms import Terms
    from tidegauge.model.engine import StateLayout


_OWN: Final = frozenset({"entry", "digest"})
"""Columns of a row that do not follow from the values that releases use."""


class PastState:
    """Makes the tables of some parts; several threads may call it at once."""

    def __init__(
        self,
        layout: StateLayout,
        rules: Sequence[Rules],
        texts: Sequence[Texts],
        pictures: pa.Table,
        digests: Digests,
        *,
        terms: Terms | None,
    ) -> None:
        self._terms = terms
        self._entries, self._units = arrow_schema(layout.entries), arrow_schema(layout.units)
        self._rules, self._digests, self._texts = rules, digests, texts
        seen = [name for name in self._entries.names if name in pictures.column_names]
        self._pictures = pictures.select([name for name in seen if name not in _OWN])

    def tables(self, parts: Sequence[Part]) -> tuple[pa.Table, pa.Table]:
        """The rows that exist, and the counters of the units that ever contributed in a scope."""
        names, ranks = ranked([part.keys for part in parts])
        return self._rows(parts, names, ranks), self._counters(parts, names, ranks)

    def rows(self, parts: Sequence[Part]) -> pa.Table:
        """The rows that exist, part after part."""
        if not parts:
            return self._entries.empty_table()
        return self._rows(parts, *in_line([named(pa.array(part.keys)) for part in parts]))

    def counters(self, parts: Sequence[Part]) -> pa.Table:
        """The counters of units that are no rows, part after part."""
        return self._counters(parts, *in_line([pa.array(part.keys).cast(pa.string()) for part in parts]))

    def _rows(self, parts: Sequence[Part], names: pa.Array, ranks: Sequence[Ints]) -> pa.Table:
        """`ranks`: the places of the names of each part."""
        rank = _joined([own[part.place] for own, part in zip(ranks, parts, strict=True)])
        place, order = _placed(rank, len(names))
        seen = self._pictures.take(pa.array(_joined([part.picture for part in parts])[order]))
        columns = {
            "entry": _some(names, place),
            "digest": pa.array(self._digests.compute(parts)[order]),
        }
        for name in parts[0].columns if parts else ():
            columns[name] = pa.concat_arrays([part.columns[name] for part in parts]).take(pa.array(order))
        schema = self._entries
        return pa.table(
            {name: columns[name] if name in columns else seen[name] for name in schema.names}
        ).cast(schema)

    def _counters(self, parts: Sequence[Part], names: pa.Array, ranks: Sequence[Ints]) -> pa.Table:
        scopes = len(self._rules)
        enforced = [
            (s, own, of_scope)
            for own, part in zip(ranks, parts, strict=True)
            for s, of_scope in enumerate(part.enforced)
        ]
        rank = _joined([own[of_scope.units] * scopes + s for s, own, of_scope in enforced])
        place, order = _placed(rank, len(names) * scopes)
        unit, scope = np.divmod(place, scopes) if scopes > 1 else (place, np.zeros(len(place), np.int64))
        settled = np.concatenate([np.zeros(0, bool), *(of_scope.settled for _, _, of_scope in enforced)])[
            order
        ]
        leaves = _joined([of_scope.leaves for _, _, of_scope in enforced])[order]
        excess = self._excess([(s, of_scope) for s, _, of_scope in enforced], order)
        more: dict[str, pa.Array] = {}
        if self._terms is not None:  # a unit that is not where it should be moves when the next term begins
            off = excess.is_valid().to_numpy(zero_copy_only=False)
            leaves, settled = (
                np.where(off, np.minimum(leaves, self._terms.until), leaves),
                settled & ~off,
            )
            leaving = _joined(
                [of_scope.leaving for _, _, of_scope in enforced if of_scope.leaving is not None]
            )[order]
            more = {
                "leaves": pa.array(leaving, mask=leaving <= self._terms.reached),
                "term": pa.array(np.full(len(order), self._terms.last)),
            }
        columns = more | {
            "unit": _some(names, unit),
            "scope": pa.array(scope),
            "moves": pa.array(_joined([of_scope.changes for _, _, of_scope in enforced])[order]),
            "first": pa.array(_joined([of_scope.first for _, _, of_scope in enforced])[order]),
            "label": self._labels([(s, of_scope) for s, _, of_scope in enforced], order),
            "expires": pa.array(leaves, mask=settled),
            "excess": excess,
        }
        return pa.table([columns[name] for name in self._units.names], schema=self._units)

    def _labels(self, enforced: Sequence[tuple[int, Enforced]], order: Ints) -> pa.Array:
        """The label of each unit, null where its scope has none."""
        if all(of_scope.labels is None for _, of_scope in enforced):
            return pa.nulls(len(order), pa.string())
        texts = [pa.array(one.texts, pa.string()) for one in self._rules]
        return _texts(texts, [
            (s, np.full(len(of_scope.units), -1) if of_scope.labels is None else of_scope.labels)
            for s, of_scope in enforced
        ], order)  # fmt: skip

    def _excess(self, enforced: Sequence[tuple[int, Enforced]], order: Ints) -> pa.Array:
        """The text of `units.excess` of each unit, null where both its contributions are the same."""
        if known := [of_scope.excess for _, of_scope in enforced if of_scope.excess is not None]:
            return pa.concat_arrays(known).take(pa.array(order))
        return _texts([one.texts for one in self._texts],
                      [(s, self._texts[s].places(of_scope)) for s, of_scope in enforced], order)  # fmt: skip


def _texts(texts: Sequence[pa.Array], places: Sequence[tuple[int, NDArray[Any]]], order: Ints) -> pa.Array:
    """Texts of several lists (list, places in it; -1: null), one after the other and then in this order."""
    first = np.cumsum([0, *map(len, texts)])
    place = _joined([own if not first[s] else np.where(own < 0, own, own + first[s]) for s, own in places])
    place = place[order]
    return pa.concat_arrays([pa.array([], pa.string()), *texts]).take(pa.array(place, mask=place < 0))


def _placed(rank: Ints, size: int) -> tuple[Ints, Ints]:
    """Which of `size` places are taken, sorted, and by which element of `rank`, which has none twice."""
    taken = np.full(size, -1, np.int64)
    taken[rank] = np.arange(len(rank))
    if len(rank) == size:
        return np.arange(size), taken
    place = np.flatnonzero(taken >= 0)
    return place, taken[place]


def _some(names: pa.Array, place: Ints) -> pa.Array:
    """The names at these places, which are sorted and of which there may be more than names."""
    if len(place) == len(names) and (not len(place) or (place[1:] > place[:-1]).all()):
        return names
    return names.take(pa.array(place))


def _joined(columns: Sequence[NDArray[Any]]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *columns])

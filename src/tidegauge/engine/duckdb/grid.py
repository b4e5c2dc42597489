"""The embedded engine for many constraints at once: one pass numbers all changes, each constraint cuts them.

The history is read once.  Changes are numbered once for each length of the terms, because numbers begin again
with every term.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidegauge.engine.duckdb.cuts import NOTHING, Cuts, TermCuts
from tidegauge.engine.duckdb.empty import EmptyState
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.engine.duckdb.statements import Statements
from tidegauge.engine.duckdb.terms import TermStatements, terms_table
from tidegauge.engine.duckdb.views import arrow_schema
from tidegauge.model.grid import GridSums
from tidegauge.model.program import Allowance
from tidegauge.model.tick import NOTHING_YET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidegauge.model.engine import StateLayout
    from tidegauge.model.grid import Clip, Timetable, Variant
    from tidegauge.model.program import Program, Record, Scope
    from tidegauge.model.schedule import Schedule

_ALL_ROWS: Final = 2**31
"""More rows than a unit has."""


class DuckGrid(DuckEngine):
    """Computes the sums of every variant; `variants`: those of each scope of the program, equally many."""

    def __init__(
        self, program: Program, columns: Mapping[str, str], variants: Sequence[Sequence[Variant]]
    ) -> None:
        scopes = tuple(map(_unlimited, program.scopes))
        super().__init__(replace(program, scopes=scopes, terms=None), columns)
        self._variants = variants
        self._past = _KeysAlone(self.layout)
        self._arrivals = 0
        self._whole = self._sql
        if program.max_rows is not None:
            self._whole = Statements(replace(self.program, max_rows=_ALL_ROWS), columns)

    def add(self, rows: pa.Table, *, now: int) -> None:
        """Add a batch of the history."""
        arrived = self.arrive(rows, state=self._past, now=now, arrivals=self._arrivals)
        self._past.note(arrived.keys)
        self._arrivals += rows.num_rows

    def sums(
        self, timetables: Sequence[Timetable], *, reached: int, clips: Mapping[int, Clip] | None = None
    ) -> Iterator[tuple[int, GridSums]]:
        """Sums by the number of the timetable, in parts that have no unit or no terms in common."""
        pairs = dict.fromkeys((n, terms) for one in timetables for n, terms in enumerate(one.terms))
        for _ in self._parts(self._past, NOTHING_YET, reached):
            self._prepare()
            for renewal, terms in pairs:
                cuts = self._enforce(renewal, terms, reached)
                for number, one in enumerate(timetables):
                    if one.terms[renewal] != terms:
                        continue
                    self._bins(one.releases, reached)
                    for s in range(cuts.truth + 1):
                        self._run(cuts.placed(s, one.releases))
                    yield (
                        number,
                        GridSums(
                            self._table(cuts.plain(cuts.truth, renewal)),
                            self._table(cuts.allowed(renewal)),
                            self._table(cuts.missing()),
                            self._table(
                                cuts.clipped(one.releases, clips, max_rows=self._whole is not self._sql)
                                if clips
                                else NOTHING
                            ),
                        ),
                    )

    def _prepare(self) -> None:
        """The tables that neither terms nor timetables change: all versions of rows, and the plain truth."""
        self._recall(self._past, [])
        for build in (self._sql.versions, self._sql.path):
            self._run(build())
        everything = _unlimited(
            replace(
                self.program.scopes[0], releases=tuple(one.name for one in self.program.releases), by=None
            )
        )
        truth = len(self.program.scopes)
        self._run(f"CREATE OR REPLACE TEMP VIEW contributing_{truth} AS SELECT * FROM path")
        self._run(self._whole.change(truth, everything))
        self._run(self._whole.flow_change(truth, everything))

    def _enforce(self, renewal: int, terms: Schedule | None, reached: int) -> Cuts:
        """Number all changes within these terms, and cut them by the variants that have them."""
        sql, cuts = self._sql, Cuts(self.program.scopes, reached)
        if terms is not None:
            cuts = TermCuts(self.program.scopes, reached)
            sql = TermStatements(replace(self.program, terms=terms), self._columns)
            self._make("terms", terms_table(terms, NOTHING_YET, reached))
            self._make("known_units", arrow_schema(sql.layout.units).empty_table())
        for s, scope in enumerate(self.program.scopes):
            for build_scope in (sql.contributing, sql.change, sql.flow_change, sql.numbered):
                self._run(build_scope(s, scope))
            self._run(cuts.rules(s, self._variants[s], renewal))
            for build in (cuts.changes, cuts.leaving, cuts.missing_stock):
                self._run(build(s))
        return cuts


class _KeysAlone(EmptyState):
    """The state of a gauge that has seen nothing but the keys of this history."""

    def __init__(self, layout: StateLayout) -> None:
        super().__init__(layout)
        self._keys: dict[str, Record] = {}

    def note(self, keys: Mapping[str, Record | None]) -> None:
        """Keep the records of keys that a batch changed."""
        for key, record in keys.items():
            self._keys.pop(key, None)
            if record is not None:
                self._keys[key] = record

    def keys(self, names: Sequence[str] | None) -> dict[str, Record]:
        wanted = None if names is None else set(names)
        return {key: one for key, one in self._keys.items() if wanted is None or key in wanted}

    def any_keys(self) -> bool:
        return bool(self._keys)


def _unlimited(scope: Scope) -> Scope:
    return replace(
        scope, allowances=tuple((label, Allowance()) for label, _ in scope.allowances), retire=False
    )

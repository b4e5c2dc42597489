"""The embedded engine for many constraints at once: one pass numbers all changes, each constraint cuts them.

The tables, besides those of tidegauge.engine.duckdb.views:

    rules_s      one row per variant of scope s and label: retire, most (changes), period (of time)
    changes_s    change_s with the number of the change (ord), the unit's first change and its label
    leaving_s    per variant that retires: when each unit leaves
    missing_s    per variant: the changes of stocks that it leaves out; who retires takes everything along
    placed_s     the changes of flows, with their bin and their number within the bin
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.engine.duckdb.render import literal
from tidegauge.engine.duckdb.statements import Statements, capped
from tidegauge.engine.duckdb.views import BEGINNING, arrow_schema
from tidegauge.model.grid import GridSums
from tidegauge.model.program import Allowance
from tidegauge.model.tick import NOTHING_YET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidegauge.model.engine import StateLayout
    from tidegauge.model.grid import Variant
    from tidegauge.model.program import Program, Record, Release, Scope, Texts

_ALL_ROWS: Final = 2**31
"""More rows than a unit has."""
_NOTHING: Final = (
    "SELECT 0 AS variant, 0 AS release, 0 AS component, 0 AS bin, 0 AS cell, 0 AS amount WHERE false"
)


class DuckGrid(DuckEngine):
    """Computes the sums of every variant; `variants`: those of each scope of the program, equally many."""

    def __init__(
        self, program: Program, columns: Mapping[str, str], variants: Sequence[Sequence[Variant]]
    ) -> None:
        super().__init__(replace(program, scopes=tuple(map(_unlimited, program.scopes))), columns)
        self._variants = variants
        self._past = _EmptyState(self.layout)
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
        self, timetables: Sequence[Sequence[Release]], *, reached: int, differing: bool = False
    ) -> Iterator[tuple[int, GridSums]]:
        """Sums by the number of the timetable, in parts that have no unit in common."""
        for _ in self._parts(self._past, NOTHING_YET, reached):
            self._prepare(reached)
            for number, releases in enumerate(timetables):
                self._bins(releases, reached)
                for s in range(len(self.program.scopes)):
                    self._run(self._placed(s, releases))
                self._run(self._placed(self._truth, releases))
                yield (
                    number,
                    GridSums(
                        self._table(self._plain(self._truth, "true")),
                        self._table(self._allowed()),
                        self._table(self._missing()),
                        self._table(self._differing(releases) if differing else _NOTHING),
                    ),
                )

    @property
    def _truth(self) -> int:
        """The number of the scope that has every release, all rows and no clip."""
        return len(self.program.scopes)

    def _prepare(self, reached: int) -> None:
        """The tables that no timetable changes."""
        self._recall(self._past, [])
        for build in (self._sql.versions, self._sql.path):
            self._run(build())
        everything = _unlimited(
            replace(
                self.program.scopes[0], releases=tuple(one.name for one in self.program.releases), by=None
            )
        )
        truth = self._truth
        self._run(f"CREATE OR REPLACE TEMP VIEW contributing_{truth} AS SELECT * FROM path")
        self._run(self._whole.change(truth, everything))
        self._run(self._whole.flow_change(truth, everything))
        for s, scope in enumerate(self.program.scopes):
            for build_scope in (
                self._sql.contributing,
                self._sql.change,
                self._sql.flow_change,
                self._sql.numbered,
            ):
                self._run(build_scope(s, scope))
            for build_rules in (self._rules, self._changes, self._leaving, self._missing_stock):
                self._run(build_rules(s).replace("$reached", str(reached)))

    def _rules(self, s: int) -> str:
        rows = ", ".join(
            f"({number}, {variant.retire}, {'NULL' if label is None else literal(label)}::VARCHAR, "
            f"{capped(limit.at_most)}, {capped(limit.within)})"
            for number, variant in enumerate(self._variants[s])
            for label, limit in variant.allowances
        )
        return f"""
            CREATE OR REPLACE TEMP TABLE rules_{s} AS
            SELECT * FROM (VALUES {rows}) AS rule(variant, retire, label, most, period)"""

    @staticmethod
    def _changes(s: int) -> str:
        return f"""
            CREATE OR REPLACE TEMP TABLE changes_{s} AS
            SELECT change_{s}.*, ord, first, label FROM change_{s} JOIN numbered_{s} USING (unit, instant)
            WHERE instant > {BEGINNING}"""

    @staticmethod
    def _leaving(s: int) -> str:
        return f"""
            CREATE OR REPLACE TEMP TABLE leaving_{s} AS
            SELECT variant, unit, least(min(instant) FILTER (ord = most), any_value(first + period)) AS leaves
            FROM numbered_{s} JOIN rules_{s} AS rule ON rule.label IS NOT DISTINCT FROM numbered_{s}.label
            WHERE retire GROUP BY variant, unit HAVING leaves <= $reached"""

    def _beyond(self, s: int, changes: str, columns: str, after: str) -> str:
        """SQL: the changes that each variant leaves out; `after`: those of a unit that has left."""
        never = "" if self.program.scopes[s].by is None else f"""
            UNION ALL
            SELECT variant, {columns}, instant, amount
            FROM {changes} CROSS JOIN (SELECT DISTINCT variant FROM rules_{s})
            WHERE label NOT IN (SELECT label FROM rules_{s})"""  # fmt: skip
        return f"""
            SELECT variant, {columns}, instant, amount
            FROM {changes} JOIN rules_{s} AS rule ON rule.label IS NOT DISTINCT FROM {changes}.label
            WHERE NOT retire AND coalesce(ord > most OR instant - first > period, false)
            UNION ALL {after}{never}"""

    def _missing_stock(self, s: int) -> str:
        columns = "unit, release, component, cell"
        after = f"""
            SELECT variant, {columns}, greatest(instant, leaves), amount
            FROM changes_{s} JOIN leaving_{s} USING (unit)"""
        return f"""
            CREATE OR REPLACE TEMP VIEW missing_{s} AS {self._beyond(s, f"changes_{s}", columns, after)}"""

    def _placed(self, s: int, releases: Sequence[Release]) -> str:
        """SQL of `placed_s`; the truth has no clip."""
        clips = ", ".join(
            f"({number}, {capped(one.clip)})"
            for number, one in enumerate(releases)
            if one.query.kind == "flow" and one.clip is not None and s != self._truth
        )
        numbered = "" if s == self._truth else f"JOIN numbered_{s} USING (unit, instant)"
        known = "" if s == self._truth else ", ord, first, label"
        counted = "" if s == self._truth else "WHERE counts"
        return f"""
            CREATE OR REPLACE TEMP TABLE placed_{s} AS
            WITH found AS (
                SELECT flow_change_{s}.*{known} FROM flow_change_{s} {numbered} {counted}
            ), binned AS (
                SELECT found.*, bins.bin FROM found ASOF JOIN bins
                    ON bins.release = found.release AND found.instant <= bins.ends
            )
            SELECT binned.* FROM binned
            LEFT JOIN (VALUES {clips or "(-1, NULL::BIGINT)"}) AS clip(release, most)
                ON clip.release = binned.release
            QUALIFY most IS NULL
                OR dense_rank() OVER (PARTITION BY unit, binned.release, bin ORDER BY instant) <= most"""

    def _plain(self, s: int, which: str) -> str:
        """SQL: the changes of a scope by bin, no constraint enforced."""
        return f"""
            SELECT 0 AS variant, release, component, bin, cell, sum(amount)::BIGINT AS amount FROM (
                SELECT changed.release, component, bin, cell, amount
                FROM (SELECT * FROM change_{s} WHERE instant > {BEGINNING}) changed
                ASOF JOIN bins ON bins.release = changed.release AND changed.instant <= bins.ends
                UNION ALL SELECT release, component, bin, cell, amount FROM placed_{s}
            ) WHERE {which} GROUP BY ALL HAVING sum(amount) <> 0"""

    def _allowed(self) -> str:
        return " UNION ALL ".join(self._plain(s, "true") for s in range(self._truth))

    def _missing(self) -> str:
        """SQL: what each variant leaves out, by bin."""
        parts = []
        for s in range(self._truth):
            columns = "unit, release, component, cell, bin"
            after = f"""
                SELECT variant, {columns}, instant, amount FROM placed_{s} JOIN leaving_{s} USING (unit)
                WHERE instant > leaves"""
            flows = self._beyond(s, f"placed_{s}", columns, after)
            parts.append(f"SELECT variant, release, component, bin, cell, amount FROM ({flows})")
            parts.append(f"""
                SELECT variant, missing.release, component, bin, cell, amount
                FROM missing_{s} missing ASOF JOIN bins
                    ON bins.release = missing.release AND missing.instant <= bins.ends""")
        return f"""
            SELECT variant, release, component, bin, cell, sum(amount)::BIGINT AS amount
            FROM ({" UNION ALL ".join(parts)}) GROUP BY ALL HAVING sum(amount) <> 0"""

    def _differing(self, releases: Sequence[Release]) -> str:
        """SQL: by how much the number of units whose contributions differ changes with each bin."""
        most = max(len(one.query.components) for one in releases)
        amounts = [f"a{j}" for j in range(most)]
        sums = ", ".join(f"coalesce(sum(amount) FILTER (component = {j}), 0) AS a{j}" for j in range(most))
        stocks = " UNION ALL ".join(
            f"""SELECT variant, unit, missing.release, component, cell, bin, amount
                FROM missing_{s} missing ASOF JOIN bins
                    ON bins.release = missing.release AND missing.instant <= bins.ends"""
            for s in range(self._truth)
        )
        spans = ", ".join(
            f"({number}, {one.schedule.span})"
            for number, one in enumerate(releases)
            if one.schedule.span is not None
        )
        again = "" if not spans else f"""
            UNION ALL
            SELECT variant, unit, net.release, cell, bin + span,
                   {", ".join(f"-{name}" for name in amounts)}
            FROM net JOIN (VALUES {spans}) AS spans(release, span)
            ON spans.release = net.release"""  # fmt: skip
        return f"""
            WITH net AS (
                SELECT variant, unit, release, cell, bin, {sums} FROM ({stocks}) GROUP BY ALL
            ), moved AS (
                SELECT variant, unit, release, cell, bin, {", ".join(f"sum({n}) AS {n}" for n in amounts)}
                FROM (SELECT * FROM net {again}) GROUP BY ALL
            ), running AS (
                SELECT *,
                       ({" OR ".join(f"sum({name}) OVER so_far <> 0" for name in amounts)})::BIGINT AS differs
                FROM moved WINDOW so_far AS (PARTITION BY variant, unit, release, cell ORDER BY bin)
            ), steps AS (
                SELECT *, differs - coalesce(lag(differs) OVER (
                    PARTITION BY variant, unit, release, cell ORDER BY bin), 0) AS step
                FROM running
            )
            SELECT variant, release, 0 AS component, bin, cell, sum(step)::BIGINT AS amount FROM steps
            GROUP BY ALL HAVING sum(step) <> 0"""


class _EmptyState:
    """The state of a gauge that has seen nothing but the keys of this history."""

    def __init__(self, layout: StateLayout) -> None:
        self._layout = layout
        self._keys: dict[str, Record] = {}

    def note(self, keys: Mapping[str, Record | None]) -> None:
        """Keep the records of keys that a batch changed."""
        for key, record in keys.items():
            self._keys.pop(key, None)
            if record is not None:
                self._keys[key] = record

    def entries(self, names: Texts) -> pa.Table:  # noqa: ARG002
        return arrow_schema(self._layout.entries).empty_table()

    def all_entries(self) -> pa.Table:
        return arrow_schema(self._layout.entries).empty_table()

    def entries_of(self, units: Texts) -> pa.Table:  # noqa: ARG002
        return arrow_schema(self._layout.entries).empty_table()

    def units(self, units: Texts) -> pa.Table:  # noqa: ARG002
        return arrow_schema(self._layout.units).empty_table()

    def used(self, units: Texts) -> pa.Table:  # noqa: ARG002
        return arrow_schema(self._layout.used).empty_table()

    def expiring(self, upto: int) -> pa.Array:  # noqa: ARG002
        return pa.array([], pa.string())

    def waiting(self) -> Iterator[pa.Table]:
        return iter(())

    def keys(self, names: Sequence[str] | None) -> dict[str, Record]:
        wanted = None if names is None else set(names)
        return {key: one for key, one in self._keys.items() if wanted is None or key in wanted}

    def any_keys(self) -> bool:
        return bool(self._keys)


def _unlimited(scope: Scope) -> Scope:
    return replace(
        scope, allowances=tuple((label, Allowance()) for label, _ in scope.allowances), retire=False
    )

"""The embedded engine: enforcement and folding in DuckDB, all changes of a tick at once."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.engine.duckdb import arrays
from tidegauge.engine.duckdb.again import AGAIN
from tidegauge.engine.duckdb.arrival import Arrival
from tidegauge.engine.duckdb.digest import is_old, probe
from tidegauge.engine.duckdb.empty import EmptyState
from tidegauge.engine.duckdb.excess import any_excess, dropped, excess, known_excess
from tidegauge.engine.duckdb.past.flows import TooManyPairs
from tidegauge.engine.duckdb.past.fold import Past
from tidegauge.engine.duckdb.past.owners import PastOfUnits
from tidegauge.engine.duckdb.past.stamps import SCHEMA, StampedFold, bins_table, views_table
from tidegauge.engine.duckdb.past.views import can_fold
from tidegauge.engine.duckdb.render import quote, render, types
from tidegauge.engine.duckdb.stamping import StatementStamps
from tidegauge.engine.duckdb.statements import Statements
from tidegauge.engine.duckdb.terms import TermStatements, parts_of, terms_table
from tidegauge.engine.duckdb.views import BEGINNING, arrow_schema
from tidegauge.errors import QueryError
from tidegauge.model.engine import Engine
from tidegauge.model.history import Backfilled, HistoryEngine
from tidegauge.model.program import Arrived, Folded, Total
from tidegauge.model.stamp import StampEngine, Stamps
from tidegauge.model.tick import NOTHING_YET
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from tidegauge.model.engine import StateLayout
    from tidegauge.model.history import History, Keeper, Report
    from tidegauge.model.program import Program, Release, State
    from tidegauge.model.stamp import Stamped

_PART: Final = 2_000_000
"""At most this many changes are folded at once; more are folded in parts that have no unit in common."""


class DuckEngine(Engine, HistoryEngine, StampEngine):
    """Enforces and folds one program.  Holds only the waiting changes, which the store has as well."""

    def __init__(self, program: Program, columns: Mapping[str, str], *, part: int = _PART) -> None:
        self.program, self._columns, self._part = program, columns, part
        self._sql = (Statements if program.terms is None else TermStatements)(program, columns)
        self._spill = ScratchFolder()
        self._db = duckdb.connect(
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "preserve_insertion_order": "false",
                "temp_directory": self._spill.name,
            }
        )
        for setting in (
            "TimeZone = 'UTC'",
            "enable_progress_bar = false",
            "enable_external_access = false",
            "disabled_optimizers = 'common_subexpressions'",  # it moves expressions out of their TRY
        ):
            self._db.execute(f"SET {setting}")
        self._declare()
        try:
            self._check(columns)
        except QueryError:
            self.close()
            raise
        self._arrival = Arrival(self._db, program, self._sql, columns)
        self._arrays = arrays.ArrayFold(program, self._sql) if arrays.can_fold(program, self._sql) else None
        self._fresh: frozenset[str] = frozenset()
        """The releases that begin with the next fold."""

    @property
    def layout(self) -> StateLayout:
        """The columns of the state."""
        return self._sql.layout

    def close(self) -> None:
        """Free the memory and remove what was spilled to disk."""
        self._db.close()
        self._spill.cleanup()

    def _declare(self) -> None:
        """Make the types that expressions refer to by name."""
        queries = [release.query for release in self.program.releases]
        found = {
            name: values
            for query in queries
            for part in (query.cell, query.outside, *(one.value for one in query.components))
            for name, values in types(part).items()
        }
        for name, values in found.items():
            self._db.register("listed", pa.table({"place": range(len(values)), "value": values}))
            self._run(f"CREATE TYPE {name} AS ENUM (SELECT value FROM listed ORDER BY place)")
            self._db.unregister("listed")

    def _check(self, columns: Mapping[str, str]) -> None:
        """Bind every expression to the declared columns.  Raises QueryError for a query that cannot run."""
        shape = f"STRUCT({', '.join(f'{quote(name)} {kind}' for name, kind in columns.items())})"
        for release in self.program.releases:
            query = release.query
            parts = ", ".join(
                render(part)
                for part in (query.cell, query.outside, *(part.value for part in query.components))
            )
            try:
                self._rows(
                    f'SELECT {parts} FROM (SELECT NULL::{shape} AS "before", NULL::{shape} AS "after")'
                )
            except duckdb.Error as error:
                reason = str(error).partition("\n")[0]
                raise QueryError(f"cannot be computed: {reason}", key=f"release.{release.name}.sql") from None

    def arrive(self, rows: pa.Table, *, state: State, now: int, arrivals: int) -> Arrived:
        """Give every change of a batch its row and its unit; the changes wait until they take effect."""
        return self._arrival.arrive(rows, state=state, now=now, arrivals=arrivals)

    def waiting(self, since: int | None = None) -> pa.Table:
        """The changes that have arrived (`since`: from this number on) and have not taken effect."""
        return self._arrival.rest(since)

    def forget(self) -> None:
        """Read the waiting changes from the store again: a transaction was rolled back."""
        self._arrival.forget()
        self._fresh = frozenset()

    def fold(self, *, state: State, watermark: int, reached: int) -> Iterator[Folded]:
        """Enforce and fold what takes effect by `reached`, in parts that have no unit in common."""
        for due, expiring in self._parts(state, watermark, reached):
            if self._arrays is None or self._fresh:
                yield self._fold(state, reached, expiring)
                continue
            folded, others = self._arrays.fold(self._table(self._arrays.selected()), state, reached)
            if len(others):
                self._make("others", pa.table({"unit": others}))
                self._arrive(f"{due} AND unit IN (SELECT unit FROM others)")
                yield self._fold(state, reached, expiring)
            yield folded
        self._fresh = frozenset()

    def begin(self, releases: Collection[str], *, state: State) -> None:
        """Let the next fold begin with every row of the state once more, for releases that were added."""
        self._fresh = frozenset(releases)
        self._arrival.again(state)

    def backfill(
        self,
        history: History,
        *,
        state: State,
        reached: int,
        now: int,
        report: Report,
        keeper: Keeper | None = None,
    ) -> Backfilled:
        """Enforce and fold a whole history; the store has nothing yet."""
        self._arrival.load(state)
        if (past := self._fast()) is not None:
            parts = past.fold(history, reached=reached, report=report, keeper=keeper)
            with suppress(TooManyPairs):
                first = next(parts)  # the history is read before its length is known
                return Backfilled(Arrived({}, {}), past.arrivals, chain([first], parts))
        counts, arrivals = self._take(history, state, now, report)
        parts = self.fold(state=state, watermark=NOTHING_YET, reached=reached)
        return Backfilled(Arrived(counts, {}), arrivals, parts)

    def _take(self, history: History, state: State, now: int, report: Report) -> tuple[dict[str, int], int]:
        """Let every change of a history arrive; returns the counts, and how many changes there are."""
        counts, arrivals = Counter[str](), 0
        for rows in history.batches():
            counts.update(self.arrive(rows, state=state, now=now, arrivals=arrivals).counts)
            arrivals += rows.num_rows
            report(arrivals, 2 * max(1, history.rows, arrivals))
        return dict(counts), arrivals

    @property
    def can_backfill(self) -> bool:
        """Whether a whole history is one fold: with terms, only over arrays."""
        return self.program.terms is None or self._fast() is not None

    def _fast(self) -> Past | None:
        """Folds a history over arrays; None where the program needs the statements of a tick."""
        columns = sorted(self._columns.items())  # a plan that was loaded has them in another order
        used = {name: kind for name, kind in columns if name in self.program.used or name in self._sql.image}
        if not can_fold(self.program, self._sql, used):
            return None
        fold = Past if self.program.max_rows is None else PastOfUnits
        return fold(self._db, self.program, self._sql, used)

    def stamp(
        self, history: History, *, reached: int, write: Callable[[pa.Table], None], report: Report
    ) -> Stamps:
        """Hand over the stamped changes of a history."""
        write(SCHEMA.empty_table())
        with suppress(TooManyPairs):
            if (past := self._fast()) is not None:
                parts = past.fold(history, reached=reached, report=report, write=write)
                first = next(parts)
                views = views_table(self._db, len(self.program.scopes))
                return Stamps(past.arrivals, lambda: views, bins_table(self._db), chain([first], parts))
        counts, arrivals = self._take(history, state := EmptyState(self.layout), reached, report)
        stamps = StatementStamps(self._db, self._sql, reached)
        folds = (self._fold(state, reached, due) for _, due in self._parts(state, NOTHING_YET, reached))
        return Stamps(arrivals, stamps.views, stamps.bins(), stamps.parts(folds, counts, write))

    def fold_stamped(self, stamped: Stamped, *, state: State) -> Backfilled:
        """Fold a stamped history; the store has nothing yet."""
        self._arrival.load(state)
        parts = StampedFold(self.program, self.layout).fold(stamped)
        return Backfilled(Arrived({}, {}), stamped.arrivals, parts)

    def _parts(self, state: State, watermark: int, reached: int) -> Iterator[tuple[str, pa.ChunkedArray]]:
        """Make `arrivals` for each part in turn.

        Yields which changes belong to the part, as SQL over `timed`, and the units of it that must leave.
        """
        self._arrival.load(state)
        instant = f"greatest(time, {watermark + 1})"
        columns = f"*, {instant} AS instant"
        self._run("DROP TABLE IF EXISTS held")
        if self._arrival.in_order:
            self._run("ALTER TABLE waiting RENAME TO held")
        else:
            so_far = "(PARTITION BY unit ORDER BY seq ROWS UNBOUNDED PRECEDING)"
            self._run(f"""
                CREATE TEMP TABLE held AS SELECT *, max({instant}) OVER {so_far} AS instant FROM waiting""")
            columns = "*"
        self._run(f"CREATE OR REPLACE TEMP VIEW timed AS SELECT {columns} FROM held")
        ((due, everything),) = self._rows(
            f"SELECT count(*) FILTER (instant <= {reached}), count(*) FROM timed"
        )
        later = f"SELECT * EXCLUDE (instant) FROM timed WHERE instant > {reached}"
        self._arrival.leave(later if due < everything else None)
        expiring = self._expiring(state, watermark, reached)
        parts = parts_of(self.program.terms, watermark, reached, due=due, most=self._part)
        for part in range(parts):
            mine = "true" if parts == 1 else f"hash(unit) % {parts} = {part}"
            self._arrive(some := f"instant <= {reached} AND {mine}")
            leaving = expiring
            if len(expiring) and parts > 1:
                self._make("expiring", pa.table({"unit": expiring}))
                leaving = self._table(f"SELECT unit FROM expiring WHERE {mine}")["unit"]
            yield some, leaving
        self._run("DROP TABLE held")

    def _arrive(self, some: str) -> None:
        self._run(f"CREATE OR REPLACE TEMP VIEW arrivals AS SELECT * FROM timed WHERE {some}")

    def _expiring(self, state: State, watermark: int, reached: int) -> pa.ChunkedArray:
        """The units that must leave; makes `terms`."""
        found = pa.array([], pa.string())
        if self.program.terms is not None:
            self._make("terms", terms_table(self.program.terms, watermark, reached))
        if self.program.terms is not None or any(scope.retire for scope in self.program.scopes):
            found = state.expiring(reached)
        return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])

    def _fold(self, state: State, reached: int, expiring: pa.ChunkedArray) -> Folded:
        self._recall(state, expiring)
        self._run(known_excess())
        if isinstance(self._sql, TermStatements) and (statement := self._sql.order_again()):
            self._run(statement)
        self._renew()
        self._run(self._sql.versions())
        self._run(self._sql.path())
        self._bins(self.program.releases, reached)
        for s, scope in enumerate(self.program.scopes):
            for build in (
                self._sql.contributing,
                self._sql.change,
                self._sql.flow_change,
                self._sql.numbered,
            ):
                self._run(build(s, scope))
            self._run(self._sql.accepted(s, scope, reached))
            self._run(self._sql.accepted_flow(s, scope))
        some = self._any_excess(reached)
        for s, scope in enumerate(self.program.scopes):
            self._run(excess(s, some=some))
            if some and self.program.max_rows is not None:
                self._run(self._sql.change(s, scope, every_row=True))
        entries = self._table(self._sql.entries())
        named = [name for name in ("entry", "unit") if name in self.layout.entries]
        units = self._sql.units().replace("$upto", str(reached))
        return Folded(
            totals=self._totals(self._sql.totals()),
            entries=entries.filter(entries["alive"]).drop_columns(["alive"]),
            gone=entries.filter(pc.invert(entries["alive"])).select(named),
            units=self._table(f"SELECT * FROM ({units}) ORDER BY unit, scope"),
            used=self._table(self._sql.used()),
            counts=self._counts(),
            dropped=self._totals(dropped(self.program)) if some else (),
        )

    def _any_excess(self, reached: int) -> bool:
        """Whether the true contribution of a unit of this fold can differ from the accepted one."""
        if self.program.terms is not None:
            return True
        ((some,),) = self._rows(any_excess(range(len(self.program.scopes)), reached))
        return bool(some)

    def _renew(self) -> None:
        """Replace digests of format 2 among the rows that this batch can change."""
        if self._rows(f"SELECT 1 FROM known_entries WHERE {is_old('digest')} LIMIT 1"):
            question, answer = probe()
            self._run(self._sql.renew(by_hash=self._rows(question) == [(answer,)]))

    def _run(self, statement: str) -> None:
        self._db.execute(statement)

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        return self._db.execute(statement).fetchall()

    def _table(self, statement: str) -> pa.Table:
        return self._db.sql(statement).to_arrow_table()

    def _recall(self, state: State, expiring: pa.ChunkedArray) -> None:
        """Fetch the stored state of the units that change or must leave."""
        units = self._table("SELECT DISTINCT unit FROM arrivals")["unit"]
        if len(expiring):
            units = pc.unique(pa.chunked_array([*units.chunks, *expiring.chunks]))
        if self.program.max_rows is None:
            entries, owner = state.entries(units), ", entry AS unit"
        else:
            entries, owner = state.entries_of(units), ""
        clipped = units if any(release.clip for release in self.program.releases) else units[:0]
        known = {
            "known_entries": (entries, self.layout.entries, owner),
            "known_units": (state.units(units), self.layout.units, ""),
            "known_used": (state.used(clipped), self.layout.used, ""),
        }
        for name, (table, columns, also) in known.items():
            self._make(name, table.select(list(columns)).cast(arrow_schema(columns)), f"*{also}")

    def _make(self, name: str, table: pa.Table, columns: str = "*") -> None:
        """Make a table of the engine from one in memory."""
        self._db.register("recalled", table)
        self._run(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {columns} FROM recalled")
        self._db.unregister("recalled")

    def _bins(self, releases: Sequence[Release], upto: int) -> None:
        """Make `bins`: the bins that the effective times of this fold can fall into."""
        terms = "" if self.program.terms is None else "(SELECT min(begins) FROM terms WHERE fresh), "
        ((earliest,),) = self._rows(f"""
            SELECT least((SELECT min(instant) FROM path WHERE instant > {BEGINNING}), (SELECT min(expires)
                FROM known_units), {terms}{upto})""")
        numbers, bins, ends = [], [], []
        for number, release in enumerate(releases):
            for index, end in release.schedule.covering(earliest, upto):
                numbers.append(number)
                bins.append(index)
                ends.append(end)
        table = pa.table({"release": pa.array(numbers, pa.int64()), "bin": pa.array(bins, pa.int64()),
                          "ends": pa.array(ends, pa.int64())})  # fmt: skip
        self._make("bins", table)

    def _totals(self, statement: str) -> list[Total]:
        names = [release.name for release in self.program.releases]
        return [
            Total(names[release], component, bin_, cell, int(amount))
            for release, component, bin_, cell, amount in self._rows(statement)
        ]

    def _counts(self) -> dict[str, int]:
        """Changes that were dropped or did not fit the stored state, by reason."""
        outside = " + ".join(
            f"count(*) FILTER (coalesce({render(release.query.outside)}, false)"
            f"{'' if release.name in self._fresh else f' AND seq > {AGAIN}'})"
            for release in self.program.releases
            if release.query.kind == "stock"
        )  # fmt: skip
        refused = " + ".join(
            f"(SELECT count(*) FROM numbered_{s} WHERE instant IS NOT NULL AND NOT inside)"
            for s in range(len(self.program.scopes))
        )
        counts = self._table(f"""
            SELECT {outside or "count(*) FILTER (false)"} AS outside_domain,
                   (SELECT count(*) FROM versions WHERE before_digest IS NOT NULL
                       AND digest_was IS NULL) AS unknown_before,
                   (SELECT count(*) FROM versions WHERE before_digest IS NOT NULL
                       AND digest_was <> before_digest AND NOT {is_old("digest_was")}) AS other_before,
                   (SELECT count(*) FROM versions WHERE informed AND before_digest IS NULL AND alive
                       AND was IS NOT NULL) AS inserted_twice,
                   (SELECT count(*) FROM versions WHERE ends_first AND was IS NULL) AS deleted_unknown,
                   {refused} AS dropped
            FROM arrivals""")  # fmt: skip
        return {
            name: int(column[0].as_py())
            for name, column in zip(counts.column_names, counts.columns, strict=True)
        }

"""The embedded engine: enforcement and folding in DuckDB, a whole batch at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.engine import threads
from tidegauge.engine.statements import Statements
from tidegauge.engine.views import BEGINNING, owned, quote
from tidegauge.errors import QueryError
from tidegauge.model.program import Folded, Total
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.model.program import Program, State

_ARROW: Final = {"VARCHAR": pa.string(), "BIGINT": pa.int64()}


class DuckEngine:
    """Carries out one program; keeps nothing between batches but the connection."""

    def __init__(self, program: Program, columns: Mapping[str, str]) -> None:
        self.program = program
        self._sql = Statements(program, columns)
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
            "disabled_optimizers = 'common_subexpressions'",  # it computes what stands inside TRY outside of it
        ):
            self._db.execute(f"SET {setting}")
        try:
            self._check(columns)
        except QueryError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def entry_columns(self) -> dict[str, str]:
        """State of a row, column -> SQL type."""
        return self._sql.entry_columns

    @property
    def unit_columns(self) -> dict[str, str]:
        """State of a unit in a scope."""
        return self._sql.unit_columns

    @property
    def used_columns(self) -> dict[str, str]:
        """State of a unit's clip."""
        return self._sql.used_columns

    def close(self) -> None:
        """Free the memory and remove what was spilled to disk."""
        self._db.close()
        self._spill.cleanup()

    def _check(self, columns: Mapping[str, str]) -> None:
        """Bind every expression to the declared columns, so that a query that cannot run is refused at once."""
        shape = f"STRUCT({', '.join(f'{quote(name)} {kind}' for name, kind in columns.items())})"
        for release in self.program.releases:
            query = release.query
            parts = ", ".join([query.cell, query.outside, *(part.value for part in query.components)])
            try:
                self._rows(
                    f'SELECT {parts} FROM (SELECT NULL::{shape} AS "before", NULL::{shape} AS "after")'
                )
            except duckdb.Error as error:
                reason = str(error).partition("\n")[0]
                raise QueryError(f"cannot be computed: {reason}", key=f"release.{release.name}.sql") from None

    def fold(self, rows: pa.Table, *, state: State, watermark: int, upto: int, arrivals: int) -> Folded:
        """Enforce and fold one batch.

        `watermark`: everything up to here has taken effect before; an older mutation takes effect just after it.
        `upto`: how far the source has come.  `arrivals`: how many mutations arrived before this batch.
        """
        late = pc.less_equal(rows["time"], watermark)
        number_late = pc.sum(late).as_py() or 0
        reached = max(upto, watermark + 1 if rows.num_rows else watermark)
        plain = _is_plain(rows)
        self._load(rows, watermark, reached, arrivals, plain=plain)
        self._recall(state, reached, plain=plain, everything=rows["entry"].null_count > 0)
        if not plain:
            fields = [field.name for field in rows.schema.field("after").type]
            kept = pc.unique(pc.list_flatten(rows["kept"])).to_pylist() if "kept" in rows.column_names else []
            for statement in threads.resolve(self._sql, fields, kept):
                self._run(statement)
        self._run(self._sql.life())
        self._run(self._sql.path())
        self._bins(reached)
        for s, scope in enumerate(self.program.scopes):
            for build in (self._sql.shown, self._sql.delta, self._sql.match, self._sql.move):
                self._run(build(s, scope))
            self._run(self._sql.kept(s, scope, reached))
            self._run(self._sql.counted(s, scope))
        counts = self._counts() | {"late": number_late}
        if not plain:
            ((counts["unknown_kept"],),) = self._rows("SELECT count(*) FROM arrivals WHERE unknown")
        return Folded(
            **self._after(reached, plain=plain), totals=self._totals(), watermark=reached, counts=counts
        )

    def _after(self, reached: int, *, plain: bool) -> dict[str, Any]:
        """The state after the batch, by the names that Folded has for its parts."""
        units, used = self._sql.units().replace("$upto", str(reached)), self._sql.used()
        void: list[str] = []
        if plain:
            entries = self._table(self._sql.entries())
            gone = entries.filter(pc.invert(entries["alive"]))["entry"].to_pylist()
        else:
            entries = self._table(threads.settled_entries(self._sql))
            gone = [name for (name,) in self._rows(threads.left_keys())]
            if self.program.max_rows is None:
                void = [name for (name,) in self._rows(threads.void_units())]
                units = threads.settled_counters(units, "known_units", "scope")
                used = threads.settled_counters(used, "known_used", "release")
        living = entries.filter(entries["alive"]).drop_columns(["alive"])
        return {
            "entries": living,
            "gone": gone,
            "units": self._table(f"SELECT * FROM ({units}) ORDER BY unit, scope"),
            "used": self._table(used),
            "void": void,
        }

    def _run(self, statement: str) -> None:
        self._db.execute(statement)

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        return self._db.execute(statement).fetchall()

    def _table(self, statement: str) -> pa.Table:
        return self._db.sql(statement).to_arrow_table()

    def _load(self, rows: pa.Table, watermark: int, reached: int, arrivals: int, *, plain: bool) -> None:
        """The batch, at effective times: after what has taken effect, and not after what the batch reaches."""
        if plain:
            rows = rows.select(["time", "entry", "unit", "before", "after", "informed"])
        else:
            for name, kind in (("previous", pa.string()), ("kept", pa.list_(pa.string()))):
                if name not in rows.column_names:
                    rows = rows.append_column(name, pa.nulls(rows.num_rows, kind))
        number = pa.array(range(arrivals, arrivals + rows.num_rows), pa.int64())
        self._db.register("batch", rows.append_column("seq", number))
        owner = (
            owned(self.program, row="entry")
            if plain
            else "* EXCLUDE (seq, entry, time, before, informed) REPLACE (nullif(previous, entry) AS previous)"
        )
        self._run(f"""
            CREATE OR REPLACE TEMP TABLE arrivals AS
            SELECT seq, entry, least(greatest(time, {watermark + 1}), {reached}) AS instant, before, informed, {owner}
            FROM batch""")
        self._db.unregister("batch")

    def _recall(self, state: State, upto: int, *, plain: bool, everything: bool) -> None:
        """Fetch what the store knows of the rows and units that this batch can touch."""
        also = "" if plain else " UNION SELECT previous FROM arrivals"
        found = self._rows(f"SELECT DISTINCT entry FROM arrivals{also} ORDER BY entry")
        touched = [name for (name,) in found if name is not None]
        expiring = state.expiring(upto) if any(scope.retire for scope in self.program.scopes) else []
        if self.program.max_rows is None:
            units = sorted({*touched, *expiring}) if expiring else touched
            entries = state.all_entries() if everything else state.entries(units)
            units = sorted({*units, *entries["entry"].to_pylist()}) if everything else units
            owner = ", entry AS unit"
        else:
            entries = state.all_entries() if everything else state.entries(touched)
            named = self._rows("SELECT DISTINCT unit FROM arrivals WHERE unit IS NOT NULL")
            units = sorted({*(unit for (unit,) in named), *entries["unit"].to_pylist(), *expiring})
            entries, owner = state.entries_of(units), ""
        clipped = units if any(release.clip for release in self.program.releases) else []
        known = {
            "known_entries": (entries, self.entry_columns, owner),
            "known_units": (state.units(units), self.unit_columns, ""),
            "known_used": (state.used(clipped), self.used_columns, ""),
        }
        for name, (table, columns, also) in known.items():
            schema = pa.schema([(column, _ARROW[kind]) for column, kind in columns.items()])
            self._db.register("recalled", table.cast(schema))
            self._run(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT *{also} FROM recalled")
            self._db.unregister("recalled")

    def _bins(self, upto: int) -> None:
        """The bins that this batch's effective times can fall into."""
        ((earliest,),) = self._rows(f"""
            SELECT least((SELECT min(instant) FROM path WHERE instant > {BEGINNING}), (SELECT min(expires) FROM known_units), {upto})""")
        numbers, bins, ends = [], [], []
        for number, release in enumerate(self.program.releases):
            for index, end in release.schedule.covering(earliest, upto):
                numbers.append(number)
                bins.append(index)
                ends.append(end)
        table = pa.table({"release": pa.array(numbers, pa.int64()), "bin": pa.array(bins, pa.int64()),
                          "ends": pa.array(ends, pa.int64())})  # fmt: skip
        self._db.register("recalled", table)
        self._run("CREATE OR REPLACE TEMP TABLE bins AS SELECT * FROM recalled")
        self._db.unregister("recalled")

    def _totals(self) -> list[Total]:
        names = [release.name for release in self.program.releases]
        return [
            Total(names[release], component, bin_, cell, int(amount))
            for release, component, bin_, cell, amount in self._rows(self._sql.totals())
        ]

    def _counts(self) -> dict[str, int]:
        """What did not count, or was not as it was told, and why."""
        outside = " + ".join(
            f"count(*) FILTER (coalesce({release.query.outside}, false))"
            for release in self.program.releases
            if release.query.kind == "stock"
        )  # fmt: skip
        refused = " + ".join(
            f"(SELECT count(*) FROM move_{s} WHERE instant IS NOT NULL AND NOT inside)"
            for s in range(len(self.program.scopes))
        )
        counts = self._table(f"""
            SELECT {outside or "0"} AS outside_domain, count(*) FILTER (unowned) AS without_unit,
                   (SELECT count(*) FROM life WHERE told IS NOT NULL AND digest_was IS NULL) AS unknown_before,
                   (SELECT count(*) FROM life WHERE told IS NOT NULL AND digest_was <> told) AS other_before,
                   (SELECT count(*) FROM life WHERE informed AND told IS NULL AND alive AND was IS NOT NULL) AS inserted_twice,
                   (SELECT count(*) FROM life WHERE instant > {BEGINNING} AND NOT alive AND was IS NULL AND NOT EXISTS (
                       SELECT 1 FROM arrivals came WHERE came.entry = life.entry AND came.instant = life.instant AND came."after" IS NOT NULL
                   )) AS deleted_unknown,
                   {refused} AS past_limit
            FROM arrivals""")  # fmt: skip
        return {
            name: int(column[0].as_py())
            for name, column in zip(counts.column_names, counts.columns, strict=True)
        }


def _is_plain(rows: pa.Table) -> bool:
    """Whether a batch says nothing but old and new rows."""
    told = (name for name in ("previous", "kept") if name in rows.column_names)
    return not rows["entry"].null_count and all(rows[name].null_count == rows.num_rows for name in told)

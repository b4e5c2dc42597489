"""Changes as they arrive.  Each change gets its row and its unit, in the order of the log, and then waits.

The tables:

    waiting   the changes that have arrived and have not taken effect: seq, time, entry (the row's name),
              unit, after (null: the row ends in this unit), digest, before_digest (the digest of the
              delivered old row), informed, elder (the digest of format 2)

The store keeps `waiting` with these columns.  Where units own rows, keys change, the table is emptied or
values are left out, an arrival also builds:

    latest    of the rows that the batch can change, those that exist in the log before it
    arriving  the batch, every change with its lineage (one row through keys and units) and with how often the
              table was emptied before it
    owned     the same with the unit before and after each change
    filled    the same with the values that were left out
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.engine.duckdb.again import rows_again
from tidegauge.engine.duckdb.batch import at_keys, belonging_table, changes_of, completed, keys_of
from tidegauge.engine.duckdb.digest import old_digest, row_digest
from tidegauge.engine.duckdb.identity import RowKeys, RowTerms, UnitKeys, named_in_sql, native, stored_names
from tidegauge.engine.duckdb.render import literal, quote
from tidegauge.engine.duckdb.views import arrow_schema
from tidegauge.model.program import Arrived

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import duckdb

    from tidegauge.engine.duckdb.identity import Belongs
    from tidegauge.engine.duckdb.views import Views
    from tidegauge.model.program import Program, Record, State

_PAST: Final = "PARTITION BY lineage, emptyings ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
"""A window: the earlier changes of the row since the table was last emptied."""
_OLD_NAMES: Final = {"told": "before_digest"}
"""Columns of waiting changes as earlier versions named them."""
_ALONE: Final = "_"
"""The field of a row where no query looks at any column."""


class Arrival:
    """Gives changes their rows and units, and holds them until they take effect."""

    def __init__(
        self,
        db: duckdb.DuckDBPyConnection,
        program: Program,
        sql: Views,
        columns: Mapping[str, str],
    ) -> None:
        self._db, self._program, self._sql = db, program, sql
        needed = program.used | set(sql.image)
        self._columns = {name: kind for name, kind in columns.items() if name in needed}
        shape = self._columns or {_ALONE: "BOOLEAN"}
        self._shape = f"STRUCT({', '.join(f'{quote(name)} {kind}' for name, kind in shape.items())})"
        self._loaded = False
        self._empty = True
        """Whether it is known that no change waits."""
        self._no_changes: pa.Table | None = None
        """What `rest` returns then."""

    def forget(self) -> None:
        """Read the waiting changes from the store when they are next needed."""
        self._loaded = False

    def load(self, state: State) -> None:
        """Read the waiting changes from the store, unless they are loaded."""
        if self._loaded:
            return
        self._clear()
        for stored in state.waiting():
            part = stored.rename_columns([_OLD_NAMES.get(name, name) for name in stored.column_names])
            self._mark(part["time"])
            self._db.register("batch", part)
            self._db.execute(f"""
                INSERT INTO waiting BY NAME
                SELECT * REPLACE ({self._narrow('"after"')} AS "after") FROM batch""")
            self._db.unregister("batch")
        self._loaded = True

    def again(self, state: State) -> None:
        """Let every row of the state wait as a change, before all other changes."""
        self.load(state)
        self._empty = False
        columns = self._sql.layout.entries
        self._db.register("recalled", state.all_entries().select(list(columns)).cast(arrow_schema(columns)))
        self._db.execute(rows_again(self._sql, self._columns, self._shape))
        self._db.unregister("recalled")

    def _clear(self) -> None:
        self.in_order, self._latest, self._empty = True, -(2**63), True
        self._db.execute(f"""
            CREATE OR REPLACE TEMP TABLE waiting (
                seq BIGINT, time BIGINT, entry VARCHAR, unit VARCHAR, "after" {self._shape},
                digest BIGINT, before_digest BIGINT, informed BOOLEAN, elder BIGINT)""")

    def _mark(self, times: pa.ChunkedArray) -> None:
        """Note that changes wait, and whether times never fall: then those of every unit do not either."""
        stamps = times.to_numpy()
        if len(stamps):
            self._empty = False
            self.in_order = bool(self.in_order and stamps[0] >= self._latest and (np.diff(stamps) >= 0).all())
            self._latest = max(self._latest, int(stamps.max()))

    def rest(self, after: int | None = None) -> pa.Table:
        """The waiting changes, from this number on, as the store keeps them."""
        if self._empty and self._no_changes is not None:
            return self._no_changes
        some = "" if after is None else f" WHERE seq >= {after}"
        found = self._db.sql(f"SELECT * FROM waiting{some} ORDER BY seq, entry, unit").to_arrow_table()
        self._no_changes = found.slice(0, 0)
        return found

    def leave(self, rest: str | None) -> None:
        """Let only these changes (a query) wait; None: no changes."""
        if rest is None:
            self._clear()
            return
        self._db.execute(f"CREATE OR REPLACE TEMP TABLE waiting_on AS {rest}")
        self._db.execute("DROP TABLE IF EXISTS waiting")
        self._db.execute("ALTER TABLE waiting_on RENAME TO waiting")

    def arrive(self, rows: pa.Table, *, state: State, now: int, arrivals: int) -> Arrived:
        """Add a batch to the waiting changes; the arguments are those of Engine.arrive."""
        self.load(state)
        if not rows.num_rows:
            return Arrived({}, {})
        rows = completed(rows, now, arrivals)
        self._mark(rows["time"])
        self._row, self._row_before = (rows.schema.field(name).type for name in ("after", "before"))
        emptied = rows["entry"].null_count > 0
        renamed = rows["previous"].null_count < rows.num_rows
        kept = pc.unique(pc.list_flatten(rows["kept"])).to_pylist()
        records = self._records(rows, state, emptied=emptied)
        hot = {*records, *(keys_of(rows.filter(pc.is_valid(rows["previous"]))) if renamed else ())}
        alone, terms = self._program.max_rows is None, self._program.terms
        plain = alone and not (emptied or renamed or kept)
        keys: RowKeys | UnitKeys | None = None
        belonging: list[Belongs] = []
        if not plain or (hot and terms is not None):
            some = at_keys(rows, hot) if plain else rows
            self._recall(some, state, records, images=bool(kept), emptied=emptied)
        if hot or emptied:
            alive = (
                self._db.execute("SELECT entry, unit FROM latest").fetchall() if not plain or terms else []
            )
            if alone:
                latest = {} if terms is None else self._latest_times(hot, records)
                clock = RowTerms(terms, state.watermark + 1, latest)
                keys = RowKeys(records, (name for name, _ in alive), clock)
            else:
                keys = UnitKeys(records, hot, alive, renews=terms is not None)
            followed = map(keys.resolve, changes_of(at_keys(rows, hot), self._program.owner))
            belonging = [one for one in followed if one is not None]
        self._db.register("batch", rows)
        self._db.register("belonging", belonging_table(belonging))
        counts = self._plain(keys) if plain else self._resolve(rows, kept, keys, emptied=emptied)
        for name in ("batch", "belonging"):
            self._db.unregister(name)
        if keys is None:
            return Arrived(counts, {})
        changed = {
            key: record for key, record in keys.records().items() if record is not None or key in records
        }
        return Arrived(counts | {"displaced": keys.displaced}, changed)

    def _records(self, rows: pa.Table, state: State, *, emptied: bool) -> dict[str, Record]:
        if not state.any_keys():
            return {}
        return state.keys(None if emptied else keys_of(rows))

    def _latest_times(self, hot: Collection[str], records: Mapping[str, Record]) -> dict[str, int]:
        """When the last waiting change takes effect of each row that can be at these keys."""
        names = set(map(native, hot)).union(*(stored_names(*one) for one in records.items()))
        self._db.register("wanted", pa.table({"entry": pa.array(sorted(names), pa.string())}))
        waiting = "SELECT entry, max(time) FROM waiting SEMI JOIN wanted USING (entry) GROUP BY entry"
        found = dict(self._db.execute(waiting).fetchall())
        self._db.unregister("wanted")
        return found

    def _recall(
        self,
        rows: pa.Table,
        state: State,
        records: Mapping[str, Record],
        *,
        images: bool,
        emptied: bool,
    ) -> None:
        """Make `latest`: of the rows that the batch can change, those that exist in the log."""
        which = ""
        if emptied:
            known = state.all_entries()
        else:
            names = {native(key) for key in keys_of(rows)}
            for key, record in records.items():
                alone = self._program.max_rows is None
                names |= stored_names(key, record) if alone else {name for _, name in record[1]}
            known = state.entries(sorted(names))
            self._db.register("touched", pa.table({"entry": pa.array(sorted(names), pa.string())}))
            which = "WHERE entry IN (SELECT entry FROM touched)"
        columns = self._sql.layout.entries
        self._db.register("recalled", known.select(list(columns)).cast(arrow_schema(columns)))
        unit = "entry AS unit" if self._program.max_rows is None else "unit"
        image, stored = ("", "")
        if images and self._sql.image:
            image, stored = f", {self._sql.image_of_row()} AS image", f", {self._sql.from_state('image')}"
        self._db.execute(f"""
            CREATE OR REPLACE TEMP TABLE latest AS
            WITH last AS (
                SELECT entry, unit, "after" FROM waiting {which}
                QUALIFY row_number() OVER (PARTITION BY entry, unit ORDER BY seq DESC) = 1
            )
            SELECT entry, unit{image} FROM last WHERE "after" IS NOT NULL
            UNION ALL
            SELECT * FROM (SELECT entry, {unit}{stored} FROM recalled) ANTI JOIN last USING (entry, unit)""")
        for name in ("recalled", *(() if emptied else ("touched",))):
            self._db.unregister(name)

    def _narrow(self, row: str, there: pa.StructType | None = None) -> str:
        """SQL: the columns of a row that are used or kept; `there`: those it has, if not all."""
        names = self._columns if there is None else {field.name for field in there}
        fields = [
            f"{quote(name)} := TRY_CAST({row}.{quote(name)} AS {kind})"
            if name in names
            else f"{quote(name)} := NULL::{kind}"  # a column that was kept is no longer in the table
            for name, kind in self._columns.items()
        ]
        packed = f"struct_pack({', '.join(fields)})" if fields else f"struct_pack({_ALONE} := true)"
        return f"CASE WHEN {row} IS NOT NULL THEN {packed} END"

    def _digest(self) -> str:
        """The digest of a new row, of all its columns."""
        return f"""CASE WHEN "after" IS NOT NULL THEN {row_digest('"after"', self._row)} END"""

    def _before_digest(self) -> str:
        """SQL: the digest of the delivered old row."""
        digest = row_digest('"before"', self._row_before)
        return f'CASE WHEN informed AND "before" IS NOT NULL THEN {digest} END'

    def _plain(self, keys: RowKeys | UnitKeys | None) -> dict[str, int]:
        """Add the batch as it is.  Rows are their own units, and no key changes, no value is left out."""
        name, join = named_in_sql("entry"), ""
        if keys is not None:
            name, join = f"coalesce(belonging.name, {name})", "LEFT JOIN belonging USING (seq)"
        self._db.execute(f"""
            INSERT INTO waiting
            SELECT seq, time, {name}, {name}, {self._narrow('"after"', self._row)}, {self._digest()},
                   {self._before_digest()}, informed, {old_digest('"after"')}
            FROM batch {join}""")
        return {}

    def _resolve(
        self, rows: pa.Table, kept: Sequence[str], keys: RowKeys | UnitKeys | None, *, emptied: bool
    ) -> dict[str, int]:
        lineages = keys.lineages if isinstance(keys, UnitKeys) else {}
        known = pa.table(
            {
                "entry": pa.array([name for name, _ in lineages], pa.string()),
                "unit": pa.array([unit for _, unit in lineages], pa.string()),
                "lineage": pa.array(list(lineages.values()), pa.string()),
            }
        )
        self._db.register("known_lineages", known)
        self._db.execute(self._arriving(kept, emptied=emptied))
        self._db.execute(self._owned(kept))
        self._db.execute(self._filled([field.name for field in rows.schema.field("after").type], kept))
        self._db.execute(self._events(emptied=emptied))
        self._db.unregister("known_lineages")
        unknown = "false" if self._program.max_rows is None else "owner_was IS NULL"
        ((unowned, deleted, left),) = self._db.execute(f"""
            SELECT count(*) FILTER ("after" IS NOT NULL AND unit IS NULL),
                   count(*) FILTER ("after" IS NULL AND {unknown}),
                   count(*) FILTER (unknown AND unit IS NOT NULL) FROM filled""").fetchall()
        return {"without_unit": unowned, "deleted_unknown": deleted, "unknown_kept": left}

    def _arriving(self, kept: Collection[str], *, emptied: bool) -> str:
        """SQL of `arriving`: every change and, as number -1, the row as it was before the batch."""
        alone = self._program.max_rows is None
        lineage = "name" if alone else "coalesce(followed, '.' || name)"
        was = "entry" if alone else "coalesce(known_lineages.lineage, '.' || entry)"
        join = "" if alone else "LEFT JOIN known_lineages USING (entry, unit)"
        own = f"CASE WHEN belonging.seq IS NULL THEN {named_in_sql('entry')} ELSE belonging"
        count = (
            "count(*) FILTER (entry IS NULL) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING)" if emptied else "0"
        )
        return f"""
            CREATE OR REPLACE TEMP VIEW arriving AS
            WITH named AS (
                SELECT batch.* REPLACE (nullif(unit, '') AS unit),
                       {own}.name END AS name, {own}.ended END AS ended,
                       {count} AS emptyings, belonging.lineage AS followed
                FROM batch LEFT JOIN belonging USING (seq)
            )
            SELECT *, {lineage} AS lineage, entry IS NULL AS empties FROM named
            UNION ALL BY NAME
            SELECT -1 AS seq, entry AS name, unit, 0 AS emptyings, {was} AS lineage, false AS empties
                   {", image" if kept and self._sql.image else ""}
            FROM latest {join}"""

    def _owned(self, kept: Collection[str]) -> str:
        """SQL of `owned`: the unit before and after every change."""
        if self._program.max_rows is None:
            return """
                CREATE OR REPLACE TEMP VIEW owned AS
                SELECT * REPLACE (name AS unit), name AS owner_was FROM arriving WHERE NOT empties"""
        same = _left_out(self._program.owner) if self._program.owner in kept else "false"
        return f"""
            CREATE OR REPLACE TEMP VIEW owned AS
            WITH before AS (
                SELECT *, nullif(last_value(CASE WHEN seq = -1 THEN unit WHEN "after" IS NULL THEN ''
                                                 WHEN NOT {same} THEN coalesce(unit, '') END IGNORE NULLS)
                                 OVER past, '') AS owner_was
                FROM arriving WHERE NOT empties WINDOW past AS ({_PAST})
            )
            SELECT * REPLACE (CASE WHEN seq = -1 THEN unit WHEN "after" IS NULL THEN NULL
                                   WHEN {same} THEN owner_was ELSE unit END AS unit)
            FROM before"""

    def _filled(self, fields: Sequence[str], kept: Collection[str]) -> str:
        """SQL of `filled`: every change with the values that the source left out."""
        past, unknown, values = [], ["false"], []
        for name in fields:
            value = f'"after".{quote(name)}'
            if name in kept:
                stored, is_new = "NULL", "NULL"
                if name in self._sql.image:
                    stored, is_new = f"image.{quote(name)}", self._sql.image_value(name)
                was = quote(f"was_{name}")
                past.append(f"""
                    last_value(CASE WHEN seq = -1 THEN {{'is': {stored}}}
                                    WHEN unit IS NULL OR NOT {_left_out(name)}
                                    THEN {{'is': CASE WHEN unit IS NOT NULL THEN {is_new} END}} END
                               IGNORE NULLS) OVER past AS {was}""")
                unknown.append(f"({_left_out(name)} AND {was}.is IS NULL)")
                value = f"CASE WHEN {_left_out(name)} THEN {was}.is ELSE {value} END"
            values.append(f"{quote(name)} := {value}")
        image = (
            f'CASE WHEN "after" IS NOT NULL THEN struct_pack({", ".join(values)}) END' if past else '"after"'
        )
        window = f"WINDOW past AS ({_PAST})"
        return f"""
            CREATE OR REPLACE TEMP TABLE filled AS
            WITH before AS (SELECT *{"".join(f", {one}" for one in past)} FROM owned {window if past else ""})
            SELECT seq, time, name, ended, unit, owner_was, emptyings, {" OR ".join(unknown)} AS unknown,
                   informed, {self._before_digest()} AS before_digest, {image} AS "after"
            FROM before WHERE seq >= 0"""

    def _events(self, *, emptied: bool) -> str:
        """SQL: add the changes to `waiting`.  A row that changes its unit or name ends as the old one."""
        alone = self._program.max_rows is None
        begins = "true" if alone else "unit IS NOT NULL"
        handed = "false" if alone else "owner_was IS NOT NULL AND (owner_was <> unit OR ended <> name)"
        ends = "" if alone else """
            UNION ALL BY NAME
            SELECT seq, time, ended AS entry, owner_was AS unit, emptyings, before_digest, informed
            FROM filled
            WHERE owner_was IS NOT NULL AND (owner_was IS DISTINCT FROM unit OR ended <> name)"""  # fmt: skip
        emptying = "" if not emptied else """
            UNION ALL BY NAME
            SELECT emptied.seq, emptied.time, last.entry, last.unit, false AS informed
            FROM (
                SELECT * FROM (
                    SELECT entry, unit, emptyings, seq, "after" IS NOT NULL AS alive FROM events
                    UNION ALL SELECT entry, unit, 0, -1, true FROM latest
                ) QUALIFY row_number() OVER (PARTITION BY entry, unit, emptyings ORDER BY seq DESC) = 1
            ) last
            JOIN (SELECT seq, time, emptyings FROM arriving WHERE empties) emptied
                ON emptied.emptyings = last.emptyings + 1
            WHERE last.alive"""  # fmt: skip
        return f"""
            INSERT INTO waiting BY NAME
            WITH events AS (
                SELECT seq, time, name AS entry, unit, emptyings,
                       {self._narrow('"after"', self._row)} AS "after",
                       {self._digest()} AS digest, {old_digest('"after"')} AS elder,
                       CASE WHEN NOT ({handed}) THEN before_digest END AS before_digest,
                       informed AND NOT ({handed}) AS informed
                FROM filled WHERE {begins}{ends}
            )
            SELECT seq, time, entry, unit, "after", digest, before_digest, informed, elder
            FROM events{emptying}"""


def _left_out(name: str | None) -> str:
    return f"coalesce(list_contains(kept, {literal(name or '')}), false)"

"""A table that keeps every version of its rows with the time from and to which it was valid.

Such tables (slowly changing dimensions of type 2, as dbt's snapshots write them) contain their past, so every
change has its own time.  A version that was added to the past after the last read arrives late, as the
difference between the old and the new rows at the time up to which the gauge has read.

A table that was written down whole on several dates is read the same way: a row of a picture is a version
that is valid from the picture's date until the next picture is due.  If the next one is late, the row remains
until the one after it is due.  Both depend on the row and the clock alone, never on other rows.

If a table marks its current versions and does not say when the others ended, a version ends when the next one
of the same key and unit begins.  A last version that is not marked has ended at an unknown time: it does not
count at all, so the row ends when that version begins.  The end depends on versions of the same unit alone:
were it the next version of any unit, the presence of one unit would change what another one contributes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from tidegauge.errors import SourceError
from tidegauge.model.mutation import Batch
from tidegauge.model.quantity import DAY, Span
from tidegauge.scratch import ScratchFolder
from tidegauge.source.batch.guess import FALSE, TRUE
from tidegauge.source.batch.names import literal, quote
from tidegauge.source.batch.rows import schema
from tidegauge.source.batch.spool import Spool
from tidegauge.source.snapshots.images import Pictured, require_keys, workshop
from tidegauge.source.snapshots.place import Place
from tidegauge.source.snapshots.table import WholeTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

    from tidegauge.source.snapshots.readers import Reader

_BEGINNING: Final = -(2**63)
_ALWAYS: Final = -62135596800000000
"""The year 1: the beginning of a version without one."""
_NEVER: Final = 2**63 - 1


class History(WholeTable):
    """Follows the versions of a table's rows.

    `valid_to` is null in the current version; a row whose last version has ended is deleted. `inclusive`:
    the day of `valid_to` is the last on which the version is valid. `deleted` names a column that marks a
    version as a deletion. With `current` in place of `valid_to`, that column is true in the current
    version, and any other ends when the next one of the same key and unit begins. With `every`,
    `valid_from` is the date of a picture of the whole table, `every` is the time from one picture to the
    next, and there is no `valid_to`.
    """

    has_past = True

    def __init__(
        self,
        reader: Reader,
        *,
        key: str | Sequence[str],
        folder: str | Path,
        unit: str | None = None,
        valid_from: str = "dbt_valid_from",
        valid_to: str | None = "dbt_valid_to",
        current: str | None = None,
        deleted: str | None = None,
        inclusive: bool = False,
        every: str | None = None,
    ) -> None:
        super().__init__(reader, key=key, folder=folder, unit=unit)
        self._every = None if every is None else Span.parse(every)
        ends = valid_to if every is None and current is None else None
        self._span = (valid_from,) if ends is None else (valid_from, ends)
        self._inclusive = inclusive
        self._deleted, self._current = deleted, current
        self._marks = tuple(mark for mark in (deleted, current) if mark is not None)

    @property
    def _extra(self) -> tuple[str, ...]:
        return (*self._span, *self._marks)

    def _scan(self, pictured: Pictured) -> Iterator[list[pa.Array]]:
        """Every version: key, unit, the declared marks, the columns, from and to."""
        text = [*pictured.text, *self._marks]
        for arrays in self._reader.scan(text, pictured.kinds | dict.fromkeys(self._span, "TIMESTAMP")):
            if self._current is not None:
                self._require_known(arrays[len(text) - 1])
            yield arrays

    def _require_known(self, marks: pa.Array) -> None:
        """Raise SourceError if a mark of the current version is neither true nor false."""
        words = pc.utf8_lower(pc.utf8_trim_whitespace(marks.drop_null()))
        if not pc.all(pc.is_in(words, pa.array([*TRUE, *FALSE])), min_count=0).as_py():
            raise SourceError(
                f"column {quote(str(self._current))} (current) has a value that is neither true nor false. "
                f"Nothing was delivered. Write one of {', '.join((*TRUE, *FALSE))}, or name another column "
                "([source] current)."
            )

    def rehearse(self) -> None:
        """Read the table once.  Raises also if two rows of one picture have the same key."""
        super().rehearse()
        if self._every is None:
            return
        pictured = Pictured({}, self._key, None)
        with workshop() as db:
            db.execute("CREATE TABLE keys (e VARCHAR, f TIMESTAMP)")
            for arrays in self._reader.scan(self._key, dict.fromkeys(self._span, "TIMESTAMP")):
                dates = arrays.pop()
                db.register("chunk", pa.table({"e": pictured.arrays(arrays)[0], "f": dates}))
                db.execute("INSERT INTO keys SELECT e, f FROM chunk WHERE e <> '' AND f IS NOT NULL")
            require_keys(db, "keys", self._key, "e, f")

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """The changes up to `until`, and corrections of the time before."""
        place = Place(0, _BEGINNING) if position is None else Place.parse(position)
        old = None if position is None else self._images.path(place.generation)
        pictured = Pictured(self._kinds(), self._key, self._unit, old)
        spool = Spool(schema(pictured.kinds))
        cells = "".join(f", {cell}" for cell in pictured.cells)
        with workshop() as db:
            self._versions(db, pictured, until)
            db.execute(f"CREATE VIEW new AS {_rows_at(cells, place.time)}")
            if old is not None:
                pictured.compare(db, old, spool, place.time)
            pictured.collect(db, _changes(pictured.cells, place.time, until), spool)
            with self._images.writing(place.generation + 1, pictured.columns) as writer:
                for batch in db.sql(_rows_at(cells, until)).to_arrow_reader(50_000):
                    writer.write_table(pa.Table.from_batches([batch]).cast(pictured.columns))
        yield Batch(spool.take(), until, str(self._place(place.generation + 1, until)))

    def _versions(self, db: duckdb.DuckDBPyConnection, pictured: Pictured, until: int) -> None:
        """Read every version into the table v: e, u, c0, ..., f(rom), t(o), gone, kept."""
        times, marks = pa.timestamp("us"), pa.string()
        extra = [("f", times), ("t", times), ("gone", marks), ("kept", marks)]
        columns = pa.schema([*pictured.columns, *(pa.field(name, kind) for name, kind in extra)])
        with ScratchFolder() as folder:
            versions = str(Path(folder.name) / "versions.parquet")
            with parquet.ParquetWriter(versions, columns) as writer:
                for arrays in self._scan(pictured):
                    found = {mark: arrays.pop(len(pictured.text)) for mark in self._marks}
                    cells = pictured.arrays(arrays)
                    if len(self._span) == 1:
                        cells.append(pa.nulls(len(cells[0]), times))
                    for mark in (self._deleted, self._current):
                        cells.append(found[mark] if mark else pa.nulls(len(cells[0]), marks))
                    writer.write_table(pa.table(cells, schema=columns))
            # A row without a key does not count.
            db.execute(f"""
                CREATE TABLE v AS
                SELECT * REPLACE (coalesce(epoch_us(f), {_ALWAYS}) AS f, {self._end(until)} AS t,
                                  coalesce(lower(gone) IN ('t', 'true', '1'), false) AS gone)
                FROM read_parquet({literal(versions)}, hive_partitioning = false)
                WHERE e <> '' AND {self._is_version}""")
        if self._current is not None:
            self._end_marked(db)

    def _end_marked(self, db: duckdb.DuckDBPyConnection) -> None:
        """End each version that is not current; an empty mark is that of an ended one."""
        kept = "lower(trim(coalesce(kept, 'false')))"
        db.execute(f"""
            CREATE OR REPLACE TABLE v AS
            SELECT * FROM (
                SELECT * REPLACE (
                    CASE WHEN {kept} IN {TRUE} THEN {_NEVER}
                         ELSE coalesce(lead(f) OVER (PARTITION BY e, u ORDER BY f), f) END AS t)
                FROM v)
            WHERE t > f""")

    def _end(self, until: int) -> str:
        """SQL: when a version ends."""
        if self._every is None:
            return f"coalesce(epoch_us(t) + {DAY if self._inclusive else 0}, {_NEVER})"
        next_one, one_after = (_interval(self._every, times) for times in (1, 2))
        return (
            f"CASE WHEN epoch_us(f + {one_after}) > {until} THEN {_NEVER} ELSE epoch_us(f + {next_one}) END"
        )

    @property
    def _is_version(self) -> str:
        """SQL: whether a row is valid at any time."""
        if self._every is not None:
            return "f IS NOT NULL"
        return f"(t IS NULL OR f IS NULL OR t {'>=' if self._inclusive else '>'} f)"


def _interval(every: Span, times: int) -> str:
    """SQL: a multiple of a duration."""
    return (
        f"to_months({times * every.months})" if every.months else f"to_microseconds({times * every.micros})"
    )


def _rows_at(cells: str, at: int) -> str:
    """SQL: the rows at one moment, each in the version that began last."""
    return f"""
        SELECT e, u{cells} FROM (
            SELECT * FROM v WHERE f <= {at} AND t > {at}
            QUALIFY row_number() OVER (PARTITION BY e ORDER BY f DESC, t DESC, u{cells}) = 1
        ) WHERE NOT gone"""


def _changes(cells: Sequence[str], after: int, until: int) -> str:
    """SQL: for each moment at which a version begins or ends, the row at that moment, or null."""
    listed = "".join(f", v.{cell}" for cell in cells)
    nothing = "".join(f", NULL AS o{number}" for number in range(len(cells)))
    return f"""
        WITH moments AS (
            SELECT e, f AS moment FROM v WHERE f > {after} AND f <= {until}
            UNION SELECT e, t FROM v WHERE t > {after} AND t <= {until}
        ), versions AS (
            SELECT moments.moment, moments.e, v.u, coalesce(NOT v.gone, false) AS is_{listed}
            FROM moments LEFT JOIN v ON v.e = moments.e AND v.f <= moments.moment AND v.t > moments.moment
            QUALIFY row_number() OVER (
                PARTITION BY moments.e, moments.moment ORDER BY v.f DESC, v.t DESC, v.u{listed}) = 1
        )
        SELECT moment, e, CASE WHEN is_ THEN u END, false, is_, false{nothing}
            {"".join(f", {cell}" for cell in cells)}
        FROM versions ORDER BY moment, e"""

"""A table that keeps every version of its rows with the time from and to which it was valid.

Such tables (slowly changing dimensions of type 2, as dbt's snapshots write them) contain their past, so every
change has its own time.  A version that was added to the past after the last read arrives late, as the
difference between the old and the new rows at the time up to which the gauge has read.

A table that was written down whole on several dates is read the same way: a row of a picture is a version
that is valid from the picture's date until the next picture is due.  If the next one is late, the row remains
until the one after it is due.  Both depend on the row and the clock alone, never on other rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet

from tidegauge.model.mutation import Batch
from tidegauge.model.quantity import DAY, Span
from tidegauge.scratch import ScratchFolder
from tidegauge.source.batch.names import literal
from tidegauge.source.batch.rows import schema
from tidegauge.source.batch.spool import Spool
from tidegauge.source.snapshots.images import Pictured, workshop
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

    `valid_to` is null in the current version; a row whose last version has ended is deleted.  `inclusive`:
    the day of `valid_to` is the last on which the version is valid.  `deleted` names a column that marks a
    version as a deletion.  With `every`, `valid_from` is the date of a picture of the whole table, `every` is
    the time from one picture to the next, and there is no `valid_to`.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        key: str | Sequence[str],
        folder: str | Path,
        unit: str | None = None,
        valid_from: str = "dbt_valid_from",
        valid_to: str = "dbt_valid_to",
        deleted: str | None = None,
        inclusive: bool = False,
        every: str | None = None,
    ) -> None:
        super().__init__(reader, key=key, folder=folder, unit=unit)
        self._every = None if every is None else Span.parse(every)
        self._span = (valid_from, valid_to) if every is None else (valid_from,)
        self._inclusive = inclusive
        self._marks = () if deleted is None else (deleted,)

    @property
    def _extra(self) -> tuple[str, ...]:
        return (*self._span, *self._marks)

    def _scan(self, pictured: Pictured) -> Iterator[list[pa.Array]]:
        """Every version: key, unit, the mark of deletion if declared, the columns, from and to."""
        return self._reader.scan(
            [*pictured.text, *self._marks], pictured.kinds | dict.fromkeys(self._span, "TIMESTAMP")
        )

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
        """Read every version into the table v: e, u, c0, ..., f(rom), t(o), gone."""
        extra = [("f", pa.timestamp("us")), ("t", pa.timestamp("us")), ("gone", pa.string())]
        columns = pa.schema([*pictured.columns, *(pa.field(name, kind) for name, kind in extra)])
        with ScratchFolder() as folder:
            versions = str(Path(folder.name) / "versions.parquet")
            with parquet.ParquetWriter(versions, columns) as writer:
                for arrays in self._scan(pictured):
                    marks = (
                        arrays.pop(len(pictured.text))
                        if self._marks
                        else pa.nulls(len(arrays[0]), pa.string())
                    )
                    cells = pictured.arrays(arrays)
                    if self._every is not None:
                        cells.append(pa.nulls(len(cells[0]), pa.timestamp("us")))
                    writer.write_table(pa.table([*cells, marks], schema=columns))
            # A row without a key does not count.
            db.execute(f"""
                CREATE TABLE v AS
                SELECT * REPLACE (coalesce(epoch_us(f), {_ALWAYS}) AS f, {self._end(until)} AS t,
                                  coalesce(lower(gone) IN ('t', 'true', '1'), false) AS gone)
                FROM read_parquet({literal(versions)})
                WHERE e <> '' AND {self._is_version}""")

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

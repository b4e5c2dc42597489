"""A table that keeps every version of its rows with the time from and to which it was valid.

Such tables (slowly changing dimensions of type 2, as dbt's snapshots write them) know their past, so every change has its
own time.  What was written into the past since the last read arrives as late news: as the difference, at the time read up
to, between what was then known and what is known of it now.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.mutation import Batch
from tidegauge.model.source import Check, FollowedSource
from tidegauge.scratch import ScratchFolder
from tidegauge.source.batch.names import literal, quote
from tidegauge.source.batch.rows import schema
from tidegauge.source.batch.spool import Spool
from tidegauge.source.snapshots.images import Images, Pictured, workshop
from tidegauge.source.snapshots.source import Place, used

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import duckdb

    from tidegauge.source.snapshots.readers import Reader

_BEGINNING: Final = -(2**63)
_NEVER: Final = 2**63 - 1


class History(FollowedSource):
    """Follows the versions of a table's rows.

    `valid_to` is null in the version that holds; a row whose last version has ended is deleted.  `deleted` names a column
    that marks a version as a deletion.  `folder` keeps an image, beside the store and as secret.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        entry: str | Sequence[str],
        folder: str | Path,
        unit: str | None = None,
        valid_from: str = "dbt_valid_from",
        valid_to: str = "dbt_valid_to",
        deleted: str | None = None,
    ) -> None:
        self._reader = reader
        self._entry = (entry,) if isinstance(entry, str) else tuple(entry)
        if not self._entry:
            raise SpecError("name the columns of the primary key", key="source.entry")
        self._unit = unit
        self._span = (valid_from, valid_to)
        self._deleted = deleted
        self._images = Images(folder)
        self._selected: frozenset[str] | None = None

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        return self._reader.table

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns of a row, without those that say when it was valid."""
        apart = {*self._span, self._deleted}
        return {name: kind for name, kind in self._reader.columns.items() if name not in apart}

    def select(self, columns: Collection[str]) -> None:
        """Look at these columns only."""
        self._selected = frozenset(columns)

    def doctor(self, position: str | None = None) -> list[Check]:  # noqa: ARG002
        """Whether the table can be read and has its columns."""
        try:
            self._kinds()
        except SourceError as refusal:
            return [Check("table", ok=False, detail=str(refusal))]
        return [Check("table", ok=True, detail=f"{quote(self.table)} can be read")]

    def rehearse(self) -> None:
        """Read every version once."""
        pictured = Pictured(self._kinds(), self._entry, self._unit)
        text = [*pictured.text, *([self._deleted] if self._deleted else [])]
        for _ in self._reader.scan(text, pictured.kinds | dict.fromkeys(self._span, "TIMESTAMP")):
            pass

    def _kinds(self) -> dict[str, str]:
        optional = [name for name in (self._unit, self._deleted) if name]
        found = used(self._reader, self._selected, [*self._entry, *self._span, *optional])
        return {name: kind for name, kind in found.items() if name not in {*self._span, self._deleted}}

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """What the table says of the time up to `until`, and says now of the time before."""
        place = Place(0, _BEGINNING) if position is None else Place.parse(position)
        old = None if position is None else self._images.path(place.generation)
        pictured = Pictured(self._kinds(), self._entry, self._unit, old)
        spool = Spool(schema(pictured.kinds))
        cells = "".join(f", {cell}" for cell in pictured.cells)
        with workshop() as db:
            self._versions(db, pictured)
            db.execute(f"CREATE VIEW new AS {_standing(cells, place.time)}")
            if old is not None:
                pictured.compare(db, old, spool, place.time)
            pictured.collect(db, _turns(pictured.cells, place.time, until), spool)
            with self._images.writing(place.generation + 1, pictured.columns) as writer:
                for batch in db.sql(_standing(cells, until)).to_arrow_reader(50_000):
                    writer.write_table(pa.Table.from_batches([batch]).cast(pictured.columns))
        yield Batch(spool.take(), until, str(Place(place.generation + 1, until)))

    def acknowledge(self, position: str) -> None:
        """Forget the images before this one."""
        self._images.forget(Place.parse(position).generation)

    def _versions(self, db: duckdb.DuckDBPyConnection, pictured: Pictured) -> None:
        """Read every version into the table v: e, u, c0, ..., f(rom), t(o), gone."""
        text = [*pictured.text, *([self._deleted] if self._deleted else [])]
        typed = pictured.kinds | dict.fromkeys(self._span, "TIMESTAMP")
        extra = [("f", pa.timestamp("us")), ("t", pa.timestamp("us")), ("gone", pa.string())]
        columns = pa.schema([*pictured.columns, *(pa.field(name, kind) for name, kind in extra)])
        with ScratchFolder() as folder:
            versions = str(Path(folder.name) / "versions.parquet")
            with parquet.ParquetWriter(versions, columns) as writer:
                for arrays in self._reader.scan(text, typed):
                    marks = (
                        arrays.pop(len(pictured.text))
                        if self._deleted
                        else pa.nulls(len(arrays[0]), pa.string())
                    )
                    writer.write_table(pa.table([*pictured.arrays(arrays), marks], schema=columns))
            db.execute(f"""
                CREATE TABLE v AS
                SELECT * REPLACE (coalesce(epoch_us(f), {_BEGINNING}) AS f, coalesce(epoch_us(t), {_NEVER}) AS t,
                                  coalesce(lower(gone) IN ('t', 'true', '1'), false) AS gone)
                FROM read_parquet({literal(versions)})
                WHERE e <> '' AND (t IS NULL OR f IS NULL OR t > f)""")  # what has no key counts nowhere


def _standing(cells: str, at: int) -> str:
    """The rows as they stood at one moment: of each, the version that began last."""
    return f"""
        SELECT e, u{cells} FROM (
            SELECT * FROM v WHERE f <= {at} AND t > {at}
            QUALIFY row_number() OVER (PARTITION BY e ORDER BY f DESC, t DESC, u{cells}) = 1
        ) WHERE NOT gone"""


def _turns(cells: Sequence[str], after: int, until: int) -> str:
    """At each moment at which a version begins or ends, the row as it stands then; null where it does not."""
    listed = "".join(f", v.{cell}" for cell in cells)
    nothing = "".join(f", NULL AS o{number}" for number in range(len(cells)))
    return f"""
        WITH turns AS (
            SELECT e, f AS moment FROM v WHERE f > {after} AND f <= {until}
            UNION SELECT e, t FROM v WHERE t > {after} AND t <= {until}
        ), stands AS (
            SELECT turns.moment, turns.e, v.u, coalesce(NOT v.gone, false) AS is_{listed}
            FROM turns LEFT JOIN v ON v.e = turns.e AND v.f <= turns.moment AND v.t > turns.moment
            QUALIFY row_number() OVER (PARTITION BY turns.e, turns.moment ORDER BY v.f DESC, v.t DESC, v.u{listed}) = 1
        )
        SELECT moment, e, CASE WHEN is_ THEN u END, false, is_, false{nothing}{"".join(f", {cell}" for cell in cells)}
        FROM stands ORDER BY moment, e"""

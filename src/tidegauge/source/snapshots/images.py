"""Images of a table, kept from one read to the next, and the changes between two of them.

The image of a generation is written before the changes that lead to it are delivered; the position names the
generation.  After a crash, changes that were not committed are computed again from the image before them.
"""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from tidegauge.durable import private_folder, replacing
from tidegauge.errors import SourceError
from tidegauge.scratch import ScratchFolder
from tidegauge.source.batch.names import literal, quote
from tidegauge.source.batch.rows import assemble, image, schema, truncation
from tidegauge.source.batch.rows import key as key_text
from tidegauge.source.batch.spool import Spool
from tidegauge.source.batch.values import arrow_type
from tidegauge.source.snapshots.readers import database

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb

    from tidegauge.source.snapshots.readers import Reader

_CHUNK: Final = 50_000
_NAMES: Final = b"tidegauge.columns"


class Images:
    """A folder of images that only its owner can read."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def path(self, generation: int) -> Path:
        """The path of the image of a generation, which may not exist."""
        return self._folder / f"image-{generation:012}.parquet"

    @contextmanager
    def writing(self, generation: int, columns: pa.Schema) -> Iterator[parquet.ParquetWriter]:
        """Write an image; after a crash the whole image is on disk, or nothing."""
        private_folder(self._folder)
        with (
            replacing(self.path(generation), prefix="writing-") as file,
            parquet.ParquetWriter(file, columns, compression="zstd") as writer,
        ):
            yield writer

    def forget(self, generation: int) -> None:
        """Remove every image before this generation, and files that a crash left half written."""
        for old in self._folder.glob("image-*.parquet"):
            if old < self.path(generation):
                old.unlink()
        for torn in self._folder.glob("writing-*"):
            torn.unlink()


class Pictured:
    """The columns of an image: key, unit and the columns in use, as e, u, c0, c1, ...

    They are those of the image before, if there is one, and must still have the same types.
    """

    def __init__(
        self, kinds: Mapping[str, str], key: Sequence[str], unit: str | None, before: Path | None = None
    ) -> None:
        self.kinds = dict(kinds)
        if before is not None and before.exists():
            known = json.loads(parquet.read_schema(before).metadata[_NAMES])
            self.kinds = {name: kinds.get(name, "") for name in known}
            if changed := [name for name in known if known[name] != self.kinds[name]]:
                raise SourceError(
                    f"{', '.join(map(quote, changed))} is missing, or has another type than at the last "
                    "read. Nothing was delivered. Undo the change, or start a new gauge with the rest of the "
                    "budget."
                )
        self._key = tuple(key)
        self._unit = unit
        self.cells = [f"c{number}" for number in range(len(self.kinds))]
        self.columns = pa.schema(
            [("e", pa.string()), ("u", pa.string())]
            + [(cell, arrow_type(kind)) for cell, kind in zip(self.cells, self.kinds.values(), strict=True)],
            metadata={_NAMES: json.dumps(self.kinds)},
        )

    @property
    def text(self) -> list[str]:
        """The columns that are read as text."""
        return [*self._key, *([self._unit] if self._unit else [])]

    def arrays(self, columns: list[pa.Array]) -> list[pa.Array]:
        """The columns of a reader as columns of an image."""
        count = len(self._key)
        keys = key_text(columns[:count])
        units = columns[count] if self._unit else pa.nulls(len(keys), pa.string())
        return [keys, units, *columns[len(self.text) :]]

    def take(self, reader: Reader, images: Images, generation: int) -> None:
        """Read the table into an image."""
        with images.writing(generation, self.columns) as writer:
            for columns in reader.scan(self.text, self.kinds):
                rows = pa.table(self.arrays(columns), schema=self.columns)
                writer.write_table(
                    rows.filter(pc.not_equal(rows["e"], ""))
                )  # a row without a key does not count

    def changes(self, old: Path | None, new: Path, time: int) -> pa.Table:
        """The changes at one time that turn the old image into the new one."""
        with workshop() as db:
            db.execute(
                f"CREATE VIEW new AS "
                f"SELECT * FROM read_parquet({literal(str(new))}, hive_partitioning = false)"
            )
            require_keys(db, "new", self._key)
            spool = Spool(schema(self.kinds))
            self.compare(db, old, spool, time)
            return spool.take()

    def compare(self, db: duckdb.DuckDBPyConnection, old: Path | None, spool: Spool, time: int) -> None:
        """Add the differences between the old image and the view `new`."""
        if old is not None and old.exists():
            db.execute(
                f"CREATE VIEW old AS "
                f"SELECT * FROM read_parquet({literal(str(old))}, hive_partitioning = false)"
            )
        else:
            db.execute("CREATE VIEW old AS SELECT * FROM new WHERE false")
            if (
                old is not None
            ):  # it was lost; the state knows the old rows, so the net difference is the same
                spool.append(truncation(self.kinds, time))
        self.collect(db, differences(self.cells), spool, time=time)

    def collect(
        self, db: duckdb.DuckDBPyConnection, query: str, spool: Spool, *, time: int | None = None
    ) -> None:
        """Add the rows of a query (t, e, u, was, is, informed, o0, ..., n0, ...) to a batch."""
        for batch in db.sql(query).to_arrow_reader(_CHUNK):
            count = len(self.cells)
            times, entry, unit, was, is_, informed, *cells = batch.columns
            images = [
                image(
                    self._cast(part), self.kinds, pa.array(~there.to_numpy(zero_copy_only=False)), len(entry)
                )
                for part, there in ((cells[:count], was), (cells[count:], is_))
            ]
            spool.append(
                assemble(
                    self.kinds,
                    time=times if time is None else pa.array(np.full(len(entry), time)),
                    entry=entry,
                    unit=unit,
                    before=images[0],
                    after=images[1],
                    informed=informed,
                )
            )

    def _cast(self, cells: Sequence[pa.Array]) -> list[pa.Array]:
        return [cell.cast(arrow_type(kind)) for cell, kind in zip(cells, self.kinds.values(), strict=True)]


@contextmanager
def workshop() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in which images are compared; it uses a private folder for data beyond the memory."""
    with ScratchFolder() as folder, closing(database()) as db:
        db.execute(f"SET temp_directory = {literal(folder.name)}")
        yield db


def require_keys(db: duckdb.DuckDBPyConnection, table: str, key: Sequence[str], by: str = "e") -> None:
    """Raise SourceError if two rows (of one picture, by "e, f") have the same key."""
    bad = db.execute(f"SELECT 1 FROM {table} GROUP BY {by} HAVING count(*) > 1 LIMIT 1").fetchone()
    if bad is not None:
        raise SourceError(
            f"several rows have the same key ({', '.join(map(quote, key))}). Nothing was delivered. Name the "
            "columns that identify a row ([source] key)."
        )


def differences(cells: Sequence[str]) -> str:
    """SQL: the rows that are in one image only, or differ in the other."""
    befores = "".join(f", o.{cell}" for cell in cells)
    afters = "".join(f", n.{cell}" for cell in cells)
    other = " OR ".join(f"o.{cell} IS DISTINCT FROM n.{cell}" for cell in ["e", "u", *cells])
    return f"""
        SELECT 0::BIGINT, coalesce(n.e, o.e), n.u, o.e IS NOT NULL, n.e IS NOT NULL, true{befores}{afters}
        FROM old AS o FULL JOIN new AS n ON o.e = n.e WHERE {other} ORDER BY 2"""

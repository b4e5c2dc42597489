"""The kind `snapshots`: a table that is read whole and compared, or one that keeps its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.source import Asked, Claim, Draft, Location, OpenSource, SourceKind
from tidegauge.source.batch.draft import head
from tidegauge.source.batch.names import secret
from tidegauge.source.postgres.kind import needs_extra
from tidegauge.source.snapshots.spec import SnapshotsSpec

if TYPE_CHECKING:
    from typing import Final

    from tidegauge.source.snapshots.readers import Reader


class SnapshotsKind(SourceKind[SnapshotsSpec]):
    """Reads tables whole: of PostgreSQL, SQLite, DuckDB or Parquet files."""

    spec = SnapshotsSpec

    def open(self, spec: SnapshotsSpec, where: Location) -> OpenSource:
        """Open the source; the table is read when it is asked for."""
        from tidegauge.source.snapshots.history import History  # noqa: PLC0415
        from tidegauge.source.snapshots.source import Snapshots  # noqa: PLC0415

        reader = _reader(spec, where)
        folder = where.store.with_suffix(".images") if spec.images is None else where.base / spec.images
        if spec.valid_from is None or spec.valid_to is None:
            return Snapshots(reader, entry=spec.key, unit=spec.unit, folder=folder, every=spec.every)
        return History(
            reader,
            entry=spec.key,
            unit=spec.unit,
            folder=folder,
            valid_from=spec.valid_from,
            valid_to=spec.valid_to,
            deleted=spec.deleted,
        )

    def claim(self, asked: Asked) -> Claim:
        """A DuckDB file; any other table if named."""
        if asked.what is None:
            return Claim.NONE
        return Claim.OWN if head(asked)[8:12] == b"DUCK" else Claim.IF_NAMED

    def template(self, asked: Asked) -> Draft:
        """A declaration from the table's columns."""
        from tidegauge.source.snapshots.template import template  # noqa: PLC0415

        return template(asked)


def _reader(spec: SnapshotsSpec, where: Location) -> Reader:
    from tidegauge.source.snapshots import readers  # noqa: PLC0415

    if spec.of == "postgres":
        try:
            from tidegauge.source.postgres.reader import PostgresReader  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise needs_extra(error) from None
        assert spec.dsn is not None
        dsn = secret(spec.dsn, key="source.dsn")
        return PostgresReader(dsn, spec.table, schema=spec.db_schema or "public")
    assert spec.path is not None
    path = where.base / spec.path
    if spec.of == "sqlite":
        return readers.SQLiteReader(path, spec.table, spec.types)
    if spec.of == "duckdb":
        return readers.DuckDBReader(path, spec.table)
    return readers.ParquetReader(path, spec.table)


KIND: Final = SnapshotsKind()

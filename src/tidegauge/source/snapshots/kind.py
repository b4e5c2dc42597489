"""The kind `snapshots`: a table that is read whole and compared, or one that contains its past."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SourceError
from tidegauge.model.source import Asked, Claim, Draft, Location, OpenSource, SourceKind
from tidegauge.source.batch.draft import head
from tidegauge.source.batch.names import secret
from tidegauge.source.postgres.kind import needs_extra
from tidegauge.source.snapshots.spec import SnapshotsSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.source.snapshots.readers import Reader


TABLES: Final = re.compile(r"\.(csv|tsv|jsonl|ndjson|parquet)(\.gz)?$", re.IGNORECASE)
"""Names of files that contain a table."""


class SnapshotsKind(SourceKind[SnapshotsSpec]):
    """Reads whole tables: of PostgreSQL, SQLite or DuckDB, or in Parquet, csv or jsonl files."""

    spec = SnapshotsSpec

    def open(self, spec: SnapshotsSpec, where: Location) -> OpenSource:
        """Open the source; the table is read at the first use."""
        from tidegauge.source.snapshots.history import History  # noqa: PLC0415
        from tidegauge.source.snapshots.source import Snapshots  # noqa: PLC0415

        reader = _reader(spec, where)
        folder = where.store.with_suffix(".images") if spec.images is None else where.base / spec.images
        if spec.taken is not None:
            return History(
                reader, key=spec.key, unit=spec.unit, folder=folder, valid_from=spec.taken, every=spec.every
            )
        if spec.valid_from is None:
            return Snapshots(reader, key=spec.key, unit=spec.unit, folder=folder, every=spec.every)
        return History(
            reader,
            key=spec.key,
            unit=spec.unit,
            folder=folder,
            valid_from=spec.valid_from,
            valid_to=spec.valid_to,
            current=spec.current,
            deleted=spec.deleted,
            inclusive=bool(spec.inclusive),
        )

    def operator_counts(self, spec: SnapshotsSpec, where: Location) -> Mapping[str, float]:  # noqa: ARG002
        """Values that did not parse at the last read, and their share."""
        from tidegauge.source.files.unread import operator_counts  # noqa: PLC0415
        from tidegauge.source.snapshots.place import Place  # noqa: PLC0415

        return {} if where.position is None else operator_counts(Place.parse(where.position).counts)

    def claim(self, asked: Asked) -> Claim:
        """A DuckDB file; files that contain a whole table or its versions; any other table if named."""
        if asked.what is None:
            return Claim.NONE
        if head(asked)[8:12] == b"DUCK":
            return Claim.OWN
        if asked.server or not TABLES.search(asked.what):
            return Claim.IF_NAMED
        from tidegauge.source.files.sniff import shape_of  # noqa: PLC0415
        from tidegauge.source.files.suggestion import Shape  # noqa: PLC0415

        try:
            changes = shape_of(asked.what) is Shape.CHANGES
        except SourceError:  # the kind that reads the file raises it again
            changes = True
        return Claim.IF_NAMED if changes else Claim.LIKELY

    def template(self, asked: Asked) -> Draft:
        """Begin a declaration from the table's columns and first rows."""
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
    if spec.of != "parquet" or spec.types or spec.written:
        from tidegauge.source.snapshots.text import TextReader  # noqa: PLC0415

        return TextReader(spec.path, spec.table, types=spec.types, notation=spec.notation, base=where.base)
    return readers.ParquetReader(path, spec.table)


KIND: Final = SnapshotsKind()

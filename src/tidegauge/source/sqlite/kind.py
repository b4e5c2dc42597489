"""The kind `sqlite`: a table of a live SQLite file, followed by triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.source import Asked, Claim, Draft, Location, OpenSource, SourceKind
from tidegauge.source.batch.draft import head
from tidegauge.source.sqlite.spec import SqliteSpec

if TYPE_CHECKING:
    from typing import Final

MAGIC: Final = b"SQLite format 3\0"
"""How the content of every SQLite file begins."""


class SqliteKind(SourceKind[SqliteSpec]):
    """Follows a table through triggers that record its changes."""

    spec = SqliteSpec

    def open(self, spec: SqliteSpec, where: Location) -> OpenSource:
        """Open the source; the file is opened when it is first needed."""
        from tidegauge.source.sqlite.source import SQLite  # noqa: PLC0415

        return SQLite(where.base / spec.path, spec.table, key=spec.key, unit=spec.unit, types=spec.types)

    def claim(self, asked: Asked) -> Claim:
        """An SQLite file."""
        return Claim.OWN if head(asked).startswith(MAGIC) else Claim.NONE

    def template(self, asked: Asked) -> Draft:
        """A declaration from the file's schema."""
        from tidegauge.source.sqlite.template import template  # noqa: PLC0415

        return template(asked)


KIND: Final = SqliteKind()

"""The kind `postgres`: a table of a PostgreSQL server, followed by logical replication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.errors import SpecError
from tidegauge.model.source import Asked, Claim, Draft, Location, OpenSource, SourceKind
from tidegauge.source.batch.names import secret
from tidegauge.source.postgres.spec import PostgresSpec

if TYPE_CHECKING:
    from typing import Final


def needs_extra(error: ModuleNotFoundError) -> SpecError:
    """The refusal where psycopg is not installed; another missing module is a bug, and raised again."""
    if error.name is None or error.name.partition(".")[0] != "psycopg":
        raise error
    return SpecError(
        "PostgreSQL needs an extra: pip install '.[postgres]' in a clone of Tidegauge", key="source"
    )


class PostgresKind(SourceKind[PostgresSpec]):
    """Follows a table through the server's log."""

    spec = PostgresSpec

    def open(self, spec: PostgresSpec, where: Location) -> OpenSource:  # noqa: ARG002
        """Open the source; the server is connected to when it is first needed."""
        try:
            from tidegauge.source.postgres.source import Postgres  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise needs_extra(error) from None
        return Postgres(
            secret(spec.dsn, key="source.dsn"),
            spec.table,
            key=spec.key,
            unit=spec.unit,
            schema=spec.db_schema,
            slot=spec.slot,
            publication=spec.publication,
            on_lost=spec.on_lost,
        )

    def claim(self, asked: Asked) -> Claim:
        """A server."""
        return Claim.OWN if asked.server else Claim.NONE

    def template(self, asked: Asked) -> Draft:
        """A declaration from the server's catalog."""
        try:
            from tidegauge.source.postgres.template import template  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise needs_extra(error) from None
        return template(asked)


KIND: Final = PostgresKind()

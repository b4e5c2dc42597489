"""What a [source] of kind postgres says."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tidegauge.model.declared import Name, Secret, SourceSpec


class PostgresSpec(SourceSpec):
    """A table of a PostgreSQL server, followed by logical replication."""

    REACH = frozenset({"dsn", "slot", "publication", "on_lost"})
    NATIVE = "postgres"

    kind: Literal["postgres"]
    dsn: Secret
    db_schema: Annotated[Name, Field(alias="schema")] = "public"
    slot: Name | None = None
    publication: Name | None = None
    on_lost: Literal["stop", "reload"] = "stop"

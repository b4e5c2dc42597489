"""What a [source] may say, for each kind of source."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def _from_environment(value: str) -> str:
    if not re.fullmatch(r"env:[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError(
            "secrets come from the environment, never from the file: write env:NAME_OF_THE_VARIABLE"
        )
    return value


Name = Annotated[str, Field(min_length=1)]
Names = Name | list[Name]
Secret = Annotated[str, AfterValidator(_from_environment)]


class Table(BaseModel):
    """A table of the file: frozen, and with no other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class _Source(Table):
    """What every kind has."""

    table: Name
    entry: Names
    unit: Name | None = None
    max_rows: Annotated[int, Field(ge=1, strict=True)] | None = None


class FilesSpec(_Source):
    """A changelog in files."""

    kind: Literal["files"]
    path: Name
    table: Name | None = None  # type: ignore[assignment]
    time: Name
    entry: Name
    before: str | None = None
    after: str | None = None
    op: Name | None = None
    types: dict[str, str] = {}
    time_unit: Name | None = None


class PostgresSpec(_Source):
    """A table of a PostgreSQL server, followed by logical replication."""

    kind: Literal["postgres"]
    dsn: Secret
    db_schema: Annotated[Name, Field(alias="schema")] = "public"
    slot: Name | None = None
    publication: Name | None = None
    on_lost: Literal["stop", "reload"] = "stop"


class SqliteSpec(_Source):
    """A table of a live SQLite file, followed by triggers."""

    kind: Literal["sqlite"]
    path: Name
    entry: Names = []
    types: dict[str, str] = {}


class DebeziumSpec(_Source):
    """A table's events as Debezium writes them, in files of JSON lines."""

    kind: Literal["debezium"]
    path: Name
    db_schema: Annotated[Name | None, Field(alias="schema")] = None
    columns: dict[str, str] | None = None
    timestamps: Literal["ms", "us", "ns"] = "us"
    consume: bool = False


class SnapshotsSpec(_Source):
    """A table that is read whole every so often, or one that keeps every version of its rows (valid_from)."""

    kind: Literal["snapshots"]
    of: Literal["postgres", "sqlite", "duckdb", "parquet"]
    dsn: Secret | None = None
    path: Name | None = None
    db_schema: Annotated[Name, Field(alias="schema")] = "public"
    every: Name | None = None
    valid_from: Name | None = None
    valid_to: Name | None = None
    deleted: Name | None = None
    images: Name = "tidegauge-images"

    @model_validator(mode="after")
    def _whole(self) -> SnapshotsSpec:
        if (self.of == "postgres") != (self.dsn is not None) or (self.of == "postgres") == (
            self.path is not None
        ):
            raise ValueError("give dsn where it is of postgres, and path where it is of a file")
        if (self.valid_from is None) != (self.valid_to is None) or (self.deleted and not self.valid_from):
            raise ValueError(
                "a table that keeps its history has valid_from and valid_to (and perhaps deleted)"
            )
        if self.every is not None and self.valid_from is not None:
            raise ValueError("every: a table that keeps its history is read whenever it is due")
        return self


class ObjectSpec(_Source):
    """A source that was given as an object."""

    kind: Literal["object"]
    entry: Name = "entry"


SourceSpec = Annotated[
    FilesSpec | PostgresSpec | SqliteSpec | DebeziumSpec | SnapshotsSpec | ObjectSpec,
    Field(discriminator="kind"),
]

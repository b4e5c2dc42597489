"""What a [source] may say, for each kind of source."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from tidegauge.errors import TidegaugeError
from tidegauge.model.quantity import Span


def _from_environment(value: str) -> str:
    if not re.fullmatch(r"env:[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError(
            "secrets come from the environment, never from the file: write env:NAME_OF_THE_VARIABLE"
        )
    return value


def _filled(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty; fill it in")
    return value


def _some(value: str | list[str]) -> str | list[str]:
    if not value:
        raise ValueError("is empty; fill it in")
    return [_filled(name) for name in value] if isinstance(value, list) else _filled(value)


def _duration(value: str) -> str:
    try:
        Span.parse(value)
    except TidegaugeError as error:
        raise ValueError(str(error)) from None
    return value


Name = Annotated[str, AfterValidator(_filled)]
Dialect = Literal["duckdb", "postgres", "sqlite"]
Names = Annotated[str | list[str], AfterValidator(_some)]
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
    dialect: Dialect | None = None

    @property
    def speaks(self) -> Dialect:
        """The dialect in which the releases' SELECTs are written: the declared one, or that of the kind."""
        return self.dialect or self._native

    @property
    def _native(self) -> Dialect:
        return "duckdb"

    @property
    def keeps(self) -> str | None:
        """What following it leaves on the disk, in the clear; None for nothing."""
        return None


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

    @property
    def _native(self) -> Dialect:
        return "postgres"


class SqliteSpec(_Source):
    """A table of a live SQLite file, followed by triggers."""

    kind: Literal["sqlite"]
    path: Name
    entry: Names = []
    types: dict[str, str] = {}

    @property
    def _native(self) -> Dialect:
        return "sqlite"


class DebeziumSpec(_Source):
    """A table's events as Debezium writes them: in files of JSON lines, posted to an inbox, or in a topic of Kafka."""

    kind: Literal["debezium"]
    path: Name | None = None
    inbox: Name | None = None
    topic: Name | None = None
    token: Secret | None = None
    signing_secret: Secret | None = None
    kafka: dict[str, str] | None = None
    db_schema: Annotated[Name | None, Field(alias="schema")] = None
    columns: dict[str, str] | None = None
    timestamps: Literal["ms", "us", "ns"] = "us"
    consume: bool = False

    @model_validator(mode="after")
    def _whole(self) -> DebeziumSpec:
        ways = [name for name in ("path", "inbox", "topic") if getattr(self, name) is not None]
        if len(ways) != 1:
            raise ValueError(
                "say where the events are, in one of: path (files of JSON lines), inbox (a folder that tidegauge serve "
                "receives into), topic (of Kafka)"
            )
        (way,) = ways
        if (way == "inbox") != (self.token is not None or self.signing_secret is not None):
            raise ValueError(
                "an inbox, and nothing else, needs token or signing_secret (or both): how a sender proves who it is"
            )
        if (way == "topic") != (self.kafka is not None):
            raise ValueError(
                'topic and kafka go together: kafka = { "bootstrap.servers" = "HOST:PORT" } and other settings of '
                "confluent-kafka"
            )
        if self.consume and way != "path":
            raise ValueError("consume: is for files in path; an inbox is always emptied, a topic never")
        if (way != "path" or self.consume) and not self.columns:
            raise ValueError(
                "columns: is missing; events that are gone cannot tell them: "
                'columns = { id = "BIGINT", status = "VARCHAR" }'
            )
        for name, value in (self.kafka or {}).items():
            if re.search(r"password|secret|key\.pem|jaas", name) and not value.startswith("env:"):
                raise ValueError(
                    f"kafka.{name}: secrets come from the environment, never from the file: write env:NAME_OF_THE_VARIABLE"
                )
        if self.kafka is not None and not self.kafka.get("bootstrap.servers"):
            raise ValueError("kafka: bootstrap.servers is missing")
        return self

    @property
    def keeps(self) -> str | None:
        """Events that were received and not yet read."""
        return None if self.inbox is None else "an inbox keeps the events it received"


class SnapshotsSpec(_Source):
    """A table that is read whole every so often, or one that keeps every version of its rows (valid_from)."""

    kind: Literal["snapshots"]
    of: Literal["postgres", "sqlite", "duckdb", "parquet"]
    dsn: Secret | None = None
    path: Name | None = None
    db_schema: Annotated[Name | None, Field(alias="schema")] = None
    types: dict[str, str] = {}
    every: Annotated[str, AfterValidator(_duration)] | None = None
    valid_from: Name | None = None
    valid_to: Name | None = None
    deleted: Name | None = None
    images: Name | None = None

    @model_validator(mode="after")
    def _whole(self) -> SnapshotsSpec:
        server = self.of == "postgres"
        if server != (self.dsn is not None) or server == (self.path is not None):
            raise ValueError("give dsn where it is of postgres, and path where it is of a file")
        if self.db_schema is not None and not server:
            raise ValueError("schema: is for tables of postgres")
        if self.types and self.of != "sqlite":
            raise ValueError(f"types: is for tables of sqlite; one of {self.of} has types of its own")
        if (self.valid_from is None) != (self.valid_to is None) or (self.deleted and not self.valid_from):
            raise ValueError(
                "a table that keeps its history has valid_from and valid_to (and perhaps deleted)"
            )
        if self.every is not None and self.valid_from is not None:
            raise ValueError("every: a table that keeps its history is read whenever it is due")
        return self

    @property
    def _native(self) -> Dialect:
        return "duckdb" if self.of == "parquet" else self.of

    @property
    def keeps(self) -> str | None:
        """Its last image."""
        return "a source of kind snapshots keeps images of the table"


KINDS = ("files", "postgres", "sqlite", "debezium", "snapshots")
"""What a file may declare."""


REACH = {"dsn", "slot", "publication", "on_lost", "token", "signing_secret", "kafka", "consume", "images"}
"""Keys that say how a source is reached or kept, and nothing about what it tells."""


class ObjectSpec(_Source):
    """A source that was given as an object."""

    kind: Literal["object"]
    entry: Name = "entry"


SourceSpec = Annotated[
    FilesSpec | PostgresSpec | SqliteSpec | DebeziumSpec | SnapshotsSpec | ObjectSpec,
    Field(discriminator="kind"),
]

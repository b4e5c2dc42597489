"""What a [source] of kind snapshots says."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from tidegauge.errors import TidegaugeError
from tidegauge.model.declared import Dialect, Name, Secret, SourceSpec
from tidegauge.model.quantity import Span


def _duration(value: str) -> str:
    try:
        Span.parse(value)
    except TidegaugeError as error:
        raise ValueError(str(error)) from None
    return value


class SnapshotsSpec(SourceSpec):
    """A table that is read whole every so often, or one that keeps every version of its rows (valid_from)."""

    REACH = frozenset({"dsn", "images"})

    kind: Literal["snapshots"]
    of: Literal["postgres", "sqlite", "duckdb", "parquet"]
    dsn: Secret | None = None
    path: Name | None = None
    db_schema: Annotated[Name | None, Field(alias="schema")] = None
    types: dict[str, str] = Field(default_factory=dict)
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
    def native(self) -> Dialect:
        """The dialect of what the table is in."""
        return "duckdb" if self.of == "parquet" else self.of

    @property
    def keeps(self) -> str | None:
        """The table's last image."""
        return "a source of kind snapshots keeps images of the table"

"""The [source] table of kind snapshots."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from tidegauge.errors import TidegaugeError
from tidegauge.model.declared import Dialect, Name, Secret
from tidegauge.model.quantity import Span
from tidegauge.source.files.spec import WRITTEN, WrittenSpec

_TEXT: Final = ("csv", "jsonl", "parquet")


def _duration(value: str) -> str:
    try:
        Span.parse(value)
    except TidegaugeError as error:
        raise ValueError(str(error)) from None
    return value


class SnapshotsSpec(WrittenSpec):
    """A table that is read whole at intervals, or one that contains its past (valid_from, taken)."""

    REACH = frozenset({"dsn", "images"})

    kind: Literal["snapshots"]
    of: Literal["postgres", "sqlite", "duckdb", "parquet", "csv", "jsonl"]
    dsn: Secret | None = None
    path: Name | None = None
    db_schema: Annotated[Name | None, Field(alias="schema")] = None
    every: Annotated[str, AfterValidator(_duration)] | None = None
    valid_from: Name | None = None
    valid_to: Name | None = None
    inclusive: bool | None = None
    current: Name | None = None
    deleted: Name | None = None
    taken: Name | None = None
    images: Name | None = None

    @model_validator(mode="after")
    def _whole(self) -> SnapshotsSpec:
        server = self.of == "postgres"
        if server != (self.dsn is not None) or server == (self.path is not None):
            raise ValueError("give dsn if the table is of postgres, and path if it is in a file")
        if self.db_schema is not None and not server:
            raise ValueError("schema: is for tables of postgres")
        if self.types and self.of not in ("sqlite", *_TEXT):
            raise ValueError(f"types: is for sqlite and files; {self.of} has types of its own")
        if self.written and self.of not in _TEXT:
            raise ValueError(f"{self.written[0]}: is for csv, jsonl and parquet")
        ends = self.valid_to is not None or self.current is not None
        if (self.valid_from is not None) != ends or (self.deleted and not self.valid_from):
            raise ValueError(
                "a history table has valid_from and valid_to, or valid_from and current (and perhaps "
                "deleted); add the missing key"
            )
        if self.valid_to is not None and self.current is not None:
            raise ValueError("current: is not needed, valid_to says which version is current; remove it")
        named = [name for name in (self.valid_from, self.valid_to, self.current, self.deleted) if name]
        if len(set(named)) < len(named):
            raise ValueError("valid_from, valid_to, current and deleted must name different columns")
        if self.inclusive is not None and self.valid_to is None:
            raise ValueError("inclusive: is for history tables, which have valid_to")
        if self.every is not None and self.valid_from is not None:
            raise ValueError("every: a history table is read at every reading; leave it out")
        if self.taken is not None and (self.every is None or self.valid_from is not None):
            raise ValueError("taken: needs every, the time from one snapshot of the table to the next")
        return self

    @property
    def written(self) -> list[str]:
        """The declared keys that say how text is written."""
        return [key for key in WRITTEN if key in self.model_fields_set]

    @property
    def native(self) -> Dialect:
        """The dialect of the database that contains the table; that of DuckDB for files."""
        return self.of if self.of in ("postgres", "sqlite") else "duckdb"

    @property
    def keeps(self) -> str | None:
        """The table's last image."""
        return "a source of kind snapshots keeps images of the table"

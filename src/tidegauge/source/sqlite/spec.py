"""What a [source] of kind sqlite says."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tidegauge.model.declared import PRIMARY_KEY, Name, Names, SourceSpec


class SqliteSpec(SourceSpec):
    """A table of a live SQLite file, followed by triggers."""

    NATIVE = "sqlite"

    kind: Literal["sqlite"]
    path: Name
    key: Annotated[Names, PRIMARY_KEY] = Field(default_factory=list)
    types: dict[str, str] = Field(default_factory=dict)

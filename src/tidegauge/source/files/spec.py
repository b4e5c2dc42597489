"""What a [source] of kind files says."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tidegauge.model.declared import PRIMARY_KEY, Name, SourceSpec


class FilesSpec(SourceSpec):
    """A changelog in files."""

    kind: Literal["files"]
    path: Name
    table: Name | None = None  # type: ignore[assignment]
    time: Name
    key: Annotated[Name, PRIMARY_KEY]
    before: str | None = None
    after: str | None = None
    op: Name | None = None
    types: dict[str, str] = Field(default_factory=dict)
    time_unit: Name | None = None

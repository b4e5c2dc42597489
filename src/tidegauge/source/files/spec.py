"""The [source] table of kind files, and the keys of all tables in text files."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from tidegauge.errors import SpecError
from tidegauge.model.declared import PRIMARY_KEY, Name, SourceSpec
from tidegauge.source.files.notation import Notation

WRITTEN: Final = ("delimiter", "decimal", "thousands", "date_format", "time_zone", "nulls")
"""The keys that say how text is written."""


class WrittenSpec(SourceSpec):
    """The keys of a table in text files: how fields, numbers and times are written."""

    types: dict[str, str] = Field(default_factory=dict)
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    date_format: str | list[str] | None = None
    time_zone: Name | None = None
    nulls: list[str] | None = None

    @property
    def notation(self) -> Notation:
        """How the text is written.  Raises SpecError if a key is wrong."""
        formats = self.date_format or []
        return Notation(
            delimiter=self.delimiter,
            decimal=self.decimal or ".",
            thousands=self.thousands,
            date_format=(formats,) if isinstance(formats, str) else tuple(formats),
            time_zone=self.time_zone,
            nulls=tuple(self.nulls or ()),
        )

    @model_validator(mode="after")
    def _readable(self) -> WrittenSpec:
        try:
            _ = self.notation
        except SpecError as error:
            raise ValueError(str(error)) from None
        return self


class FilesSpec(WrittenSpec):
    """A changelog in files."""

    PAST = True

    kind: Literal["files"]
    path: Name
    table: Name | None = None  # type: ignore[assignment]
    time: Name
    key: Annotated[Name, PRIMARY_KEY]
    before: str | None = None
    after: str | None = None
    op: Name | None = None
    time_unit: Name | None = None

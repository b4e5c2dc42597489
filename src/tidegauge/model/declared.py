"""The keys that every [source] table of a declaration can have, and the types of their values."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, model_validator


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


Name = Annotated[str, AfterValidator(_filled)]
Dialect = Literal["duckdb", "postgres", "sqlite"]
Names = Annotated[str | list[str], AfterValidator(_some)]
Secret = Annotated[str, AfterValidator(_from_environment)]

PRIMARY_KEY = Field(validation_alias=AliasChoices("key", "entry"), serialization_alias="entry")
"""How the field `key` is written.  Committed declarations have its older name, `entry`, and are compared by
that name."""


class Table(BaseModel):
    """A table of the declaration: frozen, with no other keys than its fields."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, validate_by_name=False
    )


class SourceSpec(Table):
    """The keys that every kind of source has.  Each kind adds its own keys and its value of `kind`."""

    REACH: ClassVar[frozenset[str]] = frozenset()
    """Fields that say how the source is reached or what it keeps.  They may change after the commitment."""
    PAST: ClassVar[bool] = False
    """Whether the source contains its whole past, so that a first run can publish it and the past can be
    read again."""
    NATIVE: ClassVar[Dialect] = "duckdb"
    """The SQL dialect of the kind; `native` is that of a source."""

    kind: str
    table: Name
    key: Annotated[Names, PRIMARY_KEY]
    unit: Name | None = None
    max_rows: Annotated[int, Field(ge=1, strict=True)] | None = None
    dialect: Dialect | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_name_for_the_key(cls, data: object) -> object:
        if isinstance(data, dict) and "key" in data and "entry" in data:
            raise ValueError("key: 'entry' is its older name; give one of them")
        return data

    @property
    def native(self) -> Dialect:
        """The SQL dialect of the source itself."""
        return self.NATIVE

    @property
    def speaks(self) -> Dialect:
        """The dialect in which the releases' SELECTs are written: the declared one, or that of the source."""
        return self.dialect or self.native

    @property
    def keeps(self) -> str | None:
        """What the source leaves on the disk unencrypted, as the start of a sentence; None: nothing."""
        return None


class PublisherSpec(Table):
    """The keys that every kind of publisher has.  Each kind adds its own, and its value of `kind`."""

    kind: str

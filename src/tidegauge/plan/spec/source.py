"""A declared source: a [source] table of any registered kind, or a source that was given as an object."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, TypeAdapter

from tidegauge.model.declared import PRIMARY_KEY, Name, SourceSpec
from tidegauge.model.kinds import SOURCES

if TYPE_CHECKING:
    from pydantic import BaseModel


class ObjectSpec(SourceSpec):
    """A source that was given as an object."""

    kind: Literal["object"]
    key: Annotated[Name, PRIMARY_KEY] = "entry"


def spec_of(kind: str) -> type[BaseModel] | None:
    """The class of a kind's [source] table; None where there is no such kind."""
    found = SOURCES.find(kind)
    return None if found is None else found.spec


def _checked(data: Any) -> SourceSpec:
    """The [source] table as its kind declares it; only where there is no such kind are all of them loaded."""
    named = SOURCES.find(str(data.get("kind"))) if isinstance(data, Mapping) else None
    kinds = SOURCES if named is None else (named,)
    return _of_any_kind(tuple(kind.spec for kind in kinds)).validate_python(data)


@lru_cache(maxsize=16)
def _of_any_kind(specs: tuple[type[SourceSpec], ...]) -> TypeAdapter[SourceSpec]:
    union: Any = reduce(or_, specs, ObjectSpec)
    return TypeAdapter(Annotated[union, Field(discriminator="kind")])


DeclaredSource = Annotated[SerializeAsAny[SourceSpec], BeforeValidator(_checked)]
"""A [source] table; validated as the kind that it names."""

"""A declared publisher: a [publish.NAME] table of any registered kind."""

from __future__ import annotations

from functools import lru_cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny, TypeAdapter

from tidegauge.model import kinds
from tidegauge.model.declared import PublisherSpec

if TYPE_CHECKING:
    from pydantic import BaseModel


def publisher_spec(kind: str) -> type[BaseModel] | None:
    """The class of a kind's [publish.NAME] table; None where there is no such kind."""
    found: type[BaseModel] | None = kinds.publisher(kind).spec if kind in kinds.PUBLISHERS.names() else None
    return found


def _checked(data: Any) -> PublisherSpec:
    """The table as its kind declares it."""
    known = tuple(kinds.publisher(name).spec for name in kinds.PUBLISHERS.names())
    return _of_any_kind(known).validate_python(data)


@lru_cache(maxsize=4)
def _of_any_kind(specs: tuple[type[PublisherSpec], ...]) -> TypeAdapter[PublisherSpec]:
    union: Any = reduce(or_, specs)
    return TypeAdapter(Annotated[union, Field(discriminator="kind")])


DeclaredPublisher = Annotated[SerializeAsAny[PublisherSpec], BeforeValidator(_checked)]
"""A [publish.NAME] table; validated as the kind that it names."""

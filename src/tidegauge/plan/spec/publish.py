"""A declared publisher: a [publish.NAME] table of any registered kind."""

from __future__ import annotations

from functools import lru_cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny, TypeAdapter

from tidegauge.model.declared import PublisherSpec
from tidegauge.model.kinds import PUBLISHERS

if TYPE_CHECKING:
    from pydantic import BaseModel


def publisher_spec(kind: str) -> type[BaseModel] | None:
    """The class of a kind's [publish.NAME] table; None where there is no such kind."""
    found = PUBLISHERS.find(kind)
    return None if found is None else found.spec


def _checked(data: Any) -> PublisherSpec:
    """The table as its kind declares it."""
    return _of_any_kind(tuple(kind.spec for kind in PUBLISHERS)).validate_python(data)


@lru_cache(maxsize=4)
def _of_any_kind(specs: tuple[type[PublisherSpec], ...]) -> TypeAdapter[PublisherSpec]:
    union: Any = reduce(or_, specs)
    return TypeAdapter(Annotated[union, Field(discriminator="kind")])


DeclaredPublisher = Annotated[SerializeAsAny[PublisherSpec], BeforeValidator(_checked)]
"""A [publish.NAME] table; validated as the kind that it names."""

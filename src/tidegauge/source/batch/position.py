"""Positions: the point up to which a source was read, as JSON that the store keeps."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, ClassVar

from tidegauge.errors import SourceError
from tidegauge.model.json import as_object, parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from tidegauge.model.json import JsonObject


@contextmanager
def position_of(source: str) -> Iterator[None]:
    """Raise SourceError for any error inside: the stored position is not one of this source."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise SourceError(
            f"the stored position is not one of {source}.\nNothing was published or spent."
        ) from None


class Position(ABC):
    """A dataclass that is stored as the JSON object of its fields."""

    SOURCE: ClassVar[str]
    """The kind of source, for the message that refuses another position."""

    @classmethod
    def parse(cls, position: str) -> Self:
        """Read a stored position.  Raises SourceError if it belongs to another source."""
        with position_of(cls.SOURCE):
            return cls.from_stored(as_object(parse_json(position)))

    @classmethod
    @abstractmethod
    def from_stored(cls, stored: JsonObject) -> Self:
        """The position with these fields.  Raises any error if a field is wrong."""

    def __str__(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))  # type: ignore[call-overload]

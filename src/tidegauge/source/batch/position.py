"""Positions: the point up to which a source was read, as JSON that the store keeps."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self


@contextmanager
def position_of(source: str) -> Iterator[None]:
    """Raise SourceError for any error inside: the stored position is not one of this source."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise SourceError(
            f"the stored position is not one of {source}.\nNothing was published or spent."
        ) from None


class Position:
    """A dataclass that is stored as the JSON object of its fields."""

    SOURCE: ClassVar[str]
    """The kind of source, for the message that refuses another position."""

    @classmethod
    def parse(cls, position: str) -> Self:
        """Read a stored position.  Raises SourceError if it belongs to another source."""
        with position_of(cls.SOURCE):
            return cls.from_stored(json.loads(position))

    @classmethod
    def from_stored(cls, stored: dict[str, Any]) -> Self:
        """The position with these fields.  Raises any error if a field is wrong."""
        return cls(**stored)

    def __str__(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))  # type: ignore[call-overload]

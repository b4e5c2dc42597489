"""Names of files and folders as Spark takes them: no URIs, and what is read may be a pattern."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_PATTERN: Final = re.compile(r"([{}\[\]*?\\])")


def written(place: Path) -> str:
    """The name of a local file or folder, for all that does not take a pattern."""
    return f"file://{place}"


def read(place: Path) -> str:
    """The name of a local file or folder, for reading."""
    return literally(written(place))


def literally(name: str) -> str:
    """The pattern that fits this name alone."""
    return _PATTERN.sub(r"\\\1", name)

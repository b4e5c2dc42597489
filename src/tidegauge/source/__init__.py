"""Rows change -> mutations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.model.mutation import Source


def open_source(declared: dict[str, Any], base: Path) -> Source:
    """The source that a [source] table declares; each kind is imported only where it is used."""
    options = dict(declared)
    match options.pop("kind"):
        case "files":
            from tidegauge.source.files import Files  # noqa: PLC0415

            return Files(**options, base=base)
        case kind:
            raise AssertionError(kind)


__all__ = ["open_source"]

"""Kinds of source and of publisher by name: a name in tidegauge.toml -> the module that holds the kind.

A kind is loaded when it is first used.  This module imports nothing at run time, so that importing the package stays fast.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from tidegauge.model.publisher import PublisherKind
    from tidegauge.model.source import SourceKind


class Kinds:
    """Kinds of one sort of plug-in."""

    def __init__(self) -> None:
        self._kinds: dict[str, Any] = {}

    def register(self, name: str, kind: Any) -> None:
        """Make a kind known by its name.

        `kind`: the kind itself, or the module in which it is the value KIND.
        """
        self._kinds[name] = kind

    def forget(self, name: str) -> None:
        """Undo `register`."""
        del self._kinds[name]

    def names(self) -> tuple[str, ...]:
        """The registered names, in order of registration."""
        return tuple(self._kinds)

    def find(self, name: str) -> Any:
        """The kind of this name.  Raises KeyError where none is registered."""
        kind = self._kinds[name]
        if isinstance(kind, str):
            from importlib import import_module  # noqa: PLC0415  (see above)

            kind = self._kinds[name] = import_module(kind).KIND
        return kind


_SOURCES: Final = Kinds()
PUBLISHERS: Final = Kinds()
"""The kinds of publisher; publish/kinds.py registers them."""


def register(name: str, kind: str | SourceKind[Any]) -> None:
    """Make a kind of source known by its name."""
    _SOURCES.register(name, kind)


def forget(name: str) -> None:
    """Undo `register`."""
    _SOURCES.forget(name)


def names() -> tuple[str, ...]:
    """The names of the kinds of source, in order of registration."""
    return _SOURCES.names()


def find(name: str) -> SourceKind[Any]:
    """The kind of source of this name.  Raises KeyError where none is registered."""
    found: SourceKind[Any] = _SOURCES.find(name)
    return found


def publisher(name: str) -> PublisherKind[Any, Any]:
    """The kind of publisher of this name.  Raises KeyError where none is registered."""
    found: PublisherKind[Any, Any] = PUBLISHERS.find(name)
    return found

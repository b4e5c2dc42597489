"""The kinds of source by name: a name in tidegauge.toml -> the module that holds the kind.

A kind is loaded when it is first used.  This module imports nothing at run time, so that importing the
package stays fast.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from tidegauge.model.source import SourceKind

_KINDS: Final[dict[str, str | SourceKind[Any]]] = {}


def register(name: str, kind: str | SourceKind[Any]) -> None:
    """Make a kind of source known by its name.

    `kind`: the kind itself, or the module in which it is the value KIND.
    """
    _KINDS[name] = kind


def forget(name: str) -> None:
    """Undo `register`."""
    del _KINDS[name]


def names() -> tuple[str, ...]:
    """The registered names, in order of registration."""
    return tuple(_KINDS)


def find(name: str) -> SourceKind[Any]:
    """The kind of this name.  Raises KeyError where none is registered."""
    kind = _KINDS[name]
    if isinstance(kind, str):
        from importlib import import_module  # noqa: PLC0415  (see above)

        found: SourceKind[Any] = import_module(kind).KIND
        kind = _KINDS[name] = found
    return kind

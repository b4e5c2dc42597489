"""Kinds of source and of publisher, by their names in tidegauge.toml.

A kind is loaded when it is first used.  This module imports nothing large, so that importing the package
stays fast.
"""

from __future__ import annotations

from tidegauge.model.registry import Registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from tidegauge.model.publisher import PublisherKind
    from tidegauge.model.source import SourceKind

SOURCES: Final[Registry[SourceKind[Any]]] = Registry("a kind of source")
"""The kinds of source; source/registry.py registers them."""
PUBLISHERS: Final[Registry[PublisherKind[Any, Any]]] = Registry("a kind of publisher")
"""The kinds of publisher; publish/kinds.py registers them."""

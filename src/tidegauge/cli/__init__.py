"""The verbs, named after what they do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tidegauge.cli.ending import ENDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.cli.verbs import app


def main() -> None:
    """Run a verb in a process of its own: signals are answered before anything large is imported."""
    with ENDING.watching(service=_endless(sys.argv[1:])):
        from tidegauge.cli.verbs import main as carry_out  # noqa: PLC0415  (takes seconds; see above)

        carry_out()


def _endless(words: Sequence[str]) -> bool:
    """Whether these words ask for a service; known before they are parsed, so that the exit code never depends on the moment."""
    return words[:1] == ["serve"] or (
        words[:1] == ["run"] and not any(word.startswith(("--once", "--until", "--help")) for word in words)
    )


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'tidegauge.cli' has no attribute '{name}'")
    from tidegauge.cli.verbs import app  # noqa: PLC0415

    return app


__all__ = ["app", "main"]

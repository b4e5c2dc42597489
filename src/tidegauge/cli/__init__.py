"""The verbs, named after what they do.

Nothing is imported here before `main` can answer an interrupt: until then Python prints a traceback.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tidegauge.cli.verbs import app


def main() -> None:
    """Run a verb in a process of its own: signals are answered before anything large is imported."""
    try:
        from tidegauge.cli.ending import ENDING  # noqa: PLC0415

        with ENDING.watching(service=_endless(sys.argv[1:])):
            from tidegauge.cli.verbs import main as carry_out  # noqa: PLC0415

            carry_out()
    except KeyboardInterrupt:  # it came before there was a handler
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)


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

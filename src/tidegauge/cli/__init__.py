"""The command line.

Nothing is imported here before `main` handles interrupts: during an import they would print a traceback.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tidegauge.cli.verbs import app


def main() -> None:
    """Run a verb as the process's main program; signals are handled before large libraries are imported."""
    try:
        from tidegauge.cli.ending import ENDING  # noqa: PLC0415

        with ENDING.watching(service=_endless(sys.argv[1:])):
            from tidegauge.cli.carry_out import main as carry_out  # noqa: PLC0415

            carry_out()
    except KeyboardInterrupt:  # before the handler was installed
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)


def _endless(words: Sequence[str]) -> bool:
    """Whether these arguments start a service.  Asked before parsing: a signal may come at any time."""
    return words[:1] == ["serve"] or (
        words[:1] == ["run"] and not any(word.startswith(("--once", "--until", "--help")) for word in words)
    )


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'tidegauge.cli' has no attribute '{name}'")
    from tidegauge.cli.verbs import app  # noqa: PLC0415

    return app


__all__ = ["app", "main"]

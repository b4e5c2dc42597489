"""The verbs, named after what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegauge.cli.ending import ENDING

if TYPE_CHECKING:
    from tidegauge.cli.verbs import app


def main() -> None:
    """Run a verb in a process of its own: signals are answered before anything large is imported."""
    with ENDING.watching():
        from tidegauge.cli.verbs import main as carry_out  # noqa: PLC0415  (takes seconds; see above)

        carry_out()


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'tidegauge.cli' has no attribute '{name}'")
    from tidegauge.cli.verbs import app  # noqa: PLC0415

    return app


__all__ = ["app", "main"]

"""Keep publishing how a changing database stands, under one differential-privacy guarantee per person."""

from __future__ import annotations

from tidegauge.source import registry as _registry  # noqa: F401  (makes the kinds of source known by name)

TYPE_CHECKING = False  # typing itself takes as long to import as all of this
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any, Final

    from tidegauge import local, theory
    from tidegauge.errors import TidegaugeError
    from tidegauge.model.budget import Budget
    from tidegauge.model.constraint import AtMost, Unconstrained, Within
    from tidegauge.model.reading import Reading
    from tidegauge.plan.plan import Plan
    from tidegauge.run.gauge import Gauge

_HOMES: Final = {
    "AtMost": "model.constraint",
    "Budget": "model.budget",
    "Gauge": "run.gauge",
    "Plan": "plan.plan",
    "Reading": "model.reading",
    "TidegaugeError": "errors",
    "Unconstrained": "model.constraint",
    "Within": "model.constraint",
}
"""Where each name lives.  It is loaded when it is first used: the command line must be able to answer a signal, and print its
help, before the engine and the numerical libraries are there."""
_FOLDERS: Final = ("local", "theory")


def __getattr__(name: str) -> Any:
    from importlib import import_module  # noqa: PLC0415

    if name in _FOLDERS:
        return import_module(f"tidegauge.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'tidegauge' has no attribute '{name}'")
    found = globals()[name] = getattr(import_module(f"tidegauge.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def open(path: str | Path = "tidegauge.toml", **options: Any) -> Gauge:  # noqa: A001  (tg.open reads as it should)
    """The gauge that a tidegauge.toml declares."""
    from tidegauge.run.gauge import Gauge  # noqa: PLC0415  (see _HOMES)

    return Gauge.from_file(path, **options)


__all__ = [
    "AtMost",
    "Budget",
    "Gauge",
    "Plan",
    "Reading",
    "TidegaugeError",
    "Unconstrained",
    "Within",
    "local",
    "open",
    "theory",
]

"""Publish differentially private statistics of a live database, continuously."""

from __future__ import annotations

from tidegauge.publish import kinds as _publishers  # noqa: F401  (makes the kinds of publisher known by name)
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
"""The module of each public name.  It is imported when the name is first used: the command line handles
signals and prints its help before the engine and the numerical libraries are loaded."""
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


def open(path: str | Path = "tidegauge.toml", **options: Any) -> Gauge:  # noqa: A001  (called as tg.open)
    """The gauge that a tidegauge.toml declares.  Raises SpecError if the declaration is invalid."""
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

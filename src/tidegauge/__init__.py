"""Keep publishing how a changing database stands, under one differential-privacy guarantee per person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegauge import local, theory
from tidegauge.errors import TidegaugeError
from tidegauge.gauge import Gauge
from tidegauge.model.budget import Budget
from tidegauge.model.constraint import AtMost, Unconstrained, Within
from tidegauge.model.reading import Reading
from tidegauge.plan.plan import Plan

if TYPE_CHECKING:
    from pathlib import Path


def open(path: str | Path = "tidegauge.toml", **options: Any) -> Gauge:  # noqa: A001  (tg.open reads as it should)
    """The gauge that a tidegauge.toml declares."""
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

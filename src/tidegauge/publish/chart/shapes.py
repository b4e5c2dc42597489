"""What a chart is made of.  A shape has a class, and `look` says how each class is painted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

XY: TypeAlias = tuple[float, float]
Anchor: TypeAlias = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Stroke:
    """A line through points."""

    kind: str
    points: tuple[XY, ...]


@dataclass(frozen=True)
class Area:
    """A filled shape with these corners."""

    kind: str
    points: tuple[XY, ...]


@dataclass(frozen=True)
class Dot:
    """A filled circle."""

    kind: str
    at: XY
    radius: float


@dataclass(frozen=True)
class Words:
    """A line of text on this baseline."""

    kind: str
    at: XY
    text: str
    anchor: Anchor = "start"


@dataclass(frozen=True)
class Mark:
    """The shapes of one series, and what a pointer shows of its points."""

    index: int
    """The colour: 0 is the first of the palette."""
    label: str
    shapes: tuple[Stroke | Area | Dot, ...]
    values: str = ""
    halves: str = ""
    small: str = ""
    """Values, half-widths and which are too small to tell, as the script of a page reads them."""


Shape: TypeAlias = "Stroke | Area | Dot | Words | Mark"


@dataclass(frozen=True)
class Drawing:
    """A chart of this size, with the words that a screen reader says instead."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    title: str
    description: str = ""
    data: tuple[tuple[str, str], ...] = ()
    """Attributes for the script of a page: where the points are and what the axes mean."""

"""A chart of a simulation: error against at_most, with its two parts, as an SVG file."""

from __future__ import annotations

from html import escape
from math import floor, log10
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegauge.simulate.simulation import Simulated, Simulation

_WIDTH: Final = 640
_HEIGHT: Final = 300
_LEFT: Final = 70
_RIGHT: Final = 20
_TOP: Final = 44
_BOTTOM: Final = 44
_COLOURS: Final = {"whole": "#1b1b1b", "noise": "#0072b2", "bias": "#d55e00"}


def chart(simulation: Simulation) -> str:
    """An SVG with one panel a release, on_excess and renews.

    Of several values of within, epsilon or every the first is drawn.  Raises SpecError where at_most does
    not vary.
    """
    panels = [panel for name, found in simulation.releases.items() for panel in _panels(name, found)]
    if not panels:
        raise SpecError("needs at least two values of at_most to draw errors against", key="--chart")
    drawn = "".join(
        f'<g transform="translate(0 {number * _HEIGHT})">{"".join(_panel(title, rows))}</g>'
        for number, (title, rows) in enumerate(panels)
    )
    height = len(panels) * _HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12" role="img">'
        "<title>SECRET: error against at_most</title>"
        f'<rect width="100%" height="100%" fill="white"/>{drawn}</svg>\n'
    )


def _panels(name: str, found: Sequence[Simulated]) -> Iterator[tuple[str, list[Simulated]]]:
    """Title and points of each panel."""
    alone = [one for one in found if one.group is None and one.bounds.at_most is not None]
    several = len({one.bounds.renews for one in alone}) > 1
    for mode, renews in dict.fromkeys((one.bounds.on_excess, one.bounds.renews) for one in alone):
        mine = [one for one in alone if (one.bounds.on_excess, one.bounds.renews) == (mode, renews)]
        first = mine[0]
        rows = [
            one
            for one in mine
            if (one.bounds.within, one.epsilon, one.every)
            == (first.bounds.within, first.epsilon, first.every)
            and one.errors.whole == one.errors.whole
        ]
        if len(rows) > 1:
            terms = "" if not several else f", renews every {renews}" if renews else ", does not renew"
            yield f"{name}, {mode}{terms}: error against at_most (SECRET)", rows


def _panel(title: str, rows: list[Simulated]) -> Iterator[str]:
    lines = {
        "whole": [one.errors.whole for one in rows],
        "noise": [one.errors.noise for one in rows],
        "bias": [one.errors.bias for one in rows],
    }
    high = max(map(max, lines.values())) or 1.0
    positive = [value for values in lines.values() for value in values if value > 0]
    low = max(min(positive, default=high), high / 1e5)
    bottom, top = floor(log10(low)), floor(log10(high)) + 1
    right, base = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def x(number: int) -> float:
        return round(_LEFT + (right - _LEFT) * number / (len(rows) - 1), 1)

    def y(value: float) -> float:
        share = (log10(max(value, 10.0**bottom)) - bottom) / (top - bottom)
        return round(base - (base - _TOP) * share, 1)

    yield f'<text x="{_LEFT}" y="18" font-weight="bold">{escape(title)}</text>'
    for power in range(bottom, top + 1):
        at = y(10.0**power)
        yield f'<line x1="{_LEFT}" x2="{right}" y1="{at}" y2="{at}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 6}" y="{at + 4}" text-anchor="end">{10.0**power:,g}</text>'
    for number, one in enumerate(rows):
        yield f'<text x="{x(number)}" y="{base + 16}" text-anchor="middle">{one.bounds.at_most}</text>'
    yield f'<text x="{(_LEFT + right) / 2}" y="{base + 34}" text-anchor="middle">at_most</text>'
    starts = (0, 190, 290)
    for place, (label, values) in enumerate(lines.items()):
        points = " ".join(f"{x(n)},{y(value)}" for n, value in enumerate(values))
        colour, width = _COLOURS[label], 2.5 if label == "whole" else 1.5
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        said = f"{label} RMSE" + (" (noise and bias)" if label == "whole" else "")
        yield f'<text x="{_LEFT + starts[place]}" y="34" fill="{colour}">— {said}</text>'

"""A small chart as SVG: published values over time, their noise interval, and the truth where it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import instant, rfc3339
from tidegauge.publish.table import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidegauge.model.reading import Reading

    Point = tuple[float, float]

_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 34, 28
_STEPS: Final = 4
"""Lines of the grid above the lowest one."""


def picture(
    readings: Sequence[Reading], truth: Sequence[float] | None = None, *, width: int = 720, height: int = 300
) -> str:
    """The readings of one release and one group as an SVG document; they must have values."""
    low, high = _range(readings, truth or ())
    inner, tall = width - _LEFT - _RIGHT, height - _TOP - _BOTTOM

    def x(at: int) -> float:
        return _LEFT + inner * at / max(1, len(readings) - 1)

    def y(value: float) -> float:
        return _TOP + tall * (high - value) / (high - low)

    bands = [reading.interval(0.95) for reading in readings]
    upper = [(x(at), y(band[1])) for at, band in enumerate(bands)]
    lower = [(x(at), y(band[0])) for at, band in enumerate(bands)]
    values = [(x(at), y(reading.value or 0.0)) for at, reading in enumerate(readings)]
    group = ", ".join(str(value) for value in (readings[0].group or {}).values())
    title = f"{readings[0].release} {group}".rstrip()
    legend = "line: published, band: noise interval (95 %)" + ("" if truth is None else ", dashed: truth")
    marks = [low + (high - low) * step / _STEPS for step in range(_STEPS + 1)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="11" role="img">',
        f"<title>{_escaped(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="18" font-size="13" font-weight="bold">{_escaped(title)}</text>',
        f'<text x="{width - _RIGHT}" y="18" text-anchor="end" fill="#555555">{_escaped(legend)}</text>',
        *(
            f'<path d="M{_LEFT} {y(mark):.1f}H{width - _RIGHT}" stroke="#dddddd"/>'
            f'<text x="{_LEFT - 6}" y="{y(mark) + 4:.1f}" text-anchor="end">{number(mark, 0)}</text>'
            for mark in marks
        ),
        f'<polygon points="{_path([*upper, *reversed(lower)])}" fill="#9ecae1" fill-opacity="0.6"/>',
        f'<polyline points="{_path(values)}" fill="none" stroke="#08519c" stroke-width="1.5"/>',
    ]
    if truth is not None:
        exact = _path((x(at), y(value)) for at, value in enumerate(truth))
        parts.append(f'<polyline points="{exact}" fill="none" stroke="#222222" stroke-dasharray="4 3"/>')
    first, last = (rfc3339(instant(readings[at].time))[:10] for at in (0, -1))
    foot = height - 8
    parts.append(
        f'<text x="{_LEFT}" y="{foot}">{first}</text>'
        f'<text x="{width - _RIGHT}" y="{foot}" text-anchor="end">{last}</text></svg>'
    )
    return "\n".join(parts) + "\n"


def _range(readings: Sequence[Reading], truth: Sequence[float]) -> tuple[float, float]:
    ends = [end for reading in readings for end in reading.interval(0.95)]
    low, high = min([*ends, *truth]), max([*ends, *truth])
    return (low, high) if high > low else (low - 1, high + 1)


def _path(points: Iterable[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

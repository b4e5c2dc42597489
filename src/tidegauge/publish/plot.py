"""A release in the terminal: its values over time, their noise interval, and the truth where it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.publish.table import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.reading import Reading

_HEIGHT: Final = 12
_LABELLED: Final = 3
"""A mark of the vertical axis on every third line."""
_BAND, _VALUE, _TRUTH = "░", "●", "─"


def plot(
    readings: Sequence[Reading],
    truth: Sequence[float] | None = None,
    *,
    width: int = 80,
    unit: str = "",
) -> str:
    """One panel for each group that the readings speak of, in lines of at most `width` characters."""
    if not readings:
        return "Nothing has been published yet. See: tidegauge status"
    panels: dict[str, list[int]] = {}
    for i, reading in enumerate(readings):
        name = ", ".join(f"{key}={value}" for key, value in (reading.group or {}).items())
        panels.setdefault(name, []).append(i)
    legend = f"{_VALUE} published  {_BAND} noise interval (95 %)"
    legend += "" if truth is None else f"  {_TRUTH} truth"
    parts = [
        _panel(
            f"{readings[0].release} {name}".strip() + (f", in {unit}" if unit else ""),
            [readings[i] for i in rows],
            None if truth is None else [truth[i] for i in rows],
            width,
        )
        for name, rows in panels.items()
    ]
    return "\n\n".join([*parts, legend])


def _panel(title: str, readings: list[Reading], truth: list[float] | None, width: int) -> str:
    shown = [i for i, reading in enumerate(readings) if reading.value is not None]
    if not shown:
        return f"{title}\n  too small to tell, at every time"
    bands = [readings[i].interval(0.95) for i in shown]
    low, high = min(band[0] for band in bands), max(band[1] for band in bands)
    if truth is not None:
        low, high = min(low, *truth), max(high, *truth)
    step = (high - low) / (_HEIGHT - 1) or 1.0
    digits = 0 if high - low >= _HEIGHT else 2
    labels = {y: number(low + y * step, digits) for y in range(0, _HEIGHT, _LABELLED)}
    labels[_HEIGHT - 1] = number(high, digits)
    margin = max(map(len, labels.values()))
    wide = width - margin - 3
    grid = [[" "] * wide for _ in range(_HEIGHT)]

    def height(value: float) -> int:
        return min(_HEIGHT - 1, max(0, round((value - low) / step)))

    def column(i: int) -> int:
        return round(i * (wide - 1) / max(1, len(readings) - 1))

    for i, (bottom, top) in zip(shown, bands, strict=True):
        for y in range(height(bottom), height(top) + 1):
            grid[y][column(i)] = _BAND
    if truth is not None:
        for i, value in enumerate(truth):
            grid[height(value)][column(i)] = _TRUTH
    for i in shown:
        grid[height(readings[i].value or 0.0)][column(i)] = _VALUE
    lines = [
        f"{labels.get(y, ''):>{margin}} {'┤' if y in labels else '│'}{''.join(grid[y]).rstrip()}"
        for y in reversed(range(_HEIGHT))
    ]
    first, last = (readings[i].as_json()["time"] for i in (0, -1))
    if first[:10] != last[:10]:
        first, last = first[:10], last[:10]
    axis = " " * (margin + 2) + first + last.rjust(wide - len(first))
    return "\n".join([title, *lines, f"{' ' * (margin + 1)}└{'─' * wide}", axis])

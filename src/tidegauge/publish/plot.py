"""A release in the terminal: its values over time, with their 95 % band, and the truth where it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.reading import Reading

_WIDTH, _HEIGHT = 72, 12
_BAND, _VALUE, _TRUTH = "░", "●", "─"


def plot(readings: Sequence[Reading], truth: Sequence[float] | None = None) -> str:
    """One panel for each group that the readings speak of."""
    if not readings:
        return "Nothing has been published yet."
    panels: dict[str, list[int]] = {}
    for i, reading in enumerate(readings):
        name = ", ".join(f"{key}={value}" for key, value in (reading.group or {}).items())
        panels.setdefault(name, []).append(i)
    return "\n\n".join(
        _panel(
            f"{readings[0].release} {name}".strip(),
            [readings[i] for i in rows],
            None if truth is None else [truth[i] for i in rows],
        )
        for name, rows in panels.items()
    )


def _panel(title: str, readings: list[Reading], truth: list[float] | None) -> str:
    shown = [i for i, reading in enumerate(readings) if reading.value is not None]
    if not shown:
        return f"{title}\n  too few to tell, all the time"
    bands = [readings[i].interval(0.95) for i in shown]
    low, high = min(band[0] for band in bands), max(band[1] for band in bands)
    if truth is not None:
        low, high = min(low, *truth), max(high, *truth)
    step = (high - low) / (_HEIGHT - 1) or 1.0
    grid = [[" "] * _WIDTH for _ in range(_HEIGHT)]

    def height(value: float) -> int:
        return min(_HEIGHT - 1, max(0, round((value - low) / step)))

    def column(i: int) -> int:
        return round(i * (_WIDTH - 1) / max(1, len(readings) - 1))

    for i, (bottom, top) in zip(shown, bands, strict=True):
        for y in range(height(bottom), height(top) + 1):
            grid[y][column(i)] = _BAND
    if truth is not None:
        for i, value in enumerate(truth):
            grid[height(value)][column(i)] = _TRUTH
    for i in shown:
        grid[height(readings[i].value or 0.0)][column(i)] = _VALUE
    labels = {0: f"{low:,.0f}", _HEIGHT - 1: f"{high:,.0f}"}
    margin = max(map(len, labels.values()))
    lines = [f"{labels.get(y, ''):>{margin}} ┤{''.join(grid[y]).rstrip()}" for y in reversed(range(_HEIGHT))]
    first, last = (readings[i].as_json()["time"] for i in (0, -1))
    if first[:10] != last[:10]:
        first, last = first[:10], last[:10]
    legend = f"{_VALUE} published  {_BAND} 95 %" + ("" if truth is None else f"  {_TRUTH} truth")
    axis = " " * (margin + 2) + first + last.rjust(_WIDTH - len(first))
    return "\n".join([f"{title}   {legend}", *lines, axis])

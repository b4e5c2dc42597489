"""A release in the terminal: its values over time, their noise interval, and the truth where it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import instant
from tidegauge.model.reading import TOO_SMALL
from tidegauge.publish.chart.scale import Scale, extent, tick_text, ticks, time_ticks
from tidegauge.publish.view import day_text, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.reading import Reading

WIDTH: Final = 78
"""Columns of a panel; the least that a terminal has is 80."""
_HEIGHT: Final = 12
_BAND, _VALUE, _TRUTH = "░", "●", "─"


def plot(
    readings: Sequence[Reading],
    truth: Sequence[float] | None = None,
    *,
    unit: str = "",
    width: int = WIDTH,
) -> str:
    """One panel for each group that the readings speak of.

    `unit`: what the values count, written above the axis.  `width`: columns of a line.
    """
    if not readings:
        return "Nothing has been published yet. See: tidegauge status"
    panels: dict[str, list[int]] = {}
    for i, reading in enumerate(readings):
        name = ", ".join(f"{key}={value}" for key, value in (reading.group or {}).items())
        panels.setdefault(name, []).append(i)
    parts = [
        _panel(
            f"{readings[0].release} {name}".strip(),
            [readings[i] for i in rows],
            None if truth is None else [truth[i] for i in rows],
            unit=unit,
            width=width,
        )
        for name, rows in panels.items()
    ]
    return "\n\n".join(parts)


def _panel(title: str, readings: list[Reading], truth: list[float] | None, *, unit: str, width: int) -> str:
    shown = [i for i, reading in enumerate(readings) if reading.value is not None]
    if not shown:
        return f"{title}\n  {TOO_SMALL}, all the time"
    bands = [readings[i].interval(0.95) for i in shown]
    known = truth or []
    low, high, step = extent([*(b[0] for b in bands), *known], [*(b[1] for b in bands), *known], 5)
    labels = {value: tick_text(value, step) for value in ticks(low, high, step)}
    margin = max(map(len, labels.values()))
    columns = max(20, width - margin - 2)
    grid = [[" "] * columns for _ in range(_HEIGHT)]
    times = [instant(reading.time) for reading in readings]
    x, y = Scale(times[0], times[-1], 0, columns - 1), Scale(low, high, 0, _HEIGHT - 1)

    def height(value: float) -> int:
        return min(_HEIGHT - 1, max(0, round(y(value))))

    def column(i: int) -> int:
        return round(x(times[i]))

    for i, (bottom, top) in zip(shown, bands, strict=True):
        for row in range(height(bottom), height(top) + 1):
            grid[row][column(i)] = _BAND
    for i, value in enumerate(known):
        grid[height(value)][column(i)] = _TRUTH
    for i in shown:
        grid[height(readings[i].value or 0.0)][column(i)] = _VALUE
    marks = {height(value): label for value, label in labels.items()}
    lines = [
        f"{marks.get(row, ''):>{margin}} {'┤' if row in marks else '│'}{''.join(grid[row])}".rstrip()
        for row in reversed(range(_HEIGHT))
    ]
    legend = f"{_VALUE} published  {_BAND} noise interval (95 %)" + (f"  {_TRUTH} truth" if truth else "")
    head = [title, f"{legend}   in {unit}" if unit else legend]
    if small := sum(reading.too_small for reading in readings):
        last = ", the latest among them" if readings[-1].too_small else ""
        head.append(f"{TOO_SMALL}: {small:,} of {len(readings):,} readings{last}")
    return "\n".join([*head, *lines, *_time_axis(times, x, margin, columns)])


def _time_axis(times: Sequence[int], x: Scale, margin: int, columns: int) -> list[str]:
    """The axis with its ticks, and the dates below them."""
    axis, names = ["─"] * columns, [" "] * (columns + margin + 2)
    found = time_ticks(times[0], times[-1], max(2, columns // 12))
    free = 0
    for at, label in found:
        place = round(x(at))
        axis[place] = "┬"
        begin = min(max(0, place + margin + 2 - len(label) // 2), len(names) - len(label))
        if begin >= free:
            names[begin : begin + len(label)] = label
            free = begin + len(label) + 2
    if len(found) < 2:  # too short for round dates: say where it begins and ends
        words = [time_text(at, daily=times[0] != times[-1] and day_text(times[0]) != day_text(times[-1]))
                 for at in (times[0], times[-1])]  # fmt: skip
        text = words[0] if times[0] == times[-1] else f"{words[0]} to {words[1]}"
        names = list(" " * (margin + 2) + text[:columns])
    return [" " * (margin + 1) + "└" + "".join(axis), "".join(names).rstrip()]

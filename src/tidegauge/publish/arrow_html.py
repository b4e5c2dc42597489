"""An Arrow table of readings in a notebook: a small chart of each series and its latest value."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from tidegauge.model.reading import COVERS
from tidegauge.publish.table import decimals, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

MARK: Final = b"tidegauge"
"""The key in the metadata of an Arrow table that says it holds readings."""
_FIXED: Final = ("release", "time", "value", "stderr", "low", "high", "bias")
_WIDE, _HIGH = 180, 36
_MOST: Final = 24
"""Series that are shown; of more, only how many there are."""


def table_html(table: pa.Table) -> str | None:
    """A row for each series: its name, a small chart, its latest value and noise interval.

    None for a table that does not hold readings.
    """
    if MARK not in (table.schema.metadata or {}):
        return None
    groups = [name for name in table.column_names if name not in _FIXED]
    return _html(
        [
            _Shown(
                release=row["release"],
                group=", ".join(str(row[name]) for name in groups if row[name] is not None),
                time=row["time"].isoformat().replace("+00:00", "Z"),
                **{name: row[name] for name in ("value", "stderr", "low", "high")},
            )
            for row in table.to_pylist()
        ]
    )


@dataclass(frozen=True)
class _Shown:
    """A row of the table; the values of its groups in one text."""

    release: str
    group: str
    time: str
    value: float | None
    stderr: float | None
    low: float
    high: float


def _html(rows: Sequence[_Shown]) -> str:
    series: dict[tuple[str, str], list[_Shown]] = {}
    for row in rows:
        series.setdefault((row.release, row.group), []).append(row)
    if not series:
        return "<p>Nothing has been published yet.</p>"
    shown = "".join(_row(name, group, found) for (name, group), found in list(series.items())[:_MOST])
    more = f"<p>and {len(series) - _MOST} more series</p>" if len(series) > _MOST else ""
    head = "".join(
        f"<th>{word}</th>" for word in ("release", "group", "", "latest", "noise interval", "time")
    )
    caption = f"<caption>Noise interval: 95 %. {COVERS}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{shown}</tbody></table>{more}"


def _row(name: str, group: str, rows: Sequence[_Shown]) -> str:
    last = rows[-1]
    digits = decimals(last.stderr)
    cells = (
        escape(name),
        escape(group),
        spark([row.value for row in rows], [(row.low, row.high) for row in rows]),
        "too small to tell" if last.value is None else number(last.value, digits),
        f"{number(last.low, digits)} to {number(last.high, digits)}",
        last.time,
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def spark(values: Sequence[float | None], bands: Sequence[tuple[float, float]]) -> str:
    """A chart of the size of a line of text: the values and, behind them, their noise intervals."""
    ends = [end for band in bands for end in band]
    low, high = min(ends), max(ends)
    spread = (high - low) or 1.0

    def point(at: int, value: float) -> str:
        return f"{at * _WIDE / max(1, len(values) - 1):.1f},{_HIGH * (high - value) / spread:.1f}"

    upper = [point(at, band[1]) for at, band in enumerate(bands)]
    lower = [point(at, band[0]) for at, band in enumerate(bands)]
    line = " ".join(point(at, value) for at, value in enumerate(values) if value is not None)
    return (
        f'<svg width="{_WIDE}" height="{_HIGH}" viewBox="0 0 {_WIDE} {_HIGH}" role="img">'
        f'<polygon points="{" ".join([*upper, *reversed(lower)])}" fill="#9ecae1" fill-opacity="0.6"/>'
        f'<polyline points="{line}" fill="none" stroke="#08519c" stroke-width="1.2"/></svg>'
    )


def show_tables() -> None:
    """Let a running notebook show Arrow tables of readings by `table_html`; nothing where there is none."""
    shell = sys.modules.get("IPython")
    current = None if shell is None else shell.get_ipython()
    if current is not None:
        import pyarrow as pa  # noqa: PLC0415  (slow to load)

        current.display_formatter.formatters["text/html"].for_type(pa.Table, table_html)

"""An Arrow table of readings in a notebook: a small chart of each series and its latest value."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from tidegauge.model.reading import COVERS, TOO_SMALL, noise_hides
from tidegauge.publish.table import decimals, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

MARK: Final = b"tidegauge"
"""The key in the metadata of an Arrow table that says it holds readings."""
ZERO: Final = b"tidegauge.zero"
"""The key of what 0 means for each release: JSON, its name to [zero_is_nothing, never_negative]."""
_MODEL: Final = ("model_value", "model_stderr", "model_low", "model_high", "model_uses")
_FIXED: Final = ("release", "time", "value", "stderr", "low", "high", "bias", *_MODEL)
_WIDE, _HIGH = 180, 36
_MOST: Final = 24
"""Series that are shown; of more, only how many there are."""


def table_html(table: pa.Table) -> str | None:
    """A row for each series: its name, a small chart, its latest value and noise interval, and a model's.

    None for a table that does not hold readings.
    """
    if MARK not in (table.schema.metadata or {}):
        return None
    groups = [name for name in table.column_names if name not in _FIXED]
    zeros: dict[str, list[bool]] = json.loads(table.schema.metadata.get(ZERO, b"{}"))
    rows = [
        _Shown(
            release=row["release"],
            group=", ".join(str(row[name]) for name in groups if row[name] is not None),
            time=row["time"].isoformat().replace("+00:00", "Z"),
            zero=(*zeros.get(row["release"], (False, False)),),
            **{name: row[name] for name in ("value", "stderr", "low", "high")},
            **{name: row.get(name) for name in _MODEL[:4]},
        )
        for row in table.to_pylist()
    ]
    return _html(rows, modelled=_MODEL[0] in table.column_names)


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
    zero: tuple[bool, ...]
    model_value: float | None
    model_stderr: float | None
    model_low: float | None
    model_high: float | None

    @property
    def words(self) -> tuple[str, str]:
        """The value, or that it is too small to tell; and its noise interval."""
        return self._words(self.value, self.low, self.high)

    @property
    def model_words(self) -> tuple[str, str]:
        """The same of the model's estimate."""
        if self.model_low is None or self.model_high is None:
            return "", ""
        return self._words(self.model_value, self.model_low, self.model_high)

    def _words(self, value: float | None, low: float, high: float) -> tuple[str, str]:
        nothing, never = self.zero
        digits = decimals(self.stderr)
        hidden = noise_hides(value, low, high, zero_is_nothing=nothing, never_negative=never)
        shown = TOO_SMALL if hidden else number(value, digits)
        return shown, f"{number(low, digits)} to {number(high, digits)}"


def _html(rows: Sequence[_Shown], *, modelled: bool) -> str:
    series: dict[tuple[str, str], list[_Shown]] = {}
    for row in rows:
        series.setdefault((row.release, row.group), []).append(row)
    if not series:
        return "<p>Nothing has been published yet.</p>"
    shown = "".join(
        _row(name, group, found, modelled=modelled) for (name, group), found in list(series.items())[:_MOST]
    )
    more = f"<p>and {len(series) - _MOST} more series</p>" if len(series) > _MOST else ""
    words = ["release", "group", "", "latest", "noise interval"]
    words += ["MODEL latest", "MODEL interval", "time"] if modelled else ["time"]
    head = "".join(f"<th>{word}</th>" for word in words)
    model = " MODEL: a model's estimate; its interval (95 %) holds if the model holds." if modelled else ""
    caption = f"<caption>Noise interval: 95 %. {COVERS}{model}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{shown}</tbody></table>{more}"


def _row(name: str, group: str, rows: Sequence[_Shown], *, modelled: bool) -> str:
    last = rows[-1]
    cells = (
        escape(name),
        escape(group),
        spark([row.value for row in rows], [(row.low, row.high) for row in rows]),
        *last.words,
        *(last.model_words if modelled else ()),
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

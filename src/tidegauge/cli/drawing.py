"""What `plot` draws: a panel of text, or a chart in a file."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tidegauge.publish.chart_file import plan_series, require_ending, write_chart
from tidegauge.publish.plot import plot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tidegauge.model.reading import Reading
    from tidegauge.plan.plan import Plan


def draw(plan: Callable[[], Plan], release: str, readings: Sequence[Reading], output: Path | None) -> str:
    """Text for the terminal; with `output`, write the chart there and say so.

    `plan`: gives the committed plan, which is not asked for where nothing was published.
    """
    if output is not None:
        require_ending(output)
    if not readings:
        return plot(readings)
    series = plan_series(plan(), release, readings)
    if output is None:
        return plot(readings, unit=series.unit, width=min(120, shutil.get_terminal_size().columns - 2))
    write_chart(series, output)
    return f"Wrote {output}."

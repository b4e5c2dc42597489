"""What a notebook shows of readings and of a gauge: a chart, and the newest values as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.reading import COVERS, TOO_SMALL
from tidegauge.publish.chart import standalone_svg
from tidegauge.publish.chart_file import drawing_of, plan_series
from tidegauge.publish.markup import Markup, join, tag
from tidegauge.publish.view import half_text, time_text, value_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.reading import Reading
    from tidegauge.plan.plan import Plan
    from tidegauge.publish.view import Line, Series


def release_html(series: Series) -> str:
    """The chart of a release and the newest value of each group, for an output cell."""
    lines = [line for line in series.lines if line.points]
    if not lines:
        return tag("p", f"{series.title}: nothing has been published yet.")
    return join(
        Markup(standalone_svg(drawing_of(series))),
        tag(
            "table",
            tag(
                "caption",
                f"{series.title}: newest values in {series.unit}, ± half of the 95 % noise interval. "
                f"{COVERS}",
            ),
            tag("tbody", (_row(series, line) for line in lines)),
        ),
    )


def gauge_html(plan: Plan, readings: Sequence[Reading]) -> str:
    """All releases of a gauge, one after another."""
    by_release: dict[str, list[Reading]] = {name: [] for name in plan.series}
    for reading in readings:
        by_release[reading.release].append(reading)
    return join(
        (Markup(release_html(plan_series(plan, name, found))) for name, found in by_release.items()),
        tag("p", "Plan ", tag("code", plan.hash[:12]), f". {plan.protects}"),
    )


def _row(series: Series, line: Line) -> Markup:
    point = line.points[-1]
    margin = f" ± {half_text(point.half)}" if point.value is not None and point.half > 0 else ""
    shown = f"{value_text(point)}{margin}"
    if series.hides(point):
        shown = TOO_SMALL if point.value is None else f"{TOO_SMALL} ({shown})"
    return tag(
        "tr",
        tag("th", line.label or series.title, scope="row"),
        tag("td", shown),
        tag("td", time_text(point.time, daily=series.daily)),
    )

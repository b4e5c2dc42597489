"""Charts of a gauge's own readings, written to files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.publish.chart import line_chart, multiples, standalone_svg
from tidegauge.publish.chart.png import png
from tidegauge.publish.pages.alone import standalone_html
from tidegauge.publish.pages.figures import TOGETHER
from tidegauge.publish.public.describe import describe
from tidegauge.publish.public.values import About
from tidegauge.publish.series import series_of_readings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tidegauge.model.reading import Reading
    from tidegauge.plan.plan import Plan
    from tidegauge.publish.chart import Drawing
    from tidegauge.publish.view import Series

ENDINGS: Final = (".svg", ".png", ".html")


def plan_series(plan: Plan, release: str, readings: Sequence[Reading]) -> Series:
    """The readings of one release as a series, with the words of its plan."""
    document = describe(plan, (), About(), simulated=False)
    info = document.release(release)
    assert info is not None
    return series_of_readings(info, readings, table=document.guarantee.table)


def drawing_of(series: Series) -> Drawing:
    """One chart with a legend, or small panels where there are many groups."""
    return multiples(series) if len(series.lines) > TOGETHER else line_chart(series, legend=True)


def require_ending(path: Path) -> None:
    """Refuse a file whose name does not say what it is."""
    if path.suffix.lower() not in ENDINGS:
        raise SpecError("must end in .svg, .png or .html", key="--output")


def write_chart(series: Series, path: Path) -> None:
    """Write the chart, in the format that the name ends with.  Raises SpecError for another ending."""
    require_ending(path)
    ending = path.suffix.lower()
    if ending == ".png":
        content = png(drawing_of(series))
    elif ending == ".svg":
        content = standalone_svg(drawing_of(series)).encode()
    else:
        content = standalone_html(series).encode()
    path.write_bytes(content)

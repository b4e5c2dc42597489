"""Charts draw what was published: values, bands and gaps, in well-formed SVG without inline styles."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from tests.publish.invented import INFO, Invented, grouped
from tidegauge.model.quantity import DAY, SECOND, instant
from tidegauge.publish.chart import Drawing, line_chart, multiples, spark, standalone_svg, svg
from tidegauge.publish.chart.draw import comparable, small_chart
from tidegauge.publish.chart.look import LOOKS
from tidegauge.publish.chart.shapes import Area, Mark, Stroke, Words
from tidegauge.publish.chart.svg import path
from tidegauge.publish.pages.build import release_site
from tidegauge.publish.pages.figures import charts
from tidegauge.publish.view import Line, Point, Series


def series(name: str = "infected_now", public: Invented | None = None) -> Series:
    found = release_site(public or Invented(), name)
    assert found is not None
    return found[1]


def corners(d: str) -> list[tuple[float, float]]:
    """The points of a path, read as a browser reads them."""
    numbers = [float(text) for text in re.findall(r"-?(?:\d+\.\d+|\.\d+|\d+)", d)]
    x, y = numbers[:2]
    found = [(x, y)]
    for step_x, step_y in zip(numbers[2::2], numbers[3::2], strict=True):
        x, y = x + step_x, y + step_y
        found.append((x, y))
    return found


@pytest.mark.parametrize(
    "points",
    [
        ((0.0, 0.0), (0.05, -0.04)),
        ((10.0, 3.25), (10.0, 3.25), (0.1, -7.0)),
        ((1e4, 0.0), (-3.3, 0.3), (0.0, 0.9)),
    ],
)
def test_a_path_comes_back(points: tuple[tuple[float, float], ...]) -> None:
    for (x, y), (found_x, found_y) in zip(points, corners(path(points)), strict=True):
        assert (found_x, found_y) == pytest.approx((x, y), abs=0.0501)
    assert path(points, closed=True).endswith("z")


def marks(drawing: Drawing) -> list[Mark]:
    return [shape for shape in drawing.shapes if isinstance(shape, Mark)]


def test_the_reading_that_covers_everything_before_the_start_is_not_drawn() -> None:
    """Beside the total of all years the totals of single weeks are a flat line; the page says so."""
    total = replace(INFO, what="total over 1 day", level=False, window="1 day")
    public = Invented(releases=(total,))
    one = series(public=public)
    first, second = one.lines[0].points[:2]
    assert one.opening == first.time
    assert dict(line_chart(one).data)["times"].split()[0] == str(second.time // SECOND)
    assert "is not drawn; the downloads have all" in str(charts(one, one.lines, None))
    assert series().opening is None
    assert series(public=Invented(releases=(replace(total, window="7 days"),))).opening is None
    assert replace(one, lines=(Line("", (first,)),)).drawn(Line("", (first,))) == (first,)


def test_the_line_and_its_bands_are_where_the_values_are() -> None:
    one = series()
    drawing = line_chart(one)
    (mark,) = marks(drawing)
    kinds = [shape.kind for shape in mark.shapes]
    assert kinds == ["band95", "band50", "line"]
    band, inner, line = mark.shapes
    assert isinstance(band, Area)
    assert isinstance(inner, Area)
    assert isinstance(line, Stroke)
    data = dict(drawing.data)
    left, top, right, bottom = map(float, data["box"].split())
    low, high = map(float, data["scale"].split())
    points = one.lines[0].points
    assert len(line.points) == len(points)
    for index in (0, 100, 364):
        x, y = line.points[index]
        value = low + (bottom - y) / (bottom - top) * (high - low)
        assert value == pytest.approx(points[index].value, abs=(high - low) / 1000)
        upper, lower = band.points[index][1], band.points[-1 - index][1]
        assert (lower - upper) / (bottom - top) * (high - low) == pytest.approx(96, rel=0.01)
        narrow = inner.points[-1 - index][1] - inner.points[index][1]
        assert narrow / (lower - upper) == pytest.approx(0.344, rel=0.01)
        assert left - 1 <= x <= right + 1


def test_a_value_that_noise_hides_is_a_gap() -> None:
    (mark,) = marks(line_chart(series("mean_age")))
    lines = [shape for shape in mark.shapes if isinstance(shape, Stroke)]
    assert [len(line.points) for line in lines] == [3, 48]
    assert mark.values.split().count("-") == 2


def test_the_script_gets_the_values_that_are_drawn() -> None:
    one = series("in_ward")
    drawing = line_chart(one, most=100)
    data = dict(drawing.data)
    first, *steps = data["times"].split()
    assert int(first) == instant("2025-01-01") // 1_000_000
    assert steps == [f"{4 * 86400}*91"]
    for mark, line in zip(marks(drawing), one.lines, strict=True):
        assert mark.label == line.label
        assert len(mark.values.split()) == 92
        assert float(mark.values.split()[-1]) == pytest.approx(line.points[-1].value, abs=0.5)
        assert mark.halves == "48*92"


def test_many_lines_have_one_band_each() -> None:
    kinds = {shape.kind for mark in marks(line_chart(series("in_ward"))) for shape in mark.shapes}
    assert kinds == {"band95", "thin"}


def test_axes_have_a_unit_and_labels_that_do_not_overlap() -> None:
    for width in (260, 400, 880):
        drawing = line_chart(series(), width=width)
        words = [shape for shape in drawing.shapes if isinstance(shape, Words)]
        assert [word.text for word in words if word.kind == "label"] == ["patients"]
        days = [word for word in words if word.kind == "day"]
        assert days
        for before, after in pairwise(days):
            assert after.at[0] - before.at[0] > 6 * (len(before.text) + len(after.text)) / 2


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_readings_can_be_drawn(count: int) -> None:
    points = tuple(Point(at * DAY, 5.0, 1.0, 9.0, 4.0, 6.0) for at in range(count))
    one = Series("a", "A", "running value", "rows", "1 day", (Line("", points),))
    for drawing in (line_chart(one, legend=True), spark(one, one.lines[0]), multiples(one)):
        ET.fromstring(standalone_svg(drawing))


def test_values_without_noise_have_no_band() -> None:
    points = tuple(Point(at * DAY, at, at, at, at, at) for at in range(5))
    one = Series("a", "A", "running value", "rows", "1 day", (Line("", points),))
    drawing = line_chart(one, legend=True)
    assert "band95" not in svg(drawing, "x")


def test_svg_is_well_formed_and_says_what_it_shows() -> None:
    hostile = "<script>alert(\"1\")</script> & 'x'"
    public = Invented(releases=(grouped("in_ward", "ward", (hostile, "b")),), days=30)
    one = series("in_ward", public)
    for text in (svg(line_chart(one), "x"), svg(small_chart(one, one.lines[0], 0, one.lines), "y")):
        root = ET.fromstring(text)
        assert root.attrib["role"] == "img"
        named = {part.attrib.get("id"): part.text for part in root if part.tag in {"title", "desc"}}
        assert hostile in str(named[root.attrib["aria-describedby"]])
        assert "95 % noise interval" in str(named[root.attrib["aria-describedby"]])
        assert not [part for part in root.iter() if part.tag in {"style", "script"} or "style" in part.attrib]
    assert "aria-hidden" in svg(spark(one, one.lines[0]), "z", spoken=False)


def test_a_file_has_a_legend_and_its_own_colours() -> None:
    text = standalone_svg(line_chart(series("in_ward"), legend=True))
    root = ET.fromstring(text)
    words = {part.text for part in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"In ward", "emergency", "maternity", "95 % noise interval", "patients"} <= words
    assert 'stroke="#0b6e8f"' in text
    assert "prefers-color-scheme:dark" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_small_panels_share_a_scale_only_if_they_can_be_compared() -> None:
    assert not comparable(series("in_ward").lines)
    assert comparable(series("in_ward").lines[1:3])
    text = standalone_svg(multiples(series("in_ward")))
    assert text.count("emergency") >= 1


def test_every_shape_has_a_look() -> None:
    for name in ("in_ward", "infected_now"):
        for drawing in (line_chart(series(name), legend=True, truth=[(0, 1.0)]), multiples(series(name))):
            for shape in drawing.shapes:
                for part in shape.shapes if isinstance(shape, Mark) else (shape,):
                    assert part.kind in LOOKS


def test_png() -> None:
    from tidegauge.publish.chart.png import png

    drawing = line_chart(series("in_ward"), legend=True)
    content = png(drawing, scale=1)
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert (width, height) == (round(drawing.width + 24), round(drawing.height + 24))
    assert len(content) < 300_000

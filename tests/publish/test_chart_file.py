"""Charts of a gauge's own readings: `plot --output`, and notebooks."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.publish.pages.test_pages import Checked
from tests.publish.ward import Ward
from tidegauge.cli.drawing import draw
from tidegauge.errors import SpecError
from tidegauge.publish.chart_file import plan_series
from tidegauge.run.gauge import Gauge


@pytest.fixture(scope="module")
def gauge(tmp_path_factory: pytest.TempPathFactory) -> Gauge:
    return Ward(tmp_path_factory.mktemp("ward"), {}).run(30)


def test_a_series_has_the_readings_and_both_intervals(gauge: Gauge) -> None:
    readings = gauge.published("by_ward")
    series = plan_series(gauge.plan(), "by_ward", readings)
    assert [line.label for line in series.lines] == ["a", "b"]
    assert (series.unit, series.what, series.every) == ("t", "running value", "1 day")
    for line, group in zip(series.lines, ("a", "b"), strict=True):
        own = [one for one in readings if one.group == {"ward": group}]
        assert [point.value for point in line.points] == [one.value for one in own]
        for point, one in zip(line.points, own, strict=True):
            assert (point.low, point.high) == one.interval(0.95)
            assert (point.low50, point.high50) == pytest.approx(one.interval(0.5))


@pytest.mark.parametrize("release", ["by_ward", "week", "weekly"])
def test_files(gauge: Gauge, tmp_path: Path, release: str) -> None:
    for ending in ("svg", "png", "html", "SVG"):
        path = tmp_path / f"chart.{ending}"
        assert draw(gauge.plan, release, gauge.published(release), path) == f"Wrote {path}."
    root = ET.fromstring((tmp_path / "chart.svg").read_text())
    words = {part.text for part in root.iter("{http://www.w3.org/2000/svg}text")}
    assert "95 % noise interval" in words
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "chart.html").read_text()
    assert "<link" not in page
    assert "src=" not in page
    assert "Content-Security-Policy" in page


def test_other_endings_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    gauge = Ward(tmp_path, {}).gauge()
    with pytest.raises(SpecError, match=r"--output: must end in \.svg, \.png or \.html"):
        draw(gauge.plan, "by_ward", [], tmp_path / "chart.pdf")
    assert (
        draw(gauge.plan, "by_ward", [], tmp_path / "chart.svg")
        == "Nothing has been published yet. See: tidegauge status"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_png_without_pillow_says_what_to_install(
    gauge: Gauge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(SpecError, match="pip install"):
        draw(gauge.plan, "weekly", gauge.published("weekly"), tmp_path / "chart.png")
    assert not (tmp_path / "chart.png").exists()


def test_in_the_terminal(gauge: Gauge) -> None:
    text = draw(gauge.plan, "by_ward", gauge.published("by_ward"), None)
    assert "by_ward ward=a" in text
    assert "in t" in text


def test_a_notebook_shows_every_release(gauge: Gauge) -> None:
    html = gauge._repr_html_()
    assert html.count("<svg") == 3
    for name in ("By ward", "Week", "Weekly"):
        assert f"{name}: newest values" in html
    assert "too small to tell" in html
    ET.fromstring(f"<div>{html}</div>")


def test_a_notebook_before_the_first_run(tmp_path: Path) -> None:
    html = Ward(tmp_path, {}).gauge()._repr_html_()
    assert "nothing has been published yet" in html
    Checked(f"<div>{html}</div>")

"""Readings as people see them: tables and plots that fit, clean digits, notebooks, a picture."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest

from tidegauge.cli.narrate import Narrator
from tidegauge.model.reading import Reading
from tidegauge.publish.arrow_html import show_tables, table_html
from tidegauge.publish.formats import as_table
from tidegauge.publish.picture import picture
from tidegauge.publish.reading import on_grid
from tidegauge.publish.table import as_text, number, precision

if TYPE_CHECKING:
    from collections.abc import Sequence

START = datetime(2026, 1, 1, tzinfo=UTC)


def reading(value: float | None, day: int = 0, stderr: float = 20.0, **group: Any) -> Reading:
    at = value or 0.0
    return Reading(
        "in_a_ward_with_a_long_name",
        START + timedelta(days=day),
        group or None,
        value,
        None if value is None else stderr,
        lambda _: (at - 2 * stderr, at + 2 * stderr),
    )


def year(*groups: str) -> list[Reading]:
    return [
        reading(1000.0 + 3 * day, day, ward=ward) for day in range(365) for ward in groups or ("medicine",)
    ]


def longest(text: str) -> int:
    return max(map(len, text.splitlines()))


@pytest.mark.parametrize("width", [72, 80, 110])
def test_a_table_fits_the_terminal_and_keeps_times_and_numbers_whole(width: int) -> None:
    found = [reading(1234567.0, ward="the ward for everything else", sex="female")]
    text = as_text(found, width)
    assert longest(text) <= width
    for whole in ("1,234,567", "2026-01-01", "1,234,527 to 1,234,607"):
        assert whole in text
    table, _, note = as_text(found).partition("\n\n")
    assert "It covers the noise" in note
    assert len(table.splitlines()) == 2  # not folded where it goes to a file or a pipe


def test_digits_that_the_noise_hides_are_not_shown() -> None:
    assert [precision(reading(1.0, stderr=stderr)) for stderr in (200.0, 20.0, 2.0, 0.2, 1e-9)] == [
        0,
        0,
        1,
        2,
        None,
    ]
    assert number(81.0943, 0) == "81"
    assert number(-0.2, 0) == "0"
    assert number(-0.2, 1) == "-0.2"
    assert number(None, 1) == "-"


def test_a_sum_is_shown_on_its_grid() -> None:
    grid = Fraction(1, 100)
    assert on_grid(9600.330000000016, grid) == 9600.33
    assert on_grid(-0.1 - 0.2, grid) == -0.3
    assert on_grid(9600.334217, grid) == 9600.334217  # noise is not hidden
    assert on_grid(3.0000000001, Fraction(1)) == 3.0000000001


def test_nothing_to_draw() -> None:
    assert "Nothing has been published yet" in as_text([])


def test_a_picture_is_an_svg_with_the_band_the_line_and_the_truth() -> None:
    found = year()
    root = ET.fromstring(picture(found, [one.value or 0.0 for one in found]))
    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert names.count("polyline") == 2
    assert names.count("polygon") == 1
    words = " ".join(element.text or "" for element in root.iter())
    assert "noise interval (95 %)" in words
    assert "2026-12-31" in words


def test_an_arrow_table_of_readings_is_shown_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[type, Any] = {}
    formatters = {"text/html": SimpleNamespace(for_type=known.__setitem__)}
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters=formatters))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    show_tables()
    table = as_table(year("medicine", "surgery & <more>"))
    shown = known[pa.Table](table)
    assert shown.count("<svg") == 2
    assert "surgery &amp; &lt;more&gt;" in shown
    assert "2026-12-31T00:00:00Z" in shown
    assert known[pa.Table](pa.table({"a": [1]})) is None
    assert shown == table_html(table)
    assert "too small to tell" in (table_html(as_table([reading(None)])) or "")


def test_many_series_are_cut_short() -> None:
    many = table_html(as_table([reading(1.0, ward=str(number)) for number in range(40)]))
    assert many is not None
    assert many.count("<svg") == 24
    assert "and 16 more series" in many


def narrated(readings: Sequence[Reading]) -> Narrator:
    said = Narrator(aloud=False)
    for one in readings:
        said.saw(one)
    return said


def test_what_run_says_of_the_latest_time() -> None:
    said = narrated([reading(5.0, day, ward=ward) for day in range(3) for ward in "ab"])
    assert said.summary() == "6 readings published, up to 2026-01-03T00:00:00Z."
    assert said.newest() == [
        f"  2026-01-03T00:00:00Z  in_a_ward_with_a_long_name {ward}: 5 (noise ± 40)" for ward in "ab"
    ]
    assert narrated([]).summary() == "Nothing is due yet."
    hidden = "in_a_ward_with_a_long_name: too small to tell (noise interval {})"
    assert narrated([reading(None)]).newest()[0].endswith(hidden.format("-40 to 40"))
    count = replace(reading(21.0), zero_is_nothing=True)
    assert narrated([count]).newest()[0].endswith(hidden.format("-19 to 61"))
    assert narrated([reading(1.0, ward=str(n)) for n in range(20)]).newest() == [
        "  2026-01-01T00:00:00Z  20 readings"
    ]

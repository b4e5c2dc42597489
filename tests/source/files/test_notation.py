"""How text is written: delimiters, decimal signs, thousands, dates and time zones."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.printed import printed
from tidegauge.errors import SourceError, SpecError
from tidegauge.model.quantity import instant
from tidegauge.run.gauge import Gauge
from tidegauge.source.files.notation import Notation
from tidegauge.source.files.source import Files

if TYPE_CHECKING:
    from pathlib import Path

EVER = 2**62


def rows(source: Files) -> list[dict[str, Any]]:
    return [row for batch in source.read(None, EVER) for row in batch.rows.to_pylist()]


def read(folder: Path, kind: str, values: list[str], **written: Any) -> list[Any]:
    """The values of one column, each on a line of its own."""
    notation = Notation(delimiter="|", **written)
    (folder / "t.csv").write_text(
        "ts|id|x\n" + "".join(f"2026-01-01|{n}|{x}\n" for n, x in enumerate(values))
    )
    source = Files("t.csv", time="ts", key="id", types={"x": kind}, notation=notation, base=folder)
    return [row["after"]["x"] for row in rows(source)]


@pytest.mark.parametrize(
    ("written", "values", "expected"),
    [
        ({"decimal": ","}, ["3,5", "-0,25", "7", ",5", "1e3"], [3.5, -0.25, 7, 0.5, 1000]),
        ({"decimal": ","}, ["3.5", "1,2,3", "1.234,5", "x"], [None] * 4),
        ({"decimal": ",", "thousands": "."}, ["1.234,56", "1.234.567", "12,5", "999"],
         [1234.56, 1234567, 12.5, 999]),
        ({"decimal": ",", "thousands": "."}, ["1.23,4", "12.34", "1234.567", ".123"], [None] * 4),
        ({"thousands": ","}, ["1,234.56", "1,234,567", "0.5"], [1234.56, 1234567, 0.5]),
        ({"thousands": ","}, ["1,23", "12,34.5", "1,2345"], [None] * 3),
        ({"thousands": "'"}, ["1'234.5"], [1234.5]),
        ({"decimal": ",", "thousands": " "}, ["1 234,5", "1\u00a0234,5", "1\u202f234,5"], [1234.5] * 3),
    ],
)  # fmt: skip
def test_numbers(
    tmp_path: Path, written: dict[str, str], values: list[str], expected: list[float | None]
) -> None:
    assert read(tmp_path, "number", values, **written) == expected


def test_whole_and_exact_numbers(tmp_path: Path) -> None:
    written = {"decimal": ",", "thousands": "."}
    assert read(tmp_path, "integer", ["1.234", "12", "12,0", "1,5"], **written) == [1234, 12, 12, None]
    (value,) = read(tmp_path, "decimal", ["1.234,56"], **written)
    assert str(value) == "1234.560000000"


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("%d.%m.%Y", "03.04.2026", date(2026, 4, 3)),
        ("%m/%d/%Y", "03/04/2026", date(2026, 3, 4)),
        ("%d.%m.%y", "3.4.26", date(2026, 4, 3)),
        ("%d.%m.%Y", "2026-04-03", date(2026, 4, 3)),
        ("%d.%m.%Y", "04.31.2026", None),
        ("%d.%m.%Y", "31.02.2026", None),
        ("%d-%b-%Y", "03-Apr-2026", date(2026, 4, 3)),
    ],
)
def test_dates(tmp_path: Path, form: str, text: str, expected: date | None) -> None:
    assert read(tmp_path, "date", [text], date_format=(form,)) == [expected]


def test_an_example_of_a_time_is_named_once() -> None:
    shown = Notation(date_format=("%Y-%m-%d", "%d.%m.%Y")).example
    assert shown == "2026-01-31 or 31.01.2026 or 2026-01-31T12:00:00Z"


def test_several_formats_and_offsets(tmp_path: Path) -> None:
    formats = ("%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S %z", "%m/%d/%Y %I:%M %p")
    texts = ["03.04.2026 14:05", "03.04.2026 14:05:00 +0200", "04/03/2026 02:05 PM", "2026-04-03T14:05:00Z"]
    found = read(tmp_path, "timestamp", texts, date_format=formats)
    assert [one.hour for one in found] == [14, 12, 14, 14]


def test_times_without_an_offset_are_in_the_declared_zone(tmp_path: Path) -> None:
    """Also in summer; an offset in the text takes precedence; a date remains the date that was written."""
    texts = ["2026-01-15T12:00", "2026-07-15T12:00", "2026-07-15T12:00Z", "15.07.2026 12:00"]
    written = {"time_zone": "Europe/Berlin", "date_format": ("%d.%m.%Y %H:%M",)}
    assert [one.hour for one in read(tmp_path, "timestamp", texts, **written)] == [11, 10, 12, 10]
    days = ["2026-01-15", "2026-07-15T00:30:00+02:00", "2026-07-14T23:30:00Z", "15.07.2026 00:10"]
    assert [one.day for one in read(tmp_path, "date", days, **written)] == [15, 15, 15, 15]
    twice = read(tmp_path, "timestamp", ["2026-10-25T02:30"], **written)
    assert twice[0].hour == 1, "the later of the two"


@pytest.mark.parametrize("kind", ["csv", "text", "timestamp", "date"])
def test_the_time_of_a_change_in_a_zone(tmp_path: Path, kind: str) -> None:
    if kind == "csv":
        (tmp_path / "t.csv").write_text("ts,id\n2026-07-15,1\n")
    else:
        values = {
            "text": pa.array(["2026-07-15"]),
            "timestamp": pa.array([datetime(2026, 7, 15)], pa.timestamp("ms")),  # noqa: DTZ001
            "date": pa.array([date(2026, 7, 15)]),
        }
        pq.write_table(pa.table({"ts": values[kind], "id": [1]}), tmp_path / "t.parquet")
    name = "t.csv" if kind == "csv" else "t.parquet"
    zoned = Notation(time_zone="America/New_York")
    (row,) = rows(Files(name, time="ts", key="id", notation=zoned, base=tmp_path))
    assert row["time"] == instant(datetime(2026, 7, 15, 4, tzinfo=UTC))


@pytest.mark.parametrize(
    ("written", "key", "said"),
    [
        ({"delimiter": "ab"}, "delimiter", "one character"),
        ({"delimiter": '"'}, "delimiter", "one character"),
        ({"decimal": ";"}, "decimal", 'must be "." or ","'),
        ({"thousands": "."}, "thousands", "must not be the decimal sign"),
        ({"thousands": "x"}, "thousands", "must be"),
        ({"date_format": ("DD.MM.YYYY",)}, "date_format", "write %d, %m and %Y, like '%d.%m.%Y'"),
        ({"date_format": ("%H:%M",)}, "date_format", "must name day, month and year"),
        ({"date_format": ("%d.%m.%Y %Q",)}, "date_format", "%Q is not known"),
        ({"time_zone": "Berlin"}, "time_zone", "Europe/Berlin"),
    ],
)
def test_declarations_that_cannot_be(written: dict[str, Any], key: str, said: str) -> None:
    with pytest.raises(SpecError) as error:
        Notation(**written)
    assert error.value.key == f"source.{key}"
    assert said in str(error.value)


def test_the_keys_of_a_declaration(tmp_path: Path) -> None:
    """One toml with all of them; a wrong one is named."""
    toml = """
[source]
kind = "files"
path = "t.csv"
time = "Datum"
key = "Nr"
delimiter = ";"
decimal = ","
thousands = "."
date_format = ["%d.%m.%Y", "%d.%m.%Y %H:%M"]
time_zone = "Europe/Berlin"
nulls = ["NA"]
types = { Betrag = "number" }
[constraint]
at_most = 2
[budget]
epsilon = 1e9
[release.sum]
sql = "SELECT SUM(Betrag) FROM t"
bounds.Betrag = [0, 10000]
start = "2026-01-03"
every = "1 day"
for = "1 day"
"""
    (tmp_path / "t.csv").write_text(
        "\ufeffDatum;Nr;Betrag\r\n01.01.2026;1;1.234,50\r\n02.01.2026 14:00;2;NA\r\n"
    )
    (tmp_path / "tidegauge.toml").write_text(toml)
    gauge = Gauge.from_file(tmp_path / "tidegauge.toml")
    readings = list(gauge.run())
    assert round(readings[-1].value or 0, 2) == 1234.5
    assert not [name for name in printed(gauge.status().as_json())["operator_only"] if "parse" in name], (
        "NA is an empty value"
    )
    (tmp_path / "tidegauge.toml").write_text(toml.replace('"Europe/Berlin"', '"Berlin"'))
    with pytest.raises(SpecError, match=r"source.time_zone: 'Berlin' is not the name of a time zone"):
        Gauge.from_file(tmp_path / "tidegauge.toml")


@pytest.mark.parametrize(("sign", "word"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_a_file_with_another_delimiter(tmp_path: Path, sign: str, word: str) -> None:
    (tmp_path / "t.csv").write_text(f"ts{sign}id{sign}x\n2026-01-01{sign}1{sign}3,5\n")
    with pytest.raises(SourceError, match=f"separated by {word}.*delimiter = "):
        rows(Files("t.csv", time="ts", key="id", base=tmp_path))
    (row,) = rows(Files("t.csv", time="ts", key="id", notation=Notation(delimiter=sign), base=tmp_path))
    assert row["after"] == {"id": "1", "x": "3,5"}

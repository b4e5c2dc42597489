"""Tables in text files that are read whole: current rows, versions, and pictures on several dates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.printed import printed
from tidegauge.errors import SourceError, SpecError
from tidegauge.model.quantity import instant, rfc3339
from tidegauge.run.gauge import Gauge
from tidegauge.source.files.notation import Notation
from tidegauge.source.snapshots.history import History
from tidegauge.source.snapshots.source import Snapshots
from tidegauge.source.snapshots.text import TextReader

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "Jane Doe"


def changes(
    source: History, until: str, position: str | None = None
) -> tuple[list[tuple[str, str, Any]], str]:
    """Time, key and new row of each change, and the position."""
    (batch,) = source.read(position, instant(until))
    rows = sorted((row["time"], row["entry"], row["after"]) for row in batch.rows.to_pylist())
    return [(day(at), key, after and after["x"]) for at, key, after in rows], batch.position


def day(at: int) -> str:
    return rfc3339(at)[:10]


def history(folder: Path, text: str, notation: Notation | None = None, **options: Any) -> History:
    (folder / "t.csv").write_text(text)
    reader = TextReader("t.csv", "t", notation=notation, base=folder)
    ends = {} if options.keys() & {"every", "current"} else {"valid_to": "t"}
    named = {"valid_from": "f"} | ends
    return History(reader, key="id", folder=folder / "images", **(named | options))


VERSIONS = "id,x,f,t\n1,a,2026-01-01,2026-01-05\n1,b,2026-01-05,\n2,c,2026-01-02,2026-01-04\n3,d,,\n"


def test_versions(tmp_path: Path) -> None:
    """A version without a beginning was always valid; one without an end is valid now."""
    found, _ = changes(history(tmp_path, VERSIONS), "2026-02-01")
    assert found == [
        ("0001-01-01", "3", "d"),
        ("2026-01-01", "1", "a"),
        ("2026-01-02", "2", "c"),
        ("2026-01-04", "2", None),
        ("2026-01-05", "1", "b"),
    ]


MARKED = """id,x,f,c,p
1,a,2026-01-01,no,p
1,b,2026-01-05,yes,p
2,c,2026-01-02,0,p
2,d,2026-01-04,,p
3,e,2026-01-03,t,p
3,g,2026-01-20,f,p
4,h,2026-01-06,N,p
"""


def test_versions_that_are_marked(tmp_path: Path) -> None:
    """The next version ends one; a last one that is not marked does not count; a marked one has not ended."""
    source = history(tmp_path, MARKED, current="c")
    assert "c" not in source.columns
    found, position = changes(source, "2026-02-01")
    assert found == [
        ("2026-01-01", "1", "a"),
        ("2026-01-02", "2", "c"),
        ("2026-01-03", "3", "e"),
        ("2026-01-04", "2", None),
        ("2026-01-05", "1", "b"),
    ]
    source.acknowledge(position)
    # Key 1 loses its mark without a next version: it is gone since the last read, and stays so.
    later = MARKED.replace("01-05,yes", "01-05,no") + "2,i,2026-02-03,true,p\n"
    source = history(tmp_path, later, current="c")
    found, position = changes(source, "2026-03-01", position)
    # The last version of key 2 now has a next one that ends it, so it counts after all.
    assert found == [("2026-02-01", "1", None), ("2026-02-01", "2", "d"), ("2026-02-03", "2", "i")]
    source.acknowledge(position)
    assert changes(source, "2026-04-01", position)[0] == []


@pytest.mark.parametrize("others", ["", "1,b,2026-01-05,true,q\n"])
def test_the_end_of_a_marked_version_does_not_depend_on_another_unit(tmp_path: Path, others: str) -> None:
    text = "id,x,f,c,p\n1,a,2026-01-01,false,p\n" + others
    found, _ = changes(history(tmp_path, text, current="c", unit="p"), "2026-02-01")
    assert [one for one in found if one[2] == "a"] == []


def test_a_mark_that_is_not_known(tmp_path: Path) -> None:
    source = history(tmp_path, MARKED.replace(",yes,", f",{SECRET},"), current="c")
    for refused in (source.rehearse, lambda: changes(source, "2026-02-01")):
        with pytest.raises(SourceError, match="neither true nor false") as error:
            refused()
        assert SECRET not in str(error.value)
    assert not source.doctor()[0].ok


def test_the_last_day_of_a_version(tmp_path: Path) -> None:
    text = "id,x,f,t\n1,a,2026-01-01,2026-01-04\n1,b,2026-01-05,\n2,c,2026-01-02,2026-01-02\n"
    found, _ = changes(history(tmp_path, text, inclusive=True), "2026-02-01")
    assert found == [
        ("2026-01-01", "1", "a"),
        ("2026-01-02", "2", "c"),
        ("2026-01-03", "2", None),
        ("2026-01-05", "1", "b"),
    ]


def test_versions_as_excel_writes_them(tmp_path: Path) -> None:
    text = "\ufeffid;x;f;t\r\n1;a;31.12.2025 23:30;NULL\r\n"
    notation = Notation(
        delimiter=";", date_format=("%d.%m.%Y %H:%M",), time_zone="America/New_York", nulls=("NULL",)
    )
    assert changes(history(tmp_path, text, notation), "2026-02-01")[0] == [("2026-01-01", "1", "a")]


@pytest.mark.parametrize(
    ("column", "text"),
    [("f", VERSIONS.replace("2026-01-02", "2/1/26")), ("t", VERSIONS.replace("2026-01-04", SECRET))],
)
def test_a_time_that_is_none_is_refused(tmp_path: Path, column: str, text: str) -> None:
    """An end that cannot be read must not mean that the version is valid for good."""
    source = history(tmp_path, text)
    for attempt in (source.rehearse, lambda: next(iter(source.read(None, 2**60)))):
        with pytest.raises(SourceError) as error:
            attempt()
        assert str(error.value).startswith(
            f"t.csv, line 4: column '{column}' does not contain a time; expected"
        )
        assert SECRET not in str(error.value)
    assert not source.doctor()[0].ok


PICTURES = "f,id,x\n2026-01-01,1,a\n2026-01-01,2,b\n2026-01-02,1,a\n2026-01-03,1,c\n2026-01-03,2,b\n,9,z\n"


def test_pictures_on_several_dates(tmp_path: Path) -> None:
    """A row that is missing from a picture is deleted on its date; without a date a row does not count."""
    source = history(tmp_path, PICTURES, every="1 day")
    found, _ = changes(source, "2026-02-01")
    assert found == [
        ("2026-01-01", "1", "a"),
        ("2026-01-01", "2", "b"),
        ("2026-01-02", "1", "a"),
        ("2026-01-02", "2", None),
        ("2026-01-03", "1", "c"),
        ("2026-01-03", "2", "b"),
        ("2026-01-04", "1", None),
        ("2026-01-04", "2", None),
    ]


def test_a_late_picture(tmp_path: Path) -> None:
    """On the day of the next picture the last one is still valid; a row that left is deleted then."""
    source = history(tmp_path, PICTURES, every="1 day")
    found, position = changes(source, "2026-01-04")
    assert found[-2:] == [("2026-01-03", "1", "c"), ("2026-01-03", "2", "b")]
    (tmp_path / "t.csv").write_text(PICTURES + "2026-01-04,1,c\n")
    found, position = changes(source, "2026-01-05", position)
    assert found == [("2026-01-04", "2", None)]
    found, _ = changes(source, "2026-01-06", position)
    assert found == [("2026-01-05", "1", None)]


def test_another_rows_date_changes_nothing(tmp_path: Path) -> None:
    """What becomes of a row depends on its own dates alone: a unit with a date of its own is no picture."""
    plain, _ = changes(history(tmp_path, PICTURES, every="1 day"), "2026-01-04")
    more, _ = changes(history(tmp_path, PICTURES + "2026-01-03T12:00,7,q\n", every="1 day"), "2026-01-04")
    assert [one for one in more if one[1] != "7"] == plain


def test_a_picture_with_two_rows_of_one_key_is_refused_before_anything_is_committed(tmp_path: Path) -> None:
    """As a snapshot is: the key is wrong."""
    text = PICTURES + "2026-01-01,1,b\n"
    pictures = TOML.replace('valid_from = "f"\nvalid_to = "t"', 'taken = "f"\nevery = "1 day"')
    (tmp_path / "tidegauge.toml").write_text(pictures.replace('types = { age = "integer" }', ""))
    (tmp_path / "t.csv").write_text(text)
    gauge = Gauge.from_file(tmp_path / "tidegauge.toml")
    with pytest.raises(SourceError, match="several rows have the same key"):
        list(gauge.run())
    assert gauge.ledger() == []


def test_a_monthly_picture(tmp_path: Path) -> None:
    text = "f,id,x\n2026-01-31,1,a\n2026-02-28,2,b\n2026-03-31,2,b\n"
    found, _ = changes(history(tmp_path, text, every="1 month"), "2026-04-30")
    assert found[:3] == [("2026-01-31", "1", "a"), ("2026-02-28", "1", None), ("2026-02-28", "2", "b")]


def test_a_current_table(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"id": 1, "age": 30}\n{"id": 2, "age": 31}\n')
    reader = TextReader("t.jsonl", "t", types={"age": "integer"}, base=tmp_path)
    source = Snapshots(reader, key="id", folder=tmp_path / "images")
    assert source.columns == {"id": "VARCHAR", "age": "BIGINT"}
    (batch,) = source.read(None, 2**60)
    assert [row["after"] for row in batch.rows.to_pylist()] == [
        {"id": "1", "age": 30},
        {"id": "2", "age": 31},
    ]
    (tmp_path / "t.jsonl").write_text('{"id": 1, "age": 31}\nnothing\n')
    with pytest.raises(SourceError, match=r"t\.jsonl, line 2: the line is not a JSON object"):
        list(source.read(batch.position, 2**60))


def test_two_rows_with_one_key_are_refused_before_the_commit(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,x\n1,a\n2,b\n1,c\n")
    source = Snapshots(TextReader("t.csv", "t", base=tmp_path), key="id", folder=tmp_path / "images")
    with pytest.raises(SourceError, match="several rows have the same key"):
        source.rehearse()
    assert not (tmp_path / "images").exists()


def test_columns_that_are_missing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"id;x\n1;{SECRET}\n")
    source = Snapshots(TextReader("t.csv", "t", base=tmp_path), key="id", folder=tmp_path / "images")
    with pytest.raises(SourceError, match="separated by ';': declare delimiter"):
        source.rehearse()
    (tmp_path / "t.csv").write_text(f"1,{SECRET}\n2,x\n")
    with pytest.raises(SourceError) as error:
        source.rehearse()
    assert SECRET not in str(error.value), "without a header the first line is data"
    with pytest.raises(SpecError, match=r"source\.types\.x: must be one of"):
        TextReader("t.csv", "t", types={"x": "BIGINT"})


TOML = """
[source]
kind = "snapshots"
of = "csv"
path = "t.csv"
table = "t"
key = "id"
valid_from = "f"
valid_to = "t"
types = { age = "integer" }
[constraint]
at_most = 3
[budget]
epsilon = 1e9
[release.people]
sql = "SELECT COUNT(*) FROM t"
start = "2026-01-02"
every = "1 day"
for = "2 days"
"""


@pytest.mark.parametrize("bad", [1, 2])
def test_values_that_do_not_parse(tmp_path: Path, bad: int) -> None:
    """Counted as in changelogs; more than 1 % refuse the first run."""
    ages = [SECRET] * bad + ["30"] * (100 - bad)
    (tmp_path / "t.csv").write_text(
        "id,age,f,t\n" + "".join(f"{n},{age},2026-01-01,\n" for n, age in enumerate(ages))
    )
    (tmp_path / "tidegauge.toml").write_text(
        TOML.replace("COUNT(*)", "AVG(age)").replace("start", "bounds.age = [0, 100]\nstart")
    )
    gauge = Gauge.from_file(tmp_path / "tidegauge.toml")
    if bad == 2:
        with pytest.raises(SourceError, match=r"t\.csv, line 2: more than 1 % of the values of column 'age'"):
            list(gauge.run())
        assert gauge.ledger() == []
        assert not all(check.ok for check in gauge.doctor())
        return
    assert round(list(gauge.run())[-1].value or 0) == 30
    assert printed(gauge.status().as_json())["operator_only"]["values of age that do not parse"] == 1
    assert all(check.ok for check in gauge.doctor())
    assert json.dumps(SECRET) not in json.dumps(gauge.status().as_json())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('valid_to = "t"', 'taken = "f"', "a history table has valid_from and valid_to"),
        ('valid_from = "f"\nvalid_to = "t"', 'taken = "f"', "taken: needs every"),
        ('valid_from = "f"\nvalid_to = "t"', "inclusive = true", "inclusive: is for history tables"),
        ('valid_to = "t"', 'valid_to = "f"', "must name different columns"),
        ('valid_to = "t"', 'valid_to = "t"\ndeleted = "t"', "must name different columns"),
        ('of = "csv"', 'of = "sqlite"\ndelimiter = ";"', "delimiter: is for csv, jsonl and parquet"),
        ('of = "csv"', 'of = "csv"\ndecimal = "x"', 'source.decimal: must be "." or ","'),
    ],
)
def test_declarations_that_cannot_be(tmp_path: Path, old: str, new: str, said: str) -> None:
    (tmp_path / "tidegauge.toml").write_text(TOML.replace(old, new))
    with pytest.raises(SpecError, match=said.replace("(", r"\(")):
        Gauge.from_file(tmp_path / "tidegauge.toml")

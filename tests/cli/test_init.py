"""`init` on files as they are, then `run`: the readings are the truth, or a message says what to do."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from tests.cli.test_verbs import Shell
from tidegauge.cli.template import report
from tidegauge.model.source import Draft

if TYPE_CHECKING:
    from typing import Any


@pytest.fixture
def tidegauge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(capsys)


def declared() -> dict[str, Any]:
    return tomllib.loads(Path("tidegauge.toml").read_text())


def last_reading(tidegauge: Shell, every: str) -> float:
    """Run with next to no noise."""
    text = (
        Path("tidegauge.toml")
        .read_text()
        .replace("epsilon = 1 ", "epsilon = 1e9 ")
        .replace("epsilon = 1\n", "epsilon = 1e9\n")
    )
    Path("tidegauge.toml").write_text(text.replace('every = "1 day"', f'every = "{every}"', 1))
    tidegauge("run", "--once")
    return float(round(tidegauge.json("readings", "--last", "1")[-1]["value"]))


def versions() -> str:
    """3,000 people, of whom 2,100 have a version that is still valid."""
    rows = ["person_id,city,age,valid_from,valid_to,is_current"]
    for person in range(3000):
        first = f"2026-0{person % 5 + 1}-{person % 28 + 1:02}"
        rows.append(f"{person},rome,{person % 90},{first},2026-06-15,false")
        if person % 10 < 7:
            rows.append(f"{person},oslo,{person % 90},2026-06-15,,true")
    return "\n".join([*rows, ""])


@pytest.mark.parametrize("kind", ["csv", "csv of excel", "parquet", "duckdb"])
def test_versions_publish_who_is_there(tidegauge: Shell, kind: str) -> None:
    Path("people.csv").write_text(versions())
    name = "people.csv"
    if kind == "csv of excel":
        lines = [line.replace(",", ";") for line in versions().splitlines()]
        Path(name).write_text("\ufeff" + "\r\n".join(lines), "utf-8")
    if kind == "parquet":
        pq.write_table(pa_csv.read_csv(name), name := "people.parquet")
    if kind == "duckdb":
        with duckdb.connect("people.duckdb") as db:
            db.execute("CREATE TABLE people AS SELECT * FROM read_csv('people.csv')")
        name = "people.duckdb"
    tidegauge("init", name)
    source = declared()["source"]
    assert source["kind"] == "snapshots"
    assert (source["key"], source["valid_from"], source["valid_to"]) == (
        "person_id",
        "valid_from",
        "valid_to",
    )
    assert "unit" not in source, "a row is a person"
    assert declared()["release"]["total"]["start"] == "2026-01-01"
    assert last_reading(tidegauge, "10 days") == 2100


def marked() -> str:
    """3,000 people, of whom 2,100 have a current version; no column says when a version ended."""
    rows = ["person_id,city,age,valid_from,is_current"]
    for person in range(3000):
        first, here = f"2026-0{person % 5 + 1}-{person % 28 + 1:02}", person % 10 < 7
        rows.append(f"{person},rome,{person % 90},{first},false")
        rows.append(f"{person},oslo,{person % 90},2026-06-15,{str(here).lower()}")
    return "\n".join([*rows, ""])


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb"])
def test_versions_that_are_only_marked_publish_who_is_there(tidegauge: Shell, kind: str) -> None:
    Path("people.csv").write_text(marked())
    name = f"people.{kind}"
    if kind == "parquet":
        pq.write_table(pa_csv.read_csv("people.csv"), name)
    if kind == "duckdb":
        with duckdb.connect(name) as db:
            db.execute("CREATE TABLE people AS SELECT * FROM read_csv('people.csv')")
    said = tidegauge("init", name)
    assert "no column says when a version ends" in " ".join(str(said).split())
    source = declared()["source"]
    assert (source["valid_from"], source["current"]) == ("valid_from", "is_current")
    assert "valid_to" not in source
    assert last_reading(tidegauge, "10 days") == 2100


def test_a_changelog_with_suffixes(tidegauge: Shell) -> None:
    """100 enter, 40 of them leave: a row without new values is a deletion."""
    rows = ["at,stay_id,ward_before,ward_after"]
    rows += [f"2026-01-01T{n % 24:02}:00:00Z,{n},,{'ab'[n % 2]}" for n in range(100)]
    rows += [f"2026-01-05T{n % 24:02}:00:00Z,{n},{'ab'[n % 2]}," for n in range(40)]
    Path("stays.csv").write_text("\n".join([*rows, ""]))
    tidegauge("init", "stays.csv")
    source = declared()["source"]
    assert (source["kind"], source["before"], source["after"]) == ("files", "*_before", "*_after")
    assert last_reading(tidegauge, "1 day") == 60


def test_a_changelog_of_excel(tidegauge: Shell) -> None:
    rows = "".join(
        f"{n % 28 + 1:02}.0{n % 3 + 1}.2026 14:05;{n};{n % 40};{n}.234,5{n % 10};a\r\n" for n in range(1, 200)
    )
    Path("kunden.csv").write_bytes(f"\ufeffDatum;Id;Kundennr;Betrag;Art\r\n{rows}".encode())
    printed = tidegauge("init", "kunden.csv")
    source = declared()["source"]
    assert source["delimiter"] == ";"
    assert (source["decimal"], source["thousands"]) == (",", ".")
    assert source["date_format"] == "%d.%m.%Y %H:%M"
    assert source["types"] == {"Betrag": "number"}
    assert (source["unit"], source["max_rows"]) == ("Kundennr", 5)
    text = Path("tidegauge.toml").read_text()
    assert 'AVG(\\"Betrag\\")' in text
    assert 'Kundennr\\")' not in text, "no mean of a key"
    assert "so a person is protected, not a row" in printed
    assert last_reading(tidegauge, "1 day") == 199


def test_no_data_where_there_is_no_terminal(tidegauge: Shell) -> None:
    Path("t.csv").write_text("ts,id,name\n2026-01-01,1,Jane Doe\n2026-01-02,2,John\n2026-01-03,3,Jim\n")
    assert "Jane" not in tidegauge("init", "t.csv")
    draft = Draft(
        (), "t", (), understood=("A row is: x",), unsure=("check this",), rows=("2026 set 1 name=Jane Doe",)
    )
    assert "Jane Doe" in "\n".join(report(draft, terminal=True))
    assert "DATA" in "\n".join(report(draft, terminal=True))
    assert report(draft, terminal=False) == ["A row is: x", "Not sure, please check:", "  - check this."]


def test_pictures_of_a_table(tidegauge: Shell) -> None:
    rows = [f"2026-01-{day:02},{key},a\n" for day in range(1, 20) for key in range(50 + day)]
    Path("pictures.csv").write_text("snapshot_date,id,s\n" + "".join(rows))
    tidegauge("init", "pictures.csv")
    source = declared()["source"]
    assert (source["taken"], source["every"]) == ("snapshot_date", "1 day")
    assert declared()["release"]["total"]["for"] == "18 days"
    Path("tidegauge.toml").write_text(
        Path("tidegauge.toml").read_text().replace("epsilon = 1\n", "epsilon = 1e9\n")
    )
    tidegauge("run", "--once")
    values = [round(one["value"]) for one in tidegauge.json("readings")]
    assert values == [50 + day for day in range(1, 20)]


def test_a_current_table_is_read_every_day(tidegauge: Shell) -> None:
    Path("staff.csv").write_text(
        "employee_id;age;note\n" + "".join(f"{n};{n % 50};x{n}\n" for n in range(30))
    )
    tidegauge("init", "staff.csv")
    source = declared()["source"]
    assert (source["kind"], source["of"], source["key"], source["every"]) == (
        "snapshots",
        "csv",
        "employee_id",
        "1 day",
    )


def test_another_kind_may_be_named(tidegauge: Shell) -> None:
    Path("stays.csv").write_text("id,start_date,end_date\n1,2026-01-01,2026-01-05\n2,2026-01-02,\n")
    assert "--kind files" in tidegauge("init", "stays.csv")
    tidegauge("init", "stays.csv", "--kind", "files", "--file", "other.toml")
    assert tomllib.loads(Path("other.toml").read_text())["source"]["time"] == "start_date"


def test_an_event_that_cannot_be_read_is_named(tidegauge: Shell) -> None:
    event = '{"after": {"id": 1}, "source": {"name": "s", "table": "t", "ts_ms": 1}, "op": "c"}\n'
    Path("events.jsonl").write_text(f"{event}{{not json\n")
    assert "events.jsonl, line 2: is not JSON" in tidegauge.refused("init", "events.jsonl")
    Path("events.jsonl").write_text(event)
    tidegauge("init", "events.jsonl")
    assert declared()["source"]["columns"] == {"id": "BIGINT"}


def test_a_glob(tidegauge: Shell) -> None:
    for month in (1, 2):
        Path(f"log-{month}.csv").write_text(
            f"ts,id,s\n2026-0{month}-05,{month},a\n2026-0{month}-06,{month},b\n"
        )
    tidegauge("init", "log-*.csv")
    assert declared()["source"]["table"] == "log"
    assert declared()["release"]["total"] == {
        "sql": 'SELECT COUNT(*) FROM "log"', "start": "2026-01-05", "every": "1 day", "for": "32 days"
    }  # fmt: skip
    Path("log-2.csv").write_text("ts,id,state\n2026-02-05,1,a\n")
    said = tidegauge.refused("run", "--once")
    assert (
        "log-2.csv: column 's', which the first file has, is missing; the columns are 'ts', 'id', 'state'"
        in said
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "t.csv: the file is empty; its first line must name the columns"),
        (b"ts,id,s,s\n", "t.csv: two columns are named 's'; rename one of them in the first line"),
        ("ts;id;ort\n2026-01-01;1;Köln\n".encode("latin-1"), "line 2: the text is not UTF-8"),
        ("ts,id\n2026-01-01,1\n".encode("utf-16"), "line 1: the text is not UTF-8 (UTF-16)"),
        (b"2026-01-01,1,Jane\n2026-01-02,2,John\n", "line 1: the first line seems to be data"),
        (b"date,id\n13/01/2026,1\n01/13/2026,2\n", "line 2: column 'date' looks like a time"),
        (b'ts,id,s\n2026-01-01,1,"a\n2026-01-02,2,b\n', "line 2: a quote is not closed"),
        (
            b"ts,id,s\n2026-01-01,1,3,5\n",
            "line 2: the row has 4 fields, the header 3; a field that contains ','",
        ),
    ],
)
def test_what_cannot_be_read(tidegauge: Shell, content: bytes, said: str) -> None:
    Path("t.csv").write_bytes(content)
    refusal = tidegauge.refused("init", "t.csv")
    assert said in refusal
    assert "Jane" not in refusal
    assert not Path("tidegauge.toml").exists()

"""The first run reads and checks what it can before it commits:
after a refusal nothing is, and the next try is free."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.called import call
from tests.servers.postgres import Server, binaries
from tidegauge.run.gauge import Gauge
from tidegauge.source.files.source import Files

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASE = """
[constraint]
at_most = 4

[budget]
epsilon = 1e9

[release.people]
sql = "SELECT COUNT(*) FROM people"
start = "2026-01-02"
every = "1 day"
for = "3 days"
"""
FILES = """
[source]
kind = "files"
path = "{path}"
table = "people"
time = "time"
entry = "id"
types = {{ age = "integer" }}
"""
ROWS = "time,id,age\n" + "".join(f"2026-01-0{1 + i % 3}T12:00:00Z,p{i},{i}\n" for i in range(30))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def uncommitted(gauge: Gauge) -> bool:
    return gauge.ledger() == [] and gauge.status().plan is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            ROWS.replace("2026-01-01T12:00:00Z,p27", "01/02/26,p27"),
            "line 29: column 'time' (time) does not contain a time",
        ),
        (
            ROWS.replace("2026-01-01T12:00:00Z,p27", "2099,p27"),
            "line 29: column 'time' (time) does not contain a time",
        ),
        (ROWS + "2026-01-01T12:00:00Z,p30\n", "line 32: the row has 2 fields, the header 3"),
        (
            ROWS + "2026-01-01T12:00:00Z,p30\n2026-01-01,p31,3\n",
            "line 32: the row has 2 fields, the header 3",
        ),
        (ROWS + ",p30,5\n", "line 32: column 'time' (time) is empty"),
        (ROWS.replace("time,id", "when,id"), "column 'time' (time) is missing"),
        (ROWS + '2026-01-01T12:00:00Z,"p30,5\n', "line 32: a quote is not closed"),
    ],
)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_file_that_cannot_be_read(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, said: str, *, elsewhere: bool
) -> None:
    """Whether the file is corrected where it is, or another is named."""
    toml = folder / "tidegauge.toml"
    toml.write_text(FILES.format(path="people.csv") + RELEASE)
    (folder / "people.csv").write_text(text)
    code, printed = call(capsys, "run", "--once")
    assert code == 2
    assert said in printed
    assert "Nothing was published or spent." in printed
    assert uncommitted(Gauge.from_file(toml))
    if elsewhere:
        toml.write_text(FILES.format(path="better.csv") + RELEASE)
    (folder / ("better.csv" if elsewhere else "people.csv")).write_text(ROWS)
    assert call(capsys, "run", "--once")[0] == 0
    assert [round(reading.value or 0) for reading in Gauge.from_file(toml).published()] == [10, 20, 30, 30]


def test_a_later_file_of_a_glob_is_read_before_the_commit(folder: Path) -> None:
    toml = folder / "tidegauge.toml"
    toml.write_text(FILES.format(path="people-*.csv") + RELEASE)
    (folder / "people-1.csv").write_text(ROWS)
    (folder / "people-2.csv").write_text("time,id,age\n2026-01-01,q1,3\nlately,q2,4\n")
    gauge = Gauge.from_file(toml)
    with pytest.raises(
        Exception, match=r"people-2\.csv, line 3: column 'time' \(time\) does not contain a time"
    ):
        list(gauge.run())
    assert uncommitted(gauge)


def test_what_is_read_before_the_commit_is_what_is_read_after_it(folder: Path) -> None:
    """Whatever `read` takes, `rehearse` takes: one value in many that is not of its type,
    a row without a key, a time to come."""
    (folder / "people.csv").write_text(
        ROWS + "2026-01-01,p1,5\n" * 100 + "2026-01-01,,5\n2026-01-01,p40,old\n2999-01-01,p41,5\n"
    )
    source = Files("people.csv", time="time", key="id", types={"age": "integer"})
    source.rehearse()
    assert sum(batch.rows.num_rows for batch in source.read(None, 2**60)) == 133


def test_a_table_that_is_not_there_yet(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A source that nothing need be installed for has a doctor all the same."""
    with closing(sqlite3.connect(folder / "app.db")) as db:
        db.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, age INTEGER, begin TEXT, until TEXT)")
        db.execute("INSERT INTO people VALUES (1, 5, '2026-01-01T00:00:00', NULL), (2, 5, 'lately', NULL)")
        db.commit()
    source = """
[source]
kind = "snapshots"
of = "sqlite"
path = "app.db"
table = "people"
entry = "id"
valid_from = "begin"
valid_to = "ends"
"""
    toml = folder / "tidegauge.toml"
    toml.write_text(source + RELEASE)
    code, printed = call(capsys, "run", "--once")
    assert code == 2
    assert "ends" in printed
    assert uncommitted(Gauge.from_file(toml))
    toml.write_text(source.replace("ends", "until") + RELEASE)
    assert call(capsys, "run", "--once")[0] == 0
    assert len(Gauge.from_file(toml).ledger()) == 1


def test_a_witness_that_cannot_be_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toml = folder / "tidegauge.toml"
    (folder / "people.csv").write_text(ROWS)
    toml.write_text(FILES.format(path="people.csv") + RELEASE + '\n[store]\nwitness = "elsewhere/people"\n')
    code, printed = call(capsys, "run", "--once")
    assert code == 2
    assert (
        "the witness people cannot be written: No such file or directory. Nothing was read, committed"
        in printed
    )
    assert uncommitted(Gauge.from_file(toml))
    (folder / "elsewhere").mkdir()
    assert call(capsys, "run", "--once")[0] == 0
    assert [path.name for path in (folder / "elsewhere").iterdir()] == ["people"]


# -- a slot that another gauge uses --------------------------------------------------------------------------

POSTGRES = """
[source]
kind = "postgres"
dsn = "env:FIRST_RUN_DSN"
table = "people"
entry = "id"
"""
LIVE = RELEASE.replace('start = "2026-01-02"\n', "").replace("1 day", "1 second").replace("3 days", "1 day")


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server(binaries()[0])
    yield running
    running.stop()


def test_an_occupied_slot(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIRST_RUN_DSN", server.dsn())
    with server.connect() as admin:
        admin.execute("CREATE TABLE people (id int PRIMARY KEY, age int)")
    for name in ("one", "other"):
        (folder / name).mkdir()
        (folder / name / "tidegauge.toml").write_text(POSTGRES + LIVE)
    one, other = (Gauge.from_file(folder / name / "tidegauge.toml") for name in ("one", "other"))
    list(one.run())
    code, printed = call(capsys, "run", "--once", "-f", "other/tidegauge.toml")
    assert code == 2
    assert "belongs to a gauge that has already loaded the table" in printed
    assert "Nothing was read, committed or spent" in printed
    assert uncommitted(other)
    assert all(check.ok for check in one.doctor())
    list(one.run())  # which is as it was
    (folder / "other" / "tidegauge.toml").write_text(f'{POSTGRES}slot = "another"\n{LIVE}')
    assert call(capsys, "run", "--once", "-f", "other/tidegauge.toml")[0] == 0

"""Values that do not parse: counted, shown to the operator,
and refused before the first commit if they are many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.printed import printed
from tidegauge.errors import SourceError
from tidegauge.run.gauge import Gauge
from tidegauge.source.files import source as module
from tidegauge.source.files import tabular
from tidegauge.source.files.progress import Progress
from tidegauge.source.files.source import Files
from tidegauge.source.files.unread import Unread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from tidegauge.source.files.tabular import Tabular

SECRET = "Jane Doe"
TOML = """
[source]
kind = "files"
path = "t.csv"
time = "ts"
key = "id"
types = { age = "integer" }
[constraint]
at_most = 2
[budget]
epsilon = 1e9
[release.people]
sql = "SELECT COUNT(*) FROM t"
start = "2026-01-02"
every = "1 day"
for = "2 days"
"""


def gauge(folder: Path, bad: int, of: int) -> Gauge:
    """Of so many ages, so many are none; the first of them last but for one row."""
    ages = ["7"] * (of - bad - 1) + [SECRET] * bad + ["8"]
    lines = [f"2026-01-01,{n},{age}\n" for n, age in enumerate(ages)]
    (folder / "t.csv").write_text("ts,id,age\n" + "".join(lines) + "2026-01-01,x,\n")
    (folder / "tidegauge.toml").write_text(TOML)
    return Gauge.from_file(folder / "tidegauge.toml")


def test_over_one_percent_refuses_the_first_run(tmp_path: Path) -> None:
    one = gauge(tmp_path, bad=11, of=1000)
    with pytest.raises(SourceError) as error:
        list(one.run())
    assert str(error.value).startswith(
        "t.csv, line 990: more than 1 % of the values of column "
        "'age' are not of type integer; this is the first."
    )
    assert SECRET not in str(error.value)
    assert "11" not in str(error.value)
    assert one.ledger() == []
    checks = {check.name: check for check in one.doctor()}
    assert not checks["types"].ok
    assert '1.1 % of "age"' in checks["types"].detail
    assert "secret" in checks["types"].detail
    assert list(gauge(tmp_path, bad=0, of=1000).run()), "a corrected file is accepted"


def test_up_to_one_percent_is_counted_and_shown(tmp_path: Path) -> None:
    one = gauge(tmp_path, bad=10, of=1000)
    assert list(one.run())[-1].value == pytest.approx(1000)
    shown = printed(one.status().as_json())["operator_only"]
    assert shown["values of age that do not parse"] == 10
    assert shown["values of age that do not parse, percent"] == 1
    checks = {check.name: check for check in one.doctor()}
    assert checks["types"].ok
    assert '1.0 % of "age"' in checks["types"].detail


def test_a_gauge_that_runs_goes_on(tmp_path: Path) -> None:
    """After the commit nothing is refused for its value: the count shows it."""
    one = gauge(tmp_path, bad=0, of=10)
    list(one.run("2026-01-02"))
    with (tmp_path / "t.csv").open("a") as file:
        file.writelines(f"2026-01-03,y{n},{SECRET}\n" for n in range(5))
    assert list(one.run())[-1].value == pytest.approx(15)
    assert printed(one.status().as_json())["operator_only"]["values of age that do not parse"] == 5
    assert {check.name: check.ok for check in one.doctor()}["types"]


def test_the_first_run_reads_the_files_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows that were checked before the commit are the rows that are folded after it."""
    one = gauge(tmp_path, bad=0, of=10)
    reads: list[str] = []
    numbered = tabular.numbered

    def counted(file: Tabular) -> Iterator[pa.Table]:
        reads.append(file.name)
        return numbered(file)

    monkeypatch.setattr(module, "numbered", counted)
    assert list(one.run())[-1].value == pytest.approx(10)
    assert reads == ["t.csv"]


def test_rows_that_come_between_check_and_read_are_read_next(tmp_path: Path) -> None:
    gauge(tmp_path, bad=0, of=10)
    source = Files("t.csv", time="ts", key="id", base=tmp_path)
    source.rehearse()
    with (tmp_path / "t.csv").open("a") as file:
        file.write("2026-01-01,late,5\n2026-02-01,later,5\n")
    (batch,) = source.read(None, 2**60)
    assert len(batch.rows) == 11
    (more,) = source.read(batch.position, 2**60)
    assert more.rows["entry"].to_pylist() == ["late", "later"]


def test_the_check_looks_at_all_times_and_the_read_at_those_due(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("ts,id\n2026-01-01,a\n2999-01-01,b\n")
    source = Files("t.csv", time="ts", key="id", base=tmp_path)
    source.rehearse()
    (batch,) = source.read(None, 1_800_000_000_000_000)
    assert batch.rows["entry"].to_pylist() == ["a"]
    (rest,) = source.read(batch.position, 2**60)
    assert rest.rows["entry"].to_pylist() == ["b"]
    source.rehearse()
    source.close()
    (again,) = source.read(None, 2**60)
    assert len(again.rows) == 2


def test_positions() -> None:
    """Those of older stores are lists of marks; counts are added only if there are any."""
    old = '[{"files": {"t.csv": 3}, "upto": 5}]'
    assert str(Progress.parse(old)) == old
    found = Progress(Progress.parse(old).marks, {"age": Unread(1, 3), "n": Unread(0, 3)})
    assert Progress.parse(str(found)).unread == {"age": Unread(1, 3)}
    assert Progress.parse(str(found)).marks == found.marks
    with pytest.raises(SourceError, match="not one of a source of kind files"):
        Progress.parse('{"generation": 1}')


def test_a_share_is_never_rounded_to_nothing() -> None:
    assert Unread(1, 10**9).percent == 0.01
    assert Unread(0, 5).percent == 0
    assert Unread(0, 0).share == 0

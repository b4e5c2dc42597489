"""Every verb, as a user calls it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.cli.called import called
from tidegauge.cli.publishing import show_undelivered
from tidegauge.publish.outbox import Failure

DECLARATION = """
[source]
kind = "files"
path = "people.csv"
time = "ts"
entry = "id"
before = "before_"
after = "after_"

[constraint]
at_most = 4

[budget]
epsilon = {epsilon}

[release.by_city]
sql = "SELECT city, COUNT(*) FROM people GROUP BY city"
groups.city = ["north", "south"]
start = "2026-01-01"
every = "1 day"
for = "9 days"

[release.mean_age]
sql = "SELECT AVG(age) FROM people"
bounds.age = [0, 100]
start = "2026-01-01"
every = "1 day"
for = "9 days"
"""

ROWS = [
    ("2026-01-01T08:00:00", "1", None, ("north", 30)),
    ("2026-01-02T00:00:00", "2", None, ("south", 50)),
    ("2026-01-03T09:00:00", "1", ("north", 30), ("south", 31)),
    ("2026-01-05T10:00:00", "2", ("south", 50), None),
]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with Path("people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ts", "id", "before_city", "before_age", "after_city", "after_age"])
        for time, entry, before, after in ROWS:
            writer.writerow([time, entry, *(before or ("", "")), *(after or ("", ""))])
    Path("tidegauge.toml").write_text(DECLARATION.format(epsilon=10**9))
    return tmp_path


class Shell:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> str:
        code, out, err = called(self._capsys, *words)
        assert code == 0, err
        return out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))

    def refused(self, *words: str) -> str:
        code, _, err = called(self._capsys, *words)
        assert code == 2
        assert "Traceback" not in err
        return err


@pytest.fixture
def tidegauge(world: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def test_plan_spends_nothing_and_run_does_what_it_shows(tidegauge: Shell) -> None:
    planned = tidegauge.json("plan")
    assert not Path("tidegauge.db").exists()
    assert set(planned["releases"]) == {"by_city", "mean_age"}
    chosen = planned["releases"]["by_city"]["chosen"]
    assert {
        "strategy",
        "parameters",
        "folds",
        "epsilon",
        "half_width_worst",
        "half_width_mean",
    } <= chosen.keys()
    assert chosen in planned["releases"]["by_city"]["candidates"]
    assert "20 readings" not in tidegauge("run", "--once", "--until", "2026-01-01")
    assert tidegauge.json("plan") == planned


def test_readings_are_the_truth_when_the_noise_is_nil(tidegauge: Shell) -> None:
    assert "30 readings published, up to 2026-01-10" in tidegauge("run", "--once")
    assert "Nothing was due" in tidegauge("run", "--once")
    readings = tidegauge.json("readings")
    cities = {
        (r["time"][8:10], r["group"]["city"]): r["value"] for r in readings if r["release"] == "by_city"
    }
    assert [cities[f"{day:02}", "north"] for day in range(1, 11)] == [0, 1, 1, 0, 0, 0, 0, 0, 0, 0]
    assert [cities[f"{day:02}", "south"] for day in range(1, 11)] == [0, 1, 1, 2, 2, 1, 1, 1, 1, 1]
    ages = [r["value"] for r in readings if r["release"] == "mean_age"]
    assert ages == [None, 40, 40, 40.5, 40.5, 31, 31, 31, 31, 31]
    assert set(readings[0]) == {"release", "time", "group", "value", "stderr", "low", "high"}
    assert readings[-1]["time"] == "2026-01-10T00:00:00Z"
    assert readings[-1]["group"] is None


def test_running_in_pieces_is_running_at_once(tidegauge: Shell) -> None:
    lines = [
        json.loads(line)
        for day in (2, 3, 3, 7, 20)
        for line in tidegauge("run", "--once", "--until", f"2026-01-{day:02}", "--json").splitlines()
    ]
    whole = tidegauge.json("readings")
    key = lambda r: (r["release"], r["time"], str(r["group"]))  # noqa: E731
    assert sorted(lines, key=key) == sorted(whole, key=key)


def test_every_format(tidegauge: Shell) -> None:
    tidegauge("run", "--once")
    table = tidegauge("readings", "by_city", "--last", "1")
    assert table.count("by_city") == 2
    assert "south" in table
    rows = list(csv.DictReader(tidegauge("readings", "--format", "csv").splitlines()))
    assert rows[1]["city"] == "south"
    tidegauge("readings", "--format", "parquet", "--output", "out.parquet")
    assert pq.read_table("out.parquet").num_rows == 30
    tidegauge("readings", "--format", "json", "--output", "out.json")
    assert json.loads(Path("out.json").read_text()) == tidegauge.json("readings")
    for name in ("out.parquet", "out.json"):
        assert f"All 30 readings in {name} equal those in the store" in tidegauge("verify", "--against", name)
    assert tidegauge.json("verify", "--against", "out.json")["compared"] == 30
    Path("out.json").write_text(Path("out.json").read_text().replace("by_city", "by_town"))
    assert "20 of 30 readings in out.json are not in the store" in tidegauge.refused(
        "verify", "--against", "out.json"
    )
    assert "Traceback" not in tidegauge.refused("readings", "--format", "xml")
    assert "by_city, mean_age" in tidegauge.refused("readings", "nothing")
    assert "--output" in tidegauge.refused("readings", "--format", "parquet")


def test_status_ledger_verify_and_plot(tidegauge: Shell) -> None:
    assert "nothing yet" in tidegauge("status")
    tidegauge("run", "--once")
    assert "10 readings of 10, finished" in tidegauge("status")
    status = tidegauge.json("status")
    assert status["releases"]["by_city"] == {"readings": 10, "readings_total": 10, "next": None}
    entries = tidegauge.json("ledger")
    assert [entry["kind"] for entry in entries] == ["commit"]
    assert entries[0]["body"]["reserved"] == "1000000000"
    assert "reserved epsilon = 1000000000" in tidegauge("ledger")
    assert "all 30 readings follow" in tidegauge("verify")
    assert tidegauge.json("verify")["verified"] is True
    assert "●" in tidegauge("plot", "by_city")


def test_init_writes_a_declaration_that_plans(tidegauge: Shell) -> None:
    assert "exists and was not changed" in tidegauge.refused("init", "people.csv")
    Path("tidegauge.toml").unlink()
    tidegauge("init", "people.csv")
    assert "total" in tidegauge.json("plan")["releases"]
    assert "no-such.csv" in tidegauge.refused("init", "no-such.csv", "--file", "other.toml")


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("epsilon = 1000000000", "epsilon = 0", "budget"),
        ("epsilon = 1000000000", "epsilon = -1", "budget"),
        ("epsilon = 1000000000", "", "budget"),
        ("at_most = 4", "at_most = 0", "constraint.at_most"),
        ("at_most = 4", "at_mots = 4", "did you mean 'at_most'"),
        ("[release.by_city]", "[relase.by_city]", "did you mean 'release'"),
        ('every = "1 day"', 'every = "whenever"', "release.by_city.every"),
        ('every = "1 day"', 'every = "0 days"', "release.by_city.every"),
        ('start = "2026-01-01"', 'start = "yesterday"', "release.by_city.start"),
        ('groups.city = ["north", "south"]', "", "groups.city"),
        ("COUNT(*)", "COUNT(DISTINCT city)", "DISTINCT"),
        ("FROM people GROUP", "FROM folk GROUP", "folk"),
        ("bounds.age = [0, 100]", "", "bounds.age"),
        ('path = "people.csv"', 'path = "nobody.csv"', "nobody.csv"),
        ('entry = "id"', 'entry = "ident"', "ident"),
        ('kind = "files"', 'kind = "telepathy"', "source"),
        ('time = "ts"', "time = ", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_spent(
    tidegauge: Shell, old: str, new: str, finding: str
) -> None:
    text = Path("tidegauge.toml").read_text()
    assert old in text
    Path("tidegauge.toml").write_text(text.replace(old, new, 1))
    assert finding in tidegauge.refused("run", "--once")
    assert not Path("tidegauge.db").exists() or "Nothing has been committed" in tidegauge("ledger")


def test_a_missing_declaration(tidegauge: Shell) -> None:
    Path("tidegauge.toml").unlink()
    assert "tidegauge init" in tidegauge.refused("plan")
    assert tidegauge.refused("paln").endswith("Did you mean 'plan'? See: tidegauge --help\n")
    assert "an integer. See: tidegauge readings --help" in tidegauge.refused("readings", "--last", "x")


def test_the_installed_command_starts(world: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("tidegauge"), "plan", "--json"], capture_output=True, check=True
    )
    assert json.loads(done.stdout)["budget"]["epsilon"] == 10**9
    assert done.stderr == b""


def test_an_optimum_is_found_on_request(world: Path, tidegauge: Shell) -> None:
    declared = DECLARATION.format(epsilon=2).split("[release.mean_age]")[0]
    declared = declared.replace("epsilon = 2", "rho = 0.5").replace("at_most = 4", "at_most = 1")
    declared = declared.replace(
        "SELECT city, COUNT(*) FROM people GROUP BY city", "SELECT COUNT(*) FROM people"
    )
    declared = declared.replace('groups.city = ["north", "south"]\n', "").replace("9 days", "260 days")
    Path("tidegauge.toml").write_text(declared)
    assert "tidegauge plan --optimise" in tidegauge("plan")
    asked = json.loads(tidegauge("plan", "--optimise", "--json"))["releases"]["by_city"]
    assert asked["chosen"]["strategy"] == "dense"
    assert (world / "tidegauge.matrices").is_dir()
    assert "was optimised numerically" in tidegauge("plan", "--explain")


DERIVED = """
[release.change_3_days]
of = "by_city"
window = "3 days"
"""


def test_consistent_readings_tell_their_bias_in_every_form(tidegauge: Shell) -> None:
    tidegauge("run", "--once")
    assert tidegauge("readings", "by_city", "--consistent").splitlines()[0].split()[-1] == "bias"
    assert "bias" not in tidegauge("readings", "by_city").splitlines()[0]  # the column
    printed = list(
        csv.DictReader(tidegauge("readings", "by_city", "--consistent", "--format", "csv").splitlines())
    )
    assert [float(row["bias"]) for row in printed] == [
        row["bias"] for row in tidegauge.json("readings", "by_city", "--consistent")
    ]


def test_a_derived_release_in_every_verb(tidegauge: Shell) -> None:
    bare = tidegauge.json("plan")
    Path("tidegauge.toml").write_text(DECLARATION.format(epsilon=10**9) + DERIVED)
    planned = tidegauge.json("plan")
    change = planned["releases"].pop("change_3_days")
    assert planned["releases"] == bare["releases"]
    assert planned["budget"] == bare["budget"]
    assert change["of"] == "by_city"
    assert change["chosen"]["epsilon"] == 0.0
    text = tidegauge("plan")
    assert text.index("by_city:") < text.index("change_3_days:") < text.index("mean_age:")
    assert "44 readings published" in tidegauge("run", "--once")
    rows = tidegauge.json("readings", "change_3_days")
    north, south = (
        [row["value"] for row in rows if row["group"]["city"] == city] for city in ("north", "south")
    )
    assert north == [0, -1, -1, 0, 0, 0, 0]
    assert south == [2, 1, 0, -1, -1, 0, 0]
    assert rows[0]["time"] == "2026-01-04T00:00:00Z"
    table = tidegauge("readings", "change_3_days", "--last", "1")
    assert table.count("change_3_days") == 2
    exported = list(csv.DictReader(tidegauge("readings", "--format", "csv").splitlines()))
    assert sum(row["release"] == "change_3_days" for row in exported) == 14
    tidegauge("readings", "--format", "parquet", "--output", "out.parquet")
    assert "All 44 readings in out.parquet" in tidegauge("verify", "--against", "out.parquet")
    assert "change_3_days: 7 readings of 7, finished" in tidegauge("status")
    assert "change_3_days city=north" in tidegauge("plot", "change_3_days")
    assert len(tidegauge.json("readings", "change_3_days", "--smoothed")) == 14
    assert len(tidegauge.json("readings", "change_3_days", "--consistent")) == 14
    assert set(tidegauge.json("ledger")[0]["body"]["releases"]) == {"by_city", "mean_age"}
    Path("tidegauge.toml").write_text(DECLARATION.format(epsilon=10**9) + DERIVED.replace("3 days", "4 days"))
    assert "release.change_3_days.window: was changed from 3 days to 4 days" in tidegauge.refused(
        "run", "--once"
    )


def test_the_version_is_that_of_the_package(tidegauge: Any) -> None:
    assert tidegauge("--version") == f"tidegauge {version('tidegauge')}\n"


def test_an_internal_error_is_reported_without_its_text(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("Jane Doe")

    monkeypatch.setattr("tidegauge.run.reader.Reader.status", fail)
    code, _, said = called(capsys, "status")
    assert code == 1
    assert said.startswith("Internal error (please report this bug): builtins.RuntimeError\n")
    assert "Jane" not in said


@pytest.mark.parametrize("words", [("runn",), ("run", "--onse"), ("readings", "--last", "none")])
def test_a_wrong_word_is_refused(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, said = called(capsys, *words)
    assert (code, out) == (2, "")
    assert said.startswith("tidegauge: ")


def test_a_publisher_that_failed_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """A reason may end in a full stop, or not."""
    show_undelivered([Failure("x", "public.db is no public file."), Failure("y", "no space left")])
    said = capsys.readouterr().err
    assert "is no public file. Its readings" in said
    assert "no space left. Its readings" in said

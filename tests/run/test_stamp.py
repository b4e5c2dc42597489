"""A gauge that begins with a stamped changelog is the gauge that read the changelog itself."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.seeds import seeds
from tidegauge.cli import app
from tidegauge.errors import SourceError, SpecError, StoreError, TidegaugeError
from tidegauge.run.gauge import Gauge
from tidegauge.store.secret import stamped as folders
from tidegauge.store.store import Store
from tidegauge.testing import Clock

EVERY = {"start": "1970-01-01T00:00:00.000010Z", "every": "10 microseconds", "for": "90 microseconds"}
SOURCE = {"kind": "files", "path": "log.csv", "table": "t", "time": "time", "key": "id", "after": "after_",
          "time_unit": "microseconds", "types": {"age": "integer"}}  # fmt: skip
LIMITS = {"at_most": 3, "within": "50 microseconds"}
FILES = ("bins.parquet", "changes.parquet", "rows.parquet", "stamp.json", "units.parquet",
         "used.parquet", "views.parquet")  # fmt: skip


def rows(seed: int, count: int, *, since: int = 0, until: int = 60) -> list[str]:
    """Lines of a changelog, in any order of time."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        time, key = rng.randint(since, until), rng.randrange(12)
        alive = rng.random() < 0.85
        ward, age = (rng.choice(["a", "b", "c"]), rng.randrange(90)) if alive else ("", "")
        found.append(f"{time},k{key},{ward},{age},{f'p{key % 4}' if alive else ''}")
    return found


def write(folder: Path, lines: list[str]) -> None:
    folder.mkdir(exist_ok=True)
    head = "time,id,after_ward,after_age,after_person"
    (folder / "log.csv").write_text("\n".join([head, *lines, ""]), "utf-8")


def gauge(folder: Path, clock: Clock, **changes: Any) -> Gauge:
    declared: dict[str, Any] = {
        "source": SOURCE,
        "constraint": LIMITS,
        "budget": {"epsilon": 10**9},
        "releases": {
            "by_ward": {
                "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward",
                "groups": {"ward": ["a", "b"]},
                **EVERY,
            },
            "age": {"sql": "SELECT AVG(age) FROM t", "bounds": {"age": [0, 90]}, **EVERY},
        },
        "store": folder / "store.db",
        "base": folder,
        "now": clock,
        "sleep": clock.sleep,
    }
    return Gauge(**(declared | changes))


def everything(folder: Path) -> tuple[Any, ...]:
    """What the store has: state, sums by their effect on later readings, counts, position, journal."""
    with Store(folder / "store.db") as store:
        state = store.secret.state()
        return (
            *(state.all_of(name).to_pylist() for name in ("entries", "units", "used")),
            store.secret.clock,
            store.secret.counts(),
            store.progress,
        )


FLOW = {"sql": "SELECT COUNT(*) FROM changes(t) WHERE before.ward = 'a' AND after.ward = 'b'", **EVERY}
KINDS: dict[str, dict[str, Any]] = {
    "freeze": {},
    "retire": {"constraint": {**LIMITS, "on_excess": "retire"}},
    "renews": {"constraint": {**LIMITS, "within": "20 microseconds", "renews": "30 microseconds"}},
    "persons": {"source": {**SOURCE, "unit": "person", "max_rows": 2}},
    "flow": {"releases": {"moved": FLOW}},
    "clip": {"releases": {"moved": {**FLOW, "clip": 1}}},
    "renewing persons": {
        "source": {**SOURCE, "unit": "person", "max_rows": 2},
        "constraint": {**LIMITS, "within": "20 microseconds", "renews": "30 microseconds"},
    },
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(300, 40, quick=2))
def test_state_readings_and_later_ticks_are_the_same(seed: int, kind: str, tmp_path: Path) -> None:
    lines, more = rows(seed, 80), rows(seed + 1, 30, since=20, until=95)
    raw, again = tmp_path / "raw", tmp_path / "bin=3"  # no value is taken from the name of a folder
    found = []
    for folder in (raw, again):
        write(folder, lines)
        clock = Clock(57)
        one = gauge(folder, clock, **KINDS[kind])
        folder_of_stamps = one.stamp() if folder is again else None
        assert folder_of_stamps in (None, again / "store.stamped")
        first = list(one.run(stamped=folder_of_stamps))
        begun = everything(folder)
        write(folder, [*lines, *more])
        clock.now = 200
        later = list(one.run())
        found.append((first, begun, later, everything(folder)))
    assert found[0] == found[1]
    assert found[0][0]
    assert found[0][2]


def test_what_came_due_since_is_read_from_the_changelog(tmp_path: Path) -> None:
    raw, again = tmp_path / "raw", tmp_path / "again"
    lines = rows(7, 80, until=90)
    for folder in (raw, again):
        write(folder, lines)
    list(gauge(raw, Clock(55)).run())
    assert list(gauge(raw, Clock(200)).run())
    gauge(again, Clock(200)).stamp(again / "early", until="1970-01-01T00:00:00.000055Z")
    readings = list(gauge(again, Clock(200)).run(stamped=again / "early"))
    assert readings
    assert gauge(again, Clock(200)).published() == gauge(raw, Clock(200)).published()
    assert everything(raw) == everything(again)


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    write(tmp_path, rows(1, 30))
    before = os.umask(0)
    try:
        folder = gauge(tmp_path, Clock(70)).stamp()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert not (tmp_path / "store.db").exists()


def refused(folder: Path, match: str, *, stamps: Path | None = None, **changes: Any) -> None:
    """The run is refused with a message that shows no data, and leaves no plan behind."""
    with pytest.raises(TidegaugeError, match=match):
        list(gauge(folder, Clock(70), **changes).run(stamped=stamps or folder / "store.stamped"))
    assert not gauge(folder, Clock(70), **changes).committed


def test_a_changed_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path, rows(1, 30))
    one = gauge(tmp_path, Clock(70))
    folder, plan = one.stamp(), one.plan().hash
    layout = json.loads((folder / "stamp.json").read_text("utf-8"))["layout"]
    for name in FILES:
        path = folder / name
        content = path.read_bytes()
        middle = len(content) // 2
        changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        for damaged in (changed, content[:middle], b"", None):
            path.unlink() if damaged is None else path.write_bytes(damaged)
            with pytest.raises(
                SourceError, match="missing" if damaged is None else "was changed or cut short"
            ):
                folders.open_stamped(folder, plan=plan, layout=layout)
        if name == "changes.parquet":
            refused(tmp_path, "missing")
        path.write_bytes(content)
    folders.open_stamped(folder, plan=plan, layout=layout)


def test_a_folder_is_for_one_plan(tmp_path: Path) -> None:
    write(tmp_path, rows(1, 30))
    folder = gauge(tmp_path, Clock(70)).stamp()
    refused(tmp_path, "stamped for another plan", constraint={"at_most": 4})
    said = json.loads((folder / "stamp.json").read_text("utf-8"))
    assert said["plan"] == gauge(tmp_path, Clock(70)).plan().hash
    said["layout"]["units"]["other"] = "BIGINT"
    del said["seal"]
    (folder / "stamp.json").write_text(json.dumps({**said, "seal": folders._seal(said)}), "utf-8")
    refused(tmp_path, "another version or engine")
    said["format"] = 99
    (folder / "stamp.json").write_text(json.dumps({**said, "seal": folders._seal(said)}), "utf-8")
    refused(tmp_path, "another version")


def test_other_folders_are_refused(tmp_path: Path) -> None:
    write(tmp_path, rows(1, 30))
    refused(tmp_path, "there is no such folder")
    refused(tmp_path, "is not a stamped changelog", stamps=tmp_path)
    refused(tmp_path, "there is no such folder", stamps=tmp_path / "log.csv")


def test_nothing_is_overwritten_and_nothing_stamped_twice(tmp_path: Path) -> None:
    write(tmp_path, rows(1, 30))
    folder = gauge(tmp_path, Clock(70)).stamp()
    content = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(SourceError, match="exists and was not changed"):
        gauge(tmp_path, Clock(70)).stamp()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == content
    source = {
        "kind": "files",
        "path": "store.stamped/changes.parquet",
        "table": "t",
        "time": "time",
        "key": "unit",
    }
    with pytest.raises(SourceError, match="this is a stamped changelog"):
        gauge(tmp_path, Clock(70), source=source).stamp(tmp_path / "twice")
    with pytest.raises(SourceError, match="no such folder"):
        gauge(tmp_path, Clock(70)).stamp(tmp_path / "nowhere" / "folder")


def test_a_store_that_has_begun_is_refused_and_goes_on(tmp_path: Path) -> None:
    write(tmp_path, rows(1, 60, until=90))
    folder = gauge(tmp_path, Clock(70)).stamp()
    list(gauge(tmp_path, Clock(40)).run())
    before = everything(tmp_path)
    with pytest.raises(StoreError, match="has read changes already"):
        list(gauge(tmp_path, Clock(70)).run(stamped=folder))
    assert everything(tmp_path) == before
    assert list(gauge(tmp_path, Clock(70)).run())


def test_a_run_that_ends_before_the_stamp_is_refused(tmp_path: Path) -> None:
    write(tmp_path, rows(1, 30))
    folder = gauge(tmp_path, Clock(70)).stamp()
    with pytest.raises(SpecError, match="stamped up to 1970-01-01T00:00:00"):
        list(gauge(tmp_path, Clock(70)).run("1970-01-01T00:00:00.000040Z", stamped=folder))
    with pytest.raises(SpecError, match="this run ends earlier"):
        list(gauge(tmp_path, Clock(60)).run(stamped=folder))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"releases": {"n": {"sql": "SELECT COUNT(*) FROM t", **EVERY, "start": "2030-01-01"}}},
         "no reading is due"),
    ],
)  # fmt: skip
def test_gauges_that_cannot_be_stamped(tmp_path: Path, changes: dict[str, Any], match: str) -> None:
    write(tmp_path, rows(1, 30))
    with pytest.raises(SpecError, match=match):
        gauge(tmp_path, Clock(70), **changes).stamp()
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


TOML = """
[source]
kind = "files"
path = "log.csv"
table = "t"
time = "time"
key = "id"
after = "after_"
time_unit = "microseconds"

[constraint]
at_most = 3

[budget]
epsilon = 1

[release.all]
sql = "SELECT COUNT(*) FROM t"
start = "1970-01-01T00:00:00.000010Z"
every = "10 microseconds"
for = "90 microseconds"
"""


def test_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, rows(1, 30))
    (tmp_path / "tidegauge.toml").write_text(TOML, "utf-8")
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["stamp"]).output
    assert "Wrote tidegauge.stamped" in said
    assert "It is secret" in said
    assert "tidegauge run --stamped tidegauge.stamped" in said
    as_json = json.loads(CliRunner().invoke(app, ["stamp", "--output", "other", "--json"]).output)
    assert (as_json["secret"], as_json["folder"]) == (True, "other")
    ran = CliRunner().invoke(app, ["run", "--once", "--stamped", "tidegauge.stamped"])
    assert ran.exit_code == 0, ran.output
    assert len(CliRunner().invoke(app, ["readings", "--format", "csv"]).output.splitlines()) == 11


KILLED = """
import os, signal, sys
from tidegauge.cli import main
from tidegauge.store.secret import stamped
real = stamped.StampWriter.{}
def die(self, *given):
    {}
    os.kill(os.getpid(), signal.SIGKILL)
stamped.StampWriter.{} = die
sys.argv = ["tidegauge", "stamp"]
main()
"""


@pytest.mark.parametrize(
    ("point", "first"),
    [
        ("write", "real(self, *given)"),
        pytest.param("finish", "pass", marks=pytest.mark.slow),
        pytest.param("finish", "real(self, *given)", marks=pytest.mark.slow),
    ],
)
def test_a_kill_leaves_no_stamped_folder(tmp_path: Path, point: str, first: str) -> None:
    write(tmp_path, rows(1, 30))
    (tmp_path / "tidegauge.toml").write_text(TOML, "utf-8")
    command = [sys.executable, "-c", KILLED.format(point, first, point)]
    died = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert not (tmp_path / "tidegauge.stamped").exists()
    left = tmp_path / "tidegauge.stamped.new"
    assert stat.S_IMODE(left.stat().st_mode) == 0o700
    assert Gauge.from_file(tmp_path / "tidegauge.toml").stamp() == tmp_path / "tidegauge.stamped"
    assert not left.exists()


def test_an_error_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, rows(1, 30))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folders, "sync_file", full)
    with pytest.raises(OSError, match="No space"):
        gauge(tmp_path, Clock(70)).stamp()
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_a_folder_that_is_swapped_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, rows(1, 30))
    one = gauge(tmp_path, Clock(70))
    folder = one.stamp()
    layout = json.loads((folder / "stamp.json").read_text("utf-8"))["layout"]
    found = folders.open_stamped(folder, plan=one.plan().hash, layout=layout)
    found.intact()
    shutil.copy(folder / "rows.parquet", folder / "copy")
    (folder / "copy").replace(folder / "rows.parquet")
    with pytest.raises(SourceError, match="changed while it was read"):
        found.intact()

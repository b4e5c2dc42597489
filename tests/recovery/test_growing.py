"""kill -9 in the middle of an amendment, of the beginning of added releases, and of the beginning of a term.

The same deaths without processes are in tests/run/test_amend.py and tests/run/test_renewal.py, some of them
quick.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests.recovery.deadly import POINTS, WRITE
from tests.recovery.town import Load, SQLiteTown, killed, latest
from tidegauge.run.gauge import Gauge
from tidegauge.store.public.shared import SharedLedger

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = """
[source]
kind = "files"
path = "log.csv"
table = "t"
time = "ts"
entry = "id"

[constraint]
at_most = 2
{renews}

[budget]
epsilon = 1e9
reserve = 0.3
"""
LEVEL: Final = """
[release.level]
sql = "SELECT grp, COUNT(*) FROM t GROUP BY grp"
groups.grp = ["a", "b"]
start = "2025-01-05"
every = "1 day"
for = "{days} days"
"""
ADDED: Final = """
[release.total]
sql = "SELECT SUM(x) FROM t"
bounds.x = [0, 50]
start = "2025-01-20"
every = "1 day"
for = "5 days"
"""
FIRST: Final = SOURCE.format(renews="") + LEVEL.format(days=10)
BOTH: Final = FIRST + ADDED
RENEWS: Final = SOURCE.format(renews='renews = "7 days"') + LEVEL.format(days=24)


def world(folder: Path, declared: str) -> None:
    folder.mkdir()
    (folder / "tidegauge.toml").write_text(declared)
    with (folder / "log.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ts", "id", "grp", "x"])
        for n in range(600):
            gone = n % 11 == 10
            row = ["", ""] if gone else ["abc"[n * 7 % 3], n * 13 % 60]
            writer.writerow([f"2025-01-{1 + n // 20:02}T{n % 20:02}:00:00", f"e{n * 29 % 80}", *row])


def call(folder: Path, *words: str, crash: tuple[str, str, int] | None = None) -> tuple[int, str]:
    """Exit code and what a verb printed; with `crash` it dies at that point."""
    program = ["-c", "from tidegauge.cli import main; main()"]
    if crash is not None:
        program = [str(Path(__file__).with_name("deadly.py")), *map(str, crash)]
    done = subprocess.run(
        [sys.executable, *program, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, done.stdout


def shown(folder: Path, verb: str) -> Any:
    return json.loads(call(folder, verb, "--json")[1])


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The readings of an amended gauge that never dies."""
    folder = tmp_path_factory.mktemp("amended") / "calm"
    world(folder, FIRST)
    call(folder, "run", "--once")
    (folder / "tidegauge.toml").write_text(BOTH)
    call(folder, "amend")
    call(folder, "run", "--once")
    return list(shown(folder, "readings"))


@pytest.fixture(scope="module")
def renewing(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The readings of a gauge whose constraint renews and that never dies."""
    folder = tmp_path_factory.mktemp("renewing") / "calm"
    world(folder, RENEWS)
    call(folder, "run", "--once")
    return list(shown(folder, "readings"))


def cases(points: list[str]) -> list[Any]:
    return [
        pytest.param(point, when, marks=pytest.mark.slow) for point in points for when in ("before", "after")
    ]


AMENDING: Final = ["reserve", "amend plan", "seal", "secrets", "transaction", "attest", "close"]
"""Steps of an amendment."""
TICKING: Final = [point for point in POINTS if point not in ("reserve", "commit plan", "acknowledge")]
"""Steps of a tick and its surroundings."""


@pytest.mark.parametrize(("point", "when"), cases(AMENDING))
def test_a_kill_while_amending(tmp_path: Path, calm: list[Any], point: str, when: str) -> None:
    folder = tmp_path / "hard"
    world(folder, FIRST)
    call(folder, "run", "--once")
    (folder / "tidegauge.toml").write_text(BOTH)
    assert call(folder, "amend", crash=(point, when, 1))[0] == -signal.SIGKILL
    entries = shown(folder, "ledger")
    assert shown(folder, "verify")["ledger_entries"] == len(entries)
    if len(entries) == 1:
        call(folder, "amend")
    call(folder, "run", "--once")
    assert shown(folder, "readings") == calm
    assert [entry["kind"] for entry in shown(folder, "ledger")] == ["commit", "amend"]
    assert shown(folder, "verify")["verified"]


@pytest.mark.parametrize(("point", "when"), cases([*TICKING, "widen", "begin"]))
def test_a_kill_while_added_releases_begin(tmp_path: Path, calm: list[Any], point: str, when: str) -> None:
    folder = tmp_path / "hard"
    world(folder, FIRST)
    call(folder, "run", "--once")
    (folder / "tidegauge.toml").write_text(BOTH)
    call(folder, "amend")
    deaths = 0
    for nth in (1, 2, 3):
        code, _ = call(folder, "run", "--once", crash=(point, when, nth))
        deaths += code == -signal.SIGKILL
        seen = {(one["release"], one["time"], str(one["group"])): one for one in shown(folder, "readings")}
        now = {(one["release"], one["time"], str(one["group"])): one for one in calm}
        assert all(now[key] == one for key, one in seen.items())
    assert deaths > 0
    call(folder, "run", "--once")
    assert shown(folder, "readings") == calm
    assert shown(folder, "verify")["verified"]


@pytest.mark.parametrize(("point", "when"), cases(TICKING))
def test_a_kill_while_a_term_begins(tmp_path: Path, renewing: list[Any], point: str, when: str) -> None:
    """The gauge runs day by day across the beginnings of terms,
    and dies at each of its first passes of the step."""
    folder = tmp_path / "hard"
    world(folder, RENEWS)
    deaths = 0
    for nth, day in ((1, 10), (1, 13), (2, 13), (1, 14), (1, 20)):  # terms begin on Mondays: 6, 13, 20, 27
        code, _ = call(folder, "run", "--until", f"2025-01-{day}T12:00:00Z", crash=(point, when, nth))
        deaths += code == -signal.SIGKILL
    assert deaths > 0
    call(folder, "run", "--once")
    assert shown(folder, "readings") == renewing
    assert shown(folder, "verify")["verified"]


# -- every single write of an amendment ----------------------------------------------------------------------


SHARED: Final = FIRST.replace("[budget]", '[ledger]\npath = "all.ledger"\n\n[budget]')


@pytest.mark.slow
def test_a_kill_before_every_write_of_an_amendment(tmp_path: Path) -> None:
    """Of the store, the witness and a shared ledger: the old plan or the new one, reserved once."""
    before = tmp_path / "before"
    world(before, SHARED)
    create = ("ledger", "--create", "all.ledger", "--unit", "row of t", "--epsilon", "1e9")
    call(before, *create)
    call(before, "run", "--once")
    (before / "tidegauge.toml").write_text(SHARED + ADDED)
    calm = copied(before, tmp_path / "calm")
    calm.amend()
    list(calm.run())
    wanted, kinds = published(calm), set()
    for nth in range(1, 200):
        hard = copied(before, tmp_path / f"hard{nth}")
        code, _ = call(hard.path.parent, "amend", crash=(WRITE, "before", nth))
        if code == 0:
            break
        hard.verify()
        entries = [entry.body.plan for entry in hard.ledger()]
        kinds.add(len(entries))
        if len(entries) == 1:
            hard.amend()
        list(hard.run())
        assert published(hard) == wanted, nth
        assert len(hard.ledger()) == 2
        assert hard.verify().readings == len(wanted)
        shared = SharedLedger(hard.path.parent / "all.ledger").entries()
        assert [entry.kind for entry in shared] == ["terms", "reserve", "commit", "commit"]
        assert sum(entry.reserved for entry in shared) == 10**9
    assert nth > 8
    assert kinds == {1, 2}, "some kills come before the amendment, and some after it"


def copied(folder: Path, to: Path) -> Gauge:
    shutil.copytree(folder, to)
    return Gauge.from_file(to / "tidegauge.toml")


def published(gauge: Gauge) -> list[Any]:
    return [(one.release, one.time, one.group, one.value) for one in gauge.published()]


# -- a term begins while an amendment is pending -------------------------------------------------------------


PENDING: Final = ADDED + ADDED.replace("release.total", "release.later").replace("01-20", "01-22")
"""One release begins together with a term, the other after it."""


@pytest.fixture(scope="module")
def pending(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The readings of a gauge that renews, is amended, and never dies."""
    folder = tmp_path_factory.mktemp("pending") / "calm"
    world(folder, RENEWS)
    call(folder, "run", "--until", "2025-01-12T12:00:00Z")
    (folder / "tidegauge.toml").write_text(RENEWS + PENDING)
    call(folder, "amend")
    call(folder, "run", "--once")
    return list(shown(folder, "readings"))


@pytest.mark.parametrize(("point", "when"), cases([*TICKING, "widen", "begin"]))
def test_a_kill_while_a_term_begins_and_an_amendment_is_pending(
    tmp_path: Path, pending: list[Any], point: str, when: str
) -> None:
    folder = tmp_path / "hard"
    world(folder, RENEWS)
    call(folder, "run", "--until", "2025-01-12T12:00:00Z")
    (folder / "tidegauge.toml").write_text(RENEWS + PENDING)
    call(folder, "amend")
    deaths = 0
    for nth, day in ((1, 13), (1, 13), (1, 20), (2, 20), (1, 22)):  # terms begin on the 13th and the 20th
        code, _ = call(folder, "run", "--until", f"2025-01-{day}T12:00:00Z", crash=(point, when, nth))
        deaths += code == -signal.SIGKILL
    assert deaths > 0
    call(folder, "run", "--once")
    assert shown(folder, "readings") == pending
    assert shown(folder, "verify")["verified"]


LIVE: Final = """
[source]
kind = "sqlite"
path = "app.db"
table = "people"
key = "id"

[constraint]
at_most = 2
renews = "2 seconds"

[budget]
epsilon = 1e15
reserve = 0.3

[release.by_city]
sql = "SELECT city, COUNT(*) FROM people WHERE age >= 18 GROUP BY city"
groups.city = ["north", "south"]
every = "1 second"
"""
ALSO: Final = """
[release.ages]
sql = "SELECT SUM(age) FROM people"
bounds.age = [0, 120]
start = "{start}"
every = "1 second"
"""
SOME: Final = [("record", "before"), ("transaction", "after"), ("widen", "before"), ("begin", "after")]
ALL: Final = [
    (point, when)
    for point in [*TICKING, "acknowledge"]
    if point != "close"  # a run without end never comes there
    for when in ("before", "after")
]


@pytest.mark.slow
@pytest.mark.parametrize("points", [SOME, ALL], ids=["some", "all"])
def test_a_live_database_whose_terms_begin_while_an_amendment_is_pending(
    tmp_path: Path, points: list[tuple[str, str]]
) -> None:
    """The gauge dies every second or two under load.
    One term after the last change it has the plain truth."""
    town = SQLiteTown(tmp_path)
    file = tmp_path / "tidegauge.toml"
    file.write_text(LIVE)
    assert town.call("run", "--once")[0] == 0
    with Load(town, seed=4):
        start = datetime.fromtimestamp(int(time.time()) + 3 + 2 * (len(points) > 8), UTC)
        file.write_text(LIVE + ALSO.format(start=f"{start:%Y-%m-%dT%H:%M:%SZ}"))
        code, said = town.call("amend")
        assert code == 0, said
        for point, when in points:
            process = town.start("run", crash=(point, when, 1))
            assert killed(process), (point, when, town.log()[-2000:])
            town.unchanged()
    truth = town.truth()
    time.sleep(4.1)
    list(town.gauge.run())
    town.unchanged()
    readings = town.gauge.published()
    assert latest(readings) == pytest.approx(truth, abs=0.1)
    assert min(one.time for one in readings if one.release == "ages") == start
    assert town.gauge.verify().readings == len(readings)
    assert [entry.kind for entry in town.gauge.ledger()] == ["commit", "amend"]

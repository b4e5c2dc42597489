"""What happens to a loop that runs unattended: downtime, clocks, disks, locks, signals."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.recovery.town import Load, SQLiteTown
from tests.run.gauge_life import COLUMNS, gauge, life
from tidegauge.errors import StoreError, StoreLocked
from tidegauge.model.source import GivenSource
from tidegauge.run.gauge import Gauge
from tidegauge.store import database
from tidegauge.store.database import Database
from tidegauge.testing import Clock, Script

NOISY = {"epsilon": 1}
SECOND = 1_000_000
EVERY = {"start": "1970-01-01T00:00:05Z", "every": "5 seconds", "for": "100 seconds"}
RELEASES = {
    "by_ward": {"sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward", "groups": {"ward": ["a", "b"]}, **EVERY},
    "present": {"sql": "SELECT COUNT(*) FROM t", **EVERY},
}


def slow_life() -> list[Any]:
    return [(row[0] * 3 * SECOND, *row[1:]) for row in life(days=35) if isinstance(row, tuple)]


def slow(folder: Path, clock: Any, **changes: Any) -> Gauge:
    """Windows of five seconds, over 105 seconds."""
    folder.mkdir(exist_ok=True)
    declared = {"now": clock, "sleep": clock.sleep, "releases": RELEASES}
    source = changes.pop("source", None) or Script(COLUMNS, slow_life(), size=7)
    return gauge(folder, source, **(declared | changes))


def rows(one: Gauge) -> list[dict[str, Any]]:
    return [reading.as_json() for reading in one.published()]


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What is published where nothing goes wrong."""
    one = slow(tmp_path_factory.mktemp("steady"), Clock(0))
    list(one.run(follow=True))
    return rows(one)


# -- time ----------------------------------------------------------------------------------------------------


def test_every_missed_window_is_released_in_order_at_once(tmp_path: Path) -> None:
    steady = slow(tmp_path / "steady", Clock(0))
    list(steady.run(follow=True))
    clock = Clock(12 * SECOND)
    away = slow(tmp_path / "away", clock)
    assert len(list(away.run())) == 2 * 3
    clock.now = 88 * SECOND
    times = [reading.time for reading in away.run()]
    assert clock.now == 88 * SECOND  # it did not wait
    assert times == sorted(times)
    assert [time.timestamp() for time in times[::3]] == list(range(15, 90, 5))
    clock.now = 10**15
    assert len(list(away.run())) == 4 * 3
    assert rows(away) == rows(steady)
    assert list(away.run()) == []


class Wobbly(Clock):
    """A clock that is set back now and then, and once far ahead for a moment."""

    def __init__(self, steps: dict[int, int]) -> None:
        super().__init__(0)
        self.steps, self.naps = steps, 0

    def sleep(self, seconds: float) -> None:
        self.naps += 1
        self.now += max(1, int(seconds * SECOND)) + self.steps.get(self.naps, 0)


@pytest.mark.parametrize(
    "steps", [{3: -7, 5: -20, 6: -1, 11: -60, 12: -3}, {2: -100, 4: -1}, {4: 40, 5: -45, 9: -2}]
)
def test_a_clock_that_is_set_back(
    tmp_path: Path, steady: list[dict[str, Any]], steps: dict[int, int]
) -> None:
    clock = Wobbly({nap: step * SECOND for nap, step in steps.items()})
    one, seen = slow(tmp_path / "wobbly", clock), []
    for reading in one.run(follow=True):
        assert reading.time.timestamp() * SECOND <= clock.now  # never before its end
        seen.append((reading.release, reading.time, str(reading.group)))
    assert len(seen) == len(set(seen)) == 3 * 21
    assert [time for _, time, _ in seen] == sorted(time for _, time, _ in seen)
    assert one.verify().readings == len(seen)
    assert rows(one) == steady


class Glitch(Clock):
    """A clock that is set wrong for a while, and time that passes all the same."""

    def __init__(self, begin: int, end: int, wrong: int) -> None:
        super().__init__(0)
        self.begin, self.end, self.wrong, self.longest = begin, end, wrong, 0.0

    def __call__(self) -> int:
        return self.now + (self.wrong if self.begin <= self.now < self.end else 0)

    def sleep(self, seconds: float) -> None:
        self.longest = max(self.longest, seconds)
        super().sleep(seconds)

    def steady(self) -> float:
        return self.now / SECOND


class _Followed(GivenSource):
    """A script that is read as a live source is."""

    follows = True


@pytest.mark.parametrize(("wrong", "live"), [(3600, True), (3600, False), (-8, True)])
def test_a_clock_that_is_wrong_for_four_seconds(
    tmp_path: Path, steady: list[dict[str, Any]], caplog: pytest.LogCaptureFixture, wrong: int, *, live: bool
) -> None:
    caplog.set_level("INFO", "tidegauge")
    at = Glitch(33 * SECOND, 37 * SECOND, wrong * SECOND)
    script = Script(COLUMNS, slow_life(), size=7)
    one = slow(tmp_path / "one", at, source=_Followed(script) if live else script, steady=at.steady)
    late = [at.now / SECOND - reading.time.timestamp() for reading in one.run(follow=True)]
    assert len(late) == 3 * 21
    assert min(late) >= 0  # by the true time, no window was closed before its end ...
    assert max(late) <= 9  # ... and none waited for longer than the clock was wrong and one step
    assert at.longest <= 2
    assert rows(one) == steady
    said = [(record.getMessage(), getattr(record, "seconds", None)) for record in caplog.records]
    assert said.count(("clock jumped", wrong)) == said.count(("clock is back", None)) == 1


@pytest.mark.parametrize("wrong", [60, -40])
def test_a_clock_that_was_set_is_believed_after_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: int
) -> None:
    caplog.set_level("INFO", "tidegauge")
    at = Glitch(10 * SECOND, 10**15, wrong * SECOND)
    one = slow(tmp_path, at, steady=at.steady)
    seen = [(at() - int(reading.time.timestamp() * SECOND)) / SECOND for reading in one.run(follow=True)]
    assert len(seen) == 3 * 21
    assert min(seen) >= 0
    printed = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert printed[:1] == ["clock jumped"]
    assert "clock believed" in printed
    assert one.verify().readings == 63


def test_without_a_steady_clock_it_says_that_it_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    at = Glitch(33 * SECOND, 37 * SECOND, 40 * SECOND)
    one = slow(tmp_path, at)
    seen = list(one.run(follow=True))
    assert len(seen) == 3 * 21
    warned = [record for record in caplog.records if record.levelname == "WARNING"]
    said = [(record.getMessage(), vars(record)["published_to"]) for record in warned]
    assert said == [("clock is behind what was published", "1970-01-01T00:01:15Z")]


def test_a_start_with_the_clock_before_the_last_run(tmp_path: Path) -> None:
    clock = Clock(50 * SECOND)
    one = slow(tmp_path, clock)
    list(one.run())
    before = rows(one)
    for now in (49 * SECOND, 20 * SECOND, 0, -(10**12), 50 * SECOND, 54 * SECOND):
        clock.now = now
        assert list(one.run()) == []
        assert rows(one) == before
    clock.now = 55 * SECOND
    assert len(list(one.run())) == 3


# -- disks ---------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own, where this is allowed."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)],
        capture_output=True, check=False
    )  # fmt: skip
    if done.returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk(tmp_path: Path) -> None:
    calm = slow(tmp_path / "calm", Clock(10**15))
    list(calm.run())
    with small_disk(tmp_path / "disk", "3m") as disk:
        clock = Clock(30 * SECOND)
        one = slow(disk, clock)
        list(one.run())
        before, refusals = rows(one), []
        filler = disk / "filler"
        for room in (0, 4096, 8192, 20_000, 45_000, 70_000):
            free = shutil.disk_usage(disk).free
            filler.write_bytes(b"x" * max(0, free - room))
            clock.now = 10**15
            try:
                list(one.run())
            except StoreError as refusal:
                refusals.append(str(refusal))
            filler.unlink()
            assert all(row in rows(one) for row in before)
            before = rows(one)
        assert refusals
        assert all(
            re.search("disk is full|No space left|disk reports an error", refusal) for refusal in refusals
        )
        assert all(
            re.search("nothing is lost|Nothing was changed|rolled back|is committed", refusal)
            for refusal in refusals
        )
        list(one.run())
        assert rows(one) == rows(calm)
        assert one.verify().readings == len(rows(calm))


def test_a_store_that_may_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where nothing can be mounted: SQLite itself stops at a number of pages."""
    calm = slow(tmp_path / "calm", Clock(10**15))
    list(calm.run())
    one, prepare = slow(tmp_path / "one", Clock(10**15)), Database._prepare
    refusals: list[str] = []
    room = 0

    def tight(self: Database, key: bytes | None, *, write: bool, **more: Any) -> None:
        prepare(self, key, write=write, **more)
        if write:
            self.connection.execute("VACUUM")  # no page is free
            (pages,) = self.connection.execute("PRAGMA page_count").fetchone()
            self.connection.execute(f"PRAGMA max_page_count = {pages + room}")

    monkeypatch.setattr(Database, "_prepare", tight)
    for room in (0, 1, 0, 2, 0, 3, 1000):  # noqa: B007  (tight sees it)
        try:
            list(one.run())
        except StoreError as refusal:
            refusals.append(str(refusal))
    assert len(refusals) > 2
    assert all("the disk is full" in refusal and "nothing is lost" in refusal for refusal in refusals)
    assert rows(one) == rows(calm)
    assert one.verify().readings == len(rows(calm))


@contextmanager
def ordinary_user() -> Iterator[Path]:
    """A folder of a user who is bound by modes, and this process as that user."""
    folder = Path(tempfile.mkdtemp(prefix="tidegauge-test-"))
    root = os.geteuid() == 0
    try:
        if root:
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            os.seteuid(nobody.pw_uid)
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_a_store_that_is_read_only() -> None:
    with ordinary_user() as folder:
        clock = Clock(30 * SECOND)
        one = slow(folder, clock)
        list(one.run())
        before = rows(one)
        clock.now = 10**15
        one.path.chmod(0o400)
        with pytest.raises(
            StoreError, match=r"cannot be opened for writing: Permission denied\. Nothing was changed"
        ):
            list(one.run())
        one.path.chmod(0o600)
        Path(f"{one.path}.lock").unlink()
        folder.chmod(0o500)
        with pytest.raises(
            StoreError, match=r"cannot be opened for writing: Permission denied\. Nothing was changed"
        ):
            list(one.run())
        folder.chmod(0o700)
        assert rows(one) == before
        list(one.run())
        assert rows(one)[-1] not in before


def test_a_file_system_that_turns_read_only(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "10m") as disk:
        clock = Clock(30 * SECOND)
        one = slow(disk, clock)
        list(one.run())
        clock.now = 10**15
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(StoreError, match=r"cannot be opened for writing: Read-only file system"):
            list(one.run())
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        list(one.run())
        assert len(rows(one)) == 63


# -- locks ---------------------------------------------------------------------------------------------------


def test_another_program_holds_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(30 * SECOND)
    one = slow(tmp_path, clock)
    list(one.run())
    before, clock.now = rows(one), 10**15
    holder = sqlite3.connect(one.path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(database, "PATIENCE", 0.3)
    with pytest.raises(StoreLocked, match="locked by another program"):
        list(one.run())
    assert rows(one) == before
    monkeypatch.setattr(database, "PATIENCE", 30.0)
    later = threading.Timer(0.7, holder.execute, ("ROLLBACK",))
    later.start()
    assert len(list(one.run())) == 63 - len(before)
    later.join()
    holder.close()
    assert one.verify().readings == 63


def test_two_processes_at_once(tmp_path: Path) -> None:
    town = SQLiteTown(tmp_path)
    with Load(town, seed=3):
        first = town.start("run")
        deadline = time.monotonic() + 600
        while not town.unchanged():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        code, said = town.call("run", "--once")
        assert code == 2
        assert "in use by another process" in said
        assert town.call("readings", "--json")[0] == town.call("status")[0] == 0
        racers = [town.start("run", "--once") for _ in range(3)]
        first.terminate()
        assert first.wait(600) == 0
        assert {racer.wait(600) for racer in racers} <= {0, 2}
    town.settle()


def test_no_second_noise_even_without_the_lock(tmp_path: Path) -> None:
    """Someone removes the lock file, and starts a second run while the first is in the middle of its work."""
    one, other = slow(tmp_path, Clock(10**15), budget=NOISY), slow(tmp_path, Clock(10**15), budget=NOISY)
    first = one.run()
    handed = [next(first).as_json() for _ in range(4)]
    Path(f"{one.path}.lock").unlink()
    handed += [reading.as_json() for reading in other.run()]
    with pytest.raises(StoreLocked, match="written by another process meanwhile"):
        handed += [reading.as_json() for reading in first]
    published = rows(one)
    assert len(published) == 63
    assert all(row in published for row in handed)
    assert one.verify().readings == 63
    assert list(one.run()) == []


# -- signals -------------------------------------------------------------------------------------------------


def test_signals(tmp_path: Path) -> None:
    town = SQLiteTown(tmp_path)
    with Load(town, seed=9):
        for number, (kind, code) in enumerate(
            [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGTERM, 0)]
        ):
            process, before = town.start("run", "--log", "json"), town.unchanged()
            deadline = time.monotonic() + 600
            while town.unchanged() == before:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            before = town.unchanged()
            process.send_signal(signal.SIGHUP)
            while town.unchanged() == before:  # it goes on
                assert time.monotonic() < deadline
                time.sleep(0.05)
            time.sleep(0.17 * number)
            process.send_signal(kind)
            assert process.wait(600) == code, town.log()
    assert "Traceback" not in town.log()
    town.settle()

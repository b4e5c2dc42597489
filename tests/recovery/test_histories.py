"""A first run over a large history that dies is continued: nothing lost, nothing twice, noise drawn once."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.engine.test_resume import Told
from tidegauge import durable
from tidegauge.cli import show, verbs
from tidegauge.engine.duckdb.past import shuffle
from tidegauge.errors import SourceError, StoreError, StoreLocked
from tidegauge.run.gauge import Gauge
from tidegauge.source.files import past
from tidegauge.store.cipher import parse_key
from tidegauge.store.public.part import PublicPart
from tidegauge.store.secret import unfinished
from tidegauge.store.secret.unfinished import KeptFiles, folder_of, is_unfinished
from tidegauge.store.store import Store
from tidegauge.testing import Clock, Crashed

if TYPE_CHECKING:
    from collections.abc import Callable

DECLARATION = """
[source]
kind = "files"
path = "{path}"
table = "people"
time = "time"
key = "id"

[constraint]
at_most = 3
on_excess = "retire"

[budget]
epsilon = {epsilon}

[release.by_city]
sql = "SELECT city, COUNT(*) FROM people WHERE age > 5 GROUP BY city"
groups.city = ["north", "south"]
start = "2026-01-02"
every = "1 day"
for = "40 days"

[release.ages]
sql = "SELECT SUM(age) FROM people"
bounds.age = [0, 90]
start = "2026-01-02"
every = "1 day"
window = "7 days"
for = "40 days"
"""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
EVER = 1_900_000_000_000_000
KEY = "7e" * 32


def at(days: float) -> int:
    return int((BEGIN + timedelta(days=days)).timestamp() * 1_000_000)


def write_log(folder: Path, path: str, *, seed: int = 1, changes: int = 400) -> None:
    rng = random.Random(seed)
    times = [BEGIN + timedelta(seconds=rng.randrange(30 * 86_400)) for _ in range(changes)]
    table = pa.table({
        "time": pa.array(times, pa.timestamp("us")),
        "id": [f"p{rng.randrange(60)}" for _ in times],
        "city": [rng.choice(["north", "south", "east"]) for _ in times],
        "age": pa.array([rng.randrange(90) for _ in times], pa.int64()),
        "note": [str(rng.random()) for _ in times],
        "more": [str(rng.random()) for _ in times],
    })  # fmt: skip
    if path.endswith(".parquet"):
        parquet.write_table(table, folder / path)
        return
    lines = ["time,id,city,age,note,more"]
    lines += [
        ",".join([row["time"].isoformat(), *map(str, list(row.values())[1:])]) for row in table.to_pylist()
    ]
    (folder / path).write_text("\n".join(lines) + "\n")


def gauge(
    folder: Path, *, path: str = "log.parquet", epsilon: str = "1e15", more: str = "", now: int = EVER
) -> Gauge:
    folder.mkdir(exist_ok=True)
    if not (folder / path).exists():
        write_log(folder, path)
    (folder / "tidegauge.toml").write_text(DECLARATION.format(path=path, epsilon=epsilon) + more)
    return Gauge.from_file(folder / "tidegauge.toml", now=Clock(now))


def published(one: Gauge) -> list[tuple[Any, ...]]:
    readings = one.published() if one.committed else []
    return [(row.time, row.release, str(row.group), row.value) for row in readings]


def exact(one: Gauge) -> list[Any]:
    """The readings, the state and the counts."""
    readings: list[Any] = sorted((*where, round(value or 0)) for *where, value in published(one))
    key = parse_key(KEY) if one.spec.store.key else None
    with Store(one.path, key=key) as store:
        secret = store.secret
        tables = [secret.state().all_of(name).to_pylist() for name in ("entries", "units", "used")]
        return [*readings, *(sorted(map(str, rows)) for rows in tables), secret.counts(), secret.clock]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories are divided on disk, in segments and parts of a few changes."""
    monkeypatch.setattr(shuffle, "PART", 40)
    monkeypatch.setattr(shuffle, "IN_MEMORY", 0)
    monkeypatch.setattr(shuffle, "_TOGETHER", 50)
    monkeypatch.setattr(past, "_BLOCK", 30)


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """A function that makes the NTH file of a run the last one; 0: none is."""
    left = [0, 0]
    real = KeptFiles.write

    def write(self: KeptFiles, *given: Any) -> None:
        left[1] += 1
        if left[0] and left[1] > left[0]:
            raise Crashed
        real(self, *given)

    monkeypatch.setattr(KeptFiles, "write", write)

    def arm(nth: int) -> list[int]:
        left[:] = [nth, 0]
        return left

    return arm


@pytest.mark.parametrize("path", ["log.parquet", "log.csv"])
@pytest.mark.parametrize("key", [False, True])
def test_dying_again_and_again(
    tmp_path: Path, deadly: Any, path: str, key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HISTORY_KEY", KEY)
    more = '[store]\nkey = "env:HISTORY_KEY"\n' if key else ""
    calm = gauge(tmp_path / "calm", path=path, more=more)
    written = deadly(0)
    list(calm.run())
    files = written[1]
    assert files > 10
    one, deaths = gauge(tmp_path / "one", path=path, more=more), 0
    while not published(one):
        written = deadly(3)
        try:
            list(one.run())
        except Crashed:
            deaths += 1
            assert is_unfinished(one.path)
            assert oct(folder_of(one.path).stat().st_mode)[-3:] == "700"
            content = b"".join(file.read_bytes() for file in folder_of(one.path).iterdir())
            assert (b"north" in content) != key
    assert deaths >= files // 3 - 1
    assert not folder_of(one.path).exists()
    assert exact(one) == exact(calm)
    assert one.verify().readings == len(published(one))


@pytest.mark.parametrize("owner", [Store, PublicPart])
def test_dying_around_the_commit(tmp_path: Path, owner: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the commit everything is kept; after it the next process that writes removes the folder."""
    one = gauge(tmp_path, epsilon="1")
    name = {Store: "commit", PublicPart: "attest"}[owner]

    def die(*_: Any) -> None:
        raise Crashed

    if owner is Store:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, die)
            with pytest.raises(Crashed):
                list(one.run())
        assert is_unfinished(one.path)
        assert not published(one)
        list(one.run())
        assert not folder_of(one.path).exists()
        return
    with monkeypatch.context() as patch:
        patch.setattr("tidegauge.store.store.erase", die)
        with pytest.raises(Crashed):
            list(one.run())
    before = published(one)
    assert before
    assert is_unfinished(one.path)
    list(one.run())
    assert published(one) == before
    assert not folder_of(one.path).exists()


def test_bins_that_ended_meanwhile_follow(tmp_path: Path, deadly: Any) -> None:
    """The history ends where the first run ended it; what came due since then follows with the next tick."""
    calm, one = (gauge(tmp_path / name, now=at(12.5)) for name in ("calm", "one"))
    written = deadly(0)
    list(calm.run())
    files = written[1]
    deadly(files - 4)
    with pytest.raises(Crashed):
        list(one.run())
    calm, one = (gauge(tmp_path / name, now=at(21.5)) for name in ("calm", "one"))
    deadly(0)
    list(one.run())
    assert written[1] <= 4
    list(calm.run())
    assert len({row[0] for row in published(one)}) == 21
    assert exact(one) == exact(calm)


@pytest.mark.parametrize("path", ["log.parquet", "log.csv"])
def test_a_file_that_changed_is_not_mixed_with_what_was_kept(tmp_path: Path, deadly: Any, path: str) -> None:
    for name in ("calm", "one"):
        (tmp_path / name).mkdir()
        write_log(tmp_path / name, path, seed=1 if name == "one" else 2)
    calm, one = (gauge(tmp_path / name, path=path) for name in ("calm", "one"))
    deadly(0)
    list(calm.run())
    deadly(20)
    with pytest.raises(Crashed):
        list(one.run())
    known = (tmp_path / "one" / path).stat()
    shutil.copy(tmp_path / "calm" / path, tmp_path / "one" / path)
    os.utime(tmp_path / "one" / path, ns=(known.st_atime_ns, known.st_mtime_ns))
    deadly(0)
    list(one.run())
    assert exact(one)[:-1] == exact(calm)[:-1]


def test_a_file_that_grew_between_two_runs(tmp_path: Path, deadly: Any) -> None:
    one, calm = (gauge(tmp_path / name, path="log.csv") for name in ("one", "calm"))
    deadly(20)
    with pytest.raises(Crashed):
        list(one.run())
    for name in ("one", "calm"):
        with (tmp_path / name / "log.csv").open("a") as file:
            file.write(f"{(BEGIN + timedelta(days=3)).isoformat()},new,north,40,x,y\n")
    deadly(0)
    list(one.run())
    list(calm.run())
    assert exact(one) == exact(calm)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, real, calls = gauge(tmp_path), KeptFiles.write, []

    def write(self: KeptFiles, *given: Any) -> None:
        real(self, *given)
        calls.append(1)
        if len(calls) == 2:
            os.utime(tmp_path / "log.parquet", ns=(1, 1))

    with monkeypatch.context() as patch:
        patch.setattr(KeptFiles, "write", write)
        with pytest.raises(SourceError, match="changed while"):
            list(one.run())
    list(one.run())
    assert published(one)


def test_an_earlier_end_begins_again(tmp_path: Path, deadly: Any) -> None:
    one, calm = gauge(tmp_path / "one"), gauge(tmp_path / "calm")
    deadly(20)
    with pytest.raises(Crashed):
        list(one.run())
    deadly(0)
    for each in (one, calm):
        list(each.run("2026-01-10T12:00:00Z"))
    assert exact(one) == exact(calm)
    assert not folder_of(one.path).exists()


def test_a_new_store_does_not_use_what_an_old_one_left(tmp_path: Path, deadly: Any) -> None:
    one = gauge(tmp_path)
    deadly(20)
    with pytest.raises(Crashed):
        list(one.run())
    for path in tmp_path.glob("tidegauge.db*"):
        if path.is_file():
            path.unlink()
    written = deadly(0)
    list(one.run())
    assert written[1] > 20
    assert not folder_of(one.path).exists()


def test_a_terminal_says_that_the_next_run_continues(
    tmp_path: Path, deadly: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = gauge(tmp_path)
    deadly(20)
    with pytest.raises(Crashed):
        list(one.run())
    unfinished_ = partial(is_unfinished, one.path)
    assert "goes on from there" in verbs._stopped(unfinished_)  # not on a terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "the next run continues with the others" in verbs._stopped(unfinished_)
    deadly(0)
    with show.progress_bar("Publishing") as bar:
        assert bar is not None
        list(one.run(progress=bar))
    assert "Continuing a history that was interrupted: " in capsys.readouterr().err
    assert "goes on from there" in verbs._stopped(unfinished_)


def test_only_one_process_continues(tmp_path: Path, deadly: Any) -> None:
    one = gauge(tmp_path)
    deadly(20)
    with pytest.raises(Crashed):
        list(one.run())
    names = sorted(path.name for path in folder_of(one.path).iterdir())
    with Store(one.path, write=True), pytest.raises(StoreLocked):
        list(one.run())
    assert sorted(path.name for path in folder_of(one.path).iterdir()) == names


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_is_a_clear_error_and_loses_nothing(
    tmp_path: Path, deadly: Any, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    one, calm = gauge(tmp_path / "one"), gauge(tmp_path / "calm")
    list(calm.run())
    written, real = deadly(0), durable.private_file

    def full(path: Path) -> int:
        if path.name.endswith(".part.new") and written[1] == 15:
            raise OSError(number, os.strerror(number))
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(unfinished, "private_file", full)
        with pytest.raises(StoreError) as caught:
            list(one.run())
    said = str(caught.value)
    assert ("Make room, then start again" if number != errno.EIO else "Remove the folder") in said
    assert not list(folder_of(one.path).glob("*.new"))
    before = written[1]
    written = deadly(0)
    list(one.run())
    assert written[1] < before + 15
    assert exact(one) == exact(calm)


def test_without_room_beside_the_store_nothing_is_kept(
    tmp_path: Path, deadly: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, written = gauge(tmp_path), deadly(0)
    usage = type(shutil.disk_usage(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 100))
    list(one.run())
    assert published(one)
    assert not written[1]


def test_files_of_others_are_left_alone(tmp_path: Path, deadly: Any) -> None:
    one = gauge(tmp_path)
    folder_of(one.path).mkdir()
    (folder_of(one.path) / "mine.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"tidegauge\.db\.history cannot be removed"):
        list(one.run())
    assert (folder_of(one.path) / "mine.txt").read_text() == "mine"


def test_a_folder_that_others_could_write_is_not_used(tmp_path: Path, deadly: Any) -> None:
    one = gauge(tmp_path)
    deadly(20)
    with pytest.raises(Crashed):
        list(one.run())
    folder_of(one.path).chmod(0o777)
    written = deadly(0)
    list(one.run())
    assert written[1] > 20


def test_a_folder_that_another_user_closed_is_none_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_self: Path) -> bool:
        raise PermissionError

    monkeypatch.setattr(Path, "exists", refused)
    assert not is_unfinished(tmp_path / "tidegauge.db")


def test_a_link_in_place_of_the_folder_is_removed(tmp_path: Path) -> None:
    one, other = gauge(tmp_path / "one"), tmp_path / "other"
    other.mkdir()
    (other / "a.part").write_text("another's")
    folder_of(one.path).symlink_to(other)
    list(one.run())
    assert (other / "a.part").exists()
    assert not folder_of(one.path).is_symlink()


PROGRAM = """
import os, signal, sys
from tidegauge.engine.duckdb.past import shuffle
from tidegauge.source.files import past
shuffle.PART, shuffle.IN_MEMORY, shuffle._TOGETHER, past._BLOCK = 40, 0, 50, 30
from tidegauge.store.secret import unfinished
from tidegauge.cli import main
left, what = int(sys.argv.pop(1)), sys.argv.pop(1)
def dying(real):
    def called(*given, **more):
        global left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **more)
    return called
if what == "files":
    unfinished.KeptFiles.write = dying(unfinished.KeptFiles.write)
else:
    for name in ("private_file", "erase"):
        setattr(unfinished, name, dying(getattr(unfinished, name)))
    for name in ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir", "pread"):
        setattr(os, name, dying(getattr(os, name)))
main()
"""


def killed(one: Gauge, nth: int, what: str) -> bool:
    """Run it in a process of its own; returns whether it was killed at this call."""
    command = [sys.executable, "-c", PROGRAM, str(nth), what, "run", "--once", "--yes"]
    done = subprocess.run(command, cwd=one.path.parent, capture_output=True, check=False)
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode != 0


def test_another_process_continues(tmp_path: Path, deadly: Any) -> None:
    """The first process plans, the second one loads the plan: both divide the history in the same way."""
    calm, one = gauge(tmp_path / "calm"), gauge(tmp_path / "one")
    written = deadly(0)
    list(calm.run())
    files = written[1]
    assert killed(one, files - 1, "files")
    assert killed(one, 2, "files")
    deadly(0)
    printed = Told()
    list(one.run(progress=printed))
    assert printed.said[0].startswith("Continuing a history that was interrupted: ")
    assert printed.said[0].endswith("parts are done.")
    assert written[1] <= 2
    assert exact(one) == exact(calm)


@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_killed_at_any_call(tmp_path: Path, kills: int) -> None:
    """By SIGKILL, in processes of their own."""
    calm, one = gauge(tmp_path / "calm"), gauge(tmp_path / "one")
    list(calm.run())
    rng = random.Random(kills)
    for _ in range(kills):
        if not killed(one, rng.randrange(5, 120), "calls"):
            break
    list(one.run())
    assert exact(one) == exact(calm)
    assert not folder_of(one.path).exists()
    assert one.verify().readings == len(published(one))

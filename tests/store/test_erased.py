"""Nothing exact outlives the tick that needed it: not in the store's file, and not in the log beside it."""

from __future__ import annotations

import random
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.run.gauge_life import gauge
from tidegauge.model.program import Total
from tidegauge.model.tick import StreamState
from tidegauge.run.gauge import Gauge
from tidegauge.store.database import Database
from tidegauge.store.secret.sums import Sums
from tidegauge.store.store import Store
from tidegauge.testing import Clock, Script

EVERY = {"start": "1970-01-01T00:00:00.000005Z", "every": "5 microseconds", "for": "45 microseconds"}
LARGE = 10**13
BINS = 10
OWN = {"name": "buffered", "bins": BINS, "buffers": "0.3:1 0.4:0.5 0.2:0.07 0.1:0", "offset": 0.2}


@pytest.fixture(autouse=True)
def build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some builds of SQLite overwrite what is erased anyway; these tests are about those that do not."""
    connect = Database._connect

    def careless(self: Database, *, write: bool) -> sqlite3.Connection:
        connection = connect(self, write=write)
        connection.execute("PRAGMA secure_delete = OFF")
        return connection

    monkeypatch.setattr(Database, "_connect", careless)


def marked(folder: Path, **changes: Any) -> Gauge:
    """Its sums are numbers that turn up nowhere by chance: a new one every bin, for forty cells."""
    sums = {
        "sql": "SELECT ward, SUM(age) FROM t GROUP BY ward",
        "groups": {"ward": [f"w{n}" for n in range(40)]},
        "bounds": {"age": [0, LARGE]},
        "strategy": "disjoint",  # which needs nothing of a bin once it is measured
        **EVERY,
    }
    rows = [
        (5 * k + 1 + part, f"p{n}", {"ward": f"w{n}", "age": _age(k, n)})
        for k in range(BINS)
        for part in range(4)
        for n in range(part, 40, 4)
    ]
    columns = {"ward": "VARCHAR", "age": "BIGINT"}
    declared = {
        "releases": {"sums": sums},
        "now": Clock(5 * BINS),
        "budget": {"rho": 1},
        "constraint": {"at_most": 30},
    }
    return gauge(folder, Script(columns, rows, size=7), **(declared | changes))


def _age(k: int, n: int) -> int:
    return 7_000_000_000_000 + random.Random(100 * k + n).randrange(10**12)


def found(folder: Path, numbers: dict[Any, int]) -> set[Any]:
    """Which numbers some file of the store shows, written out or as SQLite writes integers."""
    data = b"\n".join(path.read_bytes() for path in sorted(folder.glob("store.db*")))
    return {
        name
        for name, number in numbers.items()
        if str(abs(number)).encode() in data or number.to_bytes(6, "big", signed=True) in data
    }


def shown(folder: Path, numbers: dict[Any, int], times: int = 0) -> set[Any]:
    """Which numbers some file of the store shows, more often than this,
    as rows and waiting changes hold them."""
    data = b"\n".join(path.read_bytes() for path in sorted(folder.glob("store.db*")))
    return {name for name, number in numbers.items() if data.count(number.to_bytes(8, "little")) > times}


def left(one: Gauge, folder: Path) -> set[tuple[int, int]]:
    """Run a gauge, and after every bin look for the last sums and for the changes that they are made of.

    A cell's sum is the difference of two ages, a change that waits holds the age itself.  So does the row of
    the state, once, until its next change.
    """
    seen: set[tuple[int, int]] = set()
    for number, _ in enumerate(one.run()):
        bin_, cell = divmod(number, 40)
        if cell == 0 and bin_:
            past = {
                (k, n): _age(k, n) - _age(k - 1, n)
                for k in range(max(1, bin_ - 2), bin_ + 1)
                for n in range(40)
            }
            seen |= found(folder, past)
            seen |= shown(folder, {(k, n): _age(k, n) for k in range(bin_) for n in range(40)})
            seen |= shown(folder, {(bin_, n): _age(bin_, n) for n in range(40)}, times=1)
    return seen


def test_sums_and_changes_are_gone_once_they_are_measured(tmp_path: Path) -> None:
    one = marked(tmp_path)
    assert left(one, tmp_path) == set()
    assert one.verify().readings == BINS * 40


@pytest.mark.parametrize("broken", ["empty_log", "tidy and secure_delete"])
def test_the_twins_that_must_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    if broken == "empty_log":
        monkeypatch.setattr(Database, "empty_log", lambda _: None)
    else:
        monkeypatch.setattr(Sums, "tidy", lambda _: None)
        prepare = Database._prepare

        def careless(self: Database, key: bytes | None, **options: Any) -> None:
            prepare(self, key, **options)
            self.connection.execute("PRAGMA secure_delete = OFF")

        monkeypatch.setattr(Database, "_prepare", careless)
    assert left(marked(tmp_path), tmp_path)


def test_a_log_that_another_process_reads_is_emptied_later(tmp_path: Path) -> None:
    one = marked(tmp_path)
    log = Path(f"{one.path}-wal")
    run = one.run()
    next(run)
    with Store(one.path) as reader:
        with reader.public.snapshot():
            assert reader.public.readings()
            for _ in range(80):
                next(run)
            assert log.stat().st_size > 0
        for _ in range(40):
            next(run)
        assert log.stat().st_size == 0
    assert len(list(run)) == BINS * 40 - 121


def test_the_last_value_of_a_release_is_erased_once_the_rows_have_changed(tmp_path: Path) -> None:
    count = {"sql": "SELECT COUNT(*) FROM t", **EVERY}
    first, longer = count | {"for": "20 microseconds"}, count | {"for": "ever"}
    flow = {"sql": "SELECT COUNT(*) FROM changes(t)", **EVERY, "for": "20 microseconds"}
    one = marked(
        tmp_path, releases={"first": first, "longer": longer, "flow": flow}, constraint={"at_most": 2}
    )
    bins, seen = one.plan().releases[0].release.schedule.bins, set()
    for _ in one.run():
        with Store(one.path) as store:
            ended = store.public.next_bin("first") == bins
            seen |= {(ended, name) for name in store.secret.secrets.names() if name.startswith("exact:")}
    assert {(False, "exact:first"), (False, "exact:flow"), (True, "exact:longer")} <= seen
    assert (True, "exact:flow") not in seen
    with Store(one.path) as store:
        assert store.secret.exact.of("first") is None
        assert store.secret.exact.of("longer")


@pytest.mark.parametrize("strategy", [OWN, "autoregressive", "hierarchy", "disjoint"])
def test_nothing_is_kept_of_a_release_that_has_ended(tmp_path: Path, strategy: Any) -> None:
    level = {"sql": "SELECT COUNT(*) FROM t", "strategy": strategy, **EVERY}
    longer = level | {"for": "200 microseconds", "strategy": "disjoint"}
    budget = {"rho": 1} if strategy == OWN else {"epsilon": 1}
    releases = {"level": level, "longer": longer}
    one = marked(tmp_path, releases=releases, budget=budget, constraint={"at_most": 2})
    kept = set()
    for number, _ in enumerate(one.run()):
        with Store(one.path) as store:
            kept |= {store.secret.shared_noise("level", 0) != (), store.secret.stream("level", 0) is not None}
        assert number < 2 * BINS
    with Store(one.path) as store:
        assert store.secret.shared_noise("level", 0) == ()
        assert store.secret.stream("level", 0) is None
        assert store.secret.sums.since("level", 0) == {}
        # The last running values, which the rows of the state show as well, are there for the operator.
        assert store.secret.secrets.names() == {
            "checksum", "clock", "exact:level", "exact:longer", "exact_ended", "row_digests", "state"
        }  # fmt: skip
    assert kept == ({True, False} if strategy in (OWN, "autoregressive") else {False})
    assert one.verify().readings == 2 * BINS
    assert list(one.run()) == []


@pytest.mark.parametrize("key", [None, bytes(32)])
def test_whatever_is_written_only_what_is_kept_is_in_the_files(tmp_path: Path, key: bytes | None) -> None:
    """Random sums and secrets, tick by tick.  In the clear each is a mark;
    sealed, the beginning of each row is."""
    rng = random.Random(11)
    path = tmp_path / "store.db"

    def mark() -> int:
        return 10**15 + rng.randrange(10**15)

    with Store(path, write=True, key=key) as store:
        ever: set[bytes] = set()
        for tick in range(30):
            with store.transaction():
                store.secret.sums.add(
                    Total(
                        f"r{rng.randrange(3)}",
                        rng.randrange(2),
                        tick + rng.randrange(3),
                        rng.randrange(300),
                        mark(),
                    )
                    for _ in range(rng.randrange(150))
                )
                for n in range(rng.randrange(4)):
                    store.secret.set_stream(
                        f"r{n}", 0, StreamState(tick, (tuple(mark() for _ in range(rng.randrange(300))),))
                    )
                for n in range(3):
                    store.secret.sums.drop(f"r{n}", tick)
            now = [
                str(value).encode() if key is None else value[:20]
                for table, column in (("totals", "amount"), ("secrets", "value"))
                for (value,) in store._file.connection.execute(f"SELECT {column} FROM {table}").fetchall()
            ]
            data = b"".join(one.read_bytes() for one in (path, Path(f"{path}-wal")))
            if key is None:
                assert set(_MARK.findall(data)) <= set(_MARK.findall(b" ".join(now)))
            else:
                assert not [one for one in ever - set(now) if one in data]
            ever = (ever if key is None else set()) | set(now)
        assert len(ever) > 100


_MARK = re.compile(rb"(?<!\d)1\d{15}(?!\d)")

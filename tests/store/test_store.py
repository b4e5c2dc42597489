"""The store: one writer, private, and it proves what it holds."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.run.gauge_life import COLUMNS, gauge, life
from tidegauge.errors import BudgetExceeded, PlanChanged, SpecError, StoreCorrupt, StoreError, StoreLocked
from tidegauge.mechanism.noise.samplers import SimulationSampler
from tidegauge.model.ledger import Reservation
from tidegauge.model.tick import Measurement
from tidegauge.run.gauge import Gauge
from tidegauge.store.store import Store
from tidegauge.testing import Script


@pytest.fixture
def done(tmp_path: Path) -> Gauge:
    one = gauge(tmp_path, Script(COLUMNS, life()))
    list(one.run())
    return one


def test_only_the_owner_can_read_it(done: Gauge) -> None:
    with Store(done.path, write=True) as store, store.transaction():
        for path in done.path.parent.iterdir():
            assert path.stat().st_mode & 0o777 == 0o600, path.name


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777])
def test_only_the_owner_can_read_it_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    one, seen = gauge(tmp_path, Script(COLUMNS, life(), size=20)), set()
    old = os.umask(umask)
    try:
        for _ in range(2):
            for _ in one.run():
                seen |= {(path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
    finally:
        os.umask(old)
    names = ["store.db", "store.db-shm", "store.db-wal", "store.db.lock", "store.db.witness"]
    assert sorted(seen) == [(name, 0o600) for name in names]


def _hold(path: str, ready: Any, end: Any) -> None:
    with Store(Path(path), write=True):
        ready.set()
        end.wait(600)


def test_a_second_process_is_refused_and_readers_are_not(done: Gauge) -> None:
    context = multiprocessing.get_context("spawn")
    ready, end = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(str(done.path), ready, end))
    other.start()
    try:
        assert ready.wait(600)
        with pytest.raises(StoreLocked, match="in use by another process"):
            list(done.run())
        assert done.published()
    finally:
        end.set()
        other.join()


def test_it_is_durable_before_anyone_sees_it(done: Gauge) -> None:
    with Store(done.path, write=True) as store:
        assert store._file.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._file.connection.execute("PRAGMA synchronous").fetchone() == (2,)


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        ("UPDATE ledger SET body = replace(body, 'by_ward', 'by_word')", "ledger entry 1"),
        (
            "UPDATE journal SET value = '12345' WHERE number = 1 AND cell = 0 AND release = 'by_ward'",
            "entry 2 of the journal",
        ),
        ("DELETE FROM journal WHERE number = 2 AND release = 'moved'", "entry 3 of the journal"),
        ("UPDATE readings SET value = value + 1 WHERE number = 1 AND release = 'by_ward'", "do not follow"),
        ("DELETE FROM readings WHERE number = 1 AND release = 'moved'", "do not follow"),
        (
            "UPDATE meta SET value = replace(value, '\"refine\": 1', '\"refine\": 2') WHERE key = 'plan'",
            "not the one",
        ),
    ],
)
def test_verify_finds_what_was_altered(done: Gauge, damage: str, finding: str) -> None:
    assert done.verify().ledger_entries == 1
    connection = sqlite3.connect(done.path)
    changed = connection.execute(damage).rowcount
    connection.commit()
    connection.close()
    assert changed > 0
    with pytest.raises(StoreCorrupt, match=finding):
        done.verify()


def test_a_changed_declaration_is_refused_with_what_changed(done: Gauge, tmp_path: Path) -> None:
    changed = gauge(tmp_path, Script(COLUMNS, life()), constraint={"at_most": 5})
    with pytest.raises(PlanChanged, match=r"constraint\.at_most: was changed"):
        list(changed.run())
    with pytest.raises(PlanChanged):
        changed.plan()


def test_shares_beyond_the_budget_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    releases = {name: {"sql": "SELECT COUNT(*) FROM t", "every": "1 day", "share": "0.6"} for name in "xy"}
    one = gauge(tmp_path, Script(COLUMNS, life()), releases=releases)
    with pytest.raises(BudgetExceeded, match="6/5"):
        one.plan()


def test_a_ledger_never_reserves_more_than_the_budget(done: Gauge) -> None:
    with Store(done.path, write=True) as store, store.transaction():
        with pytest.raises(BudgetExceeded, match="short by 1") as refusal:
            store.public.ledger.reserve(Reservation("", "epsilon", Fraction(10**9), Fraction(1), {}), time="")
        assert refusal.value.left == 0
    long = BudgetExceeded(
        "a plan", measure="rho", needed=Fraction(48711940719, 4 * 10**12), left=Fraction(1, 4000)
    )
    assert "needs rho = 0.012178; the ledger has 1/4000 left (short by 0.011928)" in str(long)


def test_simulated_noise_never_meets_a_real_ledger(done: Gauge, tmp_path: Path) -> None:
    simulated = gauge(tmp_path, Script(COLUMNS, life()), sampler=SimulationSampler(7))
    with pytest.raises(SpecError, match="simulated"):
        list(simulated.run())
    own = gauge(tmp_path, Script(COLUMNS, life()), sampler=SimulationSampler(7), store=tmp_path / "own.db")
    list(own.run())
    assert own.status().simulated is True


def test_a_run_that_was_stopped_before_it_wrote_anything(tmp_path: Path) -> None:
    one = gauge(tmp_path, Script(COLUMNS, life()))
    one.path.touch()
    assert one.status().plan is None
    assert one.plan().hash
    with pytest.raises(StoreError, match="is empty"):
        one.published()
    assert len(list(one.run())) == 38


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"this is not a database, but it is long enough to be one" * 40)
    with pytest.raises(StoreCorrupt):
        Store(path)
    with pytest.raises(StoreCorrupt):
        Store(path, write=True)
    sqlite3.connect(tmp_path / "y.db").execute("CREATE TABLE a (b)").connection.close()
    with pytest.raises(StoreError, match="not a store of this version"):
        Store(tmp_path / "y.db", write=True)
    with pytest.raises(StoreError, match="does not exist"):
        Store(tmp_path / "z.db")


def test_the_chain_counts_bins_however_the_changes_are_cut(tmp_path: Path) -> None:
    """Batches, ticks and restarts leave no trace in what is public:
    an entry is an instant at which bins end."""
    chains, witnesses = [], []
    for number, (size, stops) in enumerate(
        [(1, ()), (7, ()), (10**6, ()), (5, range(2, 30)), (10**6, (12, 13))]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        one = gauge(folder, Script(COLUMNS, life(), size=size))
        for stop in stops:
            list(one.run(f"1970-01-01T00:00:00.{stop:06}Z"))
        list(one.run())
        assert one.verify().readings == 38
        with Store(one.path) as store:
            chains.append(store._file.connection.execute("SELECT * FROM ticks ORDER BY seq").fetchall())
        witnesses.append(Path(f"{one.path}.witness").read_text())
    assert [(seq, instant) for seq, instant, _, _ in chains[0]] == [(n, 5 * n) for n in range(1, 7)]
    assert all(chain == chains[0] for chain in chains)
    assert set(witnesses) == {witnesses[0]}


def test_an_instant_is_sealed_once_and_as_the_schedule_says(done: Gauge) -> None:
    again = Measurement("by_ward", 0, 99, 0, 9, 1, time=30)
    with (
        Store(done.path, write=True) as store,
        pytest.raises(sqlite3.IntegrityError, match=r"ticks\.instant"),
        store.transaction(),
    ):
        store.public.record([again], [])
    with Store(done.path, write=True) as store, store.transaction():
        assert store.public.journal._fresh == {}
        store.public.record([Measurement("by_ward", 0, 99, 0, 9, 1, time=31)], [])
    with pytest.raises(StoreCorrupt, match="not sealed with the instant at which its bin ends"):
        done.verify()
    with Store(done.path, write=True) as store, store.transaction():
        store.public.record([Measurement("by_ward", 0, 100, 0, 9, 1, time=29)], [])
    with pytest.raises(StoreCorrupt, match="entry 8 of the journal is not later"):
        done.verify()


def test_what_is_erased_is_overwritten(done: Gauge) -> None:
    with Store(done.path, write=True) as store:
        assert store._file.connection.execute("PRAGMA secure_delete").fetchone() == (1,)

"""A ledger that several gauges share: its terms, its chain, races, and processes that die."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from tidegauge.errors import BudgetExceeded, LedgerError, StoreBehind, StoreCorrupt
from tidegauge.model.ledger import Reservation
from tidegauge.store.public.shared import SharedLedger, Terms

TERMS = Terms("rho", Fraction(1), "person")
NOW = "2026-01-01T00:00:00Z"


def plan(amount: str, name: str = "p") -> Reservation:
    return Reservation(name, "rho", Fraction(9), Fraction(amount), {"r": Fraction(amount)})


@pytest.fixture
def ledger(tmp_path: Path) -> SharedLedger:
    return SharedLedger.create(tmp_path / "people.ledger", TERMS, time=NOW)


def spent(ledger: SharedLedger) -> Fraction:
    return sum((entry.reserved for entry in ledger.entries()), Fraction(0))


def test_what_several_gauges_reserve_stays_within_the_total(ledger: SharedLedger) -> None:
    ledger.reserve("a", TERMS, plan("1/2"), time=NOW)
    ledger.reserve("b", TERMS, plan("1/3"), time=NOW)
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve("c", TERMS, plan("1/4"), time=NOW)
    assert refused.value.left == Fraction(1, 6)
    ledger.reserve("c", TERMS, plan("1/6"), time=NOW)
    assert spent(ledger) == 1


@pytest.mark.parametrize(
    ("terms", "line"),
    [
        (Terms("epsilon", Fraction(1), "person"), "measure: the ledger's is 'rho', the gauge's is 'epsilon'"),
        (Terms("rho", Fraction(1), "visit"), "unit: the ledger's is 'person', the gauge's is 'visit'"),
        (
            Terms("rho", Fraction(1), "person", "1 year"),
            "term: the ledger's is none, the gauge's is '1 year'",
        ),
    ],
)
def test_gauges_on_other_terms_are_refused(ledger: SharedLedger, terms: Terms, line: str) -> None:
    with pytest.raises(LedgerError) as refused:
        ledger.reserve("a", terms, plan("1/2"), time=NOW)
    assert line in str(refused.value)
    assert not spent(ledger)


def test_a_gauge_that_died_before_its_commit_does_not_reserve_twice(ledger: SharedLedger) -> None:
    for name, amount, total in (("p", "1/2", "1/2"), ("q", "1/2", "1/2"), ("r", "3/4", "3/4")):
        ledger.reserve("a", TERMS, plan(amount, name), time=NOW)
        assert spent(ledger) == Fraction(total)
    ledger.reserve("a", TERMS, plan("1/4", "s"), time=NOW)
    assert spent(ledger) == Fraction(3, 4), "nothing is ever given back"


def test_a_gauge_that_forgot_its_commit_is_an_old_copy(ledger: SharedLedger) -> None:
    ledger.reserve("a", TERMS, plan("1/2"), time=NOW)
    for _ in range(2):
        ledger.confirm("a", ["p"], Fraction(1, 2), time=NOW)
    assert [entry.kind for entry in ledger.entries()] == ["terms", "reserve", "commit"]
    with pytest.raises(StoreBehind, match="the store is an old copy"):
        ledger.reserve("a", TERMS, plan("1/2", "q"), time=NOW)


def test_a_gauge_that_has_committed_a_plan_that_its_store_does_not_have_is_refused(
    ledger: SharedLedger,
) -> None:
    """An old copy of its store, or two copies that were made before the first commit and run together."""
    for name in ("p", "q"):
        ledger.reserve("a", TERMS, plan("1/2", name), time=NOW)
    ledger.confirm("a", ["p"], Fraction(1, 2), time=NOW)
    with pytest.raises(StoreBehind, match="a plan that its store does not have"):
        ledger.confirm("a", ["q"], Fraction(1, 2), time=NOW)
    ledger.confirm("a", ["p", "more"], Fraction(1, 2), time=NOW)
    with pytest.raises(StoreBehind, match="the store is an old copy"):
        ledger.confirm("a", ["p"], Fraction(1, 2), time=NOW)
    assert [entry.kind for entry in ledger.entries()] == ["terms", "reserve", "reserve", "commit", "commit"]


def test_what_a_killed_process_left_half_written_is_undone_by_a_reader(
    ledger: SharedLedger, tmp_path: Path
) -> None:
    ledger.reserve("a", TERMS, plan("1/2"), time=NOW)
    writing = sqlite3.connect(ledger.path, isolation_level=None)
    writing.execute("PRAGMA cache_size = 2")  # pages are written before the transaction ends
    writing.execute("BEGIN IMMEDIATE")
    row = "INSERT INTO ledger (time, kind, gauge, body, previous, hash) VALUES ('', '', '', ?, '', ?)"
    writing.executemany(row, ((3000 * "x", str(n)) for n in range(50)))
    place = tmp_path / "killed"
    place.mkdir()
    for end in ("", "-journal"):
        shutil.copy(f"{ledger.path}{end}", place)
    writing.close()
    copy = SharedLedger(place / ledger.path.name)
    assert copy.entries() == ledger.entries()
    assert spent(copy) == Fraction(1, 2)


def test_an_old_copy_of_the_ledger_is_found_by_the_gauges_it_forgot(
    ledger: SharedLedger, tmp_path: Path
) -> None:
    old = shutil.copy(ledger.path, tmp_path / "old")
    ledger.reserve("a", TERMS, plan("1/2"), time=NOW)
    shutil.copy(old, ledger.path)
    with pytest.raises(StoreCorrupt, match="has no reservation for this gauge's plan"):
        ledger.confirm("a", ["p"], Fraction(1, 2), time=NOW)


@pytest.mark.parametrize(
    "statement",
    [
        """UPDATE ledger SET body = replace(body, '"1/2"', '"1/9"')""",
        "DELETE FROM ledger WHERE seq = 2",
        "DELETE FROM ledger WHERE seq = 1",
        "UPDATE ledger SET gauge = 'b' WHERE seq = 2",
    ],
)
def test_an_altered_ledger_is_refused(ledger: SharedLedger, statement: str) -> None:
    ledger.reserve("a", TERMS, plan("1/2"), time=NOW)
    ledger.reserve("b", TERMS, plan("1/4"), time=NOW)
    with sqlite3.connect(ledger.path) as db:
        db.execute(statement)
    with pytest.raises(StoreCorrupt):
        ledger.reserve("c", TERMS, plan("1/8"), time=NOW)


def test_files_that_are_no_ledger(tmp_path: Path, ledger: SharedLedger) -> None:
    with pytest.raises(LedgerError, match="there is no ledger none"):
        SharedLedger(tmp_path / "none").entries()
    (tmp_path / "text").write_text("no database at all, but long enough to be looked at\n" * 40)
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE t (x)").connection.close()
    for name in ("text", "other"):
        with pytest.raises(LedgerError, match=f"{name} is not a ledger"):
            SharedLedger(tmp_path / name).entries()
    with pytest.raises(LedgerError, match="exists already"):
        SharedLedger.create(ledger.path, TERMS, time=NOW)


RACE = """
import sys
from fractions import Fraction
from pathlib import Path
from tidegauge.errors import BudgetExceeded
from tidegauge.model.ledger import Reservation
from tidegauge.store.public.shared import SharedLedger, Terms
ledger, won = SharedLedger(Path(sys.argv[1])), 0
for n in range(20):
    loss = Fraction(1, 30)
    try:
        ledger.reserve(f"{sys.argv[2]}-{n}", Terms("rho", Fraction(1), "person"),
                       Reservation("p", "rho", Fraction(9), loss, {"r": loss}), time="now")
        won += 1
    except BudgetExceeded:
        pass
print(won)
"""


def test_processes_that_race_never_reserve_more_than_the_total(ledger: SharedLedger) -> None:
    racing = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(ledger.path), str(n)], stdout=subprocess.PIPE, text=True
        )
        for n in range(3)
    ]
    won = [int(process.communicate()[0]) for process in racing]
    assert sum(won) == 30, "60 wanted a thirtieth each"
    assert spent(ledger) == 1

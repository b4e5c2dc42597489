"""Gauges that share a ledger: order of reserving, committing and measuring, and every death in between."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tidegauge.cli import main
from tidegauge.errors import BudgetExceeded, LedgerError, SpecError, StoreBehind, StoreCorrupt
from tidegauge.model.ledger import Reservation
from tidegauge.model.quantity import instant
from tidegauge.run.gauge import Gauge
from tidegauge.run.shared import Sharing
from tidegauge.store.public.shared import SharedLedger, Terms
from tidegauge.store.store import Store
from tidegauge.testing import Clock, Script

NOW = "2026-01-01T00:00:00Z"
LIFE = [(1, "a", {"x": 1}), (2, "b", {"x": 2}), (3, "a", None)]


def make(folder: Path, total: str = "1") -> SharedLedger:
    terms = Terms("epsilon", Fraction(total), "row of t")
    return SharedLedger.create(folder / "all.ledger", terms, time=NOW)


def gauge(folder: Path, name: str = "one", epsilon: str = "1/2", **changes: Any) -> Gauge:
    declared: dict[str, Any] = {
        "source": Script({"x": "BIGINT"}, LIFE),
        "constraint": {"at_most": 2},
        "budget": {"epsilon": epsilon},
        "ledger": {"path": "all.ledger"},
        "releases": {
            "n": {
                "sql": "SELECT COUNT(*) FROM t",
                "start": "1970-01-01T00:00:00.000002Z",
                "every": "2 microseconds",
                "for": "4 microseconds",
            }
        },
        "base": folder,
        "store": folder / f"{name}.db",
        "now": Clock(10),
    }
    return Gauge(**(declared | changes))


def kinds(ledger: SharedLedger) -> list[str]:
    return [entry.kind for entry in ledger.entries()]


def test_a_gauge_whose_constraint_renews_joins_a_ledger_with_that_term(tmp_path: Path) -> None:
    terms = Terms("epsilon", Fraction(1), "row of t", term="4 microseconds")
    ledger = SharedLedger.create(tmp_path / "all.ledger", terms, time=NOW)
    assert len(list(gauge(tmp_path, constraint={"at_most": 2, "renews": "4 microseconds"}).run())) == 3
    assert kinds(ledger) == ["terms", "reserve", "commit"]
    other = gauge(tmp_path, "two", constraint={"at_most": 2, "renews": "5 microseconds"})
    with pytest.raises(LedgerError, match="term: the ledger's is '4 microseconds', the gauge's is '5 micros"):
        list(other.run())


YEARS: dict[str, Any] = {
    "releases": {
        "n": {"sql": "SELECT COUNT(*) FROM t", "start": "2026-03-01", "every": "1 day", "for": "2 years"}
    },
    "now": Clock(instant("2026-01-01")),
}


@pytest.mark.parametrize(
    ("changes", "other"),
    [
        ({"constraint": {"at_most": 2, "renews": "1 year", "renews_from": "2026-07-01"}}, "2026-07-01"),
        ({"time_zone": "Europe/Berlin"}, "2027-01-01T00:00:00 Europe/Berlin"),
    ],
)
def test_terms_that_begin_at_other_times_are_other_terms(
    tmp_path: Path, changes: dict[str, Any], other: str
) -> None:
    """What a unit does in one term of this gauge is in two terms of that one,
    so that losses do not add up."""
    terms = Terms("epsilon", Fraction(1), "row of t", term="1 year")
    ledger = SharedLedger.create(tmp_path / "all.ledger", terms, time=NOW)
    year = YEARS | {"constraint": {"at_most": 2, "renews": "1 year"}}
    list(gauge(tmp_path, "one", "1/4", **year).run())
    with pytest.raises(LedgerError, match="its terms of 1 year begin at other times") as refused:
        list(gauge(tmp_path, "two", "1/4", **(year | changes)).run())
    assert f"this gauge: {other}" in str(refused.value)
    assert "another gauge of the ledger: 2027-01-01T00:00:00 UTC" in str(refused.value)
    assert kinds(ledger) == ["terms", "reserve", "commit"]
    later = {"n": {**year["releases"]["n"], "start": "2027-05-01"}}
    from_then = {"at_most": 1, "renews": "1 year", "renews_from": "2028-01-01"}
    list(gauge(tmp_path, "two", "1/4", **(year | {"releases": later})).run())
    list(gauge(tmp_path, "three", "1/4", **(year | {"releases": later, "constraint": from_then})).run())
    assert kinds(ledger) == ["terms", *["reserve", "commit"] * 3]


def test_a_gauge_whose_terms_an_older_ledger_does_not_know_is_refused(tmp_path: Path) -> None:
    terms = Terms("epsilon", Fraction(1), "row of t", term="1 year")
    ledger = SharedLedger.create(tmp_path / "all.ledger", terms, time=NOW)
    loss = Fraction(1, 4)
    ledger.reserve("old", terms, Reservation("p", "epsilon", loss, loss, {"n": loss}), time=NOW)
    year = YEARS | {"constraint": {"at_most": 2, "renews": "1 year"}}
    with pytest.raises(LedgerError, match="unknown, because an earlier version reserved it"):
        list(gauge(tmp_path, "one", "1/4", **year).run())
    assert kinds(ledger) == ["terms", "reserve"]


RACING = """
[source]
kind = "files"
path = "t.csv"
table = "t"
time = "at"
key = "id"

[constraint]
at_most = 2

[budget]
{budget}

[ledger]
path = "all.ledger"

[release.n]
sql = "SELECT COUNT(*) FROM t"
start = "2026-01-01"
every = "1 day"
for = "5 days"
"""


@pytest.mark.parametrize("rounds", [1, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("total", "budget", "fit"),
    [
        (("--epsilon", "1", "--delta", "1e-6"), "epsilon = 1\ndelta = 1e-6", 1),
        (("--rho", "1/2"), 'rho = "1/6"', 3),
    ],
)
def test_gauges_that_race_for_what_is_left(
    tmp_path: Path, total: tuple[str, ...], budget: str, fit: int, rounds: int
) -> None:
    """One more gauge than fits starts at the same time; those that fit take exactly all of the total."""
    (tmp_path / "t.csv").write_text("at,id,x\n2026-01-01T12:00:00,a,1\n2026-01-03T12:00:00,b,2\n")
    (tmp_path / "tidegauge.toml").write_text(RACING.format(budget=budget))
    program = [sys.executable, "-c", "from tidegauge.cli import main; main()"]
    for round_ in range(rounds):
        (tmp_path / "all.ledger").unlink(missing_ok=True)
        words = [*program, "ledger", "--create", "all.ledger", "--unit", "row of t", *total]
        subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
        racing = [
            subprocess.Popen([*program, "run", "--once", "--yes", "--store", f"{round_}-{n}.db"],
                cwd=tmp_path,
                text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for n in range(fit + 1)
        ]  # fmt: skip
        said = [process.communicate()[1] for process in racing]
        codes = [process.returncode for process in racing]
        assert sorted(codes) == [0] * fit + [2], said
        loser = codes.index(2)
        assert "in the shared ledger all.ledger" in said[loser]
        assert "the ledger has 0 left" in said[loser]
        ledger = SharedLedger(tmp_path / "all.ledger")
        assert sum((entry.reserved for entry in ledger.entries()), Fraction(0)) == ledger.terms().total
        assert sorted(kinds(ledger)) == sorted(["terms", *["reserve", "commit"] * fit])
        for n, code in enumerate(codes):
            one = Gauge.from_file(tmp_path / "tidegauge.toml", store=tmp_path / f"{round_}-{n}.db")
            assert len(one.published()) == (6 if code == 0 else 0)


def test_two_gauges_and_a_third_too_many(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    assert len(list(gauge(tmp_path, "one").run())) == 3
    assert len(list(gauge(tmp_path, "two").run())) == 3
    with pytest.raises(
        BudgetExceeded, match=r"in the shared ledger all\.ledger, needs epsilon = 1/2; the ledger has 0"
    ):
        list(gauge(tmp_path, "three").run())
    assert kinds(ledger) == ["terms", "reserve", "commit", "reserve", "commit"]
    assert list(gauge(tmp_path, "one").run()) == []
    assert len(kinds(ledger)) == 5
    assert gauge(tmp_path, "three").ledger() == [] if (tmp_path / "three.db").exists() else True


@pytest.mark.parametrize("step", ["reserve", "commit_plan", "confirm"])
@pytest.mark.parametrize("after", [False, True])
def test_dying_beside_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, *, after: bool
) -> None:
    ledger = make(tmp_path)
    place = Store if step == "commit_plan" else SharedLedger
    real = getattr(place, step)

    class Died(BaseException):
        pass

    def dies(*given: Any, **named: Any) -> Any:
        if after:
            real(*given, **named)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(place, step, dies)
        with pytest.raises(Died):
            list(gauge(tmp_path).run())
    assert not [entry for entry in ledger.entries() if entry.kind == "commit"] or step == "confirm"
    assert len(list(gauge(tmp_path, now=Clock(20)).run())) == 3
    assert sum((entry.reserved for entry in ledger.entries()), Fraction(0)) == Fraction(1, 2)
    assert kinds(ledger).count("commit") == 1
    assert gauge(tmp_path).verify().readings == 3


def test_a_store_from_before_its_commit_is_refused(tmp_path: Path) -> None:
    make(tmp_path)
    with Store(tmp_path / "one.db", write=True) as store:
        store.identity()
    shutil.copy(tmp_path / "one.db", tmp_path / "old.db")
    list(gauge(tmp_path).run())
    shutil.copy(tmp_path / "old.db", tmp_path / "one.db")
    for beside in ("-wal", "-shm", ".witness"):
        (tmp_path / f"one.db{beside}").unlink(missing_ok=True)
    with pytest.raises(StoreBehind, match="has committed a plan, but its store has none"):
        list(gauge(tmp_path).run())


def test_a_ledger_that_is_gone_replaced_or_forgotten(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    list(gauge(tmp_path).run(until="1970-01-01T00:00:00.000003Z"))
    with pytest.raises(SpecError, match="ledger: is missing: this gauge was committed with a shared ledger"):
        list(gauge(tmp_path, ledger=None).run())
    ledger.path.rename(tmp_path / "away")
    with pytest.raises(LedgerError, match=r"there is no ledger all\.ledger"):
        list(gauge(tmp_path).run())
    assert len(gauge(tmp_path).published()) == 1, "reading needs no ledger"
    make(tmp_path, "2")
    with pytest.raises(LedgerError, match="is another ledger than the one"):
        list(gauge(tmp_path).run())
    (tmp_path / "away").rename(ledger.path)
    assert len(list(gauge(tmp_path).run())) == 2


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    with pytest.raises(LedgerError, match=r"^'shared' is a folder; name the file of a ledger\."):
        SharedLedger(folder / ".").entries()


def test_a_gauge_that_was_committed_alone_stays_alone(tmp_path: Path) -> None:
    make(tmp_path)
    list(gauge(tmp_path, ledger=None).run())
    with pytest.raises(SpecError, match="this gauge was committed without a shared ledger"):
        list(gauge(tmp_path).run())


def test_a_ledger_that_lost_the_reservation(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    shutil.copy(ledger.path, tmp_path / "old")
    list(gauge(tmp_path).run(until="1970-01-01T00:00:00.000003Z"))
    shutil.copy(tmp_path / "old", ledger.path)
    with pytest.raises(StoreCorrupt, match="has no reservation for this gauge's plan"):
        list(gauge(tmp_path).run())


def test_other_units_and_measures_are_refused(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(LedgerError, match="measure: the ledger's is 'epsilon', the gauge's is 'rho'"):
        list(gauge(tmp_path, budget={"rho": "1/8"}).run())
    with pytest.raises(LedgerError, match="unit: the ledger's is 'row of t', the gauge's is 'person'"):
        list(gauge(tmp_path, "two", ledger={"path": "all.ledger", "unit": "person"}).run())
    assert Sharing(None, tmp_path).ledger is None


def test_the_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tidegauge", *words])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    monkeypatch.chdir(tmp_path)
    code, out, _ = call(
        "ledger", "--create", "p.ledger", "--unit", "person", "--epsilon", "2", "--delta", "1e-6"
    )
    assert code == 0
    assert "total: epsilon = 2, delta = 1e-06, accounted as rho = 0.0" in out
    assert max(map(len, out.splitlines())) <= 80
    assert json.loads(call("ledger", "--shared", "p.ledger", "--json")[1])["unit"] == "person"
    for words, said in (
        (("--create", "p.ledger", "--unit", "x", "--rho", "1"), "p.ledger exists already"),
        (("--create", "q.ledger", "--rho", "1"), "--unit: name the kind of unit"),
        (("--create", "q.ledger", "--unit", "x"), "budget: give epsilon"),
        (("--rho", "1"), "--rho: goes with --create PATH"),
        (("--shared", "none"), "there is no ledger none"),
    ):
        code, _, err = call("ledger", *words)
        assert (code, said in err) == (2, True), err
    assert not (tmp_path / "q.ledger").exists()

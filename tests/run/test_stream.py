"""A release that is measured as a stream: from a few numbers a cell,
kept in the store with what they led to."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.printed import printed
from tests.run.gauge_life import COLUMNS, gauge, life
from tidegauge.errors import SpecError, StoreCorrupt
from tidegauge.mechanism.strategies.buffered import Buffered
from tidegauge.model.tick import StreamState
from tidegauge.run.gauge import Gauge
from tidegauge.store.public.journal import Journal
from tidegauge.store.public.part import PublicPart
from tidegauge.store.secret.part import SecretPart
from tidegauge.store.store import Store
from tidegauge.testing import Clock, Crash, Crashed, Script

if TYPE_CHECKING:
    from pathlib import Path

NIL = {"epsilon": 10**36, "delta": "1e-6"}
"""So much that the noise is 0 on the finest grid."""
EVERY = {"start": "1970-01-01T00:00:00.000005Z", "every": "5 microseconds", "for": "25 microseconds"}
OWN = {"name": "buffered", "bins": 6, "buffers": "0.3:1 0.4:0.5 0.2:0.07 0.1:0", "offset": 0.2}
RELEASES: dict[str, Any] = {
    "by_ward": {
        "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward",
        "groups": {"ward": ["a", "b"]},
        "strategy": OWN,
        **EVERY,
    },
    "age": {"sql": "SELECT AVG(age) FROM t", "bounds": {"age": [0, 90]}, "strategy": OWN, **EVERY},
    "moved": {
        "sql": "SELECT COUNT(*) FROM changes(t) WHERE before.ward = 'a' AND after.ward = 'b'",
        "strategy": OWN,
        **EVERY,
    },
    "change": {
        "sql": "SELECT COUNT(*) FROM t",
        "strategy": "buffered",
        **EVERY,
        "window": "10 microseconds",
        "start": "1970-01-01T00:00:00.000010Z",
        "for": "20 microseconds",
    },
}


def streams(folder: Path, source: Script, **changes: Any) -> Gauge:
    return gauge(folder, source, **({"budget": NIL, "releases": RELEASES} | changes))


def survive(one: Gauge) -> int:
    """Run until it ends without dying; returns how often it died."""
    for deaths in range(1000):
        try:
            list(one.run())
        except (Crashed, sqlite3.OperationalError):
            continue
        return deaths
    raise AssertionError("it never ended")


def published(one: Gauge) -> list[dict[str, Any]]:
    return [reading.as_json() for reading in one.published()]


def measured(one: Gauge, key: str | None = None) -> dict[str, tuple[tuple[int, ...], ...]]:
    with Store(one.path, key=bytes.fromhex("4f" * 32) if key else None) as store:
        return {name: store.public.measured(name, {"by_ward": 1, "age": 2}[name]) for name in FEW}


def test_it_tells_what_a_matrix_tells(tmp_path: Path) -> None:
    one = streams(tmp_path, Script(COLUMNS, life(), size=7))
    plain = {name: {**release, "strategy": "disjoint"} for name, release in RELEASES.items()}
    other = streams(tmp_path, Script(COLUMNS, life()), releases=plain, store=tmp_path / "other.db")
    for gauge_ in (one, other):
        list(gauge_.run())
    for found, wanted in zip(published(one), published(other), strict=True):
        assert {**found, **dict.fromkeys(("value", "stderr", "low", "high"))} == {
            **wanted, **dict.fromkeys(("value", "stderr", "low", "high"))
        }  # fmt: skip
        assert found["value"] == pytest.approx(wanted["value"], abs=1e-4)
    assert one.verify().readings == len(published(one)) == 6 * 2 + 6 + 6 + 5
    smoothed = {(r.release, r.time, str(r.group)): r.value for r in one.published(smoothed=True)}
    plainly = {(r.release, r.time, str(r.group)): r.value for r in one.published()}
    assert smoothed == pytest.approx(plainly, abs=1e-9)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Gauge:
    one = streams(tmp_path_factory.mktemp("calm"), Script(COLUMNS, life()), releases=FEW)
    survive(one)
    return one


FEW = {name: RELEASES[name] for name in ("by_ward", "age")}
DEATHS: list[tuple[str, type, str, str | None]] = [
    ("before", SecretPart, "stream", None),
    ("before", SecretPart, "set_stream", None),
    ("after", SecretPart, "set_stream", None),
    ("after", SecretPart, "set_stream", "env:KEY"),
    ("before", PublicPart, "record", None),
    ("after", PublicPart, "record", "env:KEY"),
    ("after", PublicPart, "set_next_bin", None),
    ("before", SecretPart, "set_clock", None),
    ("after", Journal, "seal", None),
    ("before", Store, "commit", None),
    ("after", Store, "load", "env:KEY"),
]


@pytest.mark.parametrize("death", DEATHS, ids=str)
def test_state_and_journal_move_together(
    tmp_path: Path, calm: Gauge, monkeypatch: pytest.MonkeyPatch, death: tuple[str, type, str, str | None]
) -> None:
    """Every integer that is measured is the one that a calm run measures, wherever the tick dies."""
    monkeypatch.setenv("KEY", "4f" * 32)
    when, owner, step, key = death
    real, calls = getattr(owner, step), 0

    def deadly(self: Any, *args: Any, **kinds: Any) -> Any:
        nonlocal calls
        calls += 1
        if when == "before" and calls in {1, 3, 6}:
            raise Crashed
        result = real(self, *args, **kinds)
        if when == "after" and calls in {1, 3, 6}:
            raise Crashed
        return result

    monkeypatch.setattr(owner, step, deadly)
    script = [item for n, row in enumerate(life()) for item in ([Crash()] if n % 50 == 4 else []) + [row]]
    one = streams(tmp_path, Script(COLUMNS, script, size=25), releases=FEW, key=key)
    assert survive(one) == 3 + 3
    monkeypatch.setattr(owner, step, real)
    assert one.verify().readings == len(published(one))
    assert measured(one, key) == measured(calm)
    assert published(one) == published(calm)


def test_a_state_outside_of_the_transaction_would_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of the test above: a state that survives the tick that it belongs to."""
    real, kept = SecretPart.set_stream, {}

    def early(self: SecretPart, release: str, component: int, state: StreamState) -> None:
        kept[release, component] = state
        real(self, release, component, state)

    monkeypatch.setattr(SecretPart, "set_stream", early)
    monkeypatch.setattr(SecretPart, "stream", lambda _, release, component: kept.get((release, component)))
    one = streams(tmp_path, Script(COLUMNS, life(), size=15))
    deaths = iter([Crashed(), None])
    move = SecretPart.set_clock

    def dying(self: SecretPart, clock: Any) -> None:
        if kept and (death := next(deaths, None)):
            raise death
        move(self, clock)

    monkeypatch.setattr(SecretPart, "set_clock", dying)
    with pytest.raises(StoreCorrupt, match="does not belong to its last measurement"):
        survive(one)


def test_a_state_of_another_time_is_found_out(tmp_path: Path) -> None:
    one = streams(tmp_path, Script(COLUMNS, life()), now=Clock(17))
    list(one.run())
    with Store(one.path, write=True) as store, store.transaction():
        right = store.secret.stream("moved", 0)
        assert right is not None
        store.secret.set_stream("moved", 0, StreamState(right.bins - 1, right.rows))
    again = streams(tmp_path, Script(COLUMNS, life()))
    for do in (again.verify, lambda: list(again.run())):
        with pytest.raises(StoreCorrupt, match="'moved' does not belong"):
            do()
    with Store(one.path, write=True) as store, store.transaction():
        store._file.connection.execute("DELETE FROM secrets WHERE key = 'stream_state:moved:0'")
    with pytest.raises(StoreCorrupt, match="'moved' does not belong"):
        again.verify()


@pytest.mark.parametrize("what", ["offset", "buffers", "noise", "loss"])
def test_a_committed_plan_that_was_changed_is_not_carried_on(tmp_path: Path, what: str) -> None:
    """Neither verify nor run takes it for the one that the loss was reserved for,
    and nothing more is measured."""
    one = streams(tmp_path, Script(COLUMNS, life()), now=Clock(7), releases=FEW)
    before = len(list(one.run()))
    with sqlite3.connect(one.path) as db:
        (text,) = db.execute("SELECT value FROM meta WHERE key = 'plan'").fetchone()
        plan = json.loads(text)
        release = plan["releases"]["by_ward"]
        channel = release["channels"][0]
        match what:
            case "offset":
                channel["strategy"]["offset"] = 0.1
            case "buffers":
                channel["strategy"]["buffers"] = "1:0"
            case "noise":
                channel["noise"]["sigma_squared"] = "1/1000000"
            case _:
                release["loss"] = "7"
        db.execute("UPDATE meta SET value = ? WHERE key = 'plan'", (json.dumps(plan),))
    db.close()
    again = streams(tmp_path, Script(COLUMNS, life()), releases=FEW)
    for do in (again.verify, lambda: list(again.run())):
        with pytest.raises(StoreCorrupt, match="not the one that the ledger committed"):
            do()
    with Store(one.path) as store:
        assert len(store.public.readings()) == before


def test_a_sealed_state_is_as_long_whatever_it_holds(tmp_path: Path) -> None:
    path, lengths = tmp_path / "sealed.db", set()
    with Store(path, write=True, key=bytes(32)) as store:
        for number in (0, -7, 10**70):
            with store.transaction():
                store.secret.set_stream("level", 0, StreamState(3, ((number, 1),)))
            found = store.secret.stream("level", 0)
            assert found == StreamState(3, ((number, 1),))
            (sealed,) = store._file.connection.execute(
                "SELECT value FROM secrets WHERE key = 'stream_state:level:0'"
            ).fetchone()
            lengths.add(len(sealed))
    assert len(lengths) == 1


DECLARATION = """
[source]
kind = "files"
path = "log.csv"
table = "t"
time = "ts"
entry = "id"

[constraint]
at_most = 4

[budget]
rho = 0.5

[release.level]
sql = "SELECT COUNT(*) FROM t"
start = "2025-01-01"
every = "1 hour"
for = "17519 hours"
strategy = {strategy}
"""


def test_pinned_in_a_declaration(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("ts,id,x\n2025-01-01T05:30:00,a,1\n2025-01-02T00:00:00,b,1\n")
    file = tmp_path / "tidegauge.toml"
    own = '{ name = "buffered", bins = 17520, buffers = "0.3:1 0.5:0.2 0.2:0.0001", offset = 0.1 }'
    file.write_text(DECLARATION.format(strategy=own))
    one = Gauge.from_file(file)
    assert one.plan().releases[0].component_plans[0].strategy == Buffered(
        17_520, "0.3:1 0.5:0.2 0.2:0.0001", 0.1
    )
    list(one.run(until="2025-01-03"))
    assert one.verify().readings == 49
    file.write_text(DECLARATION.format(strategy=own.replace("17520", "17519")))
    with pytest.raises(SpecError, match="bins must be 17520 here"):
        Gauge.from_file(file, store=tmp_path / "other.db").plan()


@pytest.mark.slow
def test_hours_of_two_years_are_planned_and_a_few_hundred_measured(tmp_path: Path) -> None:
    """Nothing is kept of a bin that was measured, however the run is cut into pieces."""
    rng = np.random.default_rng(8)
    log: list[Any] = []
    for entry in range(200):
        came = int(rng.integers(0, 300))
        log += [(came, f"p{entry}", {"ward": "a", "age": entry}), (came + 40, f"p{entry}", None)]
    log.sort(key=lambda one: one[:2])
    declared: dict[str, Any] = {
        "constraint": {"at_most": 8},
        "releases": {
            "level": {
                "sql": "SELECT COUNT(*) FROM t",
                "start": "1970-01-01",
                "every": "1 microsecond",
                "for": "17519 microseconds",
            }
        },
    }
    real = gauge(tmp_path, Script(COLUMNS, log), **declared, budget={"rho": 1}, store=tmp_path / "real.db")
    chosen = printed(real.plan().as_json())["releases"]["level"]["chosen"]
    assert chosen["strategy"] == "buffered"
    assert chosen["memory"] <= 10
    declared["releases"]["level"]["strategy"] = {"name": "buffered", **chosen["parameters"]}
    truth = [
        sum((after is not None) - (after is None) for at, _, after in log if at <= t) for t in range(300)
    ]
    values = []
    for upto in (3, 150, 299):
        one = gauge(tmp_path, Script(COLUMNS, log, size=50), **declared, budget=NIL, now=Clock(upto))
        values += [reading.value for reading in one.run()]
        with Store(one.path) as store:
            assert store.secret.sums.since("level", 0) == {}
    assert values == pytest.approx(truth, abs=1e-4)
    assert one.verify().readings == 300

"""An engine that is registered from outside carries a whole gauge, with the same integers as DuckDB."""

from __future__ import annotations

import random
from abc import ABC
from typing import TYPE_CHECKING, Any

import pytest

from tests.golden.dump import Seeded, dumped
from tests.plugins.toy_engine import ToyEngine
from tidegauge import Gauge
from tidegauge.engine.registry import ENGINES
from tidegauge.errors import PlanChanged, QueryError, SpecError
from tidegauge.model.engine import EngineKind, KeepingEngine
from tidegauge.model.history import HistoryEngine
from tidegauge.model.program import Program
from tidegauge.model.quantity import instant
from tidegauge.model.stamp import StampEngine
from tidegauge.plan.spec.declaration import GaugeSpec
from tidegauge.testing import Clock, Crash, Crashed, Script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START = instant("2100-01-01")
DAY = 86_400_000_000
COLUMNS = {"ward": "VARCHAR", "age": "DOUBLE"}
RELEASES: dict[str, dict[str, Any]] = {
    "patients": {
        "sql": "SELECT ward, COUNT(*) FROM t WHERE age < 90 GROUP BY ward",
        "groups": {"ward": ["a", "b"]},
    },
    "days": {"sql": "SELECT SUM(age % 7) AS odd FROM t WHERE ward LIKE '_'", "bounds": {"odd": [0, 6]}},
    "age": {"sql": "SELECT AVG(age) FROM t", "bounds": {"age": [0, 110]}, "constraint": {"at_most": 2}},
}


def story() -> list[Any]:
    """Rows that are inserted, changed and deleted over six days,
    some stamped earlier than they arrive, and a crash."""
    rng = random.Random(11)
    life: list[Any] = []
    for day in range(6):
        for _ in range(40):
            row = {
                "ward": rng.choice(["a", "b", "c", "ab", None]),
                "age": rng.choice([3.5, 41.0, 89.9, 120.0, None]),
            }
            time = START + day * DAY + rng.randrange(DAY)
            life.append((time, f"e{rng.randrange(25)}", None if rng.random() < 0.2 else row))
    life.sort(key=lambda one: int(one[0]))
    late = rng.sample(range(60, len(life)), 20)
    life = [(one[0] - DAY, *one[1:]) if place in late else one for place, one in enumerate(life)]
    return [*life[:150], Crash(), *life[150:]]


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    ENGINES.register("toy", EngineKind("toy", ToyEngine))
    yield
    ENGINES.unregister("toy")


def gauge(folder: Path, engine: str, source: Script, **changed: Any) -> Gauge:
    schedule = {"start": "2100-01-01", "every": "12 hours", "for": "5 days"}
    declared: dict[str, Any] = {
        "constraint": {"at_most": 4, "within": "60 hours"},
        "releases": {name: one | schedule for name, one in RELEASES.items()},
        **changed,
    }
    clock = Clock(START + 10 * DAY)
    return Gauge(
        source=source,
        budget={"rho": 1},
        store=folder / f"{engine}.db",
        engine=engine,
        now=clock,
        sleep=clock.sleep,
        sampler=Seeded(3),
        **declared,
    )


def run(folder: Path, engine: str) -> dict[str, Any]:
    one = gauge(folder, engine, Script(COLUMNS, story(), size=17))
    with pytest.raises(Crashed):
        list(one.run())
    list(one.run())
    found = dumped(one)
    del found["status"]["operator_only"]
    return found


def test_a_registered_engine_gives_the_same_readings_as_duckdb(tmp_path: Path) -> None:
    toy, duckdb = run(tmp_path, "toy"), run(tmp_path, "duckdb")
    assert toy == duckdb
    assert len({reading[3] for reading in toy["readings"]}) > 20


def test_an_engine_refuses_what_it_cannot_compute_when_the_plan_is_made(tmp_path: Path) -> None:
    flow = {"moved": {"sql": "SELECT COUNT(*) FROM changes(t)", "every": "1 day", "start": "2100-01-01"}}
    with pytest.raises(QueryError, match="toy engine"):
        gauge(tmp_path, "toy", Script(COLUMNS, []), releases=flow).plan()
    assert not (tmp_path / "toy.db").exists()


def test_a_kind_that_does_not_exist_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"engine\.kind.*one of duckdb, spark, toy; did you mean 'duckdb'"):
        gauge(tmp_path, "duckbd", Script(COLUMNS, [])).plan()


@pytest.mark.parametrize(
    ("more", "missing"),
    [(KeepingEngine, "arrive_remote"), (HistoryEngine, "backfill"), (StampEngine, "stamp")],
)
def test_what_an_engine_can_do_is_declared_and_then_complete(
    more: type[ABC], missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Methods with the same names do not make an engine one that keeps its state,
    and half of them fail at once."""
    half: Any = type("Half", (ToyEngine, more), {})
    assert missing in half.__abstractmethods__
    with pytest.raises(TypeError, match=missing):
        half(Program((), ()), {})
    for name in half.__abstractmethods__:
        monkeypatch.setattr(ToyEngine, name, None, raising=False)
    assert not issubclass(ToyEngine, more)


def test_two_engines_of_one_name_are_refused() -> None:
    with pytest.raises(SpecError, match="a kind of engine called 'duckdb' is registered already"):
        ENGINES.register("duckdb", EngineKind("duckdb", ToyEngine))


def test_the_default_engine_is_no_part_of_a_committed_declaration() -> None:
    data: dict[str, Any] = {
        "source": {"kind": "object", "table": "t"},
        "budget": {"rho": 1},
        "release": {"n": {"sql": "SELECT COUNT(*) FROM t", "every": "1 day"}},
        "constraint": {"at_most": 1},
    }
    missing = GaugeSpec.parse(data).canonical()
    assert "engine" not in missing
    assert GaugeSpec.parse(data | {"engine": {"kind": "duckdb"}}).canonical() == missing
    assert GaugeSpec.parse(data | {"engine": {"kind": "toy"}}).canonical()["engine"] == {"kind": "toy"}


def test_a_committed_gauge_keeps_its_engine(tmp_path: Path) -> None:
    list(gauge(tmp_path, "toy", Script(COLUMNS, story()[:100])).run())
    (tmp_path / "toy.db").rename(tmp_path / "duckdb.db")
    with pytest.raises(PlanChanged, match="engine: was removed"):
        list(gauge(tmp_path, "duckdb", Script(COLUMNS, story())).run())

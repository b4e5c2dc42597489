"""One seam a tick: the store is loaded once and commits once, and frozen values go between."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.run.gauge_life import COLUMNS, gauge, life
from tidegauge.model import tick as values
from tidegauge.model.program import Folded, Total
from tidegauge.run.gauge import Gauge
from tidegauge.run.sums import add_sums, by_release
from tidegauge.run.tick import Ticker
from tidegauge.store.store import Store
from tidegauge.testing import Clock, Script

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.mechanism.noise.samplers import Noise


def test_a_tick_loads_once_and_commits_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks: list[list[str]] = []
    results: list[values.TickResult] = []

    class Watched:
        """A store of which every use is noted."""

        def __init__(self, store: Store) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            ticks[-1].append(name)
            return getattr(self._store, name)

        def commit(self, result: values.TickResult) -> None:
            ticks[-1].append("commit")
            results.append(result)
            self._store.commit(result)

    real = Ticker.tick

    def tick(self: Ticker, *args: Any, **options: Any) -> Any:
        ticks.append([])
        if isinstance(self.store, Store):
            self.store = Watched(self.store)  # type: ignore[assignment]
        return real(self, *args, **options)

    monkeypatch.setattr(Ticker, "tick", tick)
    one = gauge(tmp_path, Script(COLUMNS, life(), size=3))
    readings = list(one.run())
    busy = [uses for uses in ticks if uses]  # a batch that brings nothing does not touch the store
    assert len(busy) > 6
    assert all(uses == ["load", "commit"] for uses in busy)
    assert sum(len(one.readings) for result in results for one in result.measured) == len(readings) == 38
    assert all(after.since == before.clock for before, after in pairwise(results))
    with pytest.raises(FrozenInstanceError):
        results[0].clock = results[1].clock  # type: ignore[misc]


def test_every_value_of_the_seam_is_frozen() -> None:
    kinds = [kind for kind in vars(values).values() if isinstance(kind, type) and is_dataclass(kind)]
    assert values.TickResult in kinds
    for kind in kinds:
        made = kind(*(None for _ in fields(kind)))
        with pytest.raises(FrozenInstanceError):
            setattr(made, fields(kind)[0].name, 1)


def test_sums_are_those_of_the_store_and_of_what_takes_effect_now() -> None:
    known = {(0, 1, 0): 5, (1, 1, 0): 7}
    part = Folded([Total("a", 0, 1, 0, -2), Total("b", 0, 1, 0, 9), Total("a", 0, 2, 3, 10**30)], *[None] * 5)  # type: ignore[arg-type]
    assert add_sums(known, by_release([part, part])["a"]) == {
        (0, 1, 0): 1,
        (1, 1, 0): 7,
        (0, 2, 3): 2 * 10**30,
    }
    assert known == {(0, 1, 0): 5, (1, 1, 0): 7}


class Calls:
    """Cryptographic draws, and the calls that made them."""

    simulated: Literal[False] = False

    def __init__(self) -> None:
        self.laws: list[Noise] = []

    def draw(self, noise: Noise, count: int) -> list[int]:
        self.laws.append(noise)
        return noise.sample(count)


@pytest.mark.parametrize("strategy", ["disjoint", "hierarchy", "toeplitz", "buffered", "damped"])
def test_a_tick_draws_all_noise_of_one_law_in_one_call(tmp_path: Path, strategy: str) -> None:
    every = {"start": "1970-01-01T00:00:00.000010Z", "every": "10 microseconds", "for": "80 microseconds"}
    sql = "SELECT ward, COUNT(*) FROM t GROUP BY ward"
    release = {"sql": sql, "groups": {"ward": ["a", "b"]}, "strategy": strategy, "share": 0.3, **every}
    sampler, clock = Calls(), Clock(10)
    one = Gauge(
        source=Script(
            columns={"ward": "VARCHAR"}, changes=[(n, f"p{n}", {"ward": "a"}) for n in range(1, 80)]
        ),
        constraint={"at_most": 2},
        budget={"rho": 1},
        releases=dict.fromkeys(("one", "two", "three"), release),
        store=tmp_path / "store.db",
        now=clock,
        sampler=sampler,
    )
    while clock.now < 80:
        list(one.run())
        assert len(set(sampler.laws)) == len(sampler.laws) > 0
        sampler.laws.clear()
        clock.now += 10

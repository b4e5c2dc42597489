"""One seam a tick: the store is loaded once and commits once, and frozen values go between."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.run.gauge_life import COLUMNS, gauge, life
from tidegauge.model import tick as values
from tidegauge.model.program import Folded, Total
from tidegauge.run.tick import Ticker, add_sums
from tidegauge.store import Store
from tidegauge.testing import Script

if TYPE_CHECKING:
    from pathlib import Path


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
    assert add_sums(known, [part, part], "a") == {(0, 1, 0): 1, (1, 1, 0): 7, (0, 2, 3): 2 * 10**30}
    assert known == {(0, 1, 0): 5, (1, 1, 0): 7}

"""Whole histories of units with many rows, and the parts of their enforcement."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.harness import BY_STATE, COLUMNS, SUM_X, batch_table
from tests.engine.test_past import Result, by_batches, compare, counted, in_order, owned_world, state
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.engine.duckdb.past import admit, several, shuffle
from tidegauge.engine.duckdb.past.several import Amounts
from tidegauge.model.program import Allowance, Program, Release, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from typing import Any

    from tests.engine.harness import Run
    from tidegauge.audit.worlds.identity import Mutation

ENDS = 200


def many(most: int, *, retire: bool) -> Program:
    releases = (
        Release("state", BY_STATE, Schedule(0, Span(micros=10))),
        Release("sum", SUM_X, Schedule(5, Span(micros=7))),
    )
    scope = Scope(("state", "sum"), ((None, Allowance(40, 90)),), retire=retire)
    return Program(releases, (scope,), most, "owner")


def skewed(size: int, seed: int) -> list[Mutation]:
    """Changes of which most are of few rows, and most rows are of one unit; few of them at one time."""
    rng = random.Random(seed)
    found: list[Mutation] = []
    for n in range(size):
        key = int(400 ** rng.random())
        unit = rng.choice(["u", "u", "u", "w"]) if rng.random() < 0.05 else "u" if key % 5 else f"p{key}"
        row = {"s": rng.choice(["a", "b", "c"]), "x": rng.choice([0, 2, 5, 20, None]), "k": "p"}
        alive = rng.random() < 0.8
        found.append((n * ENDS // size, f"e{key}", unit if alive else None, row if alive else None, None, ()))
    return found


@pytest.mark.parametrize(("most", "retire"), [(1, False), (7, True), (150, False), (2000, True)])
def test_a_unit_with_hundreds_of_rows(
    most: int,
    retire: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shuffle, "PART", 500)
    rows = batch_table(skewed(3000, most), owned=True)
    runs: list[Run] = []
    for fold in ("at once", "in batches"):
        with DuckEngine(many(most, retire=retire), COLUMNS) as engine:
            whole = fold == "at once"
            runs.append(Result(engine, rows, ENDS).run if whole else by_batches(engine, rows, ENDS, [1700]))
    at_once, batches = runs
    assert at_once.sums == batches.sums
    assert at_once.true == batches.true
    assert counted(at_once) == counted(batches)
    assert in_order(at_once) == in_order(batches)
    assert state(at_once)[1:] == state(batches)[1:]


@pytest.mark.parametrize("most", [1, 2, 5, 40])
def test_the_value_that_is_number_most_from_the_top(most: int) -> None:
    rng = np.random.default_rng(most)
    for size in (1, 2, 7, 60):
        values = rng.integers(-9, 9, size) * 2**58
        first = np.maximum.accumulate(np.where(rng.random(size) < 0.1, np.arange(size), 0))
        found = admit.largest_before(values, first, most)
        for place in range(size):
            before = sorted(values[first[place] : place].tolist(), reverse=True)
            assert found[place] == (before[most - 1] if len(before) >= most else -(2**63))


def test_sums_that_do_not_fit_into_64_bits() -> None:
    large = 2**62
    parts = pa.table({"code": [1, 2, 2], "release": [0, 0, 1], "component": [0, 0, 0], "cell": [3, 3, 0],
                      "amount": [large, -large, 1]})  # fmt: skip
    amounts = Amounts.of(parts, 3)
    group, codes, times = np.array([0, 0, 1, 1, 2]), np.array([1, 2, 1, 2, 0]), np.array([4, 4, 8, -8, 1])
    assert amounts.texts(group, codes, times, 4).to_pylist() == [
        "1:0:0:4", f"0:0:3:{16 * large} 1:0:0:-8", None, None
    ]  # fmt: skip
    assert amounts.some(group, codes, times, 4).tolist() == [True, True, False, False]


def test_the_twin_that_must_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """That one row too many counts is noticed by the comparison of random histories."""

    def lax(steps: Any, row: Any, place: Any, most: int, ends: Any) -> Any:
        return admit.admitted(steps, row, place, most + 1, ends)

    monkeypatch.setattr(several, "admitted", lax)
    for seed in range(8000, 8020):
        try:
            compare(seed, owned_world(seed), owned=True)
        except AssertionError:
            return
    pytest.fail("nothing was noticed")

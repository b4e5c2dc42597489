"""Replay finds the worst path, and finds a plan that has too little noise for it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from tests.audit.gauges import COUNT, EVERY, GROUPED, subject
from tidegauge.audit.replay.replay import replay
from tidegauge.audit.worlds.palette import palette
from tidegauge.audit.worlds.rehearsal import Subject
from tidegauge.audit.worlds.world import Random, Table, Times, random_table, without_term
from tidegauge.mechanism.encode import scaled

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.audit.replay.replay import Replayed

SUM = {"sql": "SELECT SUM(x) FROM t WHERE lower(s) = 'north'", "bounds": {"x": [50, 100]}} | EVERY
FLOW = {"sql": "SELECT COUNT(*) FROM changes(t) WHERE before.s = 'a' AND after.s = 'b'"} | EVERY
AVG = {"sql": "SELECT AVG(x) FROM t", "bounds": {"x": [0, 10]}} | EVERY


def replayed(one: Subject, pairs: int = 0) -> Replayed:
    return replay(one, seed=3, random_pairs=pairs, progress=lambda done: None)


def with_noise(one: Subject, factor: Fraction) -> Subject:
    """The same plan with other noise, as if it had been planned so."""
    releases = tuple(
        replace(
            release,
            component_plans=tuple(
                replace(plan, noise=scaled(plan.noise, factor)) for plan in release.component_plans
            ),
        )
        for release in one.plan.releases
    )
    return Subject(one.spec, replace(one.plan, releases=releases))


@pytest.mark.parametrize(
    ("release", "least"),
    [(COUNT, 1 - 1e-6), (GROUPED, 1 - 1e-6), (SUM, 0.99), (FLOW, 1 - 1e-6), (AVG, 0.9)],
    ids=["count", "grouped", "sum", "flow", "mean"],
)
def test_the_worst_path_costs_what_is_reserved(tmp_path: Path, release: dict[str, Any], least: float) -> None:
    found = replayed(subject(tmp_path, r=release))
    assert found.found == []
    assert found.pairs == 1
    assert least <= found.worst_ratio <= 1 + 1e-9


def test_tightness_is_required_where_the_theory_says_so(tmp_path: Path) -> None:
    one = subject(tmp_path, r=COUNT)
    assert replayed(one).tight == ["r"]
    (problem,) = replayed(with_noise(one, Fraction(11, 10))).found
    assert "should cost all" in problem


@pytest.mark.parametrize("pure", [False, True])
def test_noise_that_is_too_small_is_found(tmp_path: Path, pure: bool) -> None:
    budget = {"epsilon": "1"} if pure else {"rho": "1/2"}
    one = subject(tmp_path, budget=budget, r=GROUPED)
    (problem,) = replayed(with_noise(one, Fraction(99, 100))).found
    assert "times what is reserved" in problem


def test_units_of_several_rows_and_limits_in_time(tmp_path: Path) -> None:
    constraint = {"at_most": 3, "within": "2 days"}
    one = subject(tmp_path, constraint=constraint, unit="d", max_rows=2, r=COUNT)
    found = replayed(one, pairs=2)
    assert found.found == []
    assert found.worst_ratio == pytest.approx(1)
    assert found.pairs >= 2


def test_random_neighbours(tmp_path: Path) -> None:
    found = replayed(subject(tmp_path, a=COUNT, b=FLOW), pairs=1)
    assert found.found == []
    assert found.pairs == 3


def test_rows_are_invented_from_the_plan_alone(tmp_path: Path) -> None:
    one = subject(
        tmp_path,
        r={"sql": "SELECT s, SUM(x) FROM t WHERE d BETWEEN 31 AND 33 AND x <> 7 GROUP BY s",
           "groups": {"s": ["p", "q"]}, "bounds": {"x": [-3, 5]}} | EVERY,
    )  # fmt: skip
    (part,) = one.plan.releases[0].release.query.components
    found = palette(one.plan).extremes("r")
    assert {(one.cell, one.amounts[0]) for one in found} == {
        (cell, end) for cell in (0, 1) for end in (part.lower, part.upper)
    }


RENEWED = {"at_most": 2, "renews": "7 days"}
LONG = {
    "start": "2024-01-01",
    "every": "1 day",
    "for": "24 days",
    "strategy": {"name": "disjoint", "base": 0},
}


def test_a_log_can_be_invented_for_any_number_of_bins() -> None:
    row: dict[str, object] = {"s": "a"}
    for bins, width in ((2, 1), (30, 10), (1200, 86_400_000_000)):
        times = Times(tuple(width * (n + 1) for n in range(bins)), (bins * width // 2, bins * width + 1))
        for seed in range(60):
            table = random_table(Random(seed), times, [row], owner=None, units=[None] * 3)
            assert all(event.arrival <= times.passes[-1] for event in table.log)


@pytest.mark.parametrize(
    ("constraint", "more"),
    [
        (RENEWED, {"r": COUNT | LONG}),
        (RENEWED, {"r": COUNT | LONG, "f": FLOW | LONG}),
        (RENEWED | {"on_excess": "retire"}, {"r": GROUPED | LONG}),
    ],
    ids=["stock", "flow", "retire"],
)
def test_a_constraint_that_renews_protects_one_term(
    tmp_path: Path, constraint: dict[str, Any], more: Any
) -> None:
    found = replayed(subject(tmp_path, constraint=constraint, **more), pairs=3)
    assert found.found == []
    assert 0.5 < found.worst_ratio <= 1 + 1e-9


def test_too_little_noise_for_one_term_is_found(tmp_path: Path) -> None:
    one = subject(tmp_path, constraint=RENEWED, r=COUNT | LONG)
    (problem,) = replayed(with_noise(one, Fraction(9, 10))).found
    assert "times what is reserved" in problem


def test_a_unit_is_absent_in_one_term() -> None:
    table = Table(None)
    for at, key, s in ((1, "k", "a"), (2, "l", "a"), (12, "k", "b"), (15, "m", "a"), (25, "k", "c")):
        table.put((at, at), key, {"s": s})
    left = without_term(table.log, "k/0", 10, 20)
    said = [(event.arrival, event.key, None if event.row is None else event.row["s"]) for event in left]
    assert said == [
        (1, "k", "a"), (2, "l", "a"), (10, "k", None), (15, "m", "a"), (20, "k", "b"), (25, "k", "c"),
    ]  # fmt: skip

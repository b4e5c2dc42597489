"""Every strategy keeps what its plan promises, from end to end:
errors are as large as predicted and intervals cover.

Two ways to many errors: one real run with so many groups, each measured by itself; and, for releases without
groups, the plan's own component plans measured in so many worlds side by side.  Both at level ALPHA, each
with a twin whose noise is drawn with another scale and must be seen.  What is derived from a release is held
to the same.
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from tests.printed import printed
from tidegauge.mechanism.encode import draw_ahead, measure
from tidegauge.mechanism.noise.samplers import SimulationSampler
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tidegauge.mechanism.noise.samplers import Noise

    Floats = NDArray[np.float64]

ALPHA = 1e-9
GROUPS, WORLDS = 500, 4000
DAYS = 16
GAUSSIAN: dict[str, Any] = {"rho": "0.5"}
PURE: dict[str, Any] = {"epsilon": 1}
EVERY: dict[str, Any] = {"start": "1970-01-01", "every": "1 microsecond"}
ENDS = {"for": f"{DAYS - 1} microseconds"}
WINDOW = {"window": "5 microseconds"}
LAG = 3
"""Days over which a change is derived, wherever the strategy measures more than its own windows."""


class Scaled(SimulationSampler):
    """Draws that are so many times as large as they should be."""

    def __init__(self, seed: int, factor: float) -> None:
        super().__init__(seed)
        self.factor = factor

    def draw(self, noise: Noise, count: int) -> list[int]:
        return [round(self.factor * value) for value in super().draw(noise, count)]


def lives(seed: int) -> tuple[list[Any], Floats]:
    """Who is in which group when, for two changes each;
    and how many are in each group at the end of each day."""
    rng = np.random.default_rng(seed)
    life: list[Any] = []
    truth = np.zeros((DAYS, GROUPS))
    for n in range(200):
        came, group = int(rng.integers(0, DAYS)), int(rng.integers(0, GROUPS))
        left = came + 1 + int(rng.integers(0, DAYS))
        life += [(came, f"p{n}", {"g": f"g{group}"}), (left, f"p{n}", None)]
        truth[came : min(left, DAYS), group] += 1
    life.sort(key=lambda mutation: mutation[:2])
    return life, truth


def gauge(
    folder: Path, budget: dict[str, Any], *, grouped: bool, seed: int, factor: float = 1.0, **release: Any
) -> tuple[Gauge, dict[str, Floats]]:
    life, truth = lives(seed)
    query = {
        "sql": "SELECT g, COUNT(*) FROM t GROUP BY g",
        "groups": {"g": [f"g{i}" for i in range(GROUPS)]},
    }
    releases = {"now": {**(query if grouped else {"sql": "SELECT COUNT(*) FROM t"}), **EVERY, **release}}
    if release.get("strategy") != "sliding":
        releases["lag"] = {"of": "now", "window": f"{LAG} microseconds"}
    made = Gauge(
        source=Script({"g": "VARCHAR"}, life),
        constraint={"at_most": 2},
        budget=budget,
        releases=releases,
        store=folder / f"{seed}-{factor}.db",
        now=Clock(DAYS - 1),
        sampler=Scaled(seed, factor),
    )
    levels = truth if grouped else truth.sum(axis=1, keepdims=True)
    return made, {"now": change(levels, 5) if "window" in release else levels, "lag": change(levels, LAG)}


def change(levels: Floats, days: int) -> Floats:
    """Over so many days, of nothing before the first."""
    found: Floats = levels - np.concatenate([np.zeros((days, levels.shape[1])), levels[:-days]])
    return found


def size_is_right(errors: Floats, stderr: float, *, pure: bool) -> bool:
    """The mean square of independent errors is this near its expectation;
    the square of a Laplace sum varies more."""
    slack = NormalDist().inv_cdf(1 - ALPHA / 2) * sqrt((5 if pure else 2) / len(errors))
    return abs(float(errors @ errors) / len(errors) / stderr**2 - 1) <= slack


def covers(errors: Floats, half: float) -> bool:
    """Whether intervals cover 95 % of the time, by the exact binomial error."""
    hits, tries = int((np.abs(errors) <= half).sum()), len(errors)
    return bool(min(stats.binom.cdf(hits, tries, 0.95), stats.binom.sf(hits - 1, tries, 0.95)) > ALPHA / 2)


GROUPED = {
    "disjoint": (GAUSSIAN, {**ENDS, "strategy": "disjoint"}),
    "hierarchy": (GAUSSIAN, {**ENDS, "strategy": "hierarchy"}),
    "toeplitz": (GAUSSIAN, {**ENDS, "strategy": "toeplitz"}),
    "damped": (GAUSSIAN, {**ENDS, "strategy": "damped"}),
    "buffered": (GAUSSIAN, {**ENDS, "strategy": "buffered"}),
    "epochs": (GAUSSIAN, {"for": "ever", "strategy": "epochs"}),
    "sliding": (GAUSSIAN, {**ENDS, **WINDOW, "strategy": "sliding"}),
    "toeplitz, window": (GAUSSIAN, {**ENDS, **WINDOW, "strategy": "toeplitz"}),
    "disjoint, pure": (PURE, {**ENDS, "strategy": "disjoint"}),
    "hierarchy, pure": (PURE, {**ENDS, "strategy": "hierarchy"}),
    "autoregressive, pure": (PURE, {**ENDS, "strategy": "autoregressive"}),
    "epochs, pure": (PURE, {"for": "ever", "strategy": "epochs"}),
    "sliding, pure": (PURE, {**ENDS, **WINDOW, "strategy": "sliding"}),
}


@pytest.mark.parametrize(("budget", "release"), GROUPED.values(), ids=GROUPED)
def test_a_run_errs_as_much_as_its_plan_promises(
    tmp_path: Path, budget: dict[str, Any], release: dict[str, Any]
) -> None:
    for factor, right in ((1.0, True), (0.3, False)):
        one, truths = gauge(tmp_path, budget, grouped=True, seed=5, factor=factor, **release)
        plan = one.plan()
        readings = list(one.run())
        for name, series in plan.series.items():
            said = [reading for reading in readings if reading.release == name]
            days = range(series.first, DAYS)
            shape = (len(days), GROUPS)
            errors = np.array([reading.value for reading in said]).reshape(shape) - truths[name][days.start :]
            stderrs = np.array([reading.stderr for reading in said]).reshape(shape)[:, 0]
            halves = np.array([r.interval()[1] - (r.value or 0) for r in said]).reshape(shape)[:, 0]
            if release["for"] != "ever":
                chosen = printed(plan.as_json())["releases"][name]["chosen"]
                assert chosen["half_width_worst"] == pytest.approx(halves.max(), rel=0.01)
                assert chosen["half_width_mean"] == pytest.approx(halves.mean(), rel=0.02)
            assert size_is_right(errors[-1], float(stderrs[-1]), pure=budget is PURE) is right
            assert covers(errors[-1], float(halves[-1])) is right
    assert one.verify().readings == len(readings)
    places = [
        sorted((r.release, r.time, str(r.group)) for r in of)
        for of in (readings, one.published(smoothed=True))
    ]
    assert places[0] == places[1]


ALONE = {
    "disjoint": (GAUSSIAN, {**ENDS, "strategy": "disjoint"}),
    "hierarchy": (GAUSSIAN, {**ENDS, "strategy": "hierarchy"}),
    "toeplitz": (GAUSSIAN, {**ENDS, "strategy": "toeplitz"}),
    "damped": (GAUSSIAN, {**ENDS, "strategy": "damped"}),
    "buffered": (GAUSSIAN, {**ENDS, "strategy": "buffered"}),
    "dense": (GAUSSIAN, {**ENDS, "strategy": "dense"}),
    "dense, window": (GAUSSIAN, {**ENDS, **WINDOW, "strategy": "dense"}),
    "damped, window": (GAUSSIAN, {**ENDS, **WINDOW, "strategy": "damped"}),
    "buffered, window": (GAUSSIAN, {**ENDS, **WINDOW, "strategy": "buffered"}),
    "hierarchy, pure": (PURE, {**ENDS, "strategy": "hierarchy"}),
    "hierarchy, pure, window": (PURE, {**ENDS, **WINDOW, "strategy": "hierarchy"}),
    "autoregressive, pure": (PURE, {**ENDS, "strategy": "autoregressive"}),
    "autoregressive, pure, window": (PURE, {**ENDS, **WINDOW, "strategy": "autoregressive"}),
    "ahead, pure": (PURE, {**ENDS, "strategy": "ahead"}),
    "ahead, pure, window": (PURE, {**ENDS, **WINDOW, "strategy": "ahead"}),
    "the planner's choice": (GAUSSIAN, ENDS),
    "the planner's choice, pure": (PURE, ENDS),
}


@pytest.mark.parametrize(("budget", "release"), ALONE.values(), ids=ALONE)
def test_readings_in_many_worlds_err_as_much_as_the_plan_promises(
    tmp_path: Path, budget: dict[str, Any], release: dict[str, Any]
) -> None:
    one, truths = gauge(tmp_path, budget, grouped=False, seed=6, **release)
    plan = one.plan()
    (component_plan,) = plan.releases[0].component_plans
    schedule = plan.releases[0].release.schedule
    bins = schedule.bins
    assert bins is not None
    levels = lives(6)[1].sum(axis=1)
    changes = np.concatenate([np.zeros(bins), np.diff(levels, prepend=0.0)])[-bins:].astype(int)
    totals = {(at, world): int(amount) for at, amount in enumerate(changes) for world in range(WORLDS)}
    for factor, right in ((1.0, True), (0.85, False)):
        sampler = Scaled(9, factor)
        veils = (
            [0] * WORLDS
            if component_plan.shared_noise is None
            else sampler.draw(component_plan.shared_noise, WORLDS)
        )
        noisy = measure(
            component_plan,
            totals,
            bins=range(bins),
            shared_noise=veils,
            sampler=sampler,
            noise_ahead=draw_ahead(component_plan, WORLDS, sampler),
        )
        rows = np.array([value for *_, value in noisy], dtype=np.float64).reshape(-1, WORLDS)
        measured = [component_plan.strategy.decoding(WORLDS)]
        measured[0].add(rows)
        for name, series in plan.series.items():
            days = range(series.first, DAYS)
            ends = np.array([schedule.bin_of_reading(day) for day in days])
            errors = [series.decoder.error(0, int(bin_)) for bin_ in ends]
            predicted = dict(zip(days, (error.half_width(0.95) for error in errors), strict=True))
            worst = printed(plan.as_json())["releases"][name]["chosen"]["half_width_worst"]
            assert worst == pytest.approx(max(predicted.values()), rel=0.01)
            variances = (
                component_plan.strategy.variances(ends, series.span)
                * component_plan.noise.variance
                / component_plan.refine**2
            )
            assert [error.stderr**2 for error in errors] == pytest.approx(variances, rel=1e-3)
            for day in (days[0], DAYS // 2, DAYS - 1):
                estimates = series.decoder.estimates(series.windows([day]), measured)
                wrong = estimates.values[0] - truths[name][day, 0]
                half = float(estimates.highs[0, 0] - estimates.lows[0, 0]) / 2
                assert size_is_right(wrong, float(estimates.stderrs[0, 0]), pure=budget is PURE) is right
                assert covers(wrong, half) is right
                assert half == pytest.approx(predicted[day])

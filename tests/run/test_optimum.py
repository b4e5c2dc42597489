"""The numerical optimum from end to end: offered, chosen, committed with its matrix,
and certified wherever it is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.forger import forge
from tidegauge.errors import SpecError, StoreCorrupt
from tidegauge.mechanism.noise.samplers import SimulationSampler
from tidegauge.mechanism.strategies.dense import Dense
from tidegauge.plan.explain import explain
from tidegauge.plan.plan import Plan
from tidegauge.run.gauge import Gauge
from tidegauge.store.store import Store
from tidegauge.testing import Clock, Script

COUNT = {"sql": "SELECT COUNT(*) FROM t", "start": "1970-01-01", "every": "1 microsecond"}
RHO = {"rho": "0.5"}


def world(
    folder: Path,
    readings: int,
    *,
    budget: dict[str, Any] = RHO,
    now: int = 10_000,
    changes: int = 2,
    constraint: dict[str, Any] | None = None,
    **release: Any,
) -> tuple[Gauge, list[int]]:
    """Who comes and goes, and how many are there at each reading."""
    life: list[Any] = []
    truth = np.zeros(readings, dtype=np.int64)
    for n in range(60):
        came, left = 7 * n % (readings - 3), 7 * n % (readings - 3) + 1 + 5 * n % 29
        life += [(came, f"p{n}", {"x": 1}), (left, f"p{n}", None)]
        truth[came:left] += 1
    life.sort(key=lambda mutation: mutation[:2])
    gauge = Gauge(
        source=Script({"x": "BIGINT"}, life),
        constraint=constraint or {"at_most": changes},
        budget=budget,
        releases={"now": {**COUNT, "for": f"{readings - 1} microseconds", **release}},
        store=folder / "store.db",
        now=Clock(now),
        sampler=SimulationSampler(7),
    )
    return gauge, truth.tolist()


def test_it_is_chosen_for_few_bins_without_being_asked_for(tmp_path: Path) -> None:
    gauge, _ = world(tmp_path, 60)
    plan = gauge.plan()
    (release,) = plan.releases
    assert release.chosen.strategy == "dense"
    assert release.candidates[0].half_width_worst < 0.95 * release.candidates[1].half_width_worst
    assert "Why dense: it was optimised numerically" in explain(plan, why=True)
    assert str(release.chosen.parameters["digest"])[:12] in explain(plan, why=True)
    assert "--optimise" not in explain(plan)
    assert not list(tmp_path.iterdir())  # nothing is kept that was not asked for
    assert Plan.from_record(json.loads(json.dumps(plan.record()))).hash == plan.hash


@pytest.mark.slow
def test_for_many_bins_it_is_found_on_request_and_then_offered(tmp_path: Path) -> None:
    gauge, _ = world(tmp_path, 260, changes=1)
    plain = gauge.plan()
    assert plain.releases[0].chosen.strategy == "buffered"
    assert "tidegauge plan --optimise" in explain(plain)
    asked = gauge.plan(optimise=True)
    assert asked.releases[0].chosen.strategy == "dense"
    assert "--optimise" not in explain(asked)
    assert len(list((tmp_path / "store.matrices").iterdir())) == 1
    assert gauge.plan().hash == asked.hash


@pytest.mark.parametrize("release", [{}, {"window": "5 microseconds"}], ids=["running", "sliding"])
def test_without_noise_it_tells_the_truth_from_exact_integers(tmp_path: Path, release: Any) -> None:
    gauge, truth = world(
        tmp_path, 40, budget={"epsilon": 10**18, "delta": "1e-6"}, strategy="dense", **release
    )
    readings = list(gauge.run())
    expected = [now - (truth[at - 5] if release and at >= 5 else 0) for at, now in enumerate(truth)]
    assert [r.value for r in readings] == pytest.approx(expected, abs=1e-3)
    smoothed = gauge.published(smoothed=True)
    assert [r.value for r in smoothed] == pytest.approx([r.value for r in readings], abs=1e-9)
    (component_plan,) = gauge.plan().releases[0].component_plans
    assert isinstance(component_plan.strategy, Dense)
    bins = len(component_plan.strategy.matrix)
    changes = np.concatenate([np.zeros(bins, dtype=np.int64), np.diff(truth, prepend=0)])[-bins:]
    with Store(gauge.path) as store:
        (journal,) = store.public.measured("now", 1)
    assert (
        list(journal)
        == (component_plan.refine * component_plan.strategy.matrix.astype(np.int64) @ changes).tolist()
    )
    assert gauge.verify().readings == len(readings)


@pytest.mark.parametrize(
    "life",
    [{"at_most": 4}, {"within": "6 microseconds"}, {"at_most": 3, "within": "20 microseconds"}],
    ids=["changes", "reach", "both"],
)
def test_for_many_changes_it_is_found_on_request(tmp_path: Path, life: dict[str, Any]) -> None:
    gauge, _ = world(tmp_path, 32, constraint=life)
    plain = gauge.plan()
    assert plain.releases[0].chosen.strategy != "dense"
    assert "tidegauge plan --optimise" in explain(plain)
    asked = gauge.plan(optimise=True)
    (release,) = asked.releases
    assert release.chosen.strategy == "dense"
    assert release.chosen.half_width_worst < 0.98 * plain.releases[0].chosen.half_width_worst
    assert gauge.plan().hash == asked.hash
    readings = list(gauge.run())
    assert gauge.verify().readings == len(readings) == 32


def test_in_groups_it_is_found_when_it_is_pinned(tmp_path: Path) -> None:
    grouped: dict[str, Any] = {
        "sql": "SELECT x, COUNT(*) FROM t GROUP BY x",
        "groups": {"x": [1, 2]},
    }
    budget = {"epsilon": 10**18, "delta": "1e-6"}
    gauge, truth = world(tmp_path, 24, budget=budget, changes=3, strategy="dense", **grouped)
    readings = list(gauge.run())
    one = [reading.value for reading in readings if (reading.group or {}).get("x") == 1]
    assert one == pytest.approx(truth, abs=1e-3)
    assert gauge.plan().releases[0].chosen.strategy == "dense"
    assert len(list((tmp_path / "store.matrices").iterdir())) == 1
    assert gauge.verify().readings == len(readings) == 48


def test_a_committed_plan_needs_no_folder(tmp_path: Path) -> None:
    gauge, truth = world(tmp_path, 90, strategy="dense", now=50)
    before = list(gauge.run())
    assert 30 < len(before) < 90
    shutil.rmtree(tmp_path / "store.matrices")
    again, _ = world(tmp_path, 90, strategy="dense")
    assert again.plan().releases[0].chosen.strategy == "dense"
    after = list(again.run())
    assert len(before) + len(after) == 90
    assert again.verify().readings == 90
    assert len(again.published(smoothed=True)) == 90
    assert not (tmp_path / "store.matrices").exists()
    errors = [(r.value or 0) - truth[i] for i, r in enumerate([*before, *after])]
    assert max(map(abs, errors)) < 40 * (before[0].stderr or 0)


def test_a_file_beside_the_store_is_never_trusted(tmp_path: Path) -> None:
    gauge, _ = world(tmp_path, 30, strategy="dense")
    honest = gauge.plan().releases[0]
    (path,) = (tmp_path / "store.matrices").iterdir()
    strategy = honest.component_plans[0].strategy
    assert isinstance(strategy, Dense)
    doubled = Dense.of(np.tril(np.full((30, 30), 2**20)), 0)
    forged = path.with_name(path.name.replace(strategy.digest, doubled.digest))
    path.unlink()
    np.savez_compressed(
        forged, entries=doubled.matrix, first=0
    )  # as if it had been optimised for this problem
    misled = gauge.plan().releases[0]
    assert misled.chosen.parameters["digest"] == doubled.digest
    assert misled.chosen.half_width_worst > honest.chosen.half_width_worst  # worse, and as private as ever
    list(gauge.run())
    gauge.verify()


_TOO_LITTLE = (
    r"release 'now' adds too little noise for the rho it was given: it has [\d.]+ and needs [\d.e+]+\. "
    r"Nothing was read or spent\nIf an earlier version of Tidegauge committed this plan, .+ smaller by that "
    r"number"
)


def test_a_changed_matrix_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    gauge, _ = world(tmp_path, 30, strategy="dense", now=10)
    list(gauge.run())
    other = Dense.of(np.tril(np.full((30, 30), 2**20)), 0)

    def swap(plan: dict[str, Any]) -> None:
        plan["matrices"] = dict.fromkeys(plan["matrices"], other.packed)

    def replace_both(plan: dict[str, Any]) -> None:
        plan["matrices"] = {other.digest: other.packed}
        plan["releases"]["now"]["channels"][0]["strategy"]["digest"] = other.digest

    for edit, what in ((swap, "was changed"), (replace_both, _TOO_LITTLE)):
        forge(gauge.path, edit)
        with pytest.raises(StoreCorrupt, match=what):
            list(gauge.run())
        with pytest.raises(StoreCorrupt):
            gauge.verify()


def test_it_cannot_be_pinned_where_there_is_none_or_by_parameters(tmp_path: Path) -> None:
    for strategy, what in (
        ("dense", "is not valid here"),
        ({"name": "dense", "digest": "00"}, "no parameters that can be declared"),
    ):
        gauge, _ = world(tmp_path, 30, budget={"epsilon": 1}, strategy=strategy)
        with pytest.raises(SpecError, match=what):
            gauge.plan()

"""Canaries: lower bounds that are lower bounds, and that come near the claim."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.audit.gauges import COLUMNS, COUNT, GROUPED, subject
from tests.audit.replay.test_replay import AVG, FLOW, replayed, with_noise
from tidegauge.audit.findings import Discrepancy
from tidegauge.audit.noise.bounds import Bounds, Samples, bounds
from tidegauge.audit.noise.canaries import Canaries, claimed_mu, run_canaries
from tidegauge.audit.worlds.palette import palette
from tidegauge.audit.worlds.rehearsal import Subject
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Script

if TYPE_CHECKING:
    from pathlib import Path


def canaries(one: Subject, cells: int = 500) -> Canaries:
    found = run_canaries(one, "r", palette(one.plan), cells=cells, seed=1, alpha=1e-9)
    assert found is not None
    return found


@pytest.mark.parametrize("release", [COUNT, GROUPED, FLOW, AVG], ids=["count", "grouped", "flow", "mean"])
def test_the_path_of_the_canaries_has_the_claimed_mu(tmp_path: Path, release: dict[str, Any]) -> None:
    found = canaries(subject(tmp_path, r=release), 200)
    assert found.claimed == pytest.approx(1)
    assert found.path == pytest.approx(1, rel=0.02)
    assert 0.3 < found.bounds.shift < 1.4
    assert found.limits.shift < found.bounds.shift
    assert found.limits.exact <= found.bounds.exact


def test_canaries_of_a_plan_with_pure_epsilon(tmp_path: Path) -> None:
    found = canaries(subject(tmp_path, budget={"epsilon": "2"}, constraint={"at_most": 1}, r=COUNT), 1000)
    assert found.claimed == pytest.approx(claimed_mu(2, pure=True))
    assert 1 < found.bounds.epsilon < 2.6
    assert 0.6 < found.bounds.exact < found.claimed


def test_canaries_of_a_gauge_that_has_grown(tmp_path: Path) -> None:
    """Each release in a gauge of its own, whichever plan it was committed with."""
    releases: dict[str, Any] = {"r": COUNT | {"share": "0.6"}}
    added: dict[str, Any] = {"late": GROUPED | {"start": "2024-02-01"}}
    setting: Any = {
        "source": Script(COLUMNS, []), "constraint": {"at_most": 2},
        "budget": {"rho": "1/2", "reserve": "0.4"},
        "store": tmp_path / "grown.db", "now": lambda: 0,
    }  # fmt: skip
    list(Gauge(**setting, releases=releases).run())
    grown = Gauge(**setting, releases=releases | added)
    grown.amend()
    one = Subject(grown.spec, grown.plan())
    assert len(one.plan.parts) == 2
    for name, share in (("r", 0.6), ("late", 0.4)):
        found = run_canaries(one, name, palette(one.plan), cells=200, seed=1, alpha=1e-9)
        assert found is not None
        assert found.path == pytest.approx(share**0.5, rel=0.02)


def test_the_claim_of_a_loss_of_any_size() -> None:
    assert claimed_mu(1, pure=True) == pytest.approx(1.2320353853)
    assert claimed_mu(1e9, pure=True) == pytest.approx(2 * (2e9) ** 0.5, rel=1e-3)


def test_half_the_noise_is_found(tmp_path: Path) -> None:
    one = with_noise(subject(tmp_path, r=COUNT), Fraction(1, 2))
    with pytest.raises(Discrepancy, match="more than is claimed"):
        canaries(one)


@pytest.mark.parametrize(
    ("cells", "shift", "exact"), [(500, 0.90, 0.77), (5000, 0.965, 0.925)], ids=["500", "5000"]
)
def test_the_bounds_certify_what_they_should(cells: int, shift: float, exact: float) -> None:
    rng = np.random.default_rng(1)
    found: list[Bounds] = []
    for _ in range(200):
        drawn = np.concatenate([rng.normal(0, 1, cells), rng.normal(1, 1, cells)])
        found.append(bounds(Samples(drawn, drawn, 1.0, (0.5, 1.5), cells), level=0.95, delta=0))
    assert np.mean([one.shift for one in found]) == pytest.approx(shift, abs=0.015)
    assert np.mean([one.exact for one in found]) == pytest.approx(exact, abs=0.015)
    assert np.mean([one.shift > 1 for one in found]) < 0.12
    assert np.mean([one.exact > 1 for one in found]) < 0.12


@pytest.mark.slow
def test_the_canaries_pass_a_hundred_times_in_a_row(tmp_path: Path) -> None:
    one = subject(tmp_path, r=GROUPED)
    rows = palette(one.plan)
    for seed in range(100):
        assert run_canaries(one, "r", rows, cells=500, seed=seed, alpha=4e-7) is not None


def test_canaries_and_replay_of_noise_that_is_drawn_ahead(tmp_path: Path) -> None:
    release = COUNT | {"for": "6 days", "strategy": "ahead"}
    one = subject(tmp_path, budget={"epsilon": "2"}, constraint={"at_most": 2}, r=release)
    found = canaries(one, 300)
    assert 0.9 < found.path < found.claimed
    assert 0.4 < found.bounds.exact < 1.3
    assert replayed(one).worst_ratio == pytest.approx(1)
    with pytest.raises(Discrepancy, match="than is claimed"):
        canaries(with_noise(one, Fraction(1, 4)), 300)

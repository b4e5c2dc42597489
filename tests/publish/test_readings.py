"""The second series, and consistency."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegauge.mechanism.noise.samplers import SimulationSampler
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script

DAYS = 40


def world(
    folder: Path, *, budget: dict[str, Any], seed: int = 1, **release: Any
) -> tuple[Gauge, dict[str, list[float]]]:
    """People who come and go in two wards, and how many there are on each day."""
    life: list[Any] = []
    truth = {"a": [0.0] * DAYS, "b": [0.0] * DAYS}
    for n in range(200):
        came, left, ward = n % 30, n % 30 + 1 + n % 17, "ab"[n % 2]
        life += [(came, f"p{n}", {"ward": ward}), (left, f"p{n}", None)]
        for day in range(came, min(left, DAYS)):
            truth[ward][day] += 1
    life.sort(key=lambda mutation: mutation[:2])
    every = {"start": "1970-01-01", "every": "1 microsecond", "for": f"{DAYS - 1} microseconds"}
    one = Gauge(
        source=Script({"ward": "VARCHAR"}, life),
        constraint={"at_most": 2},
        budget=budget,
        releases={
            "wards": {"sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward", "groups": {"ward": ["a", "b"]},
                      "parts_of": "all", **every, **release},
            "all": {"sql": "SELECT COUNT(*) FROM t", **every},
        },
        store=folder / f"store{seed}.db",
        now=Clock(1000),
        sampler=SimulationSampler(seed),
    )  # fmt: skip
    return one, truth


GAUSSIAN = {"rho": "0.5"}


def test_smoothing_uses_what_came_later(tmp_path: Path) -> None:
    one, _ = world(tmp_path, budget=GAUSSIAN, strategy="hierarchy")
    list(one.run())
    online, smoothed = one.published("wards"), one.published("wards", smoothed=True)
    assert [(r.time, r.group) for r in online] == [(r.time, r.group) for r in smoothed]
    assert all((s.stderr or 0) <= (o.stderr or 0) * (1 + 1e-9) for o, s in zip(online, smoothed, strict=True))
    assert sum((s.stderr or 0) < (o.stderr or 0) * 0.99 for o, s in zip(online, smoothed, strict=True)) > 20
    assert smoothed[-1].value == pytest.approx(online[-1].value)


def test_parts_add_up_and_counts_are_not_negative(tmp_path: Path) -> None:
    one, _ = world(tmp_path, budget={"rho": "0.01"})
    list(one.run())
    plain, agreed = one.published(), one.published(consistent=True)
    assert any((r.value or 0) < 0 for r in plain)
    assert all((r.value or 0) >= 0 and r.bias is not None for r in agreed)
    assert all(r.bias is None for r in plain)
    for day in range(DAYS):
        now = [r for r in agreed if r.time.microsecond == day]
        parts, whole = ([r for r in now if r.release == name] for name in ("wards", "all"))
        if all((r.value or 0) > 0 for r in now):
            assert sum(r.value or 0 for r in parts) == pytest.approx(whole[0].value)
    before = {(r.release, r.time, str(r.group)): r.stderr or 0 for r in plain}
    assert all((r.stderr or 0) <= before[r.release, r.time, str(r.group)] for r in agreed)

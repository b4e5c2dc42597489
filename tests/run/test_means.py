"""What a plan says of a mean over n rows is what its readings say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.printed import printed
from tidegauge.mechanism.noise.samplers import SimulationSampler
from tidegauge.plan.explain import explain
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script

SIZES = {"many": (1000, 45), "some": (310, 45), "few": (100, 45), "low": (1000, 0), "high": (400, 90)}
"""Rows and the value of all of them; the bounds are 0 and 90."""


@pytest.mark.parametrize("budget", [{"epsilon": 20}, {"rho": 10}])
def test_the_formula_is_what_readings_say(tmp_path: Path, budget: dict[str, Any]) -> None:
    rows = [
        (0, f"{name}{n}", {"g": name, "v": value})
        for name, (rows, value) in SIZES.items()
        for n in range(rows)
    ]
    release = {
        "sql": "SELECT g, AVG(v) FROM t GROUP BY g", "groups": {"g": list(SIZES)}, "bounds": {"v": [0, 90]},
        "start": "1970-01-01T00:00:01Z", "every": "1 second", "for": "4 seconds",
    }  # fmt: skip
    one = Gauge(
        source=Script({"g": "VARCHAR", "v": "BIGINT"}, rows), constraint={"at_most": 2}, budget=budget,
        releases={"mean": release,
                  "count": {**release, "sql": "SELECT COUNT(*) FROM t", "groups": {}, "bounds": {}}},
        store=tmp_path / "s.db", now=Clock(10_000_000), sampler=SimulationSampler(1),
    )  # fmt: skip
    plan = one.plan()
    said = printed(plan.as_json())["releases"]["mean"]["mean"]
    middle, bound = said["half_width_times_rows"], said["half_width_times_rows_at_bounds"]
    assert "mean" not in printed(plan.as_json())["releases"]["count"]
    assert said["examples"] == {"1000": pytest.approx(middle / 1000), "100": pytest.approx(middle / 100)}
    assert printed(plan.as_json())["releases"]["mean"]["chosen"]["half_width_worst"] == pytest.approx(
        middle / 1000
    )
    assert f"A mean over n rows: ± {middle:,.4g} / n (± {middle / 1000:,.4g} for n = 1,000, " in explain(
        plan, why=True
    )
    widths: dict[str, float] = {}
    for reading in one.run():
        if reading.release == "mean" and reading.stderr is not None:
            (name,) = (reading.group or {}).values()
            level = reading.stderr * 1.96
            widths[str(name)] = max(level, widths.get(str(name), 0.0))
    for name, (count, value) in SIZES.items():
        output = (middle if value == 45 else bound) / count
        slack = 0.05 if "rho" in budget else 0.25  # Laplace: 1.96 standard errors are not quite 95 %
        assert (
            output * (1 - slack) <= widths[name] * (1.2 if "epsilon" in budget else 1) <= output * (1 + slack)
        ), name

"""A reader shows what was published without building the plan; other intervals build it when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tidegauge
from tidegauge.publish.readings import plan_reading

if TYPE_CHECKING:
    from pathlib import Path

TOML = """
[source]
kind = "files"
path = "t.csv"
time = "time"
key = "id"
after = ""
[constraint]
at_most = 4
[budget]
epsilon = 2
[release.wards]
sql = "SELECT ward, COUNT(*) FROM t GROUP BY ward"
groups.ward = ["a", "b"]
start = "2026-01-01"
every = "1 day"
for = "10 days"
[release.ages]
sql = "SELECT AVG(age) FROM t"
bounds.age = [0, 110]
start = "2026-01-01"
every = "1 day"
for = "10 days"
"""


def test_readings_are_those_of_the_plan_at_every_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tidegauge.toml").write_text(TOML, "utf-8")
    lines = [f"2026-01-{1 + n % 10:02}T00:00:00Z,{n},{'ab'[n % 2]},{n % 90}" for n in range(400)]
    (tmp_path / "t.csv").write_text("\n".join(["time,id,ward,age", *sorted(lines)]) + "\n", "utf-8")
    gauge = tidegauge.open(tmp_path / "tidegauge.toml")
    assert len(list(gauge.run())) == 33
    with gauge.reader.store.public() as store:
        wanted = [plan_reading(gauge.plan(), row) for row in store.readings()]
    found = gauge.reader.published()
    assert found == wanted
    assert [one.as_json() for one in found] == [one.as_json() for one in wanted]
    for level in (0.5, 0.8, 0.999):
        assert [end for one in found for end in one.interval(level)] == pytest.approx(
            [end for one in wanted for end in one.interval(level)]
        )
    monkeypatch.setattr("tidegauge.run.committed.all_certified", None)  # is not asked for what was published
    assert [one.interval() for one in gauge.reader.published("ages")] == [
        one.interval() for one in wanted if one.release == "ages"
    ]

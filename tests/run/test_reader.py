"""A reader shows what was published without building the plan; other intervals build it when asked for."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

import tidegauge
from tests.forger import forge
from tidegauge.errors import StoreCorrupt
from tidegauge.publish.readings import plan_reading

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge import Gauge

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


@pytest.fixture
def gauge(tmp_path: Path) -> Gauge:
    """A gauge with 33 readings of two releases."""
    (tmp_path / "tidegauge.toml").write_text(TOML, "utf-8")
    lines = [f"2026-01-{1 + n % 10:02}T00:00:00Z,{n},{'ab'[n % 2]},{n % 90}" for n in range(400)]
    (tmp_path / "t.csv").write_text("\n".join(["time,id,ward,age", *sorted(lines)]) + "\n", "utf-8")
    gauge = tidegauge.open(tmp_path / "tidegauge.toml")
    assert len(list(gauge.run())) == 33
    return gauge


def test_readings_are_those_of_the_plan_at_every_level(gauge: Gauge, monkeypatch: pytest.MonkeyPatch) -> None:
    with gauge.reader.store.public() as store:
        wanted = [plan_reading(gauge.plan(), row) for row in store.readings()]
    found = gauge.reader.published()
    assert found == wanted
    assert [one.as_json() for one in found] == [one.as_json() for one in wanted]
    for level in (0.5, 0.8, 0.999):
        for one, other in zip(found, wanted, strict=True):
            assert one.interval(level) == pytest.approx(other.interval(level))
    monkeypatch.setattr("tidegauge.run.committed.all_certified", None)  # is not asked for what was published
    assert [one.interval() for one in gauge.reader.published("ages")] == [
        one.interval() for one in wanted if one.release == "ages"
    ]


def test_other_intervals_build_the_plan_once(gauge: Gauge, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, reader = Mock(return_value=gauge.plan()), gauge.reader
    monkeypatch.setattr(reader, "plan", plan)
    for one in reader.published():
        one.interval(0.5)
    plan.assert_called_once_with()


@pytest.mark.parametrize(
    "edit", ["release = 'other'", "cell = cell + 2", "value = 'x'", "time = time * 9000"]
)
def test_a_damaged_reading_is_refused(gauge: Gauge, edit: str) -> None:
    with closing(sqlite3.connect(gauge.path)) as db, db:
        db.execute(f"UPDATE readings SET {edit} WHERE release = 'wards'")
    for do in (gauge.published, gauge.readings, gauge.verify):
        with pytest.raises(StoreCorrupt):
            do()


def test_a_store_without_the_plan_of_its_ledger_is_refused(gauge: Gauge) -> None:
    with closing(sqlite3.connect(gauge.path)) as db, db:
        db.execute("DELETE FROM meta WHERE key = 'plan'")
    for do in (
        gauge.published,
        gauge.verify,
        gauge.status,
        gauge.reader.first_release,
        lambda: list(gauge.run()),
    ):
        with pytest.raises(StoreCorrupt, match="committed a plan that the store does not have"):
            do()


def test_a_plan_with_a_grid_of_no_width_is_refused(gauge: Gauge) -> None:
    def edit(plan: dict[str, Any]) -> None:
        plan["program"]["releases"][0]["query"]["components"][0]["grid"] = "0"

    forge(gauge.path, edit)
    for do in (gauge.published, gauge.verify):
        with pytest.raises(StoreCorrupt):
            do()

"""Releases that are added to a gauge on every kind of source: they begin with the table as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.source.conftest import LIVES
from tests.source.life import FIRST, LIFE, Table
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from tests.source.harness import Harness

STEP = 10_000_000
"""The gauge's clock runs ahead of the database's: changes that come late count in the next reading."""
RELEASES: dict[str, dict[str, Any]] = {
    "ill": {
        "sql": "SELECT status, COUNT(*) FROM t GROUP BY status",
        "groups": {"status": ["ill", "well"]},
        "every": "10 seconds",
    }
}
ADDED: dict[str, dict[str, Any]] = {
    "ages": {"sql": "SELECT SUM(age) FROM t", "bounds": {"age": [0, 2000]}, "every": "10 seconds"},
    "adults": {"sql": "SELECT COUNT(*) FROM t WHERE age >= 18", "every": "10 seconds"},
}

QUICK = ("postgres",)


class Grown:
    """A gauge on a table whose life is played, and what the table itself answers."""

    def __init__(self, harness: Harness, folder: Path, **unit: Any) -> None:
        self.harness, self.folder, self.unit = harness, folder, unit
        self.table = Table()
        self.table.rows = {row["id"]: row for row in FIRST}
        harness.begin(FIRST)
        self.clock = harness.now() // STEP * STEP + STEP

    def gauge(self, *, grown: bool) -> Gauge:
        source = self.harness.source()
        releases = RELEASES | (ADDED if grown else {})
        named = {
            name: one
            | {
                "sql": str(one["sql"]).replace(
                    "FROM t", f'FROM "{source.table.replace(chr(34), chr(34) * 2)}"'
                )
            }
            for name, one in releases.items()
        }
        return Gauge(
            source=source,
            constraint={"at_most": 1000},
            budget={"epsilon": 10**12, "reserve": "0.4"},
            releases=named,
            store=self.folder / "gauge.db",
            now=lambda: self.clock,
            **self.unit,
        )

    def live(self, number: int) -> None:
        self.table.apply(LIFE[number].transactions)
        self.harness.live(LIFE[number].transactions)

    def run(self, *, grown: bool) -> Gauge:
        self.clock += STEP
        gauge = self.gauge(grown=grown)
        list(gauge.run())
        return gauge

    def truth(self, release: str) -> list[int]:
        owned = "max_rows" not in self.unit
        rows = [row for row in self.table.rows.values() if owned or row["person"]]
        if release == "ill":
            return [sum(row["status"] == status for row in rows) for status in ("ill", "well")]
        ages = [row["age"] or 0 for row in rows]
        return [sum(max(age, 0) for age in ages)] if release == "ages" else [sum(age >= 18 for age in ages)]


def latest(gauge: Gauge, release: str) -> list[int]:
    readings = gauge.published(release)
    newest = max(reading.time for reading in readings)
    return [round(reading.value or 0) for reading in readings if reading.time == newest]


def exact(gauge: Gauge, release: str) -> list[tuple[float | None, float | None, int]]:
    """What the state itself says of the latest reading: accepted and true value, units that are off."""
    found = gauge.status().whole_error
    assert found is not None
    return [(one.accepted, one.true, one.units) for one in found.releases[release]]


@pytest.fixture(
    params=[name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in LIVES]
)
def table(request: pytest.FixtureRequest) -> Iterator[Harness]:
    made = LIVES[request.param](request)
    yield made
    made.end()


@pytest.mark.parametrize(
    "unit",
    [{"unit": "person", "max_rows": 900}, pytest.param({}, marks=pytest.mark.slow)],
    ids=["person", "row"],
)
def test_an_added_release_begins_with_the_table_as_it_is(
    table: Harness, tmp_path: Path, unit: dict[str, Any]
) -> None:
    (folder := tmp_path / "gauge").mkdir()
    grown = Grown(table, folder, **unit)
    grown.run(grown=False)
    for number in (1, 2, 3, 5, 6, 7, 8):
        grown.live(number)
    one = grown.run(grown=False)
    assert latest(one, "ill") == grown.truth("ill")
    grown.live(10)  # waits when the release is added, and renames a row
    grown.gauge(grown=True).amend()
    began = 0
    before: dict[tuple[str, str, datetime], float | None] = {}
    for number in range(11, len(LIFE) + 1):
        one = grown.run(grown=True)
        readings = {(r.release, str(r.group), r.time): r.value for r in one.published()}
        assert readings.items() >= before.items()  # nothing that was published is revised
        assert len(readings) > len(before)
        before = readings
        for release in RELEASES if not one.published("ages") else (*RELEASES, *ADDED):
            assert latest(one, release) == grown.truth(release), (release, number)
            assert exact(one, release) == [(value, value, 0) for value in grown.truth(release)], release
        began += bool(one.published("ages"))
        if number < len(LIFE):
            grown.live(number)
    assert began >= len(LIFE) - 12
    assert one.verify().readings == len(one.published())
    assert one.status().releases["ages"].readings == len(one.published("ages"))

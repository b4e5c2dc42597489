"""A gauge on local days: exact numbers through a change of the clock, roll-ups, and what was committed."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.printed import printed
from tidegauge.errors import PlanChanged, SpecError
from tidegauge.mechanism.noise.samplers import SimulationSampler
from tidegauge.model import calendar
from tidegauge.model.quantity import HOUR, instant
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script

BERLIN = ZoneInfo("Europe/Berlin")
BEGIN = instant("2026-02-20T00:30:00Z")
HOURS = 24 * 100
DAILY: dict[str, Any] = {
    "sql": "SELECT COUNT(*) FROM t",
    "start": "2026-03-02",
    "every": "1 day",
    "for": "70 days",
}
RELEASES: dict[str, Any] = {
    "daily": DAILY,
    "at_month_end": {"of": "daily", "every": "1 month"},
    "in_month": {"of": "daily", "every": "1 month", "window": "1 month"},
    "in_week": {"of": "daily", "every": "1 week", "window": "1 week"},
    "came": {**DAILY, "sql": "SELECT COUNT(*) FROM changes(t) WHERE after.ward = 'a'"},
    "came_in_month": {"of": "came", "every": "1 month"},
}


def rows() -> list[tuple[Any, ...]]:
    """One row more every hour."""
    return [(BEGIN + n * HOUR, f"p{n}", {"ward": "a"}) for n in range(HOURS)]


def gauge(folder: Path, **changes: Any) -> Gauge:
    folder.mkdir(exist_ok=True)
    declared: dict[str, Any] = {
        "source": Script({"ward": "VARCHAR"}, rows()),
        "constraint": {"at_most": 2, "within": "3 days"},
        "budget": {"epsilon": 10**9},
        "time_zone": "Europe/Berlin",
        "releases": RELEASES,
        "store": folder / "store",
        "sampler": SimulationSampler(seed=1),
        "now": Clock(BEGIN + HOURS * HOUR),
    }
    return Gauge(**(declared | changes))


def local(day: str) -> int:
    return instant(datetime.fromisoformat(day).replace(tzinfo=BERLIN))


def count(before: int, since: int | None = None) -> int:
    """Rows that came up to an instant, and after another."""
    times = (BEGIN + n * HOUR for n in range(HOURS))
    return sum(1 for at in times if at <= before and (since is None or at > since))


def test_local_days_weeks_and_months_are_exact(tmp_path: Path) -> None:
    one = gauge(tmp_path)
    found = {(r.release, instant(r.time)): round(r.value or 0) for r in one.run()}
    days = [local((date(2026, 3, 2) + timedelta(days=n)).isoformat()) for n in range(71)]
    assert Counter(name for name, _ in found) == {
        "daily": 71, "came": 71, "at_month_end": 2, "in_month": 1, "in_week": 10, "came_in_month": 1,
    }  # fmt: skip
    assert [found["daily", day] for day in days] == [count(day) for day in days]
    march, april, may = (local(f"2026-0{month}-01") for month in (3, 4, 5))
    assert march < days[0]
    assert [found["at_month_end", at] for at in (april, may)] == [count(april), count(may)]
    assert found["in_month", may] == found["came_in_month", may] == count(may, april)
    assert found["in_week", local("2026-03-30")] == 7 * 24 - 1
    assert printed(one.status().as_json())["releases"]["at_month_end"] == {
        "readings": 2,
        "readings_total": 2,
        "next": None,
    }
    assert one.verify().readings == len(found)


def test_bins_stay_as_committed_whatever_the_rules_become(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {(r.release, r.time): r.value for r in gauge(tmp_path / "steady").run()}
    changed = gauge(tmp_path / "changed")
    list(changed.run(until="2026-03-20"))
    monkeypatch.setattr(calendar, "_offsets", lambda *_: ((0, 0),))
    later = gauge(tmp_path / "changed")
    list(later.run())
    assert {(r.release, r.time): r.value for r in later.published()} == seen


def test_another_zone_is_another_plan(tmp_path: Path) -> None:
    list(gauge(tmp_path).run(until="2026-03-20"))
    with pytest.raises(PlanChanged, match=r"calendar\.time_zone: was changed"):
        list(gauge(tmp_path, time_zone="Europe/Paris").run())


@pytest.mark.parametrize(
    ("release", "message"),
    [
        ({"of": "daily", "every": "36 hours"}, "release.x: every = '36 hours' must be a whole multiple"),
        ({"of": "daily", "every": "1 week", "window": "90 minutes"}, "window = '90 minutes' must be a whole"),
        ({"of": "daily", "every": "2 years"}, "release.x: the release ends before the first reading"),
    ],
)
def test_roll_ups_that_do_not_fit(tmp_path: Path, release: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError) as refused:
        gauge(tmp_path, releases={"daily": DAILY, "x": release}).plan()
    assert message in str(refused.value)


def test_an_unknown_zone(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"calendar.*'Europe/Berln' is not a time zone; did you mean"):
        gauge(tmp_path, time_zone="Europe/Berln")

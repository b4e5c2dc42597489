"""Months after a start on a day that not every month has:
when readings are, and over what their windows go."""

from __future__ import annotations

import calendar
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidegauge.mechanism.noise.samplers import SimulationSampler
from tidegauge.model.quantity import instant
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script


def after(start: datetime, months: int) -> datetime:
    """So many months after the start, on its day of the month,
    or on the last where the month is too short."""
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    return start.replace(
        year=year, month=month + 1, day=min(start.day, calendar.monthrange(year, month + 1)[1])
    )


@pytest.mark.parametrize("day", [28, 29, 30, 31])
@pytest.mark.parametrize("year", [2026, 2028])
def test_windows_of_months(tmp_path: Path, day: int, year: int) -> None:
    start, rng, count = datetime(year, 1, day, 6, tzinfo=UTC), random.Random(day), 15
    first = instant(after(start, -3))
    times = sorted(rng.randrange(first, instant(after(start, count))) for _ in range(600))
    times += [
        instant(after(start, n)) + step for n in range(-1, count) for step in (0, 1)
    ]  # and at the edges
    log = [(time, f"p{n}", {"v": 1}) for n, time in enumerate(sorted(times))]
    every = {"start": start.isoformat(), "every": "1 month", "for": f"{count - 1} months"}
    sql = "SELECT COUNT(*) FROM t"
    one = Gauge(
        source=Script({"v": "BIGINT"}, log, size=50), constraint={"at_most": 1}, budget={"epsilon": 1e15},
        releases={
            "now": {"sql": sql, **every}, "each": {"sql": sql, "window": "1 month", **every},
            "two": {"sql": sql, "window": "2 months", **every},
            "derived_1": {"of": "now", "window": "1 month"}, "derived_3": {"of": "now", "window": "3 months"},
            "derived_6": {"of": "each", "window": "6 months"},
            "derived_4": {"of": "two", "window": "4 months"},
        },
        store=tmp_path / "s.db", now=Clock(instant(after(start, 100))), sampler=SimulationSampler(1),
    )  # fmt: skip
    found: dict[str, dict[datetime, int]] = {}
    for reading in one.run():
        found.setdefault(reading.release, {})[reading.time] = round(reading.value or 0)

    def rows(begin: datetime | None, end: datetime) -> int:
        return sum((begin is None or instant(begin) < time) and time <= instant(end) for time, *_ in log)

    ends = [after(start, n) for n in range(count)]
    assert found["now"] == {end: rows(None, end) for end in ends}
    whole = {ends[0]: rows(None, ends[0])}
    assert found["each"] == whole | {end: rows(after(start, n), end) for n, end in enumerate(ends[1:])}
    assert found["two"] == {end: rows(after(start, n - 2), end) for n, end in enumerate(ends)}
    for name, months, lacking in (
        ("derived_1", 1, 1),
        ("derived_3", 3, 3),
        ("derived_6", 6, 6),
        ("derived_4", 4, 2),
    ):
        said = {end: rows(after(start, n - months), end) for n, end in enumerate(ends) if n >= lacking}
        assert found[name] == said, name
    if day == 31:  # readings at the ends of months: a window of one month is that month
        assert ends[1].day == calendar.monthrange(year, 2)[1]
        assert found["derived_1"][ends[1]] == rows(datetime(year, 1, 31, 6, tzinfo=UTC), ends[1])

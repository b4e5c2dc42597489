"""Local days and months: clocks that change, times that are skipped or occur twice, and bounds on bins."""

from __future__ import annotations

import random
from bisect import bisect_left
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from tidegauge.errors import SpecError
from tidegauge.mechanism.strategies.disjoint import bin_folds
from tidegauge.model.calendar import Zone, beginnings, committed_zone, local_instant, zone_named
from tidegauge.model.constraint import AtMost, Within
from tidegauge.model.quantity import DAY, HOUR, SECOND, Span, instant, moment, rfc3339
from tidegauge.model.schedule import Schedule, roll_up
from tidegauge.theory.paths.path import bin_cases

ZONES = ["Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Africa/Casablanca"]


def zone(name: str, start: str, end: str | None) -> Zone:
    return committed_zone(name, instant(start), None if end is None else instant(end))


def at(wall: str) -> datetime:
    return datetime.fromisoformat(wall)


def daily(name: str, start: str, count: int | None, window: str | None = None) -> Schedule:
    begin = local_instant(start, zone_named(name))
    known = committed_zone(name, begin - 400 * DAY, None if count is None else begin + (count + 2) * DAY)
    return Schedule(begin, Span.parse("1 day"), count, None if window is None else Span.parse(window), known)


@pytest.mark.parametrize("name", ZONES)
def test_clocks_are_those_of_the_installed_data(name: str) -> None:
    known, info, rng = zone(name, "2010-01-01", "2013-06-01"), ZoneInfo(name), random.Random(1)
    for _ in range(500):
        now = rng.randrange(instant("2010-01-02"), instant("2013-06-01")) // SECOND * SECOND
        wall = moment(now).astimezone(info).replace(tzinfo=None, fold=0)
        assert known.wall(now) == wall
        assert known.instant(wall) == instant(wall.replace(tzinfo=info))


def test_a_time_that_is_skipped_is_the_instant_that_skips_it() -> None:
    berlin = zone("Europe/Berlin", "2026-01-01", "2027-01-01")
    assert rfc3339(berlin.instant(at("2026-03-29T02:30"))) == "2026-03-29T01:00:00Z"
    brazil = zone("America/Sao_Paulo", "2017-01-01", "2018-01-01")  # midnight of 15 October did not exist
    assert rfc3339(brazil.instant(at("2017-10-15"))) == "2017-10-15T03:00:00Z"
    assert rfc3339(berlin.instant(at("2026-10-25T02:30"))) == "2026-10-25T00:30:00Z"  # the first


@pytest.mark.parametrize(
    ("name", "short", "long"),
    [("Europe/Berlin", "2026-03-29", "2026-10-25"), ("America/New_York", "2026-03-08", "2026-11-01")],
)
def test_days_of_23_and_25_hours(name: str, short: str, long: str) -> None:
    schedule = daily(name, "2026-01-01", 365)
    ends = [schedule.bin_end(i) for i in range(365)]
    hours = {
        moment(start).astimezone(ZoneInfo(name)).date().isoformat(): (end - start) / HOUR
        for start, end in pairwise(ends)
    }
    assert {day: length for day, length in hours.items() if length != 24} == {short: 23, long: 25}
    assert all(moment(end).astimezone(ZoneInfo(name)).hour == 0 for end in ends)
    assert [schedule.bin_at(end) for end in ends] == list(range(365))
    assert [schedule.bin_at(end + 1) for end in ends] == list(range(1, 366))


def test_months_and_leap_years() -> None:
    begin = local_instant("2027-12-31", zone_named("Europe/Berlin"))
    known = committed_zone("Europe/Berlin", begin - DAY, begin + 900 * DAY)
    schedule = Schedule(begin, Span.parse("1 month"), 15, None, known)
    days = [known.wall(schedule.bin_end(i)).date().isoformat() for i in (0, 1, 2, 3, 4, 14)]
    assert days == ["2027-12-31", "2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30", "2029-02-28"]


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("count", [500, None])
@pytest.mark.parametrize("hours", [1, 23, 24, 25, 47, 71, 167, 168, 169])
def test_no_unit_changes_more_bins_than_the_bounds_say(name: str, count: int | None, hours: int) -> None:
    """Against the definition: every interval of this length, begun just before each change of a bin."""
    schedule, within = daily(name, "2011-01-01", count), Within(f"{hours} hours")
    ends = [schedule.bin_end(i) for i in range(500)]
    most = max(
        bisect_left(ends, begin + hours * HOUR) - bisect_left(ends, begin) + 1
        for end in ends[:400]
        for begin in (end - 1, end, end + 1)
    )
    (limit,) = bin_cases(within, schedule)
    assert limit.bins is not None
    assert most <= limit.bins <= most + 1
    assert most <= bin_folds(within, schedule, count) <= most + 1
    assert bin_folds(within & AtMost(2), schedule, count) == min(2, bin_folds(within, schedule, count))


def test_equal_bins_have_no_slack() -> None:
    assert Schedule(0, Span.parse("1 day"), 9).slack == 0
    assert daily("Asia/Kolkata", "2026-01-01", 9).slack == 0
    assert daily("Europe/Berlin", "2026-01-01", 400).slack == HOUR


@pytest.mark.parametrize(
    ("every", "first"),
    [
        ("1 month", "2026-04-01"),
        ("1 quarter", "2026-04-01"),
        ("1 year", "2027-01-01"),
        ("1 week", "2026-03-09"),
        ("2 days", "2026-03-05"),
    ],
)
def test_a_roll_up_begins_with_the_calendar(every: str, first: str) -> None:
    schedule = daily("Europe/Berlin", "2026-03-05", 900)
    rolled = roll_up(schedule, Span.parse(every), None)
    assert schedule.zone is not None
    assert schedule.zone.wall(rolled.times.start).isoformat() == f"{first}T00:00:00"
    over = roll_up(schedule, Span.parse(every), Span.parse(every))
    assert over.times.start >= schedule.zone.after(Span.parse(every), rolled.times.start, 0)
    assert over.span == {"1 month": 31, "1 quarter": 92, "1 year": 365, "1 week": 7, "2 days": 2}[every]


def test_what_does_not_fit_is_refused() -> None:
    schedule = daily("Europe/Berlin", "2026-03-05", 60)
    with pytest.raises(SpecError, match=r"every = '36 hours' must be a whole multiple of the release's own"):
        roll_up(schedule, Span.parse("36 hours"), None)
    with pytest.raises(SpecError, match=r"window = '36 hours' must be a whole multiple of 1 day"):
        roll_up(schedule, Span.parse("1 week"), Span.parse("36 hours"))
    with pytest.raises(SpecError, match="the release ends before the first reading, at 2026-12-31T23:00:00Z"):
        roll_up(schedule, Span.parse("1 year"), None)
    with pytest.raises(SpecError, match=r"every = '1 day' counts local days of Europe/Berlin"):
        daily("Europe/Berlin", "2026-03-05", 60, "36 hours")
    with pytest.raises(SpecError, match="changes by more than 3 hours in this time"):
        zone("Pacific/Apia", "2011-01-01", "2012-06-01")


@pytest.mark.parametrize(
    ("wrong", "guess"),
    [
        ("Europe/Berln", "; did you mean 'Europe/Berlin'?"),
        ("berlin", "; did you mean 'Europe/Berlin'?"),
        ("xx", ": write an IANA name such as 'Europe/Berlin'"),
        ("", ": write an IANA name such as 'Europe/Berlin'"),
        ("../../etc/passwd", "is not a time zone"),
    ],
)
def test_an_unknown_zone_is_refused(wrong: str, guess: str) -> None:
    with pytest.raises(SpecError) as refused:
        zone_named(wrong)
    assert "is not a time zone" in str(refused.value)
    assert guess in str(refused.value)


def test_a_machine_without_time_zone_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneinfo.available_timezones", set)
    with pytest.raises(SpecError, match="no time zone data; install them with: pip install tzdata"):
        zone_named("Nowhere/Else")


def test_beginnings_in_utc() -> None:
    now = instant("2026-02-03T09:00:00Z")
    assert rfc3339(next(beginnings(Span.parse("1 month"), now, None))) == "2026-03-01T09:00:00Z"
    assert rfc3339(next(beginnings(Span.parse("1 week"), now, None))) == "2026-02-09T09:00:00Z"

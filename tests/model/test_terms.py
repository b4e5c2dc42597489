"""Terms begin with the calendar, at committed instants, and none is longer than it is taken to be."""

from __future__ import annotations

import pytest

from tidegauge.errors import SpecError
from tidegauge.model.calendar import committed_zone
from tidegauge.model.quantity import DAY, HOUR, Span, instant, rfc3339
from tidegauge.model.schedule import Schedule
from tidegauge.model.terms import longest, most_in_a_bin, terms_from


@pytest.mark.parametrize(
    ("renews", "first", "begins"),
    [
        ("1 year", "2026-03-05", ["2027-01-01", "2028-01-01"]),
        ("1 year", "2026-01-01", ["2026-01-01", "2027-01-01"]),
        ("1 month", "2026-01-31T12:00:00Z", ["2026-02-01", "2026-03-01"]),
        ("6 months", "2026-02-01", ["2026-04-01", "2026-10-01"]),
        ("1 week", "2026-11-17", ["2026-11-23", "2026-11-30"]),
        ("36 hours", "2026-11-17T05:00:00Z", ["2026-11-17T05:00:00Z", "2026-11-18T17:00:00Z"]),
    ],
)
def test_terms_begin_with_the_calendars_periods(renews: str, first: str, begins: list[str]) -> None:
    terms = terms_from(Span.parse(renews), instant(first), None)
    assert [terms.bin_end(n) for n in range(2)] == [instant(one) for one in begins]


def test_terms_begin_at_local_midnight() -> None:
    zone = committed_zone("Europe/Berlin", instant("2026-01-01"), instant("2030-01-01"))
    terms = terms_from(Span.parse("1 month"), instant("2026-03-10"), zone)
    assert [rfc3339(terms.bin_end(n)) for n in (0, 7)] == ["2026-03-31T22:00:00Z", "2026-10-31T23:00:00Z"]


def test_a_first_term_that_is_longer_than_the_others_is_refused() -> None:
    renews, first = Span.parse("1 year"), instant("2026-03-05")
    for begin in ("2026-04-01", "2025-04-01", "2027-03-05"):
        assert terms_from(renews, first, None, instant(begin)).start == instant(begin)
    with pytest.raises(SpecError, match=r"renews_from.*must begin by 2027-03-05T00:00:00Z"):
        terms_from(renews, first, None, instant("2027-03-06"))


@pytest.mark.parametrize("renews", ["1 month", "3 months", "1 year", "10 days", "90 minutes"])
@pytest.mark.parametrize("name", [None, "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("count", [1, 5])
def test_no_terms_are_longer_than_the_longest(renews: str, name: str | None, count: int) -> None:
    first = instant("2026-03-05")
    zone = None if name is None else committed_zone(name, first, None)
    terms = terms_from(Span.parse(renews), first, zone)
    lengths = {terms.bin_end(n + count) - terms.bin_end(n) for n in range(200)}
    assert max(lengths) <= longest(terms, count) <= max(lengths) + 2 * DAY


@pytest.mark.parametrize("name", ["Europe/Berlin", "Asia/Tokyo", "Pacific/Auckland", "America/New_York"])
@pytest.mark.parametrize("months", [1, 2, 3, 4, 6])
def test_months_are_those_of_the_local_date(name: str, months: int) -> None:
    """East of Greenwich a local first of May is the 30th of April in UTC, whose months have other lengths."""
    for month in range(1, 13):
        first = instant(f"2026-{month:02d}-01T03:00:00Z")
        terms = terms_from(Span(months=months), first, committed_zone(name, first, None))
        for count in (1, 2, 5):
            lengths = [terms.bin_end(n + count) - terms.bin_end(n) for n in range(72)]
            assert max(lengths) <= longest(terms, count) <= max(lengths) + 2 * DAY


@pytest.mark.parametrize(("months", "month"), [(115, 2), (163, 1), (287, 2), (1199, 5)])
def test_terms_that_do_not_fit_into_400_years_are_longest_later(months: int, month: int) -> None:
    terms, ends = Schedule(instant(f"2025-{month:02d}-01"), Span(months=months)), []
    for year_and_month in range(12 * 2025 + month - 1, 12 * 9999 + 12, months):
        year, past = divmod(year_and_month, 12)
        ends.append(instant(f"{year}-{past + 1:02d}-01"))
    for count in (1, 2):
        lengths = [later - ends[n] for n, later in enumerate(ends[count:])]
        assert longest(terms, count) == max(lengths)
    if months == 115:
        assert [max(ends[n + 1] - ends[n] for n in range(most)) // DAY for most in (43, 800)] == [3502, 3503]


@pytest.mark.parametrize(
    ("renews", "every", "window", "most"),
    [
        ("1 month", "1 day", None, 2),
        ("1 day", "1 week", None, 8),
        ("10 days", "1 month", None, 5),
        ("1 month", "3 months", "2 months", 3),
    ],
)
def test_how_many_terms_one_bin_meets(renews: str, every: str, window: str | None, most: int) -> None:
    start = instant("2026-01-07")
    schedule = Schedule(start, Span.parse(every), None, None if window is None else Span.parse(window))
    terms = terms_from(Span.parse(renews), schedule.bin_end(0), None)
    found = most_in_a_bin(terms, schedule)
    for at in range(schedule.base, 40):
        begins = terms.bin_at(schedule.bin_end(at - 1) + 1) if at else 0
        assert terms.bin_at(schedule.bin_end(at)) - begins + 1 <= found
    assert found == most
    early = terms_from(Span.parse(renews), start - 400 * DAY, None)
    if not schedule.base:
        assert most_in_a_bin(early, schedule) >= early.bin_at(start) + 1


def test_a_year_has_366_days() -> None:
    assert longest(terms_from(Span.parse("1 year"), 0, None)) == 366 * DAY
    assert longest(terms_from(Span.parse("10 years"), 0, None)) == 3653 * DAY
    zone = committed_zone("Europe/Berlin", instant("2026-01-01"), None)
    assert longest(terms_from(Span.parse("1 day"), instant("2026-01-01"), zone)) == 25 * HOUR


@pytest.mark.parametrize("renews", ["101 years", "3000 years", "99999999 days", "36601 days"])
def test_a_term_of_more_than_a_hundred_years_is_refused(renews: str) -> None:
    with pytest.raises(
        SpecError, match=r"constraint.renews: a term of .* is longer than 100 years; shorten it"
    ):
        terms_from(Span.parse(renews), instant("2026-01-01"), None)


@pytest.mark.parametrize("renews", ["100 years", "36600 days"])
def test_several_of_the_longest_terms_have_a_length(renews: str) -> None:
    terms = terms_from(Span.parse(renews), instant("2026-01-01"), None)
    assert longest(terms, 10) >= 36524 * 10 * DAY

"""Terms: the periods after which a constraint renews.  [T15]

Terms are a schedule without an end whose readings are the beginnings of terms.  Everything before the first
of them is one term as well.  A plan commits the schedule together with the offsets of its time zone, so terms
never follow changed time zone data.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from math import gcd
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.model.calendar import beginnings, is_local
from tidegauge.model.json import as_text
from tidegauge.model.quantity import DAY, instant, moment, rfc3339
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from tidegauge.model.calendar import Zone
    from tidegauge.model.json import Json, JsonObject
    from tidegauge.model.quantity import Span

_CYCLE: Final = 400 * 12
"""Months after which the calendar repeats."""
_SHORTEST_MONTH: Final = 28 * DAY
_LONGEST: Final = 100
"""Years of the longest term: several of them, from any month of the calendar's cycle, end before 9999."""


def terms_from(renews: Span, first: int, zone: Zone | None, renews_from: int | None = None) -> Schedule:
    """The terms of a gauge whose first bin ends at `first`; they begin with the calendar's periods.

    A period that is no whole number of days has no place in the calendar, and begins at `first`.

    `renews_from`: when the first term begins instead.  Raises SpecError where this would leave a first term
    that is longer than the others, and for terms of more than a hundred years.
    """
    if renews.months > 12 * _LONGEST or renews.micros > 366 * DAY * _LONGEST:
        raise SpecError(
            f"a term of {renews} is longer than {_LONGEST} years; shorten it, or leave out 'renews' for a "
            "constraint over the whole lifetime",
            key="constraint.renews",
        )
    local = zone if is_local(renews) else None
    if renews_from is None and not is_local(renews):
        return Schedule(first, renews)
    if renews_from is None:
        return Schedule(next(beginnings(renews, _midnight(first, local), local)), renews, zone=local)
    latest = Schedule(first, renews, zone=local).bin_end(1)
    if renews_from > latest:
        raise SpecError(
            f"the first term would be longer than {renews}: readings begin at {rfc3339(first)}, so the next "
            f"term must begin by {rfc3339(latest)}",
            key="constraint.renews_from",
        )
    return Schedule(renews_from, renews, zone=local)


@dataclass(frozen=True)
class Beginning:
    """When terms begin, apart from how long they are."""

    wall: int
    """What a local clock shows at the beginning of one of them, as an instant of UTC."""
    zone: str | None

    @classmethod
    def of(cls, terms: Schedule) -> Beginning:
        """The beginning of the first of these terms."""
        if terms.zone is None:
            return cls(terms.start, None)
        return cls(instant(terms.zone.wall(terms.start)), terms.zone.name)

    def as_json(self) -> dict[str, Json]:
        """The beginning as a shared ledger keeps it."""
        return {"wall": rfc3339(self.wall), "zone": self.zone}

    @classmethod
    def from_json(cls, record: JsonObject) -> Beginning:
        """The beginning that `as_json` wrote."""
        zone = record["zone"]
        return cls(instant(as_text(record["wall"])), None if zone is None else as_text(zone))

    def same(self, other: Beginning, every: Span) -> bool:
        """Whether terms of this length that begin here and there begin together."""
        if self.zone != other.zone:
            return False
        if not every.months:
            return (self.wall - other.wall) % every.micros == 0
        one, two = moment(self.wall), moment(other.wall)
        months = 12 * (one.year - two.year) + one.month - two.month
        return months % every.months == 0 and (one.day, one.timetz()) == (two.day, two.timetz())

    def __str__(self) -> str:
        return f"{rfc3339(self.wall).removesuffix('Z')} {self.zone or 'UTC'}"


def longest(terms: Schedule, count: int = 1) -> int:
    """An upper bound on the length of `count` consecutive terms, in microseconds.  [T15]

    Proof:    docs/theory/T15-terms.md
    """
    every, spread = terms.every, terms.zone.spread if terms.zone is not None else 0
    if not every.months:
        return count * every.micros + spread
    # A local midnight is a day earlier in UTC where clocks are ahead, and months are those of the local date.
    start = terms.start if terms.zone is None else instant(terms.zone.wall(terms.start))
    plain = replace(terms, start=start, zone=None)
    ends: list[int] = []
    with suppress(ValueError):  # no term ends after the year 9999
        for n in range(-1, _CYCLE // gcd(_CYCLE, every.months) + count):
            ends.append(plain.bin_end(n))  # noqa: PERF401  (those before the error are kept)
    return max(end - begin for begin, end in zip(ends, ends[count:], strict=False)) + spread


def most_in_a_bin(terms: Schedule, schedule: Schedule) -> int:
    """An upper bound on the terms in which the instants of one measured bin of a release lie."""
    width, spread = terms.every, terms.zone.spread if terms.zone is not None else 0
    shortest = (width.months * _SHORTEST_MONTH or width.micros) - spread
    bins = replace(schedule, every=schedule.bin_width, window=None, count=None)
    load = 0 if schedule.base else terms.bin_at(schedule.bin_end(0) + 1) + 1
    return max(load, -(-longest(bins) // shortest) + 1)


def _midnight(at: int, zone: Zone | None) -> int:
    """The first local midnight at or after an instant."""
    wall = moment(at).replace(tzinfo=None) if zone is None else zone.wall(at)
    day = wall.replace(hour=0, minute=0, second=0, microsecond=0)
    day += timedelta(days=1) if day < wall else timedelta()
    return instant(day) if zone is None else zone.instant(day)

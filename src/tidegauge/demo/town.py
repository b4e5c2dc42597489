"""An invented town and its health service: who is in which kind of care, and a winter wave of infections."""

from __future__ import annotations

import csv
import gzip
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

KINDS: Final = ("practice", "chronic care", "therapy", "home care", "hospital")
BEGIN: Final = datetime(2025, 1, 1, tzinfo=UTC)
DAYS: Final = 365

_FIRST: Final = np.array([0.50, 0.15, 0.18, 0.08, 0.09])
"""With which kind of care an episode begins."""
_DAYS: Final = np.array([55.0, 200.0, 75.0, 150.0, 28.0])
"""The mean number of days in each kind of care."""
_MOVES: Final = np.array([0.22, 0.12, 0.10, 0.18, 0.55])
"""The chance that the episode goes on with another kind."""
_NEXT: Final = np.array(
    [
        [0.0, 0.35, 0.35, 0.10, 0.20],
        [0.25, 0.0, 0.20, 0.30, 0.25],
        [0.60, 0.20, 0.0, 0.10, 0.10],
        [0.15, 0.30, 0.15, 0.0, 0.40],
        [0.35, 0.25, 0.20, 0.20, 0.0],
    ]
)
_BEFORE: Final = 300
"""Days before the year in which episodes may have begun."""
_SICK_DAYS: Final = 12.0
_LAST_MOVES: Final = 3
"""The most moves between kinds of care in one episode."""


class Row(NamedTuple):
    """A person who is in care."""

    care: str
    infected: str
    """yes or no."""
    age: int


class Change(NamedTuple):
    """An insert (no row before), update or delete (no row after) of a person's row."""

    time: datetime
    person: int
    before: Row | None
    after: Row | None


def changelog(people: int, seed: int = 2025) -> list[Change]:
    """The changes of a year, in order of time."""
    rng = np.random.default_rng(seed)
    begins = rng.uniform(-_BEFORE, DAYS, people)
    ages = np.clip(rng.normal(54, 22, people), 0, 104).astype(int)
    again = rng.random(people) < 0.12
    sick = rng.random(people) < 0.7
    caught = np.where(rng.random(people) < 0.55, rng.normal(38, 17, people), rng.normal(350, 20, people))
    caught = np.where(rng.random(people) < 0.25, rng.uniform(-20, DAYS, people), caught)
    log: list[Change] = []
    for person in range(people):
        stays = list(_stays(rng, begins[person]))
        if again[person]:
            stays += _stays(rng, stays[-1][1] + 20 + rng.exponential(60))
        ill = (float(caught[person]), float(caught[person]) + _SICK_DAYS) if sick[person] else None
        log += _changes(person, int(ages[person]), stays, ill)
    return sorted(log, key=lambda change: change[:2])


class Stay(NamedTuple):
    """From which day until which day in which kind of care."""

    begin: float
    end: float
    kind: str


def _stays(rng: np.random.Generator, day: float) -> Iterator[Stay]:
    """One episode: from which day until which day in which kind of care."""
    kind = int(rng.choice(len(KINDS), p=_FIRST))
    for _ in range(_LAST_MOVES + 1):
        end = day + 0.2 + float(rng.exponential(_DAYS[kind]))
        yield Stay(day, end, KINDS[kind])
        if rng.random() > _MOVES[kind]:
            return
        day, kind = end, int(rng.choice(len(KINDS), p=_NEXT[kind]))


def _changes(person: int, age: int, stays: list[Stay], ill: tuple[float, float] | None) -> Iterator[Change]:
    """The changes of one person's row within the year; it begins with who is in care already."""
    days = {0.0} | {day for begin, end, _ in stays for day in (begin, end)} | set(ill or ())
    row: Row | None = None
    for day in sorted(day for day in days if 0 <= day < DAYS):
        care = next((kind for begin, end, kind in stays if begin <= day < end), None)
        sick = "yes" if ill is not None and ill[0] <= day < ill[1] else "no"
        new = None if care is None else Row(care, sick, age)
        if new != row:
            yield Change(_at(day), person, row, new)
        row = new


def _at(day: float) -> datetime:
    return BEGIN + timedelta(seconds=round(day * 86_400))


def write(path: Path, log: Iterable[Change]) -> None:
    """Write the changelog as a gzipped csv with the row before and after each change."""
    with gzip.open(path, "wt", encoding="utf-8", newline="", compresslevel=3) as file:
        writer = csv.writer(file)
        writer.writerow(
            ["time", "person", *(f"before_{c}" for c in Row._fields), *(f"after_{c}" for c in Row._fields)]
        )
        for at, person, before, after in log:
            empty = [""] * len(Row._fields)
            time = at.isoformat(timespec="seconds")
            writer.writerow([time, f"p{person:06d}", *(before or empty), *(after or empty)])

"""An invented hospital: admissions, transfers between wards, discharges, re-admissions."""

from __future__ import annotations

import csv
import gzip
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

WARDS: Final = ("emergency", "medicine", "surgery", "intensive care", "maternity")
BEGIN: Final = datetime(2025, 1, 1, tzinfo=UTC)
DAYS: Final = 365

_FIRST = np.array([0.45, 0.2, 0.2, 0.03, 0.12])
_NEXT = np.array(
    [
        [0, 0.6, 0.3, 0.1, 0],
        [0, 0, 0.4, 0.6, 0],
        [0, 0.6, 0, 0.4, 0],
        [0, 0.7, 0.3, 0, 0],
        [0, 0.3, 0.5, 0.2, 0],
    ]
)
_STAY_DAYS = np.array([0.4, 4.5, 4.0, 3.5, 2.5])
_MOVES_ON = np.array([0.55, 0.18, 0.2, 0.85, 0.06])


class Row(NamedTuple):
    """A patient in the hospital."""

    ward: str
    infected: str
    """yes or no."""
    age: int


class Change(NamedTuple):
    """An insert (no row before), update or delete (no row after) of a patient's row."""

    time: datetime
    patient: int
    before: Row | None
    after: Row | None


def changelog(patients: int, seed: int = 2025) -> list[Change]:
    """The changes of a year with a winter wave of infections, in order of time."""
    rng = np.random.default_rng(seed)
    log: list[Change] = []
    day = np.arange(DAYS)
    busy = 1 + 0.25 * np.cos(2 * np.pi * (day - 15) / 365) - 0.15 * (day % 7 >= 5)
    arrivals = rng.choice(DAYS, size=patients, p=busy / busy.sum())
    for patient in range(patients):
        at = BEGIN + timedelta(days=float(arrivals[patient]), seconds=float(rng.integers(86_400)))
        age = int(np.clip(rng.normal(52, 24), 0, 104))
        row: Row | None = None
        visits = 1 + int(rng.random() < 0.14) + int(rng.random() < 0.03)
        for _ in range(visits):
            ward = int(rng.choice(5, p=_FIRST))
            while True:
                wave = 0.04 + 0.16 * max(0.0, float(np.cos(2 * np.pi * ((at - BEGIN).days - 20) / 365)))
                sick = bool(row and row.infected == "yes" and rng.random() < 0.7) or bool(rng.random() < wave)
                new = Row(WARDS[ward], "yes" if sick else "no", age)
                log.append(Change(at, patient, row, new))
                row = new
                at += timedelta(days=float(rng.exponential(_STAY_DAYS[ward])) + 0.05)
                if rng.random() > _MOVES_ON[ward]:
                    break
                ward = int(rng.choice(5, p=_NEXT[ward]))
            log.append(Change(at, patient, row, None))
            row = None
            at += timedelta(days=5 + float(rng.exponential(40)))
    end = BEGIN + timedelta(days=DAYS)
    return sorted((change for change in log if change[0] < end), key=lambda change: change[:2])


def write(path: Path, log: Iterable[Change]) -> None:
    """Write the changelog as a gzipped csv with the row before and after each change."""
    with gzip.open(path, "wt", encoding="utf-8", newline="", compresslevel=3) as file:
        writer = csv.writer(file)
        writer.writerow(
            ["time", "patient", *(f"before_{c}" for c in Row._fields), *(f"after_{c}" for c in Row._fields)]
        )
        for at, patient, before, after in log:
            empty = [""] * len(Row._fields)
            time = at.isoformat(timespec="seconds")
            writer.writerow([time, f"p{patient:05d}", *(before or empty), *(after or empty)])

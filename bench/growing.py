"""A table that grows at one fixed budget (Cummings, Krehbiel, Lai and Tantipongpipat 2018).

    python -m bench.growing [--quick]

A table grows by a hundredth a day for a year or more; a daily count of a part of its rows is published by
whole gauges with real noise, at epsilon = 1 for everything.  Relative errors fall as the table grows.  Beside
it, on the same rows:

- the scheduler of that paper: a fresh count whenever the table has grown by a factor 1 + gamma, number i with
  epsilon gamma^2 (i + 1) / (1 + gamma)^(i + 2), the sum of which is epsilon; in between, the published share
  times the size of the table, which that paper takes as public.  Gamma is the best of a grid, which hindsight
  finds.
- a count a day with the budget divided by the days.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from dataclasses import dataclass
from math import exp, log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import tidegauge as tg
from bench.result import Chart, Ratio, Result, Series, Table, options, say
from tidegauge.model.quantity import DAY, instant, rfc3339

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

START = "2024-01-01"
FIRST = 1_000
GROWTH = 0.01
GAMMAS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)


@dataclass(frozen=True)
class World:
    """Rows of the table, and those that are counted, at the end of each day."""

    sizes: NDArray[np.int64]
    counted: NDArray[np.int64]

    @classmethod
    def invent(cls, days: int, path: Path, random: Generator) -> World:
        """Write the changelog; the counted part of new rows moves from 30 % to 50 %."""
        sizes = np.array([round(FIRST * exp(GROWTH * day)) for day in range(days)], dtype=np.int64)
        new = np.diff(sizes, prepend=0)
        begin, counted = instant(START), []
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["time", "id", "status"])
            number = 0
            for day, count in enumerate(new):
                ill = random.random(count) < 0.3 + 0.2 * day / days
                counted.append(int(ill.sum()))
                time = rfc3339(begin + day * DAY)
                for one in ill:
                    rows.writerow([time, number, "ill" if one else "well"])
                    number += 1
        return cls(sizes, np.cumsum(counted))


def gauge(path: Path, days: int, store: Path, epsilon: int = 1) -> tg.Gauge:
    return tg.Gauge(
        source={"kind": "files", "path": str(path), "table": "t", "time": "time", "key": "id", "after": ""},
        constraint=tg.AtMost(1),
        budget={"epsilon": epsilon},
        releases={"ill": {"sql": "SELECT COUNT(*) FROM t WHERE status = 'ill'", "start": START,
                          "every": "1 day", "for": f"{days - 1} days"}},
        store=store,
    )  # fmt: skip


def published(path: Path, days: int, folder: Path, runs: int, epsilon: int = 1) -> Floats:
    """(runs, days): readings of whole gauges."""
    gauges = [gauge(path, days, folder / f"{number}.db", epsilon) for number in range(runs)]
    return np.array([[one.value or 0.0 for one in each.run()] for each in gauges])


def part(gamma: float, turn: int) -> float:
    """The part of epsilon that the scheduler gives to its count of this number, from 0 on."""
    return gamma**2 * (turn + 1) / (1 + gamma) ** (turn + 2)


def scheduled(world: World, gamma: float, runs: int, random: Generator) -> Floats:
    """(runs, days): what the scheduler publishes, at epsilon = 1."""
    out, share, turn = np.zeros((runs, len(world.sizes))), np.zeros(runs), -1
    for day, (size, count) in enumerate(zip(world.sizes, world.counted, strict=True)):
        now = int(log(size / FIRST + 1e-12) / log(1 + gamma) + 1e-9)
        if now > turn:
            turn = now
            share = (count + random.laplace(scale=1 / part(gamma, turn), size=runs)) / size
        out[:, day] = share * size
    return out


def relative(estimates: Floats, world: World, days: slice) -> float:
    """Root mean squared error over these days, as part of the truth."""
    error = (estimates - world.counted) / world.counted
    return sqrt(float(np.mean(np.square(error[:, days]))))


def result(days: int, runs: int) -> Result:
    """Relative errors month by month."""
    random = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world = World.invent(days, folder / "t.csv", random)
        own = published(folder / "t.csv", days, folder, runs)
    many = 400
    months = [slice(day, day + 30) for day in range(0, days - 29, 30)]
    schedules = {gamma: scheduled(world, gamma, many, random) for gamma in GAMMAS}
    gamma = min(schedules, key=lambda one: relative(schedules[one], world, slice(0, days)))
    daily = world.counted + random.laplace(scale=days, size=(many, days))
    errors = {
        "Tidegauge": own,
        f"scheduler, gamma = {gamma:g}": schedules[gamma],
        "a count a day, budget divided": daily,
    }
    lines = {
        name: [(float(world.sizes[month].mean()), relative(one, world, month)) for month in months]
        for name, one in errors.items()
    }
    first, last = ({name: points[at][1] for name, points in lines.items()} for at in (0, -1))
    mine, *others = errors
    ratios = [
        Ratio("relative error, last month", last[mine], "the first month", first[mine]),
        Ratio("size of the table, last month", lines[mine][-1][0], "the first month", lines[mine][0][0],
              "rows", better="higher"),
    ]  # fmt: skip
    ratios += [
        Ratio(f"relative error, {when} month", row[mine], other, row[other])
        for when, row in (("first", first), ("last", last))
        for other in others
    ]
    rows = [
        [f"{points[0]:,.0f}", *(f"{lines[name][at][1]:.2%}" for name in lines)]
        for at, points in enumerate(lines[mine])
        if at % 2 == 0 or at == len(months) - 1
    ]
    return Result(
        "Growing databases",
        f"A table that grows by {GROWTH:.0%} a day for {days} days, epsilon = 1 for everything that is "
        f"published (pure, at most one change of a row). {runs} whole gauges with real noise. The "
        "scheduler is that of Cummings, Krehbiel, Lai and Tantipongpipat (2018), for a size of the "
        "table that is public, with the gamma that hindsight finds best; its shares of epsilon were "
        "written from memory, and only their sum was checked. The relative error is the root mean "
        "squared error of a month over the true count.",
        ratios=ratios,
        tables=[Table("", ["rows of the table (mean of a month)", *lines], rows)],
        charts=[Chart("Relative error at one fixed budget", "rows of the table", "relative error",
                      [Series(name, points) for name, points in lines.items()], log_x=True, log_y=True)],
    )  # fmt: skip


def main() -> int:
    parser = options(__doc__, quick="120 days, two gauges")
    asked = parser.parse_args()
    return say(result(120, 2) if asked.quick else result(540, 20), as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())

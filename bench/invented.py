"""Invented changelogs on which the private choice of at_most is tried (bench.usefulness --invented).

Each is a walk of rows through states: who arrives when, how often a row changes, when within its life, and
from which state to which.  Many have what the real files here lack: few units with far more changes than all
others, changes late in life or in a burst at the end, persons with several busy rows, values of both signs.
Everything follows from a seed.  Half of them are held out: they have other sizes and seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from bench.series import Case

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.random import Generator
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

DAY: Final = 86_400
BEGIN: Final = np.datetime64("2014-01-01T00:00:00", "s")
When = Literal["even", "late", "early", "burst"]


@dataclass(frozen=True)
class Walk:
    """How rows change.  State 0 is a row that does not exist."""

    states: tuple[str, ...]
    """The names of states 1, 2, ..."""
    moves: tuple[tuple[float, ...], ...]
    """From each state, beginning with 0, the chance of each state as the next one."""
    typical: float
    """The median number of changes of a row, and ..."""
    spread: float
    """... how much it varies: the standard deviation of its logarithm."""
    busy: float = 0.0
    """The share of rows with `tail` times as many changes."""
    tail: float = 10.0
    steady: float = 0.0
    """The share of the other rows that change exactly 20 times."""
    when: When = "even"
    """When within its life a row changes; burst: the busy rows in the last 8 days of all."""
    stay: float = 1.0
    """The median length of a life, as a share of the whole time; 1: to the end."""
    arrive: float = 0.9
    """Rows arrive in this first share of the time."""
    most: int = 400
    values: tuple[int, int] = (0, 1)
    """The smallest and largest value of the column x."""


@dataclass(frozen=True)
class Invented:
    """One invented changelog, and the release that is read from it."""

    case: Case
    walk: Walk
    rows: int
    days: int
    seed: int
    owned: float = 0.0
    """The mean number of rows that a person owns; 0: rows are units."""

    @property
    def name(self) -> str:
        return self.case.name


def written(one: Invented, folder: Path) -> None:
    """Write the changelog."""
    rng = np.random.default_rng(one.seed)
    row, time, state, value = _changes(one.walk, one.rows, one.days, rng)
    owner = np.arange(one.rows)
    if one.owned:
        share = rng.gamma(0.7, size=max(1, round(one.rows / one.owned)))
        owner = rng.choice(len(share), size=one.rows, p=share / share.sum())
    order = np.lexsort((row, time))
    row, time, state, value = (each[order] for each in (row, time, state, value))
    gone = state == 0
    names = np.array(["", *one.walk.states])[state]
    table = pa.table({
        "ts": pa.array(np.datetime_as_string(BEGIN + time.astype("timedelta64[s]"))),
        "entry": pa.array(np.char.add("r", row.astype(str))),
        "after_person": pa.array(np.char.add("p", owner[row].astype(str)), mask=gone),
        "after_s": pa.array(names, mask=gone),
        "after_x": pa.array(value, mask=gone),
    })  # fmt: skip
    pc.write_csv(table, folder / f"{one.case.file}.csv")


def _changes(walk: Walk, rows: int, days: int, rng: Generator) -> tuple[Ints, Ints, Ints, Ints]:
    """Of every change: its row, time in seconds, new state and value; by row and time."""
    whole = days * DAY
    count = np.exp(rng.normal(np.log(walk.typical), walk.spread, rows))
    busy = rng.random(rows) < walk.busy
    count = np.where(busy, count * walk.tail, count)
    if walk.steady:
        count[~busy & (rng.random(rows) < walk.steady)] = 20
    count = np.clip(np.round(count), 1, walk.most).astype(np.int64)
    begin = rng.random(rows) * walk.arrive * whole
    long = whole - begin
    if walk.stay < 1:
        long = np.minimum(long, np.exp(rng.normal(np.log(walk.stay * whole), 0.8, rows)))
    row = np.repeat(np.arange(rows), count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    part = rng.random(len(row))
    part = {"even": part, "late": part**0.2, "early": part**4, "burst": part}[walk.when]
    part[place == 0] = 0
    time = begin[row] + part * long[row]
    if walk.when == "burst":
        late = busy[row] & (place > 0)
        time[late] = whole - 8 * DAY * (1 - part[late])
        time[late] = np.maximum(time[late], begin[row][late])
    order = np.lexsort((time, row))
    seconds = np.minimum(time[order].astype(np.int64), whole - 1)
    state = _walked(np.cumsum(walk.moves, axis=1), count, rng)
    low, high = walk.values
    value = rng.integers(low, high + 1, len(row))
    return row, seconds, state, value


def _walked(chances: Floats, count: Ints, rng: Generator) -> Ints:
    """The states of every row, one after the other."""
    first = np.cumsum(count) - count
    state, now = np.zeros(int(count.sum()), np.int64), np.zeros(len(count), np.int64)
    for n in range(int(count.max())):
        there = np.flatnonzero(count > n)
        drawn = rng.random(len(there))[:, None]
        now[there] = (drawn > chances[now[there]]).sum(axis=1)
        state[first[there] + n] = now[there]
    return state


CUSTODY = Walk(
    ("low", "medium", "high"),
    ((0, 0.6, 0.3, 0.1), (0.6, 0, 0.3, 0.1), (0.5, 0.3, 0, 0.2), (0.5, 0.1, 0.4, 0)),
    typical=3, spread=1.1, most=300,
)  # fmt: skip
BILLING = Walk(
    ("new", "changed", "final", "released", "billed"),
    ((0, 1, 0, 0, 0, 0), (0, 0, 0.6, 0.4, 0, 0), (0, 0, 0, 0.9, 0.1, 0), (0, 0, 0.1, 0, 0.9, 0),
     (0, 0, 0, 0, 0, 1), (0, 0, 0.5, 0.2, 0.3, 0)),
    typical=6, spread=0.25, busy=0.02, tail=15, when="late", stay=0.1,
)  # fmt: skip
TICKETS = Walk(
    ("open", "pending", "closed"),
    ((0, 1, 0, 0), (0, 0, 0.5, 0.5), (0, 0.6, 0, 0.4), (0, 0.8, 0.2, 0)),
    typical=4, spread=0.6, busy=0.12, tail=6, when="even", stay=0.2,
)  # fmt: skip
PLANS = Walk(
    ("free", "basic", "pro"),
    ((0, 0.6, 0.3, 0.1), (0.3, 0, 0.5, 0.2), (0.3, 0.3, 0, 0.4), (0.3, 0.2, 0.5, 0)),
    typical=4, spread=0.7, values=(0, 50),
)  # fmt: skip
SWITCH = Walk(("on",), ((0, 1), (1, 0)), typical=20, spread=1.2)
CALM = Walk(
    ("a", "b"), ((0, 0.7, 0.3), (0.1, 0, 0.9), (0.5, 0.5, 0)), typical=2, spread=0.4, busy=0.01, tail=20
)
LENT = Walk(("out",), ((0, 1), (1, 0)), typical=4, spread=0.9)

_GROUPED: Final = "SELECT s, COUNT(*) FROM t GROUP BY s"
_EVERY: Final = {"day": "1 day", "week": "7 days", "month": "1 month"}


def _made(
    name: str,
    walk: Walk,
    rows: int,
    years: float,
    period: str,
    *,
    sql: str = _GROUPED,
    most_rows: int | None = None,
    owned: float = 0.0,
    held_out: bool = False,
    seed: int = 0,
    **release: Any,
) -> Invented:
    days = round(365 * years)
    what = f"{rows:,} rows, {days:,} days"
    length = f"{days // 31} months" if period == "month" else f"{days} days"
    declared = {"sql": sql, "every": _EVERY[period], "start": "2014-01-02", "for": length, **release}
    if "GROUP BY s" in sql:
        declared["groups"] = {"s": list(walk.states)}
    source = {} if most_rows is None else {"unit": "person", "max_rows": most_rows}
    file = name.replace(" ", "-").replace(",", "")
    case = Case(name, file, what, declared, source, held_out, invented=True)
    return Invented(case, walk, rows, days, 1000 + seed, owned)


_SUM: Final = "SELECT SUM(x) FROM t"
_PRICES: Final = {"sql": _SUM, "bounds": {"x": [0, 50]}}
_SIGNED: Final = {"sql": _SUM, "bounds": {"x": [-10, 10]}}
_CRUSH: Final = replace(
    TICKETS, typical=4, spread=0.3, busy=1 / 7, tail=9, when="burst", steady=1 / 8, stay=1.0
)
_SIGNED_CRUSH: Final = replace(_CRUSH, values=(-10, 10))
_LATE: Final = replace(TICKETS, busy=0.15, when="late", stay=1.0)


def family() -> list[Invented]:
    """All of them; every second one is held out."""
    made: list[Invented] = []

    def both(name: str, walk: Walk, sizes: Sequence[int], years: float, period: str, **also: Any) -> None:
        """Two sizes: the second is held out."""
        for size in sizes:
            n = len(made)
            full = f"{name}, {size:,}"
            made.append(_made(full, walk, size, years, period, held_out=n % 2 == 1, seed=n, **also))

    one = {"sql": "SELECT COUNT(*) FROM t"}
    both("tickets that crush, signed sum", _SIGNED_CRUSH, (6_000, 3_000), 1, "day", **_SIGNED)
    both("late tickets, signed sum", replace(_LATE, values=(-10, 10)), (3_000, 6_000), 1, "day", **_SIGNED)
    both(
        "persons in custody", replace(CUSTODY, spread=0.8), (10_000, 4_000), 3, "week", most_rows=2, owned=1.5
    )
    both("persons by plan, four rows", PLANS, (6_000, 3_000), 3, "week", most_rows=4, owned=2)
    both("persons and lent items", LENT, (10_000, 5_000), 3, "week", most_rows=5, owned=5, **one)
    both("tickets that crush", _CRUSH, (6_000, 3_000), 1, "week")
    both("switches", SWITCH, (1_000, 4_000), 1, "day", **one)
    both("busy switches", replace(SWITCH, typical=60, spread=1.0), (1_000, 3_000), 1, "day", **one)
    both("billing", BILLING, (10_000, 30_000), 3, "week")
    both("tickets daily", TICKETS, (5_000, 2_000), 1, "day")
    both("persons with calm rows", CALM, (15_000, 6_000), 3, "week", most_rows=3, owned=2)
    both("plans, sum of prices", PLANS, (10_000, 20_000), 5, "month", **_PRICES)
    both("custody", CUSTODY, (10_000, 20_000), 10, "week")
    both("custody, one number, monthly", replace(CUSTODY, spread=1.4), (5_000, 100_000), 10, "month", **one)
    return made

"""Random tables of the adjacency tests, and their logs with and without one unit.

What an event is, to which unit a row belongs, and what the log without a unit is, are stated once, in
tidegauge.audit.worlds.world.  That module shares no code with the engine, which is the independence that
these tests need: the engine's own notion of identity is what they test.  How a random table behaves is stated
here and there: two inventors think of more than one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.audit.worlds import world
from tidegauge.audit.worlds.world import Event, alone, visit, without

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

__all__ = ["COLUMNS", "Event", "Row", "Table", "Times", "alone", "random_table", "without"]

Row = dict[str, Any]
COLUMNS = {"id": "VARCHAR", "owner": "VARCHAR", "s": "VARCHAR", "x": "BIGINT", "k": "VARCHAR"}


class Table(world.Table):
    """A table whose column `id` is the key; `owned`: the column `owner` names the unit."""

    def __init__(self, owned: bool) -> None:
        super().__init__("owner" if owned else None)

    def put(self, at: tuple[int, int], key: str, row: Row, *, kept: tuple[str, ...] = ()) -> None:
        super().put(at, key, row | {"id": key}, kept=kept)

    def rename(self, at: tuple[int, int], previous: str, key: str, row: Row) -> None:
        super().rename(at, previous, key, row | {"id": key})


@dataclass(frozen=True)
class Times:
    """When things happen, in ticks: the public clock is read at `passes`, and bins are `width` long."""

    passes: tuple[int, ...]
    width: int
    tick: int
    """Microseconds."""
    origin: int = 0

    def micros(self, tick: int) -> int:
        return self.origin + tick * self.tick


def random_table(
    rng: random.Random, times: Times, *, owned: bool, values: Sequence[int | None], plain: bool = False
) -> Table:
    """Some thirty changes of a few rows, as badly as any application and any clock could behave.

    `plain`: new rows and deletions alone, and never back in time between two passes: files are read in the
    order of their times, and whose a row was before is a matter of this order.
    """
    table = Table(owned)
    keys = [f"k{n}" for n in range(rng.choice((2, 3, 5)))]
    owners = ["u", "v", "w", None][: rng.choice((2, 3, 4))] if owned else ["u"]
    arrivals = sorted(rng.randint(0, times.passes[-1]) for _ in range(rng.randint(6, 32)))
    stamp, busy = 0, rng.random() < 0.4
    latest: dict[int, int] = {}
    hectic = rng.choice(keys) if busy else None
    for arrival in arrivals:
        stamp = _stamp(rng, times, arrival, stamp)
        at = times.micros(arrival), _nudged(rng, times, stamp)
        if plain:
            read = sum(one < arrival for one in times.passes)
            latest[read] = max(latest.get(read, at[1]), at[1])
            at = at[0], latest[read]
        _happen(rng, table, at, keys=keys, owners=owners, values=values, hectic=hectic, plain=plain)
    return table


def _nudged(rng: random.Random, times: Times, tick: int) -> int:
    """A bin's last microsecond and the next bin's first are where mistakes are made."""
    return times.micros(tick) + (rng.choice((0, 0, 1)) if times.tick > 1 else 0)


def _stamp(rng: random.Random, times: Times, arrival: int, last: int) -> int:
    match rng.randrange(10):
        case 0:
            return last  # a tie
        case 1:
            return rng.randint(-5, arrival)  # late
        case 2:
            return arrival + rng.randint(1, 2 * times.width)  # a clock that is fast
        case 3:
            return arrival // times.width * times.width + rng.choice((0, 1))
        case _:
            return max(0, arrival - rng.randint(0, 2))


def _row(rng: random.Random, owners: Sequence[str | None], values: Sequence[int | None]) -> Row:
    return {
        "owner": rng.choice(owners),
        "s": rng.choice(("a", "b", "a", "b", "c", None)),
        "x": rng.choice(values),
        "k": rng.choice(("p", "q", "p", "q", "?")),
    }


def _happen(
    rng: random.Random,
    table: Table,
    at: tuple[int, int],
    *,
    keys: Sequence[str],
    owners: Sequence[str | None],
    values: Sequence[int | None],
    hectic: str | None,
    plain: bool,
) -> None:
    key = hectic if hectic and rng.random() < 0.5 else rng.choice(keys)
    living, row = sorted(table.rows), _row(rng, owners, values)
    match rng.randrange(12):
        case 0 | 1 if key in table.rows:
            table.delete(at, key)
        case 2 | 3 if living and not plain:
            previous = rng.choice(living)
            if previous != key:
                same = table.rows[previous][1] if rng.random() < 0.6 else row
                table.rename(at, previous, key, same)
        case 4 if living and not plain:
            visit(rng, table, at, keys, row)
        case 5 if rng.random() < 0.5 and not plain:
            table.truncate(at)
        case 6 | 7 if key in table.rows and not plain:
            kept = tuple(name for name in ("owner", "s", "k") if rng.random() < 0.4)
            table.put(at, key, row, kept=kept)
        case 8 if rng.random() < 0.2:
            table.delete(at, key)
        case _:
            if key in table.rows and rng.random() < 0.7:
                row["owner"] = table.rows[key][1]["owner"]
            table.put(at, key, row)

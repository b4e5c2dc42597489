"""What counts, in which bin, of small logs that were worked out by hand.

An error that concerns every unit alike changes no difference between worlds; here it does not go unnoticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.adjacency.declared import Declared
from tests.adjacency.play import Play
from tests.adjacency.world import Row, Table, Times

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNT, SUM = {"sql": "SELECT COUNT(*) FROM t"}, {"sql": "SELECT SUM(x) FROM t", "bounds": {"x": [-2, 3]}}
ROW: Row = {"owner": "u", "s": "a", "x": 1, "k": "p"}
FOUR, BINS = {"at_most": 4}, 5

Case = tuple["Callable[[Table], None]", dict[str, Any], dict[str, Any], list[int]]


def late(table: Table) -> None:
    table.put((25, 2), "k", ROW)  # arrives once (0, 10] and (10, 20] are measured


def early(table: Table) -> None:
    table.put((5, 38), "k", ROW)  # a stamp in the future takes effect when it arrives, at the pass at 9
    table.put((32, 32), "l", ROW)


def out_of_order(table: Table) -> None:
    table.put((8, 8), "k", ROW | {"x": 1})
    table.put((36, 35), "k", ROW | {"x": 2})
    table.put((37, 31), "k", ROW | {"x": 3})  # after 2, whatever its stamp says


def earlier_stamp_in_an_earlier_bin(table: Table) -> None:
    table.put((27, 26), "k", ROW | {"x": 1})
    table.put((28, 12), "k", ROW | {"x": 2})
    table.put((45, 45), "k", ROW | {"x": 3})


def nothing_there(table: Table) -> None:
    table.put((3, 3), "k", ROW | {"x": None})
    table.put((4, 4), "l", ROW | {"x": 99})
    table.put((15, 15), "m", ROW | {"x": -99})


def renamed(table: Table) -> None:
    table.put((3, 3), "k", ROW)
    for n, at in enumerate((13, 23, 33)):
        table.rename((at, at), "k" if n == 0 else f"k{n - 1}", f"k{n}", ROW | {"x": 2 + n})


def taken_over(table: Table) -> None:
    table.put((3, 3), "k", ROW)
    table.rename((13, 13), "k", "l", ROW | {"x": 2})
    table.put((23, 23), "k", ROW)  # a row under a freed key begins with fresh counters
    table.put((33, 33), "k", ROW | {"x": 2})


def left(table: Table) -> None:
    table.put((3, 3), "k", ROW)
    table.put((13, 13), "k", ROW | {"x": 3})


def emptied(table: Table) -> None:
    table.put((3, 3), "k", ROW)
    table.put((4, 4), "l", ROW)
    table.truncate((13, 13))
    table.put((23, 23), "k", ROW)


def left_out(table: Table) -> None:
    table.put((3, 3), "k", ROW | {"s": "a"})
    table.put((13, 13), "k", ROW | {"x": 2}, kept=("s",))
    table.put((23, 23), "k", ROW | {"s": "b"})


def relabelled(table: Table) -> None:
    table.put((3, 3), "k", ROW | {"x": 1, "k": "p"})
    table.put((13, 13), "k", ROW | {"x": 2, "k": "q"})
    table.put((23, 23), "k", ROW | {"x": 3, "k": "q"})
    table.put((33, 33), "l", ROW | {"x": 1, "k": "q"})
    table.put((43, 43), "l", ROW | {"x": 3, "k": "p"})


LABELS = {"by": "k", "cases": {"p": {"at_most": 3}, "q": {"at_most": 1}}}
CASES: dict[str, Case] = {
    "a late change counts in the first open bin": (late, COUNT, FOUR, [0, 0, 1, 0, 0]),
    "a stamp in the future": (early, COUNT, FOUR, [1, 0, 0, 1, 0]),
    "the order of the log, within one bin": (out_of_order, SUM, FOUR, [1, 0, 0, 2, 0]),
    "the order of the log, over bins": (earlier_stamp_in_an_earlier_bin, SUM, {"at_most": 2},
                                        [0, 0, 2, 0, 1]),
    "values that are missing, too large and too small": (nothing_there, SUM, FOUR, [3, -2, 0, 0, 0]),
    "a row keeps its counters when its key changes": (renamed, SUM, {"at_most": 2}, [1, 1, 0, 0, 0]),
    "a freed key": (taken_over, SUM, {"at_most": 2}, [1, 1, 1, 1, 0]),
    "who retires is gone": (left, SUM, {"at_most": 2, "on_excess": "retire"}, [1, -1, 0, 0, 0]),
    "who freezes stays": (left, SUM, {"at_most": 1}, [1, 0, 0, 0, 0]),
    "who retires in time": (left, COUNT, {"within": "20 microseconds", "on_excess": "retire"},
                            [1, 0, -1, 0, 0]),
    "an emptied table": (emptied, COUNT, FOUR, [2, -2, 1, 0, 0]),
    "a value that was left out": (left_out, {"sql": "SELECT SUM(x) FROM t WHERE s = 'a'",
                                             "bounds": {"x": [0, 3]}}, FOUR, [1, 1, -2, 0, 0]),
    "a label that lasts": (relabelled, SUM, LABELS, [1, 1, 1, 1, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_counts(tmp_path: Path, name: str) -> None:
    happen, release, constraint, expected = CASES[name]
    table = Table(owned=False)
    happen(table)
    every = {
        "start": "1970-01-01T00:00:00.000010Z",
        "every": "10 microseconds",
        "for": f"{10 * (BINS - 1)} microseconds",
    }
    gauge = {
        "budget": {"rho": "1/2"},
        "constraint": constraint,
        "releases": {"r": {**every, **release, "strategy": {"name": "disjoint", "base": 0}}},
    }
    declared = Declared(gauge, Times((9, 24, 34, 100), 10, 1), owned=False, values=())
    one_play = Play(declared, tuple(table.log), (), "memory")
    for seed in range(2):
        found = one_play.run(tmp_path / str(seed), table.log, seed)
        steps = [drawn.exact for _, drawn in sorted(found.measured.items())]
        one = next(abs(step) // abs(right) for step, right in zip(steps, expected, strict=True) if right)
        assert [step / one for step in steps] == expected

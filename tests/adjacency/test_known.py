"""Logs in which one unit once had an influence on others: through keys,
time stamps, and where batches were cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.adjacency.declared import Declared
from tests.adjacency.play import Play, check
from tests.adjacency.world import Row, Table, Times

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.adjacency.play import Kind

COUNT = {"sql": "SELECT COUNT(*) FROM t"}
ROW: Row = {"owner": "u", "s": "a", "x": 1, "k": "p"}


def gauge(
    table: Table,
    passes: tuple[int, ...],
    kind: Kind,
    *,
    who: str,
    constraint: dict[str, Any],
    release: dict[str, Any],
    **more: Any,
) -> Play:
    every = {"start": "1970-01-01T00:00:00.000010Z", "every": "10 microseconds", "for": "80 microseconds"}
    releases = {"r": {**every, "strategy": {"name": "disjoint", "base": 0}, **release}}
    declared: dict[str, Any] = {
        "budget": {"rho": "1/2"},
        "constraint": constraint,
        "releases": releases,
        **more,
    }
    return Play(
        Declared(declared, Times(passes, 10, 1), table.owner is not None, ()), tuple(table.log), (who,), kind
    )


def through_dead_keys(kind: Kind) -> Play:
    """A row takes the key of one dead row after the other, and leaves it: the dead keep their counters."""
    table = Table(owned=False)
    for n in range(5):
        table.put((1, 1), f"k{n}", ROW)
    for n in range(5):
        table.delete((5, 5), f"k{n}")
    table.put((12, 12), "home", ROW)
    key = "home"
    for n in range(5):
        table.rename((15, 15), key, f"k{n}", ROW)
        key = f"k{n}"
    table.rename((16, 16), key, "far", ROW)
    for n in range(5):
        table.put((25, 25), f"k{n}", ROW)
    return gauge(table, (18, 100), kind, who="home/0", constraint={"at_most": 2}, release=COUNT)


def through_a_living_key(kind: Kind) -> Play:
    """A row that another one's key displaces is deleted, comes back, and goes on counting."""
    table = Table(owned=False)
    table.put((1, 1), "k0", ROW)
    table.put((2, 2), "home", ROW)
    table.rename((12, 12), "home", "k0", ROW)
    table.rename((13, 13), "k0", "far", ROW)
    for at in (22, 32, 42, 52):
        table.put((at, at), "k0", ROW)
        table.delete((at + 5, at + 5), "k0")
    return gauge(table, (28, 100), kind, who="home/0", constraint={"at_most": 3}, release=COUNT)


def fast_clock(kind: Kind) -> Play:
    """One unit's stamps lie ahead of the others': the others' changes stay in their own bins."""
    table = Table(owned=False)
    table.put((3, 19), "fast", ROW)
    for n in range(6):
        table.put((4, 4 + n), f"k{n}", ROW)
    table.put((14, 11), "slow", ROW)
    for n in range(6):
        table.delete((15, 12 + n), f"k{n}")
    return gauge(table, (8, 17, 100), kind, who="fast/0", constraint={"at_most": 2}, release=COUNT)


def beyond_the_clock(kind: Kind) -> Play:
    """A stamp beyond the time until which the log is read holds back no one."""
    table = Table(owned=False)
    table.put((2, 70), "ahead", ROW)
    for n in range(6):
        table.put((3, 3), f"k{n}", ROW)
    for n in range(6):
        table.delete((13, 13), f"k{n}")
    table.put((14, 70), "ahead", ROW | {"s": "b"})
    for n in range(6):
        table.put((25, 25), f"k{n}", ROW)
    return gauge(table, (12, 22, 100), kind, who="ahead/0", constraint={"at_most": 3}, release=COUNT)


def late_changes(kind: Kind) -> Play:
    """Late changes between two measured bins are one change of their unit, wherever batches were cut."""
    table = Table(owned=False)
    for n in range(6):
        for turn in range(3):
            table.put((31, turn), f"k{n}", ROW | {"s": "ab"[turn % 2]})
    for at, s in ((45, "b"), (55, "a")):
        for n in range(6):
            table.put((at, at), f"k{n}", ROW | {"s": s})
    groups = {"sql": "SELECT s, COUNT(*) FROM t GROUP BY s", "groups": {"s": ["a", "b"]}}
    return gauge(table, (30, 40, 100), kind, who="k0/0", constraint={"at_most": 3}, release=groups)


def emptied(kind: Kind) -> Play:
    """An emptied table is a deletion of each row, in the row's own unit and time."""
    table = Table(owned=True)
    for at, owner in ((3, "u"), (4, "v"), (5, "w")):
        for n in range(2):
            table.put((at, at), f"{owner}{n}", ROW | {"owner": owner})
    table.put((6, 28), "u0", ROW | {"owner": "u", "s": "b"})
    table.truncate((15, 15))
    for owner in "uvw":
        table.put((25, 25), f"{owner}0", ROW | {"owner": owner})
    return gauge(
        table, (8, 22, 100), kind, who="u", constraint={"at_most": 2}, release=COUNT, unit="owner", max_rows=2
    )


def from_hand_to_hand(kind: Kind) -> Play:
    """A row that is handed on ends where it was and begins where it is, each at the time of its own unit."""
    table = Table(owned=True)
    table.put((2, 28), "late", ROW | {"owner": "u"})
    for n in range(3):
        table.put((3, 3), f"k{n}", ROW | {"owner": "u"})
    for n in range(3):
        table.put((12 + n, 12), f"k{n}", ROW | {"owner": "v"})
    for n in range(3):
        table.put((22 + n, 22), f"k{n}", ROW | {"owner": "w"}, kept=("s", "k"))
    for n in range(3):
        table.rename((33, 33), f"k{n}", f"l{n}", ROW | {"owner": "u"})
    return gauge(
        table, (9, 19, 100), kind, who="u", constraint={"at_most": 3}, release=COUNT, unit="owner", max_rows=2
    )


@pytest.mark.parametrize("kind", ["memory", pytest.param("debezium", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "world",
    [
        through_dead_keys,
        through_a_living_key,
        fast_clock,
        beyond_the_clock,
        late_changes,
        emptied,
        from_hand_to_hand,
    ],
)
def test_one_unit_is_nothing_to_another(tmp_path: Path, world: Callable[[Kind], Play], kind: Kind) -> None:
    play = world(kind)
    assert check(play, tmp_path, 7) == 1

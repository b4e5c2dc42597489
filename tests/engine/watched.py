"""Which updates a flow sees, case by case: data that any engine and the oracle can be run through.

A case is what one row becomes, step after step, and how many changes two flows see of it: one that sees
updates of its own columns alone (k, which names the case, and x), and one of the older rule, which sees every
update.  A step is a list of versions at one instant; only their net effect counts.  None: the row is deleted.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from tests.engine.harness import oracle_true
from tidegauge.audit.worlds.oracle import Oracle
from tidegauge.model.expression import Column, Constant, call
from tidegauge.model.program import Allowance, Program, Release, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.query import Component, Query
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.engine.harness import Passes, Spot
    from tidegauge.audit.worlds.identity import Mutation, Row

Version = tuple[str | None, int | None] | None
"""The columns s, which only the older flow sees, and x; None: no row."""
CASES: Final[dict[str, tuple[list[list[Version]], int, int]]] = {
    "insertion": ([[("a", 1)]], 1, 1),
    "insertion of nothing but the key": ([[(None, None)]], 1, 1),
    "deletion": ([[("a", 1)], [None]], 2, 2),
    "deletion of a row without values": ([[(None, None)], [None]], 2, 2),
    "own column": ([[("a", 1)], [("a", 2)]], 2, 2),
    "other column": ([[("a", 1)], [("b", 1)]], 1, 2),
    "both columns": ([[("a", 1)], [("b", 2)]], 2, 2),
    "nothing": ([[("a", 1)], [("a", 1)]], 1, 1),
    "own column from null": ([[("a", None)], [("a", 1)]], 2, 2),
    "own column to null": ([[("a", 1)], [("a", None)]], 2, 2),
    "other column beside a null": ([[("a", None)], [("b", None)]], 1, 2),
    "other column to null": ([[("a", 1)], [(None, 1)]], 1, 2),
    "other column, then own": ([[("a", 1)], [("b", 1)], [("b", 2)]], 2, 3),
    "own column, there and back": ([[("a", 1)], [("a", 2)], [("a", 1)]], 3, 3),
    "own column, there and back at once": ([[("a", 1)], [("a", 2), ("a", 1)]], 1, 1),
    "own column there and back at once, other stays": ([[("a", 1)], [("a", 2), ("b", 1)]], 1, 2),
    "deleted and inserted at once": ([[("a", 1)], [None, ("a", 1)]], 1, 1),
    "deleted and inserted at once with another s": ([[("a", 1)], [None, ("b", 1)]], 1, 2),
    "deleted and inserted later": ([[("a", 1)], [None], [("a", 1)]], 3, 3),
    "deleted and inserted later with another s": ([[("a", 1)], [None], [("b", 1)]], 3, 3),
    "deleted twice": ([[("a", 1)], [None], [None]], 2, 2),
    "inserted and deleted at once": ([[("a", 1), None]], 0, 0),
    "only the instants of others": ([[], [("a", 1)], [("b", 1)]], 1, 2),
}
EVERY: Final = 10
_key = call("coalesce", Column("after", "k"), Column("before", "k"))
OWN: Final = Query(
    kind="flow",
    aggregate="count",
    table="t",
    text="",
    cell=call("place", _key, *CASES),
    outside=Constant(False),
    components=(Component("count", Constant(1), 0, 1, Fraction(1)),),
    groups=(),
    before=("k",),
    after=("k", "x"),
    own_columns=True,
)
OLDER: Final = replace(OWN, own_columns=False)


def program() -> Program:
    schedule = Schedule(0, Span(micros=EVERY))
    releases = Release("own", OWN, schedule), Release("older", OLDER, schedule)
    scopes = tuple(Scope((name,), ((None, Allowance()),)) for name in ("own", "older"))
    return Program(releases, scopes)


def log(*, together: bool) -> Passes:
    """The steps of all cases, each read when it has happened; `together`: all of them read at the end."""
    size = max(len(steps) for steps, _, _ in CASES.values())
    read: Passes = []
    for n in range(size):
        mutations: list[Mutation] = []
        for name, (steps, _, _) in CASES.items():
            for version in steps[n] if n < len(steps) else []:
                row = version and {"s": version[0], "x": version[1], "k": name}
                mutations.append((EVERY * n + 5, name, name, row or None, None, ()))
        read.append((mutations, EVERY * (n + 1), EVERY * (n + 1)))
    if together:
        return [([one for mutations, _, _ in read for one in mutations], EVERY * size, EVERY * size)]
    return read


def expected() -> dict[str, dict[str, int]]:
    return {
        "own": {name: own for name, (_, own, _) in CASES.items() if own},
        "older": {name: older for name, (_, _, older) in CASES.items() if older},
    }


def by_case(sums: Mapping[Spot, int]) -> dict[str, dict[str, int]]:
    """How many changes each flow counted in each case."""
    names, found = list(CASES), {"own": {}, "older": {}}  # type: tuple[list[str], dict[str, dict[str, int]]]
    for (release, _, _, cell), amount in sums.items():
        found[release][names[cell]] = found[release].get(names[cell], 0) + amount
    return {release: {name: n for name, n in counts.items() if n} for release, counts in found.items()}


def in_oracle(read: Passes) -> dict[str, dict[str, int]]:
    def sees(old: Row | None, new: Row | None) -> tuple[int, tuple[int, ...]]:
        row = new or old
        assert row is not None
        return list(CASES).index(row["k"]), (1,)

    oracle = Oracle(program(), {"own": sees, "older": sees})
    for mutations, now, until in read:
        oracle.arrive(mutations, now)
        oracle.close(until)
    counted = {spot: amount for spot, amount in oracle.totals.items() if amount}
    assert counted == oracle_true(oracle)
    return by_case(counted)

"""Changes that cost a unit exactly what the ledger reserves for it,
and what would cost more and must not count.

That the loss of these cases equals what is reserved shows that the fuzz measures in the right norm.  Each
case also goes on with changes that the constraint does not allow: where one of them counts, or the
sensitivity is too small by anything, the loss is too large.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from tests.adjacency.declared import Declared
from tests.adjacency.play import Play, compare
from tests.adjacency.world import Row, Table, Times, without
from tidegauge.audit.replay.transcript import loss

if TYPE_CHECKING:
    from pathlib import Path

BINS = 6
DISJOINT = {"name": "disjoint", "base": 0}


@dataclass(frozen=True)
class Case:
    """What one unit does, and the gauge that watches: (time, key, new row or None)."""

    changes: list[tuple[int, str, Row | None]]
    release: dict[str, Any]
    constraint: dict[str, Any] = field(default_factory=lambda: {"at_most": 3})
    gauge: dict[str, Any] = field(default_factory=dict)
    owned: bool = False
    tight: bool = True

    def play(self, *, pure: bool) -> Play:
        table = Table(self.owned)
        table.put((0, 0), "other", {"owner": "w", "s": "a", "x": 1, "k": "p"})
        for at, key, row in self.changes:
            plain: Row = {"owner": "u" if self.owned else None, "s": "a", "x": 1, "k": "p"}
            if row is None:
                table.delete((at, at), key)
            else:
                table.put((at, at), key, plain | row)
        every = {
            "start": "1970-01-01T00:00:00.000010Z",
            "every": "10 microseconds",
            "for": f"{10 * (BINS - 1)} microseconds",
        }
        gauge: dict[str, Any] = {
            "budget": {"epsilon": "1"} if pure else {"rho": "1/2"},
            "constraint": self.constraint,
            "releases": {"r": {**every, "strategy": DISJOINT, **self.release}},
            **({"unit": "owner", "max_rows": 1} if self.owned else {}),
            **self.gauge,
        }
        declared = Declared(gauge, Times((35, 200), 10, 1), self.owned, ())
        return Play(declared, tuple(table.log), tuple(table.units), "memory")


COUNT, SUM = {"sql": "SELECT COUNT(*) FROM t"}, {"sql": "SELECT SUM(x) FROM t"}
GROUPED = {"sql": "SELECT s, COUNT(*) FROM t GROUP BY s", "groups": {"s": ["a", "b"]}}
FLOW = {"sql": "SELECT COUNT(*) FROM changes(t) WHERE after.x >= 0"}
HERE: Row = {}
A, B = {"s": "a"}, {"s": "b"}


def comes_and_goes(*times: int) -> list[tuple[int, str, Row | None]]:
    return [(at, "k", None if n % 2 else HERE) for n, at in enumerate(times)]


def sliding(strategy: dict[str, Any], readings: int = 2, **release: Any) -> dict[str, Any]:
    return {
        **GROUPED, "window": "20 microseconds",
        "for": f"{10 * (readings - 1)} microseconds", "strategy": strategy, **release,
        "start": "1970-01-01T00:00:00.000030Z",
    }  # fmt: skip


CASES: dict[str, Case] = {
    "at most three changes, and a fourth and fifth": Case(comes_and_goes(5, 15, 25, 35, 45), COUNT),
    "one change only": Case(comes_and_goes(5, 15, 25), COUNT, {"at_most": 1}),
    "a change of group counts twice": Case([(5, "k", A), (15, "k", B), (25, "k", A), (35, "k", B)], GROUPED),
    "from nothing to a value far from zero": Case(
        [(5, "k", {"x": 5}), (15, "k", None), (25, "k", {"x": 9}), (35, "k", None)],
        SUM | {"bounds": {"x": [2, 5]}},
    ),
    "from one end to the other": Case(
        [(5, "k", {"x": 99}), (15, "k", {"x": -99}), (25, "k", {"x": 3}), (35, "k", {"x": -2})],
        SUM | {"bounds": {"x": [-2, 3]}},
    ),
    "all changes of a flow in one window": Case([(t, "k", {"x": t}) for t in (11, 12, 13, 14, 15)], FLOW),
    "a flow that is clipped": Case(
        [(t, "k", {"x": t}) for t in (11, 12, 21, 22, 23, 31, 41, 42)],
        FLOW | {"clip": 1},
        {"at_most": 8},
        tight=False,
    ),
    "a flow that is clipped, in all windows": Case(
        [(t, "k", {"x": t}) for t in (3, 4, 11, 12, 21, 22, 31, 32, 41, 42, 51, 52, 53)],
        FLOW | {"clip": 2, "for": "50 microseconds"},
        {"at_most": 40},
        tight=False,
    ),
    "a flow of several rows at a time": Case(
        [(t, key, {"x": t}) for t in (11, 12, 13, 14) for key in ("k", "l", "m")],
        FLOW,
        {"at_most": 3},
        {"max_rows": 2},
        owned=True,
    ),
    "several rows at a time": Case(
        [(t, key, None if t % 2 else HERE) for t in (10, 21, 32, 43) for key in ("k", "l", "m")],
        COUNT,
        gauge={"max_rows": 2},
        owned=True,
    ),
    "within a time, both ends included": Case(
        comes_and_goes(10, 20, 21, 31), COUNT, {"within": "10 microseconds"}
    ),
    "within a time, and one microsecond after it": Case(
        [(10, "k", HERE), (15, "k", None), (21, "k", HERE), (31, "k", None)],
        COUNT,
        {"within": "10 microseconds"},
    ),
    "at most and within": Case(
        comes_and_goes(10, 20, 21, 30, 31), COUNT, {"at_most": 3, "within": "20 microseconds"}
    ),
    "who retires leaves at the last change": Case(
        [(5, "k", A), (15, "k", B), (25, "k", A), (35, "k", B)],
        GROUPED,
        {"at_most": 3, "on_excess": "retire"},
        tight=False,
    ),
    "who retires leaves when the time is up": Case(
        [(10, "k", A), (12, "k", B), (35, "k", A)],
        GROUPED,
        {"within": "10 microseconds", "on_excess": "retire"},
        tight=False,
    ),
    "a constraint of its own": Case(
        comes_and_goes(5, 15, 25, 35), COUNT | {"constraint": {"at_most": 3}}, {"at_most": 1}
    ),
    "a stricter constraint of its own": Case(
        comes_and_goes(5, 15, 25, 35), COUNT | {"constraint": {"at_most": 2}}, {"at_most": 4}
    ),
    "a label that lasts": Case(
        [
            (5, "k", {"k": "q"}),
            (15, "k", None),
            (25, "k", {"k": "p"}),
            (35, "k", None),
            (45, "k", {"k": "p"}),
        ],
        COUNT,
        {"by": "k", "cases": {"p": {"at_most": 4}, "q": {"at_most": 1}}},
        tight=False,
    ),
    "labels of which one allows more": Case(
        [
            (5, "k", {"k": "p"}),
            (15, "k", None),
            (25, "k", {"k": "q"}),
            (35, "k", None),
            (45, "k", {"k": "p"}),
        ],
        COUNT,
        {"by": "k", "cases": {"p": {"at_most": 4}, "q": {"at_most": 1}}},
    ),
    "in a group before the first window": Case(
        [(5, "k", A), (15, "k", B), (25, "k", A), (35, "k", B), (38, "k", A)],
        sliding({"name": "disjoint", "base": 1}),
        {"at_most": 4},
    ),
    "in a group before the first window, briefly": Case(
        [(10, "k", A), (11, "k", B), (21, "k", A), (31, "k", B), (32, "k", A)],
        sliding({"name": "disjoint", "base": 1}),
        {"within": "21 microseconds"},
    ),
    "a sliding window sees a change several times": Case(
        [(25, "k", A), (35, "k", B), (38, "k", A)],
        sliding({"name": "sliding", "span": 2, "stride": 1, "readings": 2}),
        {"at_most": 1},
    ),
    "layers of unequal noise": Case(
        comes_and_goes(5, 15, 25, 45),
        COUNT
        | {
            "strategy": {
                "name": "hierarchy",
                "branching": 2,
                "height": 2,
                "bins": BINS,
                "load": "apart",
                "scales": "2 1/2 3",
            }
        },
        {"at_most": 1},
        tight=False,
    ),
    "layers of unequal noise, in the bins": Case(
        comes_and_goes(15, 25, 35, 45),
        COUNT
        | {
            "strategy": {
                "name": "hierarchy",
                "branching": 2,
                "height": 2,
                "bins": BINS,
                "load": "apart",
                "scales": "2 2 4",
            }
        },
        {"at_most": 1},
    ),
    "noise that remembers, and a shared draw": Case(
        comes_and_goes(5, 35, 45),
        COUNT
        | {
            "strategy": {
                "name": "autoregressive",
                "bins": BINS,
                "memory": 32768,
                "shared_noise": "3/2",
                "first": 0,
            }
        },
        {"at_most": 1},
        tight=False,
    ),
    "all windows of a long sliding release": Case(
        [(10, "k", A), *((11 + 10 * n, "k", {"s": "bca"[n % 3]}) for n in range(15))],
        sliding(
            {"name": "sliding", "span": 2, "stride": 1, "readings": 13}, 13, groups={"s": ["a", "b", "c"]}
        ),
        {"within": "150 microseconds"},
    ),
    "a mean, of which both parts are measured": Case(
        [(5, "k", {"x": 9}), (15, "k", None), (25, "k", {"x": 9}), (35, "k", None)],
        {"sql": "SELECT AVG(x) FROM t", "bounds": {"x": [1, 9]}},
        tight=False,
    ),
    "values that are not there": Case(
        [(5, "k", {"x": None}), (15, "k", {"x": 3}), (25, "k", {"x": None}), (35, "k", {"x": 3})],
        SUM | {"bounds": {"x": [-1, 3]}},
        {"at_most": 2},
        tight=False,
    ),
}


@pytest.mark.parametrize(
    "pure", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["gaussian", "laplace"]
)
@pytest.mark.parametrize("name", CASES)
def test_the_loss_of_the_worst_changes(tmp_path: Path, name: str, pure: bool) -> None:
    case = CASES[name]
    play = case.play(pure=pure)
    (unit,) = (unit for unit in play.units if unit not in ("w", "other/0"))
    whole = play.run(tmp_path / "whole", play.log, 1)
    other = play.run(tmp_path / "without", without(play.log, unit), 2)
    compare(whole, other)
    (found,) = loss(whole, other).values()
    assert found > 0
    if case.tight:
        assert found >= whole.total * (1 - Fraction(1, 10**6))
    assert found >= whole.total * Fraction(1, 50)

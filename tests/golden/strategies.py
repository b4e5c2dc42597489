"""Every strategy, pinned with all its parameters, over one small log; noise from a seed, then none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.golden.dump import Exact, Seeded, dumped, planned, readings
from tidegauge import Gauge
from tidegauge.testing import Clock, Script

if TYPE_CHECKING:
    from pathlib import Path

GAUSSIAN: Final = {"epsilon": 1, "delta": "1e-6"}
PURE: Final = {"epsilon": 1}
_START: Final = "1970-01-01T00:00:00.00000"
RUNNING: Final = {"start": f"{_START}2Z", "every": "2 microseconds", "for": "28 microseconds"}
WINDOW: Final = {
    "start": f"{_START}6Z",
    "every": "2 microseconds",
    "for": "24 microseconds",
    "window": "6 microseconds",
}
EVER: Final = RUNNING | {"for": "ever"}
FREEZE: Final = {"at_most": 4}
COLUMNS: Final = {"ward": "VARCHAR", "age": "BIGINT"}

STRATEGIES: Final[dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]] = {
    "disjoint": ({"name": "disjoint", "base": 0}, GAUSSIAN, RUNNING),
    "disjoint_pure": ({"name": "disjoint", "base": 0}, PURE, RUNNING),
    "hierarchy": (
        {
            "name": "hierarchy",
            "branching": 2,
            "height": 4,
            "bins": 15,
            "load": "apart",
            "scales": "1 1 1 1 3/4",
        },
        GAUSSIAN,
        RUNNING,
    ),
    "hierarchy_pure": (
        {"name": "hierarchy", "branching": 3, "height": 2, "bins": 15, "load": "leaf"},
        PURE,
        RUNNING,
    ),
    "root": (
        {"name": "toeplitz", "shape": "root", "bins": 15, "first": 0, "beta": 1, "width": 0, "white": 0},
        GAUSSIAN,
        RUNNING,
    ),
    "banded": (
        {"name": "toeplitz", "shape": "banded", "bins": 16, "first": 1, "beta": 1, "width": 3, "white": 0},
        GAUSSIAN,
        WINDOW,
    ),
    "window": (
        {"name": "toeplitz", "shape": "window", "bins": 16, "first": 1, "beta": 1, "width": 3, "white": 0},
        GAUSSIAN,
        WINDOW,
    ),
    "damped": (
        {"name": "damped", "bins": 15, "beta": 0.7, "white": 0.25, "offset": 0.0625, "first": 0},
        GAUSSIAN,
        RUNNING,
    ),
    "buffered": (
        {
            "name": "buffered",
            "bins": 15,
            "first": 0,
            "offset": 0.125,
            "buffers": "0.3:1 0.4:0.5 0.2:0.07 0.1:0",
        },
        GAUSSIAN,
        RUNNING,
    ),
    "buffered_window": (
        {
            "name": "buffered",
            "bins": 16,
            "first": 1,
            "offset": 0.25,
            "buffers": "0.2:1 0.5:0.7 0.2:0.4 0.1:0.02",
        },
        GAUSSIAN,
        WINDOW,
    ),
    "autoregressive": (
        {"name": "autoregressive", "bins": 15, "memory": 26214, "shared_noise": "0", "first": 0},
        PURE,
        RUNNING,
    ),
    "autoregressive_shared": (
        {"name": "autoregressive", "bins": 15, "memory": 62000, "shared_noise": "3/4", "first": 0},
        PURE,
        RUNNING,
    ),
    "ahead": (
        {"name": "ahead", "branching": 4, "height": 3, "bins": 15, "first": 0, "scales": "1 5/4 3/2"},
        PURE,
        RUNNING,
    ),
    "ahead_window": ({"name": "ahead", "branching": 3, "height": 2, "bins": 16, "first": 1}, PURE, WINDOW),
    "sliding": ({"name": "sliding", "span": 3, "stride": 1, "readings": 13}, GAUSSIAN, WINDOW),
    "sliding_pure": ({"name": "sliding", "span": 3, "stride": 1, "readings": 13}, PURE, WINDOW),
    "epochs": ({"name": "epochs", "start": 4, "branching": 0, "pure": 0}, GAUSSIAN, EVER),
    "epochs_pure": ({"name": "epochs", "start": 4, "branching": 2, "pure": 1}, PURE, EVER),
    "dense": ({"name": "dense"}, GAUSSIAN, RUNNING | {"for": "12 microseconds"}),
    "levels": ({"name": "levels"}, GAUSSIAN, RUNNING),
    "levels_pure": ({"name": "levels"}, PURE, EVER),
}
"""Name -> the pinned strategy, the budget, the schedule.
A dense strategy has no parameters to be pinned by."""

CONSTRAINTS: Final[dict[str, dict[str, Any]]] = {
    "at_most": FREEZE,
    "retire": {"at_most": 3, "on_excess": "retire"},
    "within": {"within": "9 microseconds"},
    "both": {"at_most": 3, "within": "12 microseconds"},
    "renews": {"at_most": 2, "renews": "10 microseconds"},
    "renews_retire": {
        "at_most": 2,
        "within": "6 microseconds",
        "on_excess": "retire",
        "renews": "8 microseconds",
    },
    "cases": {"by": "ward", "cases": {"a": {"at_most": 2}, "b": {"at_most": 4, "within": "20 microseconds"}}},
}


def log() -> list[tuple[Any, ...]]:
    """Thirteen patients who enter, change wards and leave, four changes an instant, some of them late."""
    changes, wards = [], ["a", "b", None]
    for number in range(120):
        time, key = number // 4 + 1 - 3 * (number % 17 == 9), f"p{number * 7 % 13}"
        row = {"ward": wards[number * 5 % 3], "age": number * 31 % 100}
        changes.append((max(1, time), key, None if number % 5 == 4 else row))
    return changes


def _gauge(folder: Path, sampler: object, **declared: Any) -> Gauge:
    source = Script(columns=COLUMNS, changes=log(), size=25)
    options: dict[str, Any] = {"now": Clock(31), "sampler": sampler, "store": folder / "store.db"}
    return Gauge(source=source, **options, **declared)


def _releases(strategy: dict[str, Any], schedule: dict[str, Any]) -> dict[str, Any]:
    both = {"strategy": strategy, "share": "0.5", **schedule}
    return {
        "by_ward": {
            "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward",
            "groups": {"ward": ["a", "b"]},
            **both,
        },
        "years": {"sql": "SELECT SUM(age) FROM t", "bounds": {"age": [0, 90]}, **both},
    }


def _twice(folder: Path, declared: dict[str, Any]) -> dict[str, Any]:
    """With seeded noise, in two runs of different draws; and without noise, in one."""
    folder.mkdir()
    list(_gauge(folder, Seeded(1), **declared).run("1970-01-01T00:00:00.000013Z"))
    seeded = _gauge(folder, Seeded(2), **declared)
    list(seeded.run())
    found = dumped(seeded)
    (folder / "exact").mkdir()
    exact = _gauge(folder / "exact", Exact(), **declared)
    list(exact.run())
    return {
        "plan": planned(seeded),
        **found,
        "exact": [row[3] for row in readings(exact)],
        "exact_smoothed": [one.value for one in exact.published(smoothed=True)],
    }


def of_strategy(name: str, folder: Path) -> dict[str, Any]:
    """One strategy, for a count by group and a sum."""
    strategy, budget, schedule = STRATEGIES[name]
    constraint = CONSTRAINTS["renews"] if strategy["name"] == "levels" else FREEZE
    declared = {"constraint": constraint, "budget": budget, "releases": _releases(strategy, schedule)}
    found = _twice(folder / name, declared)
    if name == "dense":  # its matrix is the result of a search: the last bits depend on the machine
        found = _without_the_matrix(found)
    return found


def _without_the_matrix(found: dict[str, Any]) -> dict[str, Any]:
    for release in found["plan"]["releases"].values():
        for one in (release["chosen"], *release["candidates"]):
            del one["parameters"]["digest"]
    kept = ("plan", "ledger", "status", "verified", "exact", "exact_smoothed")
    return {key: found[key] for key in kept}


def of_constraint(name: str, folder: Path) -> dict[str, Any]:
    """One constraint, for a count, a flow that is clipped, and what is derived from both."""
    share = {"strategy": {"name": "disjoint", "base": 0}, **RUNNING}
    releases = {
        "by_ward": {
            "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward",
            "groups": {"ward": ["a", "b"]},
            "share": "0.25",
            **share,
        },
        "moved": {
            "sql": "SELECT COUNT(*) FROM changes(t) WHERE before.ward = 'a' AND after.ward = 'b'",
            "clip": 2,
            "share": "0.25",
            **share,
        },
        "years": {"sql": "SELECT SUM(age) FROM t WHERE age > 20", "bounds": {"age": [0, 90]}, "share": "0.5",
                  **share},
        "ward_change": {"of": "by_ward", "window": "6 microseconds"},
        "moved_so_far": {"of": "moved"},
    }  # fmt: skip
    declared = {"constraint": CONSTRAINTS[name], "budget": GAUSSIAN, "releases": releases}
    return _twice(folder / name, declared)

"""Random gauges over random logs: their exact sums are those of an oracle in plain Python.

A gauge is declared, planned and run as a whole.  Declarations and logs follow from a seed, so a check finds
the same every time.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidegauge.audit.findings import require
from tidegauge.audit.installed.exercises import COLUMNS, Exercise, toggles
from tidegauge.audit.readers.readers import opener
from tidegauge.audit.replay.pairs import Stage
from tidegauge.audit.worlds.oracle import Oracle
from tidegauge.audit.worlds.world import Random, Times, random_table
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.engine.duckdb.past import shuffle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidegauge.audit.replay.pairs import OpenLog
    from tidegauge.audit.worlds.identity import Mutation, Row
    from tidegauge.audit.worlds.oracle import Sees
    from tidegauge.audit.worlds.world import Event
    from tidegauge.model.program import Program
    from tidegauge.plan.plan import Plan

    Hit = tuple[int, tuple[int, ...]] | None

_LAST: Final = 90
_LEFT_OUT: Final = ("s", "k", "owner")
"""Columns whose values a source may leave out where they did not change."""


def _by_state(_: Row | None, row: Row | None) -> Hit:
    return ("ab".index(row["s"]), (1,)) if row and row["s"] in ("a", "b") else None


def _sum(_: Row | None, row: Row | None) -> Hit:
    assert row is not None
    return None if row["x"] is None else (0, (min(max(row["x"], -2), 3),))


def _mean(_: Row | None, row: Row | None) -> Hit:
    assert row is not None
    return None if row["x"] is None or row["s"] == "b" else (0, (min(max(row["x"], 1), 9) - 5, 1))


def _move(old: Row | None, new: Row | None) -> Hit:
    return (0, (1,)) if old and new and (old["s"], new["s"]) == ("a", "b") else None


def _rise(_: Row | None, new: Row | None) -> Hit:
    return None if new is None or new["x"] is None else ("pq?".index(new["k"]), (min(max(new["x"], 0), 3),))


_STOCKS: Final[dict[str, tuple[dict[str, Any], Callable[[Row | None, Row | None], Hit]]]] = {
    "state": ({"sql": "SELECT s, COUNT(*) FROM t GROUP BY s", "groups": {"s": ["a", "b"]}}, _by_state),
    "sum": ({"sql": "SELECT SUM(x) FROM t", "bounds": {"x": [-2, 3]}, "grid": {"x": 1}}, _sum),
    "mean": (
        {
            "sql": "SELECT AVG(x) FROM t WHERE s <> 'b' OR s IS NULL",
            "bounds": {"x": [1, 9]},
            "grid": {"x": 1},
        },
        _mean,
    ),
}
_FLOWS: Final[dict[str, tuple[dict[str, Any], Callable[[Row | None, Row | None], Hit]]]] = {
    "move": ({"sql": "SELECT COUNT(*) FROM changes(t) WHERE before.s = 'a' AND after.s = 'b'"}, _move),
    "rise": (
        {
            "sql": "SELECT after.k, SUM(after.x) FROM changes(t) GROUP BY after.k",
            "groups": {"k": ["p", "q", "?"]},
            "bounds": {"x": [0, 3]},
            "grid": {"x": 1},
        },
        _rise,
    ),
}
_SEES: Final[Sees] = {name: sees for name, (_, sees) in {**_STOCKS, **_FLOWS}.items()}


class RandomGauge:
    """A declaration and a log.  `rows`: units own rows; `terms`: it renews; `past`: one history."""

    def __init__(self, seed: int, *, rows: bool = False, terms: bool = False, past: bool = False) -> None:
        self.rng = Random(seed)
        pick = self.rng.choice
        most = pick((1, 2, 3)) if rows else None
        self._past = past  # then the gauge is one whose history is folded over arrays
        flows = not past or (not (rows or terms) and self.rng.random() < 0.4)
        self._labelled = 0.0 if past and (terms or flows) else 0.3
        releases = self._releases(flows=flows)
        first, *others = releases
        shared = self._constraint(renews=terms)
        if others and not terms and self.rng.random() < 0.5:
            releases[others[-1]] |= {"constraint": self._constraint()}
        self.exercise = Exercise(
            toggles(),
            releases.pop(first),
            shared,
            also=releases,
            rows=most,
            named=first,
            left_out=None if past else 0,
        )
        self.passes = (
            (_LAST,) if past else tuple(sorted({*(self.rng.randint(5, 60) for _ in range(3)), _LAST}))
        )
        self.log = self._log(rows=rows, orderly=past)

    def _releases(self, *, flows: bool) -> dict[str, dict[str, object]]:
        pick, found = self.rng.choice, {}
        for name, (declared, _) in _STOCKS.items():
            every = pick((5, 10, 12))
            found[name] = declared | {
                "every": f"{every} microseconds",
                "for": f"{every * pick((3, 4))} microseconds",
            }
        for name, (declared, _) in _FLOWS.items():
            clip = None if self._past else pick((None, 1, 2))
            found[name] = declared | ({} if clip is None else {"clip": clip})
        names = self.rng.sample(list(_STOCKS), 2) + ([pick(list(_FLOWS))] if flows else [])
        return {name: found[name] for name in names}

    def _constraint(self, *, renews: bool = False) -> dict[str, object]:
        pick = self.rng.choice
        mode = pick(("freeze", "freeze", "retire"))

        def allowed() -> dict[str, object]:
            within = pick((None, None, 1, 7, 20))
            return {"at_most": pick((1, 2, 3) if mode == "freeze" else (2, 3))} | (
                {} if within is None else {"within": f"{within} microseconds"}
            )

        found: dict[str, object] = (
            {"by": "k", "cases": {"p": allowed(), "q": allowed()}}
            if self.rng.random() < self._labelled
            else allowed()
        )
        found |= {"on_excess": mode}
        return found | ({"renews": f"{pick((15, 20, 30))} microseconds"} if renews else {})

    def _log(self, *, rows: bool, orderly: bool) -> list[Event]:
        pick = self.rng.choice
        some: list[Row] = [
            {"s": pick(("a", "b", "a", "c", None)), "x": pick((0, 1, 2, 5, 20, None)), "k": pick("pppq?")}
            for _ in range(8)
        ]
        some = [row | {"owner": None} for row in some]
        ends = tuple(range(10, 70, 10))
        owner = "owner" if rows else None
        table = random_table(
            self.rng, Times(ends, self.passes), some, owner=owner, units="uvw", orderly=orderly
        )
        return [self._shortened(event, orderly) for event in sorted(table.log, key=lambda one: one.arrival)]

    def _shortened(self, event: Event, plain: bool) -> Event:
        """The event without some values that did not change; a row without a unit is not known to anyone."""
        known = event.before if event.ended is not None and event.begun is not None else None
        if plain or event.row is None or known is None or self.rng.random() < 0.6:
            return event
        return replace(event, kept=tuple(name for name in _LEFT_OUT if known[name] == event.row[name]))

    def check(self, seed: int, open_log: OpenLog | None = None) -> None:
        """Compare the gauge with the oracle.  Raises Discrepancy."""
        subject = self.exercise.subject()
        if self._past:
            with DuckEngine(subject.plan.program, subject.plan.columns) as engine:
                require(engine._fast() is not None, "a history is not folded over arrays")
        stage = Stage(subject, self.log, self.passes, seed, informed=bool(seed % 2), open_log=open_log)
        expected = _expected(subject.plan, self.log, self.passes)
        for (release, component, bin_, cell), drawn in stage.whole.measured.items():
            plan = next(one for one in subject.plan.releases if one.release.name == release)
            right = plan.component_plans[component].refine * expected.get((release, component, bin_, cell), 0)
            require(drawn.exact == right, f"gauge {seed}: the exact sums are not those of the oracle")


def _expected(
    plan: Plan, log: Sequence[Event], passes: Sequence[int]
) -> dict[tuple[str, int, int, int], int]:
    """The exact sums by the oracle; the public clock is read at the passes."""
    program, since = plan.program, -(2**62)
    oracle = Oracle(program, _SEES)
    for at in passes:
        oracle.arrive([_mutation(one, program) for one in log if since < one.arrival <= at], at)
        ends = (release.schedule.last_end(0, at) for release in program.releases)
        reached = max((end for end in ends if end is not None and end > oracle.watermark), default=None)
        if reached is not None:
            oracle.close(reached)
        since = at
    return oracle.totals


def _mutation(event: Event, program: Program) -> Mutation:
    """The change with the columns that are read."""
    unit = event.row[program.owner] if program.owner and event.row else None
    names = program.wanted(COLUMNS)
    row = event.row and {name: value for name, value in event.row.items() if name in names}
    return event.stamp, event.key, None if unit is None else str(unit), row, event.previous, ()


_KINDS: Final[dict[str, tuple[int, dict[str, bool]]]] = {
    "rows as units": (12, {}),
    "units of several rows": (16, {"rows": True}),
    "terms": (10, {"terms": True}),
    "terms of several rows": (12, {"terms": True, "rows": True}),
    "whole histories": (16, {"past": True}),
    "whole histories of several rows": (12, {"past": True, "rows": True}),
    "whole histories of terms": (8, {"past": True, "terms": True}),
}
"""How many gauges of each kind there are."""
_TOGETHER: Final = 2
_DIVIDED: Final = {"units of several rows": 2, "terms of several rows": 2,
                   "whole histories of several rows": 2}  # fmt: skip
"""Kinds of which so many gauges run once more, as if their logs were so long that they must be divided."""


@contextmanager
def _in_small_parts() -> Iterator[None]:
    """Let the engine divide a fold and a history as if a few changes were millions."""
    defaults: Any = DuckEngine.__init__.__kwdefaults__
    known, part = dict(defaults), shuffle.PART
    defaults["part"] = 3
    vars(shuffle)["PART"] = 4
    try:
        yield
    finally:
        defaults.update(known)
        vars(shuffle)["PART"] = part


def check_divided(seeds: Sequence[int], kind: str) -> None:
    """Run the gauges of these seeds in small parts.  Raises Discrepancy."""
    with _in_small_parts():
        check_random(seeds, kind)


def check_random(seeds: Sequence[int], kind: str) -> None:
    """Run the gauges of these seeds.  Raises Discrepancy."""
    _, how = _KINDS[kind]
    for seed in seeds:
        gauge = RandomGauge(seed, **how)
        owner = "owner" if how.get("rows") else None
        gauge.check(seed, opener("files", owner=owner) if how.get("past") else None)


def oracle_checks() -> dict[str, Callable[[], None]]:
    """All of them, a few gauges at a time."""
    found: dict[str, Callable[[], None]] = {}
    for n, (kind, (count, _)) in enumerate(_KINDS.items()):
        for part in range(0, count, _TOGETHER):
            seeds = range(1000 * n + part, 1000 * n + min(part + _TOGETHER, count))
            name = f"random gauges, {kind}, {part // _TOGETHER + 1}"
            found[name] = partial(check_random, seeds, kind)
        if kind in _DIVIDED:
            seeds = range(1000 * n + count, 1000 * n + count + _DIVIDED[kind])
            found[f"random gauges, {kind}, in small parts"] = partial(check_divided, seeds, kind)
    return found

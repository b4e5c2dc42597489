"""Small gauges over small logs that were worked out by hand: what counts, in which bin, and what it costs.

Each log has one unit whose changes cost as much as any can, and goes on with changes that must not count.
They run with the installed code as it is, and once more with every seeded bug (tidegauge.audit.controls).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.audit.findings import require
from tidegauge.audit.replay.pairs import Stage
from tidegauge.audit.worlds.rehearsal import MemoryLog, Subject
from tidegauge.audit.worlds.world import Random, Table
from tidegauge.run.gauge import Gauge
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidegauge.audit.replay.pairs import OpenLog
    from tidegauge.audit.worlds.world import Row

COLUMNS: Final = {"id": "VARCHAR", "owner": "VARCHAR", "s": "VARCHAR", "x": "BIGINT", "k": "VARCHAR"}
BINS: Final = 6
PASSES: Final = (9, 24, 200)
DISJOINT: Final = {"name": "disjoint", "base": 0}
_TIGHT: Final = 1 - 1e-6


@dataclass(frozen=True)
class Exercise:
    """A declaration, a log, and what must come of it."""

    happen: Callable[[Table], None]
    release: Mapping[str, object]
    constraint: Mapping[str, object] = field(default_factory=lambda: {"at_most": 3})
    unit: str | None = "k/0"
    """The unit that is removed; None: no unit is."""
    tight: bool = True
    """Whether the unit's changes cost all that is reserved."""
    least: float = 0.02
    """The least part of the reservation that they cost."""
    sums: tuple[int, ...] | None = None
    """The exact change of each bin, in units of the first that is not 0."""
    rows: int | None = None
    """Rows of a unit that count, where the column owner names the unit."""
    pure: bool = False
    local: bool = False
    """Whether the unit is also run alone."""
    passes: tuple[int, ...] = PASSES
    """When the log is read."""
    crash: int | None = None
    """Draws after which the second pass is interrupted."""
    also: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Further releases, which are measured beside it."""
    added: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Releases that are added once the first plan is committed."""
    other_sums: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The exact change of each bin of other releases."""
    term: tuple[int, int] | None = None
    """The term, from and until, in which the unit is absent; None: it never exists."""
    named: str = "r"
    """The name of the release."""
    left_out: int | None = None
    """How long a value is that the source may leave out where it did not change; None: it leaves out none."""

    def subject(self) -> Subject:
        """The declaration and its plan, made now."""
        every = {
            "start": "1970-01-01T00:00:00.000010Z",
            "every": "10 microseconds",
            "for": f"{10 * (BINS - 1)} microseconds",
        }
        owner = None if self.rows is None else "owner"
        budget = {"epsilon": "1"} if self.pure else {"rho": "1/2"}
        plain = {**every, "strategy": DISJOINT}
        first = {name: {**plain, **one} for name, one in {self.named: self.release, **self.also}.items()}
        more = {name: {**plain, **one} for name, one in self.added.items()}
        source = MemoryLog("t", COLUMNS, Random(0), owner=owner, informed=False)
        source.leaves_out = self.left_out
        with ScratchFolder() as folder:  # a store of its own: not the one in this folder
            gauges = [
                Gauge(
                    source=source,
                    budget=budget | ({"reserve": "1/2"} if more else {}),
                    constraint=self.constraint,
                    releases=releases,
                    store=Path(folder.name) / "store.db",
                    now=lambda: 0,
                    unit=owner,
                    max_rows=self.rows,
                )
                for releases in ([first, first | more] if more else [first])
            ]
            if more:
                with closing(gauges[0].run()) as readings:
                    require(not list(readings), "a reading was published before its time")
                gauges[1].amend()
            return Subject(gauges[-1].spec, gauges[-1].plan())

    def check(
        self,
        seed: int = 1,
        open_log: OpenLog | None = None,
        passes: tuple[int, ...] | None = None,
        *,
        stamped: bool = False,
    ) -> float:
        """The part of the reservation that the unit's changes cost.  Raises Discrepancy.

        `open_log`: opens the source; None: a source in memory.  `stamped`: begin with a stamped log.
        """
        table = Table(None if self.rows is None else "owner")
        self.happen(table)
        known = passes or self.passes
        stage = Stage(self.subject(), table.log, known, seed, informed=bool(seed % 2), crash=self.crash)
        stage.open_log, stage.stamped = open_log, stamped
        for name, sums in {self.named: self.sums, **self.other_sums}.items():
            if sums is not None:
                _require_sums(stage, name, sums)
        if self.unit is None:
            return 0.0
        if self.term is not None:
            return stage.remove_in_term(self.unit, *self.term).ratio
        ratio = stage.remove(self.unit, local=self.local).ratio
        require(ratio >= self.least, "changes that count were dropped")
        require(not self.tight or ratio >= _TIGHT, "the worst changes cost less than the plan reserves")
        return ratio


def _require_sums(stage: Stage, release: str, right: tuple[int, ...]) -> None:
    found = [drawn.exact for spot, drawn in sorted(stage.whole.measured.items()) if spot[0] == release]
    require(len(found) == len(right), "another number of bins was measured")
    unit = next((abs(one) / abs(due) for one, due in zip(found, right, strict=True) if due), 1)
    require(
        unit and [one / unit for one in found] == list(right),
        "the exact sums are not those worked out by hand",
    )


COUNT: Final = {"sql": "SELECT COUNT(*) FROM t"}
SUM: Final = {"sql": "SELECT SUM(x) FROM t"}
GROUPED: Final = {"sql": "SELECT s, COUNT(*) FROM t GROUP BY s", "groups": {"s": ["a", "b"]}}
FLOW: Final = {"sql": "SELECT COUNT(*) FROM changes(t) WHERE after.x IS NOT NULL"}
PLAIN: Final[Row] = {"owner": "u", "s": "a", "x": 1, "k": "p"}
BOTH: Final = {"x": [-2, 3]}
HERE: Final[Row] = {}


def with_changes(*changes: tuple[int, str, Mapping[str, object] | None]) -> Callable[[Table], None]:
    """One other unit, and these changes: (time, key, what the new row has, or None for a deletion)."""

    def happen(table: Table) -> None:
        table.put((0, 0), "other", PLAIN | {"owner": "w", "id": "other"})
        for at, key, row in changes:
            if row is None:
                table.delete((at, at), key)
            else:
                table.put((at, at), key, {**PLAIN, "id": key, **row})

    return happen


def toggles(*times: int) -> Callable[[Table], None]:
    """A row that is inserted and deleted in turn."""
    return with_changes(*((at, "k", None if n % 2 else HERE) for n, at in enumerate(times)))


def groups(*times: int) -> Callable[[Table], None]:
    """A row that changes between two groups."""
    return with_changes(*((at, "k", {"s": "ab"[n % 2]}) for n, at in enumerate(times)))


def hits(*times: int) -> Callable[[Table], None]:
    """A row that is updated at these times."""
    return with_changes(*((at, "k", {"x": at}) for at in times))


def sliding(strategy: Mapping[str, object], readings: int = 2) -> dict[str, object]:
    """The change over two bins, in two groups."""
    return {
        **GROUPED,
        "window": "20 microseconds",
        "for": f"{10 * (readings - 1)} microseconds",
        "start": "1970-01-01T00:00:00.000030Z",
        "strategy": strategy,
    }


def hierarchy(**more: object) -> dict[str, object]:
    """A tree of two layers over the bins."""
    tree = {"name": "hierarchy", "branching": 2, "height": 2, "bins": BINS, "load": "apart"}
    return {"strategy": tree | more}


def _late(table: Table) -> None:
    table.put((25, 2), "k", PLAIN)  # arrives once (0, 10] and (10, 20] are measured


def _early(table: Table) -> None:
    table.put((5, 38), "k", PLAIN)  # a stamp in the future takes effect when it arrives
    table.put((32, 32), "l", PLAIN)


def _order(table: Table) -> None:
    table.put((27, 26), "k", PLAIN | {"x": 1})
    table.put((28, 12), "k", PLAIN | {"x": 2})
    table.put((45, 45), "k", PLAIN | {"x": 3})


def _values(table: Table) -> None:
    table.put((3, 3), "k", PLAIN | {"x": None})
    table.put((4, 4), "l", PLAIN | {"x": 99})
    table.put((15, 15), "m", PLAIN | {"x": -99})


def _renamed(table: Table) -> None:
    table.put((3, 3), "k", PLAIN)
    for n, at in enumerate((13, 23, 33)):
        table.rename((at, at), f"k{n - 1}" if n else "k", f"k{n}", PLAIN | {"x": 2 + n})


def _freed(table: Table) -> None:
    table.put((3, 3), "k", PLAIN)
    table.rename((13, 13), "k", "l", PLAIN | {"x": 2})
    table.put((23, 23), "k", PLAIN)
    table.put((33, 33), "k", PLAIN | {"x": 2})


def _dead_keys(table: Table) -> None:
    for n in range(3):
        table.put((1, 1), f"k{n}", PLAIN)
        table.delete((5, 5), f"k{n}")
    table.put((12, 12), "home", PLAIN)
    key = "home"
    for n in range(3):
        table.rename((15, 15), key, f"k{n}", PLAIN)
        key = f"k{n}"
    table.rename((16, 16), key, "far", PLAIN)
    for n in range(3):
        table.put((25, 25), f"k{n}", PLAIN)


def _beyond_the_clock(table: Table) -> None:
    table.put((2, 70), "ahead", PLAIN)
    for n in range(4):
        table.put((3, 3), f"k{n}", PLAIN)
    for n in range(4):
        table.delete((13, 13), f"k{n}")
    table.put((14, 70), "ahead", PLAIN | {"s": "b"})
    for n in range(4):
        table.put((27, 27), f"k{n}", PLAIN)


def _emptied(table: Table) -> None:
    table.put((3, 3), "k", PLAIN)
    table.put((4, 4), "l", PLAIN)
    table.truncate((13, 13))
    table.put((23, 23), "k", PLAIN)


def _labels(table: Table) -> None:
    table.put((3, 3), "k", PLAIN | {"x": 1, "k": "p"})
    table.put((13, 13), "k", PLAIN | {"x": 2, "k": "q"})
    table.put((23, 23), "k", PLAIN | {"x": 3, "k": "q"})
    table.put((33, 33), "l", PLAIN | {"x": 1, "k": "q"})
    table.put((43, 43), "l", PLAIN | {"x": 3, "k": "p"})


def _leaves(table: Table) -> None:
    table.put((3, 3), "k", PLAIN)
    table.put((13, 13), "k", PLAIN | {"x": 3})


CASES: Final = {"by": "k", "cases": {"p": {"at_most": 3}, "q": {"at_most": 1}}}
OWN: Final = SUM | {"bounds": BOTH}
SHARED: Final = {"name": "autoregressive", "bins": BINS, "memory": 50000, "shared_noise": "3/2", "first": 0}
_AHEAD: Final = {"name": "ahead", "branching": 3, "height": 3, "bins": BINS, "first": 0, "scales": "1 1 1/2"}

EXERCISES: Final[dict[str, Exercise]] = {
    "three changes, and two more": Exercise(toggles(5, 15, 25, 35, 45), COUNT, sums=(2, -1, 1, 0, 0, 0)),
    "three changes, pure epsilon": Exercise(toggles(5, 15, 25, 35, 45), COUNT, pure=True),
    "a tick that is interrupted": Exercise(
        toggles(5, 15, 25, 35, 45), COUNT, sums=(2, -1, 1, 0, 0, 0), crash=0
    ),
    "shared noise, and a tick that is interrupted": Exercise(
        toggles(5, 15, 25, 35), COUNT | {"strategy": SHARED}, {"at_most": 2},
        pure=True, tight=False, least=0.5, crash=0,
    ),
    "noise drawn ahead": Exercise(
        toggles(5, 35, 55), COUNT | {"strategy": _AHEAD}, {"at_most": 2}, pure=True, tight=False, least=0.6,
    ),
    "noise drawn ahead, and a tick that is interrupted": Exercise(
        toggles(5, 35, 55), COUNT | {"strategy": _AHEAD}, {"at_most": 2},
        pure=True, tight=False, least=0.6, crash=0,
    ),
    "changes of group": Exercise(groups(5, 15, 25, 35), GROUPED),
    "values far from zero": Exercise(
        with_changes((5, "k", {"x": 100}), (15, "k", None), (25, "k", {"x": 990}), (35, "k", None)),
        SUM | {"bounds": {"x": [50, 100]}},
    ),
    "values of both signs": Exercise(
        with_changes((5, "k", {"x": 99}), (15, "k", {"x": -99}), (25, "k", {"x": 3}), (35, "k", {"x": -2})),
        OWN,
    ),
    "a flow, all changes in one window": Exercise(hits(11, 12, 13, 14, 15), FLOW),
    "a flow that is clipped": Exercise(
        hits(3, 4, 11, 12, 13, 21, 22, 31, 32, 41, 42, 51, 52, 53), FLOW | {"clip": 2}, {"at_most": 40}
    ),
    "a flow of several rows": Exercise(
        with_changes(*((t, key, {"x": t}) for t in (11, 12, 13, 14) for key in ("k", "l", "m"))),
        FLOW, unit="u", rows=2,
    ),
    "several rows of one unit": Exercise(
        with_changes(*((t, key, None if t % 2 else HERE) for t in (10, 21, 32, 43) for key in "klm")),
        COUNT, unit="u", rows=2, local=True,
    ),
    "within a time, both ends included": Exercise(
        toggles(10, 20, 21, 31), COUNT, {"within": "10 microseconds"},
    ),
    "within a time, and a microsecond later": Exercise(
        toggles(10, 15, 21, 31), COUNT, {"within": "10 microseconds"}
    ),
    "a microsecond too late": Exercise(
        toggles(10, 15, 21), COUNT, {"within": "10 microseconds"}, sums=(2, -1, 0, 0, 0, 0)
    ),
    "the last windows": Exercise(
        toggles(10, 20, 30, 40, 50, 60), COUNT, {"within": "70 microseconds"}
    ),
    "at most and within": Exercise(
        toggles(10, 20, 21, 30, 31), COUNT, {"at_most": 3, "within": "20 microseconds"}
    ),
    "a release's own constraint": Exercise(
        toggles(5, 15, 25, 35), COUNT | {"constraint": {"at_most": 3}}, {"at_most": 1}
    ),
    "a stricter constraint": Exercise(
        toggles(5, 15, 25, 35), COUNT | {"constraint": {"at_most": 2}}, {"at_most": 4}
    ),
    "before the first window": Exercise(
        groups(5, 15, 25, 35, 38), sliding({"name": "disjoint", "base": 1}), {"at_most": 4}
    ),
    "a window that slides": Exercise(
        groups(25, 35, 38), sliding({"name": "sliding", "span": 2, "stride": 1, "readings": 2}),
        {"at_most": 1},
    ),
    "a window that slides, for long": Exercise(
        with_changes((10, "k", {"s": "a"}), *((11 + 10 * n, "k", {"s": "bca"[n % 3]}) for n in range(15))),
        sliding({"name": "sliding", "span": 2, "stride": 1, "readings": 13}, readings=13)
        | {"groups": {"s": ["a", "b", "c"]}},
        {"within": "150 microseconds"},
    ),
    "layers of unequal noise": Exercise(
        toggles(15, 25, 35, 45), COUNT | hierarchy(scales="2 2 4"), {"at_most": 1}
    ),
    "layers of unequal noise, pure epsilon": Exercise(
        toggles(15, 25, 35, 45), COUNT | hierarchy(scales="2 2 4"), {"at_most": 1}, pure=True
    ),
    "a hierarchy": Exercise(toggles(11, 35, 55), COUNT | hierarchy(), {"at_most": 2}, tight=False, least=0.7),
    "shared noise": Exercise(
        toggles(5, 15, 25, 35), COUNT | {"strategy": SHARED}, {"at_most": 2},
        pure=True, tight=False, least=0.5,
    ),
    "a mean": Exercise(
        with_changes((5, "k", {"x": 9}), (15, "k", None), (25, "k", {"x": 1}), (35, "k", None)),
        {"sql": "SELECT AVG(x) FROM t", "bounds": {"x": [1, 9]}}, tight=False, least=0.6,
    ),
    "a late change": Exercise(_late, COUNT, unit=None, sums=(0, 0, 1, 0, 0, 0)),
    "a stamp in the future": Exercise(_early, COUNT, unit=None, sums=(1, 0, 0, 1, 0, 0)),
    "the order of the log": Exercise(_order, OWN, {"at_most": 2}, unit=None, sums=(0, 0, 2, 0, 1, 0)),
    "missing and excessive values": Exercise(_values, OWN, unit=None, sums=(3, -2, 0, 0, 0, 0)),
    "a row whose key changes": Exercise(
        _renamed, OWN, {"at_most": 2}, local=True, tight=False, sums=(1, 1, 0, 0, 0, 0),
    ),
    "a key that was freed": Exercise(
        _freed, OWN, {"at_most": 2}, local=True, tight=False, sums=(1, 1, 1, 1, 0, 0),
    ),
    "keys of deleted rows": Exercise(
        _dead_keys, COUNT, {"at_most": 2}, unit="home/0", local=True, tight=False,
    ),
    "stamps beyond the clock": Exercise(_beyond_the_clock, COUNT, unit="ahead/0", local=True, tight=False),
    "an emptied table": Exercise(_emptied, COUNT, local=True, tight=False, sums=(2, -2, 1, 0, 0, 0)),
    "a label that lasts": Exercise(_labels, OWN, CASES, local=True, tight=False, sums=(1, 1, 1, 1, 0, 0)),
    "retiring at the last change": Exercise(
        _leaves, OWN, {"at_most": 2, "on_excess": "retire"},
        local=True, tight=False, sums=(1, -1, 0, 0, 0, 0)
    ),
    "retiring when the time is up": Exercise(
        _leaves, COUNT, {"within": "20 microseconds", "on_excess": "retire"},
        local=True, tight=False,
        sums=(1, 0, -1, 0, 0, 0),
    ),
}  # fmt: skip

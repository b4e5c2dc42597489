"""What a gauge may still spend: several terms of one unit, the reserve, added releases, a shared ledger.

Costs are computed from the noise of the plans and from small logs, not by the functions that plan them.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidegauge.audit.findings import require, require_refused
from tidegauge.audit.installed.definitions import delta_of
from tidegauge.audit.installed.exercises import COLUMNS, COUNT, DISJOINT, FLOW, Exercise, hits, toggles
from tidegauge.audit.replay.pairs import ROUNDING, Stage
from tidegauge.audit.replay.transcript import loss
from tidegauge.audit.worlds.rehearsal import MemoryLog, SetClock
from tidegauge.audit.worlds.world import Random, Table, without
from tidegauge.errors import BudgetExceeded, SpecError, StoreCorrupt
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace, SecureSampler
from tidegauge.plan.grow import require_growth
from tidegauge.plan.renewal import stays
from tidegauge.run.gauge import Gauge
from tidegauge.scratch import ScratchFolder
from tidegauge.store.public.shared import SharedLedger, Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidegauge.plan.plan import Plan

_TERMS: Final = 5
_TOGGLES: Final = tuple(at + 30 * n for n in range(_TERMS) for at in ((10, 15, 25, 31), (15, 25, 31))[n > 0])
"""Changes as often as a term of 30 allows, then one that must wait for the next term."""
_HITS: Final = tuple(at + 30 * n for n in range(_TERMS) for at in (15, 25, 35))
_LONG: Final = {"for": "170 microseconds"}
_RENEWS: Final = {"at_most": 2, "renews": "30 microseconds"}
_RARELY: Final = tuple(at + 60 * n for n in range(_TERMS) for at in (20, 25, 31, 45))
"""Changes in every bin that a time of 12 touches, then one that must wait for the next term."""
_WHOLE: Final = {"every": "200 microseconds", "for": "200 microseconds"}
"""A flow with all terms in one bin."""
_STAYS: Final = (
    Exercise(toggles(*_TOGGLES), COUNT | _LONG, _RENEWS),
    Exercise(toggles(*_TOGGLES), COUNT | _LONG, _RENEWS, pure=True),
    Exercise(toggles(*_TOGGLES), COUNT | _LONG, {"within": "20 microseconds", "renews": "30 microseconds"}),
    Exercise(
        toggles(*_RARELY),
        COUNT | {"for": "310 microseconds"},
        {"within": "12 microseconds", "renews": "60 microseconds"},
    ),
    Exercise(hits(*_HITS), FLOW | _WHOLE, _RENEWS),
    Exercise(hits(*_HITS), FLOW | _WHOLE | {"clip": 1}, _RENEWS, tight=False, least=0.5),
)


def check_stays() -> None:
    """A unit that stays for five terms costs no more than the plan says, and as much.  [T15]"""
    for exercise in _STAYS:
        table, subject = Table(None), exercise.subject()
        exercise.happen(table)
        stage = Stage(subject, table.log, (24, 75, 500), 1)
        (found,) = loss(stage.whole, stage.run(without(table.log, "k/0"), 2)).values()
        (claimed,) = (one.loss for one in stays(subject.plan) if one.terms == _TERMS)
        require(found <= claimed * (1 + ROUNDING), "several terms of one unit cost more than the plan says")
        least = 1 - ROUNDING if exercise.tight else Fraction(exercise.least) * (1 - ROUNDING)
        require(found >= claimed * least, "the plan says too much of several terms of one unit")


_EVERY: Final = {"every": "10 microseconds", "for": "50 microseconds"}
_FIRST: Final = COUNT | _EVERY | {"start": "1970-01-01T00:00:00.000010Z", "strategy": DISJOINT}
_AT_MOST: Final = 3
_BUDGETS: Final[tuple[dict[str, object], ...]] = (
    {"rho": "1/2"},
    {"epsilon": 1},
    {"epsilon": 2, "delta": "1e-6"},
)


class _Growing:
    """A gauge over an empty table, to which releases are added."""

    def __init__(self, folder: Path, budget: Mapping[str, object], **more: Any) -> None:
        self.clock, self._folder, self._more = SetClock(), folder, more
        self._budget = {**budget, "reserve": "1/4"}
        self.releases: dict[str, dict[str, object]] = {"r": dict(_FIRST)}

    def gauge(self, **more: Mapping[str, object]) -> Gauge:
        """The gauge with further releases."""
        return Gauge(
            source=MemoryLog("t", COLUMNS, Random(0), owner=None, informed=False),
            budget=self._budget,
            constraint={"at_most": _AT_MOST},
            releases={**self.releases, **more},
            store=self._folder / "store.db",
            base=self._folder,
            now=self.clock,
            sampler=SecureSampler(),
            **self._more,
        )

    def run(self, until: int) -> Gauge:
        """Bring the gauge up to an instant."""
        self.clock.now = until
        gauge = self.gauge()
        with closing(gauge.run()) as readings:
            list(readings)
        return gauge

    def add(self, name: str, **keys: object) -> Plan:
        """Add a release."""
        release = COUNT | _EVERY | {"strategy": DISJOINT} | keys
        plan = self.gauge(**{name: release}).amend()
        self.releases[name] = release
        return plan


def _costs(plan: Plan) -> Fraction:
    """What a row costs that is inserted and deleted as often as it may, each time in another bin."""
    total = Fraction(0)
    for release in plan.releases:
        (part,) = release.component_plans
        if isinstance(part.noise, DiscreteLaplace):
            total += _AT_MOST * part.refine / part.noise.scale
        else:
            assert isinstance(part.noise, DiscreteGaussian)
            total += Fraction(_AT_MOST * part.refine**2) / (2 * part.noise.sigma_squared)
    return total


def _require_total(plan: Plan, budget: Mapping[str, object]) -> None:
    """The whole budget, as one number, is not more than the declared one."""
    if "delta" in budget:
        least = delta_of(float(plan.total), float(str(budget["epsilon"])))
        require(least <= float(str(budget["delta"])) * 1.001, "the plan's rho is too large for its budget")
    else:
        (declared,) = budget.values()
        require(plan.total <= Fraction(str(declared)), "the plan accounts with more than its budget")


def check_reserve() -> None:
    """The first plan leaves the reserve alone, and added releases share it.  Raises Discrepancy."""
    for budget in _BUDGETS:
        with ScratchFolder() as folder:
            growing = _Growing(Path(folder.name), budget)
            first = growing.run(0).plan()
            _require_total(first, budget)
            total = first.total
            _require_cost(first, total * 3 / 4)
            growing.clock.now = 1
            half = growing.add("s", share="1/8")
            _require_cost(half, total / 8)
            too_much = partial(growing.add, "u", share="5/32")
            require_refused("more than the rest of the reserve", too_much, BudgetExceeded)
            rest = growing.add("u")
            _require_cost(rest, total / 8)
            require_refused("a release without a reserve", partial(growing.add, "v"), BudgetExceeded)
            gauge = growing.run(200)
            kept = sum((one.body.reserved for one in gauge.ledger()), Fraction(0))
            require(kept <= total, "the ledger reserves more than the budget")
            require(
                kept >= sum(map(_costs, (first, half, rest))) * (1 - ROUNDING), "the ledger reserves less"
            )
            (release,) = rest.releases
            dearer = replace(rest, releases=(replace(release, loss=release.loss * Fraction(101, 100)),))
            require_growth([first, half, rest])
            together = partial(require_growth, [first, half, dearer])
            require_refused("added plans beyond the reserve", together, StoreCorrupt)


def _require_cost(plan: Plan, room: Fraction) -> None:
    cost = _costs(plan)
    require(cost <= room * (1 + ROUNDING), "a plan costs more than its part of the budget")
    require(cost >= room * Fraction(99, 100), "a plan leaves a part of its budget unused")


def _at(micros: int) -> str:
    return f"1970-01-01T00:00:00.{micros:06}Z"


_STARTS: Final[tuple[tuple[dict[str, object], bool], ...]] = (
    ({"start": _at(19)}, False),
    ({"start": _at(20)}, False),
    ({"start": _at(21)}, True),
    ({"start": _at(30)}, True),
    ({"start": _at(40), "window": "20 microseconds"}, False),
    ({"start": _at(41), "window": "20 microseconds"}, True),
    ({}, True),
    ({"window": "20 microseconds"}, True),
)
"""Starts of a release that is added once everything up to 20 was measured, and whether they are accepted."""


def check_starts() -> None:
    """No bin of an added release ends before what was measured.  Raises Discrepancy."""
    for keys, fits in _STARTS:
        with ScratchFolder() as folder:
            growing = _Growing(Path(folder.name), {"rho": "1/2"})
            growing.run(24)
            release = COUNT | _EVERY | keys
            amendment = growing.gauge(s=release).amendment
            if fits:
                (planned,) = amendment().releases
                require(planned.release.schedule.bin_end(0) > 20, "an added release begins in the past")
            else:
                require_refused("an added release that begins in the past", amendment, SpecError)
    for start, fits in ((30, False), (31, True)):
        with ScratchFolder() as folder:
            growing = _Growing(Path(folder.name), {"rho": "1/2"})
            growing.run(24)
            gauge = growing.gauge(s=COUNT | _EVERY | {"start": _at(start)})
            plan = gauge.amendment()
            growing.run(34)  # meanwhile everything up to 30 is measured
            if fits:
                gauge.amend(plan)
            else:
                late = partial(gauge.amend, plan)
                require_refused("a plan whose start was passed", late, SpecError)


def check_shared() -> None:
    """Gauges with one ledger spend its total once, reserves included.  Raises Discrepancy."""
    with ScratchFolder() as folder:
        path = Path(folder.name) / "all.ledger"
        ledger = SharedLedger.create(path, Terms("rho", Fraction(3, 4), "row", None), time=_at(0))
        for n, (rho, fits) in enumerate((("1/2", True), ("1/32", True), ("1/4", False), ("7/32", True))):
            place = path.parent / str(n)
            place.mkdir()
            growing = _Growing(place, {"rho": rho}, ledger={"path": "../all.ledger", "unit": "row"})
            if fits:
                growing.run(0)
                growing.run(24)
                growing.add("s")
            else:
                begin = partial(growing.run, 0)
                require_refused("a gauge beyond the total of its ledger", begin, BudgetExceeded)
        kept = sum((one.reserved for one in ledger.entries()), Fraction(0))
        require(kept == Fraction(3, 4), "a shared ledger reserves another total than its gauges may spend")


GROWTH: dict[str, Callable[[], None]] = {
    "a unit that stays for several terms": check_stays,
    "the reserve": check_reserve,
    "starts of added releases": check_starts,
    "a ledger of several gauges": check_shared,
}

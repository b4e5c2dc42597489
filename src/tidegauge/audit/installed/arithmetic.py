"""Numbers of any size: exact sums before noise, and reservations of a ledger, against plain arithmetic."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.audit.findings import require, require_refused
from tidegauge.audit.installed.exercises import COUNT, Exercise, toggles
from tidegauge.audit.installed.published import Silent
from tidegauge.audit.worlds.world import Random
from tidegauge.errors import BudgetExceeded, LedgerError, SpecError, StoreBehind, StoreCorrupt
from tidegauge.mechanism.encode import measure
from tidegauge.mechanism.registry import STRATEGIES
from tidegauge.model.ledger import Reservation
from tidegauge.model.quantity import instant
from tidegauge.model.terms import Beginning
from tidegauge.scratch import ScratchFolder
from tidegauge.store.public.ledger import Ledger
from tidegauge.store.public.part import TABLES
from tidegauge.store.public.shared import SharedLedger, Terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.mechanism.encode import ComponentPlan

_SIZES: Final = (1, 2**31, 2**40, 2**52, 2**58, 2**60, 2**61, 2**63, 2**90)
"""Sums of one bin; 64 bits hold some of them and not their multiples."""
_BINS: Final = 12
_CELLS: Final = 2


def check_large_sums() -> None:
    """What is measured of sums of any size is exact.  Raises Discrepancy."""
    rng, tried = Random(5), 0
    for kind in STRATEGIES:
        exercise = Exercise(
            toggles(), COUNT | {"strategy": kind.name, "for": f"{10 * (_BINS - 1)} microseconds"}
        )
        try:
            (release,) = exercise.subject().plan.releases
        except SpecError:  # not a strategy for this release
            continue
        (component_plan,) = release.component_plans
        if component_plan.strategy.stream is None and component_plan.strategy.ahead is None:
            tried += 1
            for size in _SIZES:
                _require_exact(component_plan, size, rng)
    require(tried, "no strategy measures sums of bins")


def _require_exact(component_plan: ComponentPlan, size: int, rng: Random) -> None:
    totals = {
        (bin_, cell): rng.choice((size, size - 1, -size)) for bin_ in range(_BINS) for cell in range(_CELLS)
    }
    found = measure(component_plan, totals, bins=range(_BINS), shared_noise=[0] * _CELLS, sampler=Silent())
    right = [
        sum(
            factor * totals[bin_, cell]
            for first, last, factor in row.ranges
            for bin_ in range(first, last + 1)
        )
        for row in component_plan.strategy.measured(_BINS - 1)
        for cell in range(_CELLS)
    ]
    exact = [component_plan.refine * one for one in right]
    require([one.value for one in found] == exact, "what is measured of large sums is not exact")


def check_reservations() -> None:
    """A ledger adds up all that was reserved, and refuses what is more than is left.  Raises Discrepancy."""
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in TABLES:
            db.execute(statement)
        ledger = Ledger(db)

        def reserve(number: int, part: Fraction) -> None:
            one = Reservation(f"{number:064}", "rho", Fraction(1), part, {"r": part})
            ledger.reserve(one, time="1970-01-01T00:00:00Z", amends=number > 0)

        parts = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 7)]
        for number, part in enumerate(parts):
            reserve(number, part)
        left = 1 - sum(parts, Fraction(0))
        require(ledger.spent() == 1 - left, "a ledger does not add up what was reserved")
        more = partial(reserve, 3, left + Fraction(1, 10**12))
        require_refused("a reservation of more than is left", more, BudgetExceeded)
        reserve(3, left)
    with ScratchFolder() as folder:
        _check_shared(Path(folder.name) / "all.ledger")


def _check_shared(path: Path) -> None:
    """The same of a ledger that gauges share; a plan is confirmed only where its loss was reserved."""
    time = "1970-01-01T00:00:00Z"
    terms = Terms("rho", Fraction(1), "row")
    ledger = SharedLedger.create(path, terms, time=time)

    def reserve(gauge: str, part: Fraction) -> None:
        one = Reservation("0" * 64, "rho", Fraction(1), part, {"r": part})
        ledger.reserve(gauge, terms, one, time=time)

    reserve("a", Fraction(1, 4))
    reserve("a", Fraction(1, 2))  # it died before it committed: the larger of both counts
    require_refused(
        "a plan that costs more than was reserved in a shared ledger",
        partial(ledger.confirm, "a", ["plan"], Fraction(2, 3), time=time),
        StoreCorrupt,
    )
    ledger.confirm("a", ["plan"], Fraction(1, 2), time=time)
    require_refused("a plan that a shared ledger knows", partial(reserve, "a", Fraction(1, 2)), StoreBehind)
    more = partial(reserve, "b", Fraction(1, 2) + Fraction(1, 10**12))
    require_refused("a reservation of more than a shared ledger has", more, BudgetExceeded)
    reserve("b", Fraction(1, 2))
    more = partial(reserve, "b", Fraction(1, 2) + Fraction(1, 10**12))
    require_refused("a larger reservation than a shared ledger has left", more, BudgetExceeded)


_BEGINS: Final[dict[str, tuple[tuple[str, str | None, bool], ...]]] = {
    "3 months": (
        ("2026-04-01T00:00:00Z", None, True), ("2024-10-01T00:00:00Z", None, True),
        ("2026-02-01T00:00:00Z", None, False), ("2026-04-02T00:00:00Z", None, False),
        ("2026-04-01T06:00:00Z", None, False), ("2026-04-01T00:00:00Z", "Europe/Berlin", False),
    ),
    "7 days": (
        ("2026-01-15T00:00:00Z", None, True), ("2026-01-02T00:00:00Z", None, False),
        ("2026-01-08T01:00:00Z", None, False), ("2026-01-08T00:00:00Z", "Europe/Berlin", False),
    ),
}  # fmt: skip
"""By the length of terms: when they begin, and whether they begin with those that began with 2026."""


def check_same_terms() -> None:
    """Gauges share a ledger only where their terms begin together.  Raises Discrepancy."""
    time = "1970-01-01T00:00:00Z"
    for term, others in _BEGINS.items():
        with ScratchFolder() as folder:
            whole, part = Terms("rho", Fraction(1), "row", term), Fraction(1, 16)
            ledger = SharedLedger.create(Path(folder.name) / "all.ledger", whole, time=time)
            for number, (wall, zone, fits) in enumerate((("2026-01-01T00:00:00Z", None, True), *others)):
                terms = replace(whole, begins=Beginning(instant(wall), zone))
                one = Reservation(f"{number:064}", "rho", Fraction(1), part, {"r": part})
                reserve = partial(ledger.reserve, str(number), terms, one, time=time)
                if fits:
                    reserve()
                else:
                    require_refused("a gauge whose terms begin at other times", reserve, LedgerError)


ARITHMETIC: dict[str, Callable[[], None]] = {
    "terms of a shared ledger": check_same_terms,
    "sums of large numbers": check_large_sums,
    "reservations of a ledger": check_reservations,
}

"""A gauge and the ledger that it shares with others.

In this order, each step durable: the gauge reserves in the shared ledger, commits its plan in its store, and
confirms in the ledger; then it measures.  A process that dies in between goes on where it was.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.errors import LedgerError, SpecError
from tidegauge.model.json import as_object, as_text
from tidegauge.model.terms import Beginning
from tidegauge.store.public.shared import SharedLedger, Terms

if TYPE_CHECKING:
    from fractions import Fraction
    from pathlib import Path

    from tidegauge.plan.plan import Plan
    from tidegauge.plan.spec.places import LedgerSpec
    from tidegauge.store.store import Store


class Sharing:
    """The shared ledger that a gauge declares, or that there is none."""

    def __init__(self, declared: LedgerSpec | None, base: Path) -> None:
        self._declared = declared
        self.ledger = None if declared is None else SharedLedger(base / declared.path)

    def reserve(self, store: Store, plan: Plan, loss: Fraction, *, time: str) -> str | None:
        """Reserve so much for a plan before it is committed; returns the identity of the ledger.

        What was reserved for it before counts.
        """
        if self.ledger is None:
            return None
        reservation = replace(plan.reservation, reserved=loss)
        self.ledger.reserve(store.identity(), self._terms(plan), reservation, time=time)
        return self.ledger.entries()[0].hash

    def confirm(self, store: Store, plan: Plan, *, time: str) -> None:
        """Require that the ledger has reserved the committed plan, and record there that it is committed."""
        if store.shared_ledger is None and self.ledger is None:
            return
        if store.shared_ledger is None:
            raise SpecError(
                "this gauge was committed without a shared ledger, and its loss is not counted there. Take "
                "[ledger] out of the declaration, or start another gauge with a store of its own",
                key="ledger",
            )
        if self.ledger is None:
            raise SpecError(
                "is missing: this gauge was committed with a shared ledger. Name it again: [ledger] path",
                key="ledger",
            )
        if self.ledger.entries()[0].hash != store.shared_ledger:
            raise LedgerError(
                f"{self.ledger.path.name} is another ledger than the one that this gauge was committed with. "
                "Nothing was read or spent. Name that one: [ledger] path"
            )
        plans = [part.hash for part in plan.parts or (plan,)]
        self.ledger.confirm(store.identity(), plans, plan.reserved + plan.held_back, time=time)

    def _terms(self, plan: Plan) -> Terms:
        source, terms = as_object(plan.declaration["source"]), plan.program.terms
        owner = (self._declared.unit if self._declared else None) or plan.program.owner
        term = None if terms is None else str(terms.every)
        begins = None if terms is None else Beginning.of(terms)
        unit = owner or f"row of {as_text(source['table'])}"
        return Terms(plan.measure, plan.total, unit, term, begins=begins)

"""The committed plan of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.plan.grow import all_certified

if TYPE_CHECKING:
    from tidegauge.plan.plan import Plan
    from tidegauge.store.public.part import PublicPart


def committed(store: PublicPart) -> Plan | None:
    """All committed plans as one, their privacy loss computed again; None before the first commit."""
    records = store.plans
    return all_certified(records, (entry.body for entry in store.ledger.entries())) if records else None

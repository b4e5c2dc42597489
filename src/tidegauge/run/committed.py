"""The committed plan of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.plan.grow import all_certified
from tidegauge.plan.outline import require_recorded

if TYPE_CHECKING:
    from tidegauge.plan.plan import Plan
    from tidegauge.store.public.part import PublicPart


def committed(store: PublicPart) -> Plan | None:
    """All committed plans as one, their privacy loss computed again; None before the first commit."""
    records, commits = store.plans, [entry.body for entry in store.ledger.entries()]
    plan = all_certified(records, commits) if records else None
    require_recorded(records, commits)
    return plan

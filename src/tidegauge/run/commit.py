"""Commits the plans of a gauge: the first one, and those that add releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegauge.engine.registry import open_engine
from tidegauge.errors import PlanChanged, SpecError
from tidegauge.model.quantity import rfc3339
from tidegauge.plan.grow import combined
from tidegauge.plan.spec.change import added, changed
from tidegauge.run.committed import committed
from tidegauge.run.ready import require_ready
from tidegauge.store.store import Commitment

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.mechanism.noise.samplers import Sampler
    from tidegauge.model.source import OpenSource
    from tidegauge.plan.plan import Plan
    from tidegauge.plan.spec.declaration import GaugeSpec
    from tidegauge.run.shared import Sharing
    from tidegauge.store.store import Store

NOTHING_COMMITTED = (
    "no plan is committed yet, so there is nothing to add to. Commit the first one with: tidegauge run"
)
_MIXED = "simulated noise and a real ledger do not mix"


def require_unchanged(whole: Plan, spec: GaugeSpec) -> None:
    """Raise PlanChanged unless the declaration is the committed one."""
    changes = changed(whole.declaration, spec)
    if not changes:
        return
    new = added(whole.declaration, spec)
    if whole.budget.reserve is not None and changes == [f"release.{name}: was added" for name in sorted(new)]:
        raise PlanChanged(
            f"{', '.join(new)}: declared, but not committed. Nothing was read or spent. See what it costs "
            "and commit it with: tidegauge amend"
        )
    raise PlanChanged(
        "a committed plan cannot be changed, but the declaration was:\n  " + "\n  ".join(changes) + "\n"
        "Nothing was read or spent. Put these keys back as they were, or start another gauge with a "
        "store of its own (tidegauge run --store other.db); the privacy losses of both gauges add "
        "up. What was published can still be read: tidegauge readings"
    )


@dataclass(frozen=True)
class Commits:
    """What committing needs of a gauge."""

    spec: GaugeSpec
    shared: Sharing
    sampler: Sampler

    def first(self, store: Store, source: OpenSource, plan: Plan, *, now: int, checked: bool = False) -> Plan:
        """Check the source and commit the first plan.  The source keeps what it read for the check.

        A plan that was amended is committed as it was: its parts one after the other.  `checked`: the source
        was checked before, when its changelog was stamped.
        """
        committed(store.public)  # refuses a store that lost its plan
        if plan.declaration != self.spec.canonical():
            raise SpecError("the plan was made from another declaration; make it with plan() of this gauge")
        store.public.witness.require_writable()
        if not checked:
            require_ready(source, plan.program.wanted(source.columns))
        time = rfc3339(now)
        if plan.choice is not None:
            from tidegauge.run.choose import choose  # noqa: PLC0415  (slow to load)

            self.shared.reserve(store, plan, plan.choice.cost, time=time)
            plan = choose(self.spec, source, store, self.sampler, now=now)
        begins, *more = plan.parts or (plan,)
        kind, secret = self.spec.engine.kind, store.engine_secret
        with open_engine(kind, begins.program, plan.columns, store=store.path, secret=secret) as engine:
            layout = engine.layout.tables()
        if self.sampler.simulated and self.shared.ledger is not None:
            raise SpecError(_MIXED, key="ledger")
        shared = self.shared.reserve(store, plan, plan.reserved + plan.held_back, time=time)
        store.commit_plan(
            Commitment(begins.record(), time, begins.reservation, layout, self.sampler.simulated, shared)
        )
        for part in more:
            store.amend_plan(part.record(), part.reservation, time=time)
        return plan

    def require_own_noise(self, store: Store) -> None:
        """Raise SpecError where simulated noise would meet real noise in one store."""
        if store.public.simulated != self.sampler.simulated:
            raise SpecError(f"{_MIXED}: use a store of its own for simulation")

    def amendment(self, store: Store, source: OpenSource, *, now: int, cache: Path | None = None) -> Plan:
        """The plan of the releases that the declaration adds.  Spends nothing."""
        from tidegauge.plan.amend import amendment  # noqa: PLC0415  (slow to load)

        if (whole := committed(store.public)) is None:
            raise SpecError(NOTHING_COMMITTED)
        plan = amendment(
            self.spec,
            whole,
            table=source.table,
            columns=source.columns,
            now=now,
            reached=store.secret.clock.watermark,
            cache=cache,
        )
        together = combined([*(whole.parts or (whole,)), plan])
        open_engine(self.spec.engine.kind, together.program, together.columns).close()
        return plan

    def more(self, store: Store, plan: Plan, *, now: int) -> None:
        """Commit the plan of added releases; all of it or, where this process dies, nothing."""
        whole = committed(store.public)
        parts = () if whole is None else whole.parts or (whole,)
        if whole is None or plan.amends != parts[-1].hash or plan.declaration != self.spec.canonical():
            raise SpecError("the plan was made for another gauge; make it with amendment() of this gauge")
        if plan.begins < store.secret.clock.watermark:
            raise SpecError(
                "a run has gone past the start of what is added. Nothing was committed or spent. Make the "
                "plan again, with a later start: tidegauge amend"
            )
        self.require_own_noise(store)
        store.public.witness.require_writable()
        time = rfc3339(now)
        self.shared.confirm(store, whole, time=time)  # refuses an old copy of the store
        store.amend_plan(plan.record(), plan.reservation, time=time)
        together = committed(store.public)
        assert together is not None
        self.shared.confirm(store, together, time=time)
        store.public.attest()

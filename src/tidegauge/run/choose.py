"""at_most = "auto": reserve the privacy loss of the draw, draw once, keep it, then plan.

A kill leaves the reservation, or the reservation and the draw.  The next run finds both: it never reserves a
second time, and never draws a second time once a draw is kept.  A draw that was not kept was never shown.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.errors import SpecError
from tidegauge.model.ledger import Reservation
from tidegauge.model.quantity import rfc3339
from tidegauge.plan.certify import accounted
from tidegauge.plan.planner import make_plan
from tidegauge.plan.warn import overdue
from tidegauge.simulate.choice import biases, open_choice, scores

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.mechanism.noise.samplers import Sampler
    from tidegauge.model.source import OpenSource
    from tidegauge.plan.plan import Plan
    from tidegauge.plan.spec.declaration import GaugeSpec
    from tidegauge.simulate.choice import Open
    from tidegauge.store.store import Store


def first_plan(
    spec: GaugeSpec, source: OpenSource, *, now: int, cache: Path | None = None, ask: bool = False
) -> Plan:
    """The plan of a declaration; where at_most is to be chosen, the plan before the draw.

    `cache`, `ask`: as for make_plan.  Reads no data and spends nothing.
    """
    if spec.constraint is None or not spec.constraint.auto:
        plan = make_plan(
            spec,
            table=source.table,
            columns=source.columns,
            now=now,
            leaves_out=source.leaves_out,
            cache=cache,
            ask=ask,
        )
        late = () if source.has_past else overdue(plan.releases, now)
        return replace(plan, warnings=(*plan.warnings, *late))
    _require_past(source)
    return open_choice(spec, source, now=now).preview()


def choose(spec: GaugeSpec, source: OpenSource, store: Store, sampler: Sampler, *, now: int) -> Plan:
    """The plan with at_most and on_excess as they are drawn, or were drawn before a kill."""
    _require_past(source)
    opened = open_choice(spec, source, now=now)
    store.draw.reserve(_reservation(opened), time=rfc3339(now), simulated=sampler.simulated)
    if store.public.simulated != sampler.simulated:
        raise SpecError("simulated noise and a real ledger do not mix: use a store of its own for simulation")
    drawn = store.draw.number
    if drawn is None:
        found = scores(opened.choice, biases(opened, source, now=now))
        drawn = found.law(opened.choice, pure=spec.budget.budget.pure).draw(found.values, sampler)
        store.draw.keep(drawn)
    return opened.plan(drawn)


def _require_past(source: OpenSource) -> None:
    if source.follows:
        raise SpecError(
            "'auto' needs a changelog in files, and this source is followed as it changes. Try tidegauge "
            "simulate (with --history, unless the source has versions of its rows), and write at_most as a "
            "number",
            key="constraint.at_most",
        )


def _reservation(opened: Open) -> Reservation:
    """What is reserved for the draw; its digest names the declaration and the candidates."""
    choice, spec = opened.choice, opened.spec
    drawn_from = {"declaration": spec.canonical(), "candidates": choice.candidates, "cost": str(choice.cost)}
    digest = hashlib.sha256(json.dumps(drawn_from, sort_keys=True).encode()).hexdigest()
    return Reservation(
        plan="",
        measure="epsilon" if spec.budget.budget.pure else "rho",
        budget=accounted(spec.budget.budget),
        reserved=choice.cost,
        releases={},
        choice=digest,
    )

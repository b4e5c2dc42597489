"""Plan and certify once for gauges that are declared alike.

Both depend on the declaration, the clock and the registered kinds of strategies and aggregates alone.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from tidegauge.mechanism.aggregates import AGGREGATES
from tidegauge.mechanism.registry import STRATEGIES
from tidegauge.plan import planner
from tidegauge.plan.grow import all_certified

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tidegauge.model.ledger import Reservation
    from tidegauge.plan.plan import Plan
    from tidegauge.plan.spec.declaration import GaugeSpec


class SharedPlans:
    """What was planned and certified so far, by everything that it was made from."""

    def __init__(self) -> None:
        self._plan = planner.make_plan
        self._plans: dict[str, Plan] = {}
        self._certified: dict[str, Plan] = {}

    def make_plan(self, spec: GaugeSpec, *, cache: Any = None, **options: Any) -> Plan:
        """As `planner.make_plan`; `cache` is where matrices are kept and has no influence on the plan."""
        made_from = repr((spec, sorted(options.items()))) + _registered()
        if made_from not in self._plans:
            self._plans[made_from] = self._plan(spec, cache=cache, **options)
        return self._plans[made_from]

    def certified(self, records: Sequence[Mapping[str, Any]], commits: Iterable[Reservation]) -> Plan:
        """As `grow.all_certified`; a refusal is not remembered."""
        reserved = list(commits)
        made_from = json.dumps(records, sort_keys=True) + repr(reserved) + _registered()
        if made_from not in self._certified:
            self._certified[made_from] = all_certified(records, reserved)
        return self._certified[made_from]


_SEEN: Final[dict[int, object]] = {}
"""Plug-ins that plans were made with.  They stay alive:
another one never gets the address of one that is gone."""


def _registered() -> str:
    """What plug-ins there are: a plan with one is not a plan where it is gone."""
    plug_ins = [*STRATEGIES, *AGGREGATES]
    for one in plug_ins:
        _SEEN[id(one)] = one
    return repr([(one.name, id(one)) for one in plug_ins])


@contextmanager
def shared_plans(shared: SharedPlans | None = None) -> Iterator[None]:
    """Let every gauge inside use what gauges before have planned and certified."""
    shared = shared or SharedPlans()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegauge.plan.planner.make_plan", shared.make_plan)
        patch.setattr("tidegauge.run.choose.make_plan", shared.make_plan)
        patch.setattr("tidegauge.run.committed.all_certified", shared.certified)
        patch.setattr("tidegauge.publish.verify.all_certified", shared.certified)
        yield

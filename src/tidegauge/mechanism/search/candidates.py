"""The candidates of the planner: every strategy that is valid for a release, with tuned parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.mechanism import registry
from tidegauge.mechanism.strategies.disjoint import Disjoint

if TYPE_CHECKING:
    from tidegauge.mechanism.search.task import Search
    from tidegauge.mechanism.strategy import Strategy


def candidates(search: Search, *, only: str | None = None) -> list[Strategy]:
    """Every valid strategy, tuned for the readings of the search, kind by kind.

    `only`: the strategies of this kind, even if the search takes minutes.  Raises SpecError if there is no
    such kind.
    """
    chosen = tuple(registry.STRATEGIES)
    if only is not None:
        chosen, search = (registry.STRATEGIES.named(only),), replace(search, ask=True)
    if search.schedule.bins == 1:  # one reading: measure everything once
        chosen = tuple(kind for kind in chosen if kind.name == Disjoint.name)
    found = [strategy for kind in chosen for strategy in kind.candidates(search)]
    return found if search.shared else [strategy for strategy in found if strategy.shared is None]

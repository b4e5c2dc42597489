"""Every kind of strategy, by its name.  A new kind is a file in `strategies` and one line below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.mechanism.strategies import (
    ahead,
    autoregressive,
    buffered,
    damped,
    dense,
    disjoint,
    epochs,
    hierarchy,
    levels,
    sliding,
    toeplitz,
)
from tidegauge.model.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.mechanism.strategy import Strategy, StrategyKind

STRATEGIES: Final[Registry[StrategyKind]] = Registry("a strategy")


def record(strategy: Strategy) -> dict[str, int | float | str]:
    """The strategy as a committed plan records it, without its attachments."""
    return {"name": strategy.name, **strategy.parameters}


def build(
    name: str,
    parameters: Mapping[str, int | float | str],
    *,
    attachments: Mapping[str, str] | None = None,
) -> Strategy:
    """The strategy with this name and these parameters, as a committed plan records them."""
    return STRATEGIES.named(name).from_record(parameters, attachments or {})


for _kind in (
    disjoint.KIND,
    hierarchy.KIND,
    toeplitz.KIND,
    autoregressive.KIND,
    epochs.KIND,
    damped.KIND,
    buffered.KIND,
    sliding.KIND,
    dense.KIND,
    levels.KIND,
    ahead.KIND,
):
    STRATEGIES.register(_kind.name, _kind)

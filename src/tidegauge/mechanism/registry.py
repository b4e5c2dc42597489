"""Every kind of strategy, by its name.  A new kind is a file in `strategies` and one line below.

Each is loaded when it is first used; a file has the name of its strategy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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


for _name in (
    "disjoint",
    "hierarchy",
    "toeplitz",
    "autoregressive",
    "epochs",
    "damped",
    "buffered",
    "sliding",
    "dense",
    "levels",
    "ahead",
):
    STRATEGIES.register(_name, f"tidegauge.mechanism.strategies.{_name}")

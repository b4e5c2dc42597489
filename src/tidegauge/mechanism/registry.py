"""Every kind of strategy, by its name.  A new kind is a file in `strategies` and one line below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
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

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.mechanism.strategy import Strategy, StrategyKind

_KINDS: Final[dict[str, StrategyKind]] = {}


def register(kind: StrategyKind) -> None:
    """Make a kind of strategy available to plans.  Raises SpecError if its name is taken."""
    if kind.name in _KINDS:
        raise SpecError(f"a strategy called {kind.name!r} is registered already: give this one another name")
    _KINDS[kind.name] = kind


def unregister(name: str) -> None:
    """Remove a kind of strategy that `register` added."""
    del _KINDS[name]


def kinds() -> tuple[StrategyKind, ...]:
    """All kinds, in the order in which they were registered."""
    return tuple(_KINDS.values())


def find(name: str) -> StrategyKind | None:
    """The kind with this name, or None."""
    return _KINDS.get(name)


def kind_of(name: str) -> StrategyKind:
    """The kind with this name.  Raises SpecError if there is none."""
    if name not in _KINDS:
        raise SpecError(f"there is no strategy called {name!r}; there are: {', '.join(sorted(_KINDS))}")
    return _KINDS[name]


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
    return kind_of(name).from_record(parameters, attachments or {})


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
    register(_kind)

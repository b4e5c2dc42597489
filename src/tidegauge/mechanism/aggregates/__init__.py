"""Every aggregate, by its name.  A new aggregate is a file in this folder and one line below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.mechanism.aggregates.linear import Count, Sum
from tidegauge.mechanism.aggregates.mean import Mean

if TYPE_CHECKING:
    from tidegauge.mechanism.aggregate import Aggregate

_AGGREGATES: Final[dict[str, Aggregate]] = {}


def register(aggregate: Aggregate) -> None:
    """Make an aggregate available to releases.  Raises SpecError if its name is taken."""
    if aggregate.name in _AGGREGATES:
        raise SpecError(
            f"an aggregate called {aggregate.name!r} is registered already: give this one another name"
        )
    _AGGREGATES[aggregate.name] = aggregate


def unregister(name: str) -> None:
    """Remove an aggregate that `register` added."""
    del _AGGREGATES[name]


def names() -> frozenset[str]:
    """The SQL functions that releases can publish, in small letters."""
    return frozenset(_AGGREGATES)


def aggregate_of(name: str) -> Aggregate:
    """The aggregate with this name.  Raises SpecError if there is none."""
    if name not in _AGGREGATES:
        raise SpecError(f"there is no aggregate called {name!r}; there are: {', '.join(sorted(_AGGREGATES))}")
    return _AGGREGATES[name]


for _aggregate in (Count(), Sum(), Mean()):
    register(_aggregate)

"""Every aggregate, by its name.  A new aggregate is a file in this folder and one line below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.mechanism.aggregates.linear import Count, Sum
from tidegauge.mechanism.aggregates.mean import Mean
from tidegauge.model.registry import Registry

if TYPE_CHECKING:
    from tidegauge.mechanism.aggregate import Aggregate

AGGREGATES: Final[Registry[Aggregate]] = Registry("an aggregate")
"""By the names of the SQL functions that releases can publish, in small letters."""


def aggregate_of(name: str) -> Aggregate:
    """The aggregate with this name.  Raises SpecError if there is none."""
    return AGGREGATES.named(name)


for _aggregate in (Count(), Sum(), Mean()):
    AGGREGATES.register(_aggregate.name, _aggregate)

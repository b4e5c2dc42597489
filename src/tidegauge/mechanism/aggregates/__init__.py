"""Every aggregate, by its name.  A new aggregate is a file in this folder and one line below.

Each is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.model.registry import Registry

if TYPE_CHECKING:
    from tidegauge.mechanism.aggregate import Aggregate

AGGREGATES: Final[Registry[Aggregate]] = Registry("an aggregate")
"""By the names of the SQL functions that releases can publish, in small letters."""


def aggregate_of(name: str) -> Aggregate:
    """The aggregate with this name.  Raises SpecError if there is none."""
    return AGGREGATES.named(name)


AGGREGATES.register("count", "tidegauge.mechanism.aggregates.count")
AGGREGATES.register("sum", "tidegauge.mechanism.aggregates.sum")
AGGREGATES.register("avg", "tidegauge.mechanism.aggregates.mean")

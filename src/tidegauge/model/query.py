"""The query of a release, compiled from its SELECT.

A query sorts each row into at most one *cell* (a combination of declared group values; a query without groups
has the one cell 0) and gives it one integer per *component*, in units of the component's grid.  COUNT and SUM
have one component, AVG has two (sum and count), from which its ratio is decoded.

The expressions (tidegauge.model.expression) are over the old and the new row.  A stock's expressions look at
the new row alone.  They never fail: what cannot be computed is NULL, and NULL counts as nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Literal

from tidegauge.model.expression import Expression

Kind = Literal["stock", "flow"]
Value = str | int | bool
"""A declared group value (a decimal is declared as text)."""


@dataclass(frozen=True)
class Component:
    """One bounded linear quantity: `value` gives an integer in [lower, upper], in units of `grid`."""

    name: Literal["count", "sum"]
    value: Expression
    lower: int
    upper: int
    grid: Fraction = Fraction(1)
    centre: Fraction = Fraction(0)
    """The number that is subtracted from every value before summing: AVG sums differences from the middle of
    its bounds."""


@dataclass(frozen=True)
class Group:
    """A group column by the name it is published under, and its public domain."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Query:
    """A linear query over the rows (stock) or the changes (flow) of one table."""

    kind: Kind
    aggregate: str
    """The name of the SQL function; tidegauge.mechanism.aggregates has them all."""
    table: str
    text: str
    """The SELECT in canonical form, as it is committed."""
    cell: Expression
    """The row's cell number, or NULL where WHERE rejects the row or a group value is not declared."""
    outside: Expression
    """Whether WHERE accepts the row but no declared cell does; counted for the operator alone."""
    components: tuple[Component, ...]
    groups: tuple[Group, ...] = ()
    before: tuple[str, ...] = ()
    """Columns of the old row that a flow uses."""
    after: tuple[str, ...] = ()
    """Columns of the new row that the query uses."""
    own_columns: bool = False
    """Whether a flow sees an update only if the update changes a column that the flow uses.  Flows of older
    plans see every update that changes a column that the source delivers."""

    @property
    def watched(self) -> tuple[str, ...] | None:
        """The columns of which at least one must change, so that a flow sees an update; None: any column."""
        return tuple(sorted({*self.before, *self.after})) if self.own_columns else None

    @property
    def cells(self) -> tuple[dict[str, Value] | None, ...]:
        """Every cell's public name, by cell number: the product of the domains, the last varying fastest."""
        return cells_of(self.groups)


@lru_cache(maxsize=64)  # named once, and not for every reading
def cells_of(groups: tuple[Group, ...]) -> tuple[dict[str, Value] | None, ...]:
    """Every cell of these groups, by its number; without groups, the one cell of all rows."""
    if not groups:
        return (None,)
    names = [group.name for group in groups]
    return tuple(
        dict(zip(names, values, strict=True)) for values in product(*(group.values for group in groups))
    )

"""What a release measures of every row, as compiled from its SELECT.

A query sorts each row into at most one *cell* (a combination of declared group values; a query without groups
has the one cell 0) and gives it one integer per *component*, in units of the component's grid.  COUNT and SUM
have one component, AVG has two (sum and count), from which its ratio is decoded.

The expressions are SQL of the embedded engine over two structs, `before` and `after`.  A stock's expressions
speak of `after` alone.  They never fail: what cannot be computed is NULL, and NULL counts as nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Literal

Kind = Literal["stock", "flow"]
Aggregate = Literal["count", "sum", "avg"]
Value = str | int | bool
"""A declared group value (a decimal is declared as text)."""


@dataclass(frozen=True)
class Component:
    """One bounded linear quantity: `value` is SQL giving an integer in [lower, upper], in units of `grid`."""

    name: Literal["count", "sum"]
    value: str
    lower: int
    upper: int
    grid: Fraction = Fraction(1)
    centre: Fraction = Fraction(0)
    """What was taken off every value before summing (AVG sums distances from the middle of its bounds)."""

    @property
    def amount(self) -> str:
        """SQL of the integer that counts: NULL is 0, and whatever `value` says, nothing lies beyond the bounds and 0.

        The loss is computed from the bounds, so the engine enforces them and does not rely on `value`.
        """
        found = f"coalesce(TRY(CAST({self.value} AS BIGINT)), 0)"
        return f"least(greatest({found}, {min(self.lower, 0)}), {max(self.upper, 0)})"


@dataclass(frozen=True)
class Group:
    """A group column by the name it is published under, and its public domain."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Query:
    """A linear query over the rows (stock) or the changes (flow) of one table."""

    kind: Kind
    aggregate: Aggregate
    table: str
    text: str
    """The SELECT in canonical form, as it is committed."""
    cell: str
    """SQL giving the row's cell number, or NULL where WHERE rejects it or a group value is not declared."""
    outside: str
    """SQL telling whether WHERE accepts the row but no declared cell does; counted for the operator alone."""
    components: tuple[Component, ...]
    groups: tuple[Group, ...] = ()
    before: tuple[str, ...] = ()
    """Columns of the old row that a flow speaks of."""
    after: tuple[str, ...] = ()
    """Columns of the new row that the query speaks of."""

    @property
    def cells(self) -> tuple[dict[str, Value] | None, ...]:
        """Every cell's public name, by cell number: the product of the domains, the last varying fastest."""
        return _cells(self.groups) if self.groups else (None,)


@lru_cache(maxsize=64)
def _cells(groups: tuple[Group, ...]) -> tuple[dict[str, Value], ...]:
    """Named once, and not for every reading."""
    names = [group.name for group in groups]
    return tuple(
        dict(zip(names, values, strict=True)) for values in product(*(group.values for group in groups))
    )

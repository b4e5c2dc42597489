"""The contribution of a row: bounded integers in units of a grid."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.model.expression import Constant, call
from tidegauge.model.quantity import fraction
from tidegauge.model.query import Component
from tidegauge.plan.sql.groups import toml_key
from tidegauge.plan.sql.refusals import Refused
from tidegauge.plan.sql.terms import Term, double_literal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tidegauge.mechanism.aggregate import Part

MOST_STEPS: Final = 2**50
"""Most steps for which a decimal on the grid survives the conversion to DOUBLE exactly."""
FINEST: Final = 9


@dataclass(frozen=True)
class Range:
    """The declared bounds of a SUM or AVG, in steps of its grid."""

    lower: int
    upper: int
    grid: Fraction

    @property
    def middle(self) -> int:
        """The step in the middle; AVG measures distances from it."""
        return (self.lower + self.upper) // 2


def declared_range(
    what: str,
    names: Sequence[str],
    *,
    bounds: Mapping[str, tuple[Fraction, Fraction]],
    grids: Mapping[str, Fraction],
) -> Range:
    """The declared bounds and grid, under one of the names of the aggregate."""
    key = _declared("bounds", names, bounds)
    if key is None:
        raise Refused(
            f"{what} needs the bounds of its values; add bounds.{toml_key(names[0])} = [lowest, highest]"
        )
    at = f"bounds.{toml_key(key)}"
    try:
        low, high = (fraction(bound) for bound in bounds[key])
    except (SpecError, TypeError, ValueError):
        raise Refused("bounds are two finite numbers, [lowest, highest]", key=at) from None
    if low > high:
        raise Refused("the lower bound is above the upper one; turn them round", key=at)
    if low == high:
        raise Refused("the bounds are equal, so nothing is left to measure; COUNT the rows instead", key=at)
    grid_key = _declared("grid", names, grids)
    grid = _default_grid(low, high, at) if grid_key is None else _declared_grid(grids[grid_key], grid_key)
    if not _on(grid, low, high):
        raise Refused(f"the bounds do not lie on the grid {grid}; move them to a multiple of it", key=at)
    steps = Range(int(low / grid), int(high / grid), grid)
    if max(abs(steps.lower), abs(steps.upper)) > MOST_STEPS:
        coarser = f"declare a coarser grid.{toml_key(key)} or narrower bounds"
        raise Refused(f"the bounds are more than 2^50 steps of the grid {grid} from 0; {coarser}", key=at)
    return steps


def _declared(table: str, names: Sequence[str], declared: Collection[str]) -> str | None:
    """The key of the aggregate, or None.  Raises Refused for any other key."""
    found = [key for name in names for key in declared if _squeezed(key) == _squeezed(name)]
    for key in declared:
        if key not in found[:1]:
            say = f"{table}.{toml_key((found or list(names))[0])}"
            raise Refused(
                f"{say} says it already; remove one of the two"
                if found
                else f"nothing here is called {key}; write {say}",
                key=f"{table}.{toml_key(key)}",
            )
    return found[0] if found else None


def refuse_declared(what: str, table: str, declared: Collection[str]) -> None:
    """Refuse bounds or a grid for an aggregate that takes none."""
    if declared:
        raise Refused(f"{what} needs none; remove it", key=f"{table}.{toml_key(min(declared))}")


def _squeezed(key: str) -> str:
    return "".join(key.lower().split())


def _on(grid: Fraction, *bounds: Fraction) -> bool:
    return all((bound / grid).denominator == 1 for bound in bounds)


def _default_grid(low: Fraction, high: Fraction, at: str) -> Fraction:
    """The coarsest power of ten with six digits for which both bounds are on the grid."""
    for places in range(FINEST + 1):
        grid = Fraction(1, 10**places)
        six = max(abs(low), abs(high)) >= 10**5 * grid or places == FINEST
        if six and _on(grid, low, high):
            return grid
    raise Refused(
        f"the bounds have more than {FINEST} digits after the point; round them, or declare a grid", key=at
    )


def _declared_grid(written: Fraction, key: str) -> Fraction:
    at = f"grid.{toml_key(key)}"
    try:
        grid = fraction(written)
    except SpecError:
        raise Refused("a grid is a finite number", key=at) from None
    if grid <= 0 or max(grid.numerator, grid.denominator) > 2**53:
        raise Refused("a grid lies above 0 and is a fraction of integers up to 2^53", key=at)
    return grid


def count_of(term: Term | None) -> Component:
    """COUNT(*), or COUNT of an expression; NaN counts, NULL does not."""
    return Component("count", Constant(1) if term is None else call("counts", term.expression), 0, 1)


def sum_of(term: Term, steps: Range, *, centre: int = 0) -> Component:
    """SUM of distances from `centre` (in steps): clamped, rounded half away from 0; NULL and NaN count 0."""
    grid = steps.grid
    settings = (steps.lower * grid, steps.upper * grid, grid.denominator, grid.numerator)
    doubles = (double_literal(setting).expression for setting in settings)
    return Component(
        "sum",
        call("steps", term.expression, *doubles, centre),
        steps.lower - centre,
        steps.upper - centre,
        steps.grid,
        centre * steps.grid,
    )


def present(term: Term) -> Component:
    """The number of rows of an AVG: those with a number."""
    return Component("count", call("counts number", term.expression), 0, 1)


def component_of(part: Part, term: Term, steps: Range) -> Component:
    """The component of one part of an aggregate with bounded values."""
    match part:
        case "rows":
            return count_of(term)
        case "numbers":
            return present(term)
        case "values":
            return sum_of(term, steps)
        case "distances":
            return sum_of(term, steps, centre=steps.middle)

"""The grid of a simulation: which constraints, budgets and periods are tried."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Final, Literal

from tidegauge.errors import SpecError
from tidegauge.model.grid import Variant
from tidegauge.model.program import Allowance
from tidegauge.model.quantity import Span, fraction
from tidegauge.plan.spec.declaration import BudgetSpec, ConstraintSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegauge.plan.spec.declaration import GaugeSpec

OnExcess = Literal["freeze", "retire"]
AT_MOST: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""The values of at_most that are tried unless others are asked for."""
ON_EXCESS: Final[tuple[OnExcess, ...]] = ("freeze", "retire")
MOST: Final = 2000
"""Most combinations at once."""
NONE: Final = "none"


@dataclass(frozen=True)
class Bounds:
    """One constraint of the grid; None: without such a bound.  `declared`: the cases of a column `by`."""

    at_most: int | None
    within: Span | None
    on_excess: OnExcess
    declared: bool = False
    renews: Span | None = None

    @property
    def for_noise(self) -> tuple[int | None, Span | None, bool, Span | None]:
        """What the noise depends on: not on what happens beyond the bounds."""
        return self.at_most, self.within, self.declared, self.renews

    def applied(self, spec: ConstraintSpec | None, *, own: bool = False) -> ConstraintSpec | None:
        """A declared constraint with these bounds in place of its own.

        `own`: the constraint of one release, which renews as that of the gauge does.
        """
        if self.at_most is None and self.within is None and not self.declared:
            return None
        terms: dict[str, object] = {
            "renews": None if own else self.renews,
            "renews_from": None if own or self.renews is None or spec is None else spec.renews_from,
        }
        if self.declared:
            return None if spec is None else spec.model_copy(update={"on_excess": self.on_excess, **terms})
        bounds = {"at_most": self.at_most, "within": self.within, "on_excess": self.on_excess}
        return ConstraintSpec.model_validate(bounds).model_copy(update=terms)


@dataclass(frozen=True)
class Grid:
    """Every combination of these values is simulated."""

    bounds: tuple[Bounds, ...]
    epsilons: tuple[Fraction | None, ...]
    """None: the declared budget."""
    everys: tuple[Span | None, ...]
    """None: as often as each release declares."""

    def __post_init__(self) -> None:
        count = len(self.bounds) * len(self.epsilons) * len(self.everys)
        if count > MOST:
            raise SpecError(f"the grid has {count:,} combinations; {MOST:,} is the most")

    @property
    def renewals(self) -> tuple[Span | None, ...]:
        """The lengths of terms, each once; None: constraints do not renew."""
        return tuple(dict.fromkeys(one.renews for one in self.bounds))

    def renewal(self, bounds: Bounds) -> int:
        """The number of the terms that these bounds have."""
        return self.renewals.index(bounds.renews)

    def variants(self, spec: ConstraintSpec | None) -> list[Variant]:
        """The constraint of one scope, for each of the bounds."""
        found = []
        for one in self.bounds:
            constraint, renewal = one.applied(spec), self.renewal(one)
            if constraint is None:
                found.append(Variant(((None, Allowance()),), renewal=renewal))
            else:
                found.append(Variant(constraint.allowances, constraint.on_excess == "retire", renewal))
        return found


@dataclass(frozen=True)
class Asked:
    """What the user asked for; None: the default of each."""

    at_most: Sequence[str] | None = None
    within: Sequence[str] | None = None
    on_excess: Sequence[str] | None = None
    epsilon: Sequence[str] | None = None
    every: Sequence[str] | None = None
    renews: Sequence[str] | None = None


def grid_of(spec: GaugeSpec, asked: Asked) -> Grid:
    """The grid that was asked for.  Raises SpecError for values that cannot be simulated."""
    epsilons = tuple(_epsilon(value) for value in asked.epsilon or ())
    everys = tuple(_span(value, "--every") for value in asked.every or ())
    return Grid(tuple(_bounds(spec, asked)), epsilons or (None,), everys or (None,))


def _bounds(spec: GaugeSpec, asked: Asked) -> list[Bounds]:
    modes = [_mode(value) for value in asked.on_excess or ON_EXCESS]
    term = None if spec.constraint is None else spec.constraint.renews
    terms = [None if value == NONE else _span(value, "--renews") for value in asked.renews or ()] or [term]
    declared = [spec.constraint, *(one.constraint for one in spec.measured.values())]
    if any(one is not None and one.by is not None for one in declared):
        if asked.at_most or asked.within:
            raise SpecError(
                "the constraint is declared by cases of a column; edit the cases to try other values, "
                "and simulate without --at-most and --within"
            )
        return [
            Bounds(None, None, mode, declared=True, renews=renews) for renews, mode in product(terms, modes)
        ]
    own = None if spec.constraint is None else spec.constraint.within
    withins = [None if value == NONE else _span(value, "--within") for value in asked.within or ()] or [own]
    mosts = [_most(value) for value in asked.at_most or map(str, AT_MOST)]
    found = [
        Bounds(most, within, mode, renews=None if (most, within) == (None, None) else renews)
        for renews, within, most, mode in product(terms, withins, mosts, modes)
        if (most is None or most > 1 or mode == "freeze")
        and ((most, within) != (None, None) or (mode == "freeze" and renews == terms[0]))
    ]
    if not found:
        raise SpecError(
            "with at_most = 1 a unit would retire as it enters, and no unit would ever count; use freeze",
            key="--on-excess",
        )
    return found


def _most(value: str) -> int | None:
    if value == NONE:
        return None
    if not value.isdigit() or not 1 <= int(value) <= 2**31:
        raise SpecError(f"'{value}' is not a whole number of 1 or more, or none", key="--at-most")
    return int(value)


def _mode(value: str) -> OnExcess:
    if value not in ON_EXCESS:
        raise SpecError(f"'{value}' is not one of {', '.join(ON_EXCESS)}", key="--on-excess")
    return value


def _span(value: str, key: str) -> Span:
    try:
        span = Span.parse(value)
    except SpecError as error:
        raise SpecError(str(error), key=key) from None
    if key == "--within" and span.months:
        raise SpecError(f"'{value}' has no fixed length; write it in days", key=key)
    return span


def _epsilon(value: str) -> Fraction:
    try:
        found = fraction(value)
    except SpecError as error:
        raise SpecError(str(error), key="--epsilon") from None
    if found <= 0:
        raise SpecError("must be greater than 0", key="--epsilon")
    return found


def with_values(
    spec: GaugeSpec, bounds: Bounds, epsilon: Fraction | None, every: Span | None, starts: Mapping[str, int]
) -> GaugeSpec:
    """The declaration with these values.  `starts`: when each release is supposed to have started."""
    releases = dict(spec.release)
    for name, one in spec.measured.items():
        changed: dict[str, object] = {"start": starts[name]}
        if every is not None:
            changed["every"] = every
            if one.window == one.every:
                changed["window"] = every
        if one.constraint is not None:
            changed["constraint"] = bounds.applied(one.constraint, own=True)
        releases[name] = one.model_copy(update=changed)
    budget = spec.budget
    if epsilon is not None:
        budget = BudgetSpec(epsilon=epsilon, delta=budget.delta, reserve=budget.reserve)
    constraint = bounds.applied(spec.constraint)
    own = spec.constraint is None and all(one.constraint for one in spec.measured.values())
    if own and bounds.renews is None:
        constraint = None
    return spec.model_copy(update={"constraint": constraint, "budget": budget, "release": releases})

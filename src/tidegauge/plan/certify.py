"""The loss of a plan, counted again from what it measures, how much noise it adds and what the engine enforces."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from tidegauge.errors import StoreCorrupt
from tidegauge.mechanism.noise import DiscreteGaussian, DiscreteLaplace
from tidegauge.mechanism.strategy import Exposure
from tidegauge.model.constraint import AtMost, Both, Either, Unconstrained, Within

if TYPE_CHECKING:
    from tidegauge.mechanism.encode import Channel
    from tidegauge.model.constraint import Constraint
    from tidegauge.model.program import Limit, Program, Release
    from tidegauge.model.query import Component
    from tidegauge.plan.plan import Plan, ReleasePlan


_SLACK: Final = Fraction(1, 1000)
"""How much larger a bound may be that another machine minimised."""


def certify(plan: Plan, *, kind: str | None = None) -> None:
    """Refuse a plan in which a release (of this kind of strategy) adds too little noise for the loss it was given."""
    for release in plan.releases:
        name = release.channels[0].strategy.name
        if kind not in (None, name):
            continue
        most = release.loss * (1 + _SLACK)
        if {_measure(one) for one in release.channels} != {plan.measure} or loss(
            release, plan.program
        ) > most:
            raise StoreCorrupt(
                f"release '{release.release.name}' adds too little noise for the {plan.measure} it was given; "
                "nothing was read or spent"
            )


def loss(plan: ReleasePlan, program: Program) -> Fraction:
    """What all measurements of a release together can cost one unit."""
    constraint = enforced(program, plan.release.name)
    parts = zip(plan.channels, plan.release.query.components, strict=True)
    return sum(
        (
            _cost(channel, exposure(plan.release, part, constraint, program.max_rows or 1))
            for channel, part in parts
        ),
        Fraction(0),
    )


def exposure(release: Release, part: Component, constraint: Constraint, rows: int) -> Exposure:
    """What one unit can do to one component of a release."""
    return Exposure(
        constraint=constraint,
        schedule=release.schedule,
        kind=release.query.kind,
        lower=part.lower,
        upper=part.upper,
        grouped=len(release.query.cells) > 1,
        rows=rows,
        clip=release.clip,
        cells=len(release.query.cells),
    )


def enforced(program: Program, release: str) -> Constraint:
    """The constraint that the engine holds the units of this release to: of several labels, any may be the worst."""
    (scope,) = (scope for scope in program.scopes if release in scope.releases)
    first, *others = (_constraint(limit) for _, limit in scope.limits)
    for other in others:
        first = Either(first, other)
    return first


def _constraint(limit: Limit) -> Constraint:
    parts: list[Constraint] = [] if limit.at_most is None else [AtMost(limit.at_most)]
    parts += [] if limit.within is None else [Within(f"{limit.within} microseconds")]
    return Both(*parts) if len(parts) == 2 else parts[0] if parts else Unconstrained()


def _measure(channel: Channel) -> str:
    return "epsilon" if isinstance(channel.noise, DiscreteLaplace) else "rho"


def _cost(channel: Channel, exposed: Exposure) -> Fraction:
    moved, noise = channel.strategy.sensitivity(exposed), channel.noise
    if isinstance(noise, DiscreteLaplace):
        return moved.l1 * channel.refine / noise.scale
    assert isinstance(noise, DiscreteGaussian)
    return moved.l2_squared * channel.refine**2 / (2 * noise.sigma_squared)

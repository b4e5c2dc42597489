"""What bench.usefulness looks at: errors of all candidates, and their biases without a clip."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING

from tidegauge.model.quantity import instant
from tidegauge.plan.certify import accounted
from tidegauge.plan.spec.auto import SHARE
from tidegauge.simulate import choice as private
from tidegauge.simulate.choice import CANDIDATES, biases

if TYPE_CHECKING:
    from tidegauge.model.source import OpenSource
    from tidegauge.plan.choice import Choice
    from tidegauge.plan.spec.declaration import GaugeSpec
    from tidegauge.simulate.choice import Biases, Open
    from tidegauge.simulate.simulation import Simulation

NOW = instant("2026-11-01")
EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2))


def with_budget(choice: Choice, spec: GaugeSpec) -> Choice:
    """The choice under another budget: strategies stay,
    noise is inversely proportional to the root of rho."""
    cost = SHARE * accounted(spec.budget.budget)
    factor = sqrt(choice.cost / cost)
    noise = tuple((name, tuple(factor * one for one in found)) for name, found in choice.noise)
    return replace(choice, cost=cost, noise=noise)


def errors(found: Simulation) -> tuple[dict[Fraction, list[float]], ...]:
    """By epsilon and candidate: whole error, noise, and whole error with 95 % of the budget."""
    full: dict[Fraction, list[float]] = {one: [] for one in EPSILONS}
    noise: dict[Fraction, list[float]] = {one: [] for one in EPSILONS}
    left: dict[Fraction, list[float]] = {one: [] for one in EPSILONS}
    for most, mode in CANDIDATES:
        for one in found.releases["series"]:
            if one.group is None and (one.bounds.at_most, one.bounds.on_excess) == (most, mode):
                assert one.epsilon is not None
                full[one.epsilon].append(one.errors.whole)
                noise[one.epsilon].append(one.errors.noise)
                left[one.epsilon].append(sqrt(one.errors.noise**2 / 0.95 + one.errors.bias**2))
    return full, noise, left


def unclipped(opened: Open, source: OpenSource) -> list[Biases]:
    """What each candidate leaves out, every unit with all that it is wrong by."""
    own = private._clip
    vars(private)["_clip"] = lambda *words, **named: replace(own(*words, **named), most=10**15)
    try:
        return biases(opened, source, now=NOW)
    finally:
        vars(private)["_clip"] = own

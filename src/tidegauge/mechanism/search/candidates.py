"""Every strategy that is valid for a release, tuned for what will be read: what the planner chooses from."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidegauge.errors import SpecError
from tidegauge.mechanism.exposure import domain
from tidegauge.mechanism.search import tune
from tidegauge.mechanism.search.optimum import Problem, offered
from tidegauge.mechanism.strategies.autoregressive import Autoregressive
from tidegauge.mechanism.strategies.buffered import LONGEST, Buffered
from tidegauge.mechanism.strategies.damped import Damped
from tidegauge.mechanism.strategies.dense import Dense
from tidegauge.mechanism.strategies.disjoint import Disjoint
from tidegauge.mechanism.strategies.epochs import Epochs
from tidegauge.mechanism.strategies.hierarchy import Hierarchy
from tidegauge.mechanism.strategies.sliding import Sliding
from tidegauge.mechanism.strategies.toeplitz import Toeplitz
from tidegauge.mechanism.strategies.triangular import MOST_BINS
from tidegauge.mechanism.strategy import MANY
from tidegauge.theory.paths.path import ON_OFF, Limits, limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tidegauge.mechanism.strategy import Exposure, Strategy
    from tidegauge.model.schedule import Schedule
    from tidegauge.theory.paths.path import Domain

_LONGEST_ROWS = 1 << 15
"""Bins beyond which rows that speak of every past bin are too long."""


def candidates(
    schedule: Schedule,
    exposure: Exposure,
    *,
    pure: bool,
    worst: bool = True,
    shared: bool = True,
    cache: Path | None = None,
    ask: bool = False,
) -> list[Strategy]:
    """Every valid strategy, tuned for the worst (or the mean) error of the schedule's readings.

    `pure`: Laplace noise.  `shared`: strategies may keep a secret draw (Strategy.shared).  `cache`: where optimised dense
    strategies are kept.  `ask`: they are to be found also where that takes long.
    """
    if schedule.bins == 1:  # one reading of everything so far: measured once, and nothing to add up
        return [Disjoint(schedule.base)]
    allowed = limits(exposure.constraint, schedule)
    if exposure.kind == "flow":  # mutations in one bin add up, as if one of them had that size
        allowed = (Limits(1, None),)
    tuned = _tuned(schedule, allowed, _sorted(exposure), pure=pure, worst=worst)
    found = [Disjoint(schedule.base), *tuned]
    if schedule.sliding:
        found.append(Sliding.of(schedule))
    if not shared:
        found = [strategy for strategy in found if strategy.shared is None]
    if not pure and (problem := dense_problem(schedule, exposure, worst=worst)):
        optimum = offered(problem, cache, ask=ask)
        found += [] if optimum is None else [optimum]
    return found


def dense_problem(schedule: Schedule, exposure: Exposure, *, worst: bool = True) -> Problem | None:
    """What a dense strategy would be the optimum of, if this release can have one.

    None is known for a flow that is clipped: its mutations may lie in one bin or in many.
    """
    if schedule.bins is None or (exposure.kind == "flow" and exposure.clip is not None):
        return None
    allowed = (Limits(1, None),) if exposure.kind == "flow" else limits(exposure.constraint, schedule)
    return Problem.of(
        allowed,
        bins=schedule.bins,
        first=schedule.base,
        span=schedule.span,
        stride=schedule.stride,
        worst=worst,
        grouped=exposure.grouped,
    )


def _sorted(exposure: Exposure) -> Domain:
    """Where an entry can go, as far as it matters to what is best: which end is which, and how many groups, does not."""
    if exposure.kind == "flow":
        return ON_OFF._replace(groups=MANY if exposure.grouped else 1)
    found = domain(exposure, 0)
    return found._replace(
        high=max(found[:2]), low=round(min(found[:2]), 2), groups=MANY if exposure.grouped else 1
    )


@lru_cache(maxsize=64)
def _tuned(
    schedule: Schedule, allowed: tuple[Limits, ...], domain: Domain, *, pure: bool, worst: bool
) -> tuple[Strategy, ...]:
    """The same for all releases that are read at the same times and changed in the same way."""
    find = _pure if pure else _gaussian
    return (_hierarchy(schedule, allowed, pure=pure, worst=worst), *find(schedule, allowed, domain, worst))


@lru_cache(maxsize=64)
def _hierarchy(schedule: Schedule, allowed: tuple[Limits, ...], *, pure: bool, worst: bool) -> Strategy:
    target = tune.Target.of(schedule, worst=worst)
    return tune.hierarchy(target, allowed, pure=pure, bins=schedule.bins, levels=not schedule.base)


@lru_cache(maxsize=64)
def _level(schedule: Schedule, allowed: tuple[Limits, ...], domain: Domain, *, worst: bool) -> tune.Level:
    """Noise of a level that has an end; where values have both signs, found from that of values that have one."""
    assert schedule.bins is not None
    known = _level(schedule, allowed, domain._replace(low=0.0), worst=worst) if domain.low else None
    target = tune.Target.of(schedule, worst=worst)
    return tune.level(target, allowed, bins=schedule.bins, first=schedule.base, domain=domain, known=known)


def _pure(schedule: Schedule, allowed: tuple[Limits, ...], domain: Domain, worst: bool) -> Iterator[Strategy]:
    bins, first, target = schedule.bins, schedule.base, tune.Target.of(schedule, worst=worst)
    if bins is not None and bins - first <= LONGEST:
        yield tune.autoregressive(target, allowed, bins=bins, first=first, domain=domain)
    elif bins is None and schedule.span is None:
        yield Epochs(64, branching=8, pure=True)


def _gaussian(
    schedule: Schedule, allowed: tuple[Limits, ...], domain: Domain, worst: bool
) -> Iterator[Strategy]:
    bins, first, span = schedule.bins, schedule.base, schedule.span
    if span is not None and 1 < span <= _LONGEST_ROWS and (bins is None or bins <= _LONGEST_ROWS):
        yield Toeplitz("banded", bins, first, width=span)
        if bins is not None:
            yield Toeplitz("window", bins, first, width=span)
    if bins is None:
        if span is None:
            yield Epochs(64)
        return
    if bins <= _LONGEST_ROWS and span is None:
        yield Toeplitz("root", bins, first)
    if bins - first <= LONGEST:
        noise, target = _level(schedule, allowed, domain, worst=worst), tune.Target.of(schedule, worst=worst)
        if bins - first <= MOST_BINS:
            yield Damped(bins, *noise, first)
        yield tune.buffered(noise, target, allowed, bins=bins, first=first, domain=domain)


def build(
    name: str, parameters: Mapping[str, int | float | str], *, matrices: Mapping[str, str] | None = None
) -> Strategy:
    """The strategy with this name and these parameters, as a committed plan has them; `matrices` by their digests."""
    values: dict[str, Any] = dict(parameters)
    for key in ("bins", "readings"):
        if values.get(key) == "ever":
            values[key] = None
    match name:
        case "hierarchy":
            scales = tuple(map(Fraction, str(values.pop("scales", "")).split()))
            return Hierarchy(**values, relative=scales)
        case "autoregressive":
            return Autoregressive(**(values | {"veil": Fraction(values["veil"])}))
        case "epochs":
            return Epochs(**(values | {"pure": bool(values["pure"])}))
        case "dense":
            digest = str(values.get("digest", ""))
            if matrices is None or digest not in matrices:
                raise SpecError("an optimised dense strategy is found, not given: pin it by its name alone")
            return Dense.unpacked(matrices[digest], digest=digest, first=int(values["first"]))
    kinds: dict[str, type[Strategy]] = {
        kind.name: kind for kind in (Buffered, Damped, Disjoint, Sliding, Toeplitz)
    }
    if name not in kinds:
        raise SpecError(f"there is no strategy called {name!r}")
    return kinds[name](**values)

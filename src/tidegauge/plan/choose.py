"""The choice of a strategy: every valid strategy with its sensitivity and predicted error; the best first."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, Literal, TypedDict

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.mechanism.decode import Decoder
from tidegauge.mechanism.encode import ComponentPlan
from tidegauge.mechanism.noise.samplers import gaussian_for, laplace_for
from tidegauge.mechanism.registry import STRATEGIES, build
from tidegauge.mechanism.search.candidates import candidates
from tidegauge.plan.candidate import Candidate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegauge.mechanism.search.task import Search
    from tidegauge.mechanism.strategy import Exposure, Strategy
    from tidegauge.model.program import Release
    from tidegauge.theory.sensitivity import Sensitivity

Aim = Literal["worst", "mean"]
HORIZON: Final = 1000
"""Readings over which the error of a release without an end is predicted."""
_MILESTONES: Final = (1, 10, 100, HORIZON)
_LEVEL: Final = 1.001
"""An error that grows by less does not grow."""
_WIDE: Final = 64
"""Least width of the noise, in steps of the measured grid, so that its distribution is nearly continuous."""
_NO_NOISE: Final = Fraction(1, 16)
"""Noise below this width, in steps, counts as none: the grid is then not refined."""


@dataclass(frozen=True)
class Option:
    """One strategy for one release, before the release has a budget."""

    release: Release
    strategy: Strategy
    sensitivities: tuple[Sensitivity, ...]
    folds: int | None
    pure: bool
    span: int | None
    """Bins that a reading sums; None: all."""
    worst: float
    """Standard deviation of the worst reading for a loss of 1, in published units."""
    mean: float
    at: int
    """The worst reading."""
    growth: tuple[tuple[int, float], ...] = ()
    """For a release without an end: (n, worst standard deviation of the first n readings)."""

    def gives(self, span: int | None) -> bool:
        """Whether sums of the last `span` bins (None: all) can be decoded from its measurements."""
        schedule = self.release.schedule
        try:
            self.strategy.variances(np.array([schedule.bin_of_reading(schedule.first_telling(span))]), span)
        except SpecError:
            return False
        return True

    def over(self, span: int | None) -> Option:
        """The same measurements, read as sums of the last `span` bins."""
        first = self.release.schedule.first_telling(span)
        found = _errors(
            self.release, self.strategy, self.sensitivities, pure=self.pure, span=span, first=first
        )
        return replace(self, span=span, **found)

    def error(self, aim: Aim) -> float:
        """The error that the release minimises."""
        return self.worst if aim == "worst" else self.mean

    def relative_error(self, aim: Aim) -> float:
        """The error for a loss of 1, over the most that one unit can contribute."""
        part = self.release.query.components[0]
        most = float(part.grid) * max(abs(part.lower), abs(part.upper), 1)
        return self.error(aim) / most * aggregate_of(self.release.query.aggregate).planned_rows

    def component_plans(self, loss: Fraction) -> tuple[ComponentPlan, ...]:
        """The least noise for this privacy loss, which the components share equally."""
        each = loss / len(self.sensitivities)
        return tuple(component_plan(self.strategy, one, each, pure=self.pure) for one in self.sensitivities)

    def possible(self, loss: Fraction) -> bool:
        """Whether noise for this loss can be drawn; on a fine grid it may be too many steps wide."""
        try:
            self.component_plans(loss)
        except SpecError:
            return False
        return True

    def exact(self, loss: Fraction) -> bool:
        """Whether readings are exact: they are plain sums of integers, and the noise of this loss is 0."""
        without_noise = all(
            one.l1 / each < _NO_NOISE if self.pure else one.l2_squared / (2 * each) < _NO_NOISE**2
            for one in self.sensitivities
            for each in [loss / len(self.sensitivities)]
        )
        return without_noise and self.strategy.plain_sums

    def candidate(self, loss: Fraction) -> Candidate:
        """The candidate with the noise of this privacy loss."""
        shrink = float(loss) if self.pure else sqrt(loss)
        tail = self._tail(loss)
        part, first = self.release.query.components[0], self.component_plans(loss)[0]
        unit = float(part.grid) / first.refine / self.strategy.denominator
        return Candidate(
            strategy=self.strategy.name,
            parameters=self.strategy.parameters,
            folds=self.folds,
            loss=loss,
            half_width_worst=tail * self.worst / shrink,
            half_width_mean=tail * self.mean / shrink,
            adaptive=self.strategy.adaptive,
            noise=sqrt(first.noise.variance) * unit,
            memory=self._memory(),
            growth=tuple((reading, tail * error / shrink) for reading, error in self.growth),
        )

    def _memory(self) -> int:
        """Most exact numbers stored per cell, up to the last reading (without an end: the thousandth)."""
        schedule = self.release.schedule
        last = schedule.bin_of_reading((schedule.count or HORIZON) - 1)
        kept = 0 if self.strategy.stream is None else self.strategy.stream.width
        return max(bin_ + 1 - self.strategy.needed_from(bin_ - 1) for bin_ in range(last + 1)) + kept

    def _tail(self, loss: Fraction) -> float:
        """The 95 % half-width in standard deviations, at the worst reading."""
        if not self.pure:
            return NormalDist().inv_cdf(0.975)
        schedule = self.release.schedule
        decoder = Decoder(self.release.query, schedule, self.component_plans(loss), self.span)
        error = decoder.error(0, schedule.bin_of_reading(self.at))
        return error.half_width(0.95) / error.stderr if error.stderr else 0.0


def component_plan(
    strategy: Strategy, sensitivity: Sensitivity, loss: Fraction, *, pure: bool
) -> ComponentPlan:
    """The least noise for this loss, on a grid on which the noise is many steps wide (or 0)."""
    width = sensitivity.l1 / loss if pure else Fraction(sqrt(sensitivity.l2_squared / (2 * loss)))
    refine = 1
    while width >= _NO_NOISE and width * refine < _WIDE:
        refine *= 2
    noise = (
        laplace_for(sensitivity.l1 * refine, loss)
        if pure
        else gaussian_for(sensitivity.l2_squared * refine**2, loss)
    )
    return ComponentPlan(strategy, refine, noise)


def options(
    release: Release,
    exposures: Sequence[Exposure],
    search: Search,
    *,
    pinned: Mapping[str, int | float | str] | None,
) -> list[Option]:
    """Every valid strategy, the best first; or only the pinned strategy.

    Where constraints renew, a running value without an end can have an error that never grows, and strategies
    with such an error come first.
    `exposures`: the bounds on the changes of one unit to each component of the release.
    """
    found = candidates(search) if pinned is None else [_pinned(release, pinned, search)]
    made = (_option(release, strategy, exposures, pure=search.pure) for strategy in found)
    running = search.exposure.returns_after is not None and release.schedule.span is None
    aim: Aim = "worst" if search.worst else "mean"
    return sorted(made, key=lambda option: (running and grows(option.growth), option.error(aim)))


def grows(growth: Sequence[tuple[int, float]]) -> bool:
    """Whether an error grows; `growth`: (n, error of the first n readings), nothing if there is an end."""
    return bool(growth) and growth[-1][1] > growth[0][1] * _LEVEL


def more_if_asked(search: Search, found: Sequence[Option]) -> bool:
    """Whether --optimise would find another candidate."""
    offered = {option.strategy.name for option in found}
    return len(found) > 1 and any(kind.asked(search) for kind in STRATEGIES if kind.name not in offered)


_BY_NAME: Final = (
    "Write the strategy's name alone to have its parameters chosen; tidegauge plan --json then shows them"
)


def _pinned(release: Release, pinned: Mapping[str, int | float | str], search: Search) -> Strategy:
    name, parameters = str(pinned["name"]), {key: value for key, value in pinned.items() if key != "name"}
    at = f"release.{release.name}.strategy"
    try:
        kind = STRATEGIES.named(name)
        if parameters and (search.pure or not kind.pure):
            return fitting(build(name, parameters), release)
    except SpecError as error:
        raise SpecError(f"{error}. {_BY_NAME}" if parameters else str(error), key=at) from None
    except (TypeError, ValueError, KeyError, ArithmeticError):
        raise SpecError(
            f"strategy '{name}' does not take these parameters, or needs more. {_BY_NAME}",
            key=at,
        ) from None
    for strategy in candidates(search, only=name):
        return strategy
    why = f" ({kind.valid})" if kind.valid else ""
    others = sorted({one.name for one in candidates(search)})
    raise SpecError(f"strategy '{name}' is not valid here{why}; there are: {', '.join(others)}", key=at)


def fitting(strategy: Strategy, release: Release) -> Strategy:
    """The strategy.  Raises SpecError if it is not for the windows of this release.

    A strategy for other windows could count too few of them, and so state too small a loss.
    """
    schedule = release.schedule
    for field in fields(strategy):  # type: ignore[arg-type]
        value = getattr(strategy, field.name)
        if str(field.type).startswith("int") and not (value is None or type(value) is int):
            raise SpecError(f"{field.name} is a whole number")
    parameters = strategy.parameters
    for name, fixed_by in STRATEGIES.named(strategy.name).fixed.items():
        due = getattr(schedule, fixed_by)
        needed = "ever" if due is None else due
        if parameters[name] != needed:
            raise SpecError(f"{name} must be {needed!r} here, as start, every, for and window have it")
    return strategy


@lru_cache(maxsize=256)
def _sensitivity(strategy: Strategy, exposure: Exposure) -> Sensitivity:
    """The sensitivity, computed once for releases with equal exposure."""
    return strategy.sensitivity(exposure)


def _option(release: Release, strategy: Strategy, exposures: Sequence[Exposure], *, pure: bool) -> Option:
    schedule = release.schedule
    sensitivities = tuple(_sensitivity(strategy, exposure) for exposure in exposures)
    return Option(
        release,
        strategy,
        sensitivities,
        strategy.folds(exposures[0]),
        pure,
        schedule.span,
        **_errors(release, strategy, sensitivities, pure=pure, span=schedule.span),
    )


class _Errors(TypedDict):
    """Standard deviations for a loss of 1, in published units."""

    worst: float
    mean: float
    at: int
    growth: tuple[tuple[int, float], ...]


def _errors(
    release: Release,
    strategy: Strategy,
    sensitivities: Sequence[Sensitivity],
    *,
    pure: bool,
    span: int | None,
    first: int = 0,
) -> _Errors:
    """Errors of the readings from `first` on, each a sum of `span` bins (None: all)."""
    schedule, component = release.schedule, release.query.components[0]
    readings = np.arange(first, first + HORIZON if schedule.count is None else schedule.count)
    scale = float(sensitivities[0].l1) * sqrt(2) if pure else sqrt(sensitivities[0].l2_squared / 2)
    scale *= float(component.grid) * (len(sensitivities) if pure else sqrt(len(sensitivities)))
    scale /= aggregate_of(release.query.aggregate).planned_rows
    deviations = np.sqrt(strategy.variances(schedule.offset + schedule.stride * readings, span)) * scale
    growth = () if schedule.count else tuple((int(n), float(deviations[:n].max())) for n in _MILESTONES)
    return {
        "worst": float(deviations.max()),
        "mean": float(deviations.mean()),
        "at": int(readings[deviations.argmax()]),
        "growth": growth,
    }

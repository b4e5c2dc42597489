"""Privacy loss of several mechanisms together: five bounds, of which the smallest valid one is returned."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from tidegauge.errors import SpecError
from tidegauge.model.quantity import fraction
from tidegauge.theory.accounting.conversion import rho_to_epsilon
from tidegauge.theory.accounting.events import Approximate, Concentrated, Event, Gaussian, Laplace, Repeated
from tidegauge.theory.accounting.numeric import numeric_epsilon
from tidegauge.theory.accounting.precise import ERROR, decimal, least, log1p, precisely, rounded_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tidegauge.model.quantity import Number

Method = Literal["basic", "advanced", "optimal", "renyi", "numeric"]

_MOST_RUNS: Final = 2**20
"""The optimal bound is a sum over runs; beyond this the others are as good."""
_MOST_LOSS: Final = 10**15
"""Beyond this its exponentials would leave even the range of a Decimal."""


@dataclass(frozen=True)
class Composition:
    """(epsilon, delta) of the composition, the bound that gave it, and the epsilon of each that applies.

    Delta is the target, or the least delta of the events where basic composition wins, which needs no more.
    """

    epsilon: Fraction
    delta: Fraction
    method: Method
    candidates: Mapping[Method, Fraction] = field(hash=False)


def compose(
    *events: Event,
    epsilon: Number | str | None = None,
    delta: Number | str = 0,
    folds: int = 1,
    target_delta: Number | str | None = None,
    methods: Iterable[Method] | None = None,
) -> Composition:
    """The least known (epsilon, target_delta) of events run one after the other on one unit.  [T8]

    Call:     with events, or with epsilon, delta and folds for one mechanism run `folds` times.
    Target:   by default the least delta that the events themselves require.
    Winner:   the smallest epsilon; of equals, the simplest bound.  `methods` restricts the choice.
    Rounded:  up.
    Raises:   SpecError if target_delta is below what the events require, or no bound applies.
    Proof:    docs/theory/T8.md
    """
    if (epsilon is None) == (not events):
        raise SpecError("give either events, or epsilon, delta and folds")
    parts = flatten(*events) if epsilon is None else flatten(Approximate(epsilon, delta, folds))
    forced = _forced(parts)
    target = forced if target_delta is None else fraction(target_delta)
    if not forced <= target < 1:
        raise SpecError(
            f"must be at least {float(forced):g}, which the events force, and below 1", key="target_delta"
        )
    spare = (target - forced) / (1 - forced)
    chosen = _BOUNDS if methods is None else {name: _BOUNDS[name] for name in _BOUNDS if name in set(methods)}
    tried = {name: bound(parts, spare) for name, bound in chosen.items()}
    candidates = {name: value for name, value in tried.items() if value is not None}
    if not candidates:
        raise SpecError(
            "Gaussian and zCDP losses have no pure epsilon: give a target_delta above the delta of the "
            "events together"
        )
    best = min(candidates, key=candidates.__getitem__)
    reached = forced if best == "basic" else target
    return Composition(candidates[best], reached, best, MappingProxyType(candidates))


def flatten(*events: Event) -> tuple[Event, ...]:
    """Nested compositions as one: every mechanism once, with all its runs.  [T8]

    Proof:    docs/theory/T8-flatten.md
    """
    runs: Counter[Event] = Counter()
    for event in events:
        if isinstance(event, Repeated):
            for inner in flatten(*event.events):
                runs[replace(inner, times=1)] += event.times * inner.times
        else:
            runs[replace(event, times=1)] += event.times
    return tuple(replace(event, times=times) for event, times in runs.items() if times)


def worst(*compositions: Composition) -> Composition:
    """A bound for a unit that undergoes one of these compositions: the largest of every number.  [T8]

    Proof:    docs/theory/T8-worst.md
    """
    if not compositions:
        raise SpecError("give at least one event")
    loudest = max(compositions, key=lambda each: each.epsilon)
    shared = [name for name in loudest.candidates if all(name in each.candidates for each in compositions)]
    return Composition(
        loudest.epsilon,
        max(each.delta for each in compositions),
        loudest.method,
        MappingProxyType({name: max(each.candidates[name] for each in compositions) for name in shared}),
    )


def _forced(events: Sequence[Event]) -> Fraction:
    """Probability that the delta of some run applies, or an upper bound where it is a huge number."""
    spared = Fraction(1)
    for event in events:
        if isinstance(event, Approximate) and event.delta:
            exact = event.times * event.delta.denominator.bit_length() < 2**16
            spared *= (
                (1 - event.delta) ** event.times if exact else max(Fraction(0), 1 - event.times * event.delta)
            )
    return 1 - spared


class _Runs(NamedTuple):
    """A mechanism with a pure epsilon, and how many times it runs."""

    epsilon: Fraction
    times: int


def _pure(events: Sequence[Event]) -> list[_Runs] | None:
    """The runs of every event, or None unless all events have an epsilon."""
    pairs = [
        _Runs(event.epsilon, event.times) for event in events if isinstance(event, Approximate | Laplace)
    ]
    return pairs if len(pairs) == len(events) else None


def _basic(events: Sequence[Event], delta: Fraction) -> Fraction | None:  # noqa: ARG001  needs no delta
    pairs = _pure(events)
    return None if pairs is None else sum((times * epsilon for epsilon, times in pairs), Fraction(0))


def _advanced(events: Sequence[Event], delta: Fraction) -> Fraction | None:
    """Dwork, Rothblum and Vadhan (2010), with the mean loss of Dwork and Rothblum (2016)."""
    pairs = _pure(events)
    if pairs is None or not delta:
        return None
    with precisely():
        mean = squares = Decimal(0)
        for epsilon, times in pairs:
            e = decimal(epsilon)
            mean += times * e * (1 - (-e).exp()) / (1 + (-e).exp())
            squares += times * e * e
        return rounded_up((mean + (-2 * decimal(delta).ln() * squares).sqrt()) * (1 + ERROR))


def _optimal(events: Sequence[Event], delta: Fraction) -> Fraction | None:
    """Kairouz, Oh and Viswanath (2015): exact for runs of one epsilon.

    With l the number of runs whose answer was against the odds, the least epsilon is the largest over m of
    log((P(l <= m | here) - delta) / P(l <= m | there)), and that rises, then falls, with m.
    """
    pairs = _pure(events)
    if pairs is None or len({epsilon for epsilon, _ in pairs}) != 1:
        return None
    epsilon, runs = pairs[0][0], sum(times for _, times in pairs)
    if runs > _MOST_RUNS or runs * epsilon > _MOST_LOSS:
        return None
    with precisely():
        e, d = decimal(epsilon), decimal(delta)
        here_term = (-runs * log1p((-e).exp())).exp()
        there_term = here_term * (-runs * e).exp()
        here = there = Decimal(0)
        best, odds, more, less = Decimal(1), (runs * e).exp(), e.exp(), (-e).exp()
        for m in range(runs // 2 + 1):
            if odds <= best:
                break
            here, there = here + here_term, there + there_term
            best = max(best, (here * (1 + ERROR) - d) / there)
            odds *= less * less
            ways = Decimal(runs - m) / (m + 1)
            here_term *= ways * less
            there_term *= ways * more
        loss = rounded_up(best.ln() + ERROR * (1 + runs * e)) if best > 1 else Fraction(0)
        return min(loss, runs * epsilon)


def _renyi(events: Sequence[Event], delta: Fraction) -> Fraction | None:
    """Renyi losses add up at every order; the best order is chosen, as in the conversion of zCDP."""
    if not delta:
        return None
    rho = sum((e.times * e.rho for e in events if isinstance(e, Concentrated | Gaussian)), Fraction(0))
    pure = _pure([event for event in events if not isinstance(event, Concentrated | Gaussian)])
    if not pure:
        return rho_to_epsilon(rho, delta=delta)
    with precisely():
        r, L = decimal(rho), -decimal(delta).ln()
        pairs = [(decimal(epsilon), times) for epsilon, times in pure]

        def bound(x: Decimal) -> Decimal:
            loss = (1 + x) * r
            for e, times in pairs:
                loss += times * (e - (log1p((-e).exp()) - log1p((-(1 + 2 * x) * e).exp())) / x)
            return loss + (L - log1p(x)) / x - log1p(1 / x)

        x = least(bound, low=-100, high=100 + int(L))
        sizes = (1 + x) * r + sum(times * (e + 1 / x) for e, times in pairs) + (L + 1) / x + 1
        return max(Fraction(0), rounded_up(bound(x) + ERROR * sizes))


_BOUNDS: Final[Mapping[Method, Callable[[Sequence[Event], Fraction], Fraction | None]]] = {
    "basic": _basic,
    "advanced": _advanced,
    "optimal": _optimal,
    "renyi": _renyi,
    "numeric": numeric_epsilon,
}

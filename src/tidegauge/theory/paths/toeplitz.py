"""Sensitivity of a Toeplitz measurement of a unit's changes, with or without a shared offset."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter, sqrt
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.theory.accounting.precise import above
from tidegauge.theory.paths.bounds import by_changes, by_pairs, gram_bounds
from tidegauge.theory.paths.enumeration import affordable, every_path
from tidegauge.theory.paths.intervals import countable, interval_bound
from tidegauge.theory.paths.on_intervals import OnIntervals, least
from tidegauge.theory.paths.path import ON_OFF, BinCase
from tidegauge.theory.paths.rounding import U, above_product, above_sum, dot_error, perturbed
from tidegauge.theory.paths.stationary import Stationary
from tidegauge.theory.paths.windows import any_changes_within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.theory.paths.path import Domain

    Floats = NDArray[np.float64]


_MANY = 1 << 20
"""Changes from which equal squares are multiplied and not added up."""


def falling_paths(coefficients: Floats, *, changes: int, domain: Domain = ON_OFF) -> float:
    """Largest squared length of a falling Toeplitz measurement of k changes, in any number of bins.  [T10]

    Requires: coefficients never rise and are never negative; otherwise SpecError.
    Tight:    one change; many, far apart.
    Proof:    docs/theory/T10.md
    """
    a = np.asarray(coefficients, dtype=np.float64)
    if not _falls(a):
        raise SpecError("the coefficients must not be negative, and none larger than the one before")
    square = above_sum(float(a @ a), dot_error(len(a), float(a @ a)))
    total = (
        float(np.full(changes, square).sum()) if changes < _MANY else above_product(float(changes), square)
    )
    return by_changes(changes, domain, later=changes - 1, total=total, least=square)


def toeplitz_paths(
    coefficients: Floats,
    *,
    case: BinCase,
    domain: Domain = ON_OFF,
    offset: float = 0.0,
    coarse: bool = False,
    quick: bool = False,
) -> float:
    """Largest squared length, in units of the noise, of a measurement of one unit's changes.  [T10]

    Noise:    white on the rows of a Toeplitz measurement of as many bins as coefficients, and, where these
              fall and are convex, one draw of variance `offset` added to the level throughout (whitened into
              the rows).
    Case:     changes in at most case.changes bins, all within case.bins consecutive ones.
    Exact:    for at most two changes of an on/off unit, or where all paths can be tried; else certified from
              above, tightly where the coefficients are convex.  A `coarse` bound is a little larger and
              found faster; a `quick` one is for searches only.  Roundings are counted.
    Proof:    docs/theory/T10-toeplitz.md
    """
    changes, span = case.within(len(coefficients))
    found, convex = _checked(coefficients, offset, changes, quick=quick)
    if not domain.high:
        domain = domain._replace(high=domain.low, low=0.0)
    plain = domain.groups == 1 and not domain.low
    most = max(domain.high, domain.low)
    if (changes == 1 and (plain or found.bins > 1)) or (plain and changes == 2 and not (coarse and convex)):
        return above_product(most, most, _one_or_two(found, offset, changes, span))
    starts = found.bins if offset else 1  # without an offset, more rows measure earlier changes
    if affordable(starts=starts, changes=changes, span=span, domain=domain, coarse=coarse):
        band = _band(found, offset, span)
        tried = every_path(band, case=case, domain=domain, starts=starts)
        return above_sum(tried, perturbed(_off(found, offset), changes, domain))
    if not convex:
        bounds = _any_shape(found, case, domain)
    elif plain:
        bounds = [
            above_product(most, most, bound) for bound in _on_and_off(found, offset, case, coarse=coarse)
        ]
    else:
        bounds = [_priced(found, offset, case, domain)]
        if domain.groups == 1:
            bounds.append(_both_sides(found, offset, case, domain, coarse=coarse))
        elif countable(found.bins, case) and not coarse:
            tried = interval_bound(_gram(found, offset), case=case, domain=domain)
            bounds.append(above_sum(tried, perturbed(_off(found, offset), changes, domain)))
    return min(bounds)


def _any_shape(found: Stationary, case: BinCase, domain: Domain) -> list[float]:
    """Bounds for coefficients that need not be convex."""
    changes, span = case.within(found.bins)
    if countable(found.bins, case):
        more = perturbed(_off(found, 0.0), changes, domain)
        return [above_sum(one, more) for one in gram_bounds(_gram(found, 0.0), case=case, domain=domain)]
    later = case.after_load(found.bins)[0] if domain.loaded else 0
    one, two = (nextafter(sqrt(_one_or_two(found, 0.0, count, span)), inf) for count in (1, 2))
    bounds = [by_pairs(changes, domain, later=later, one=one, two=two)]
    if _falls(found.coefficients):
        total, least = float(np.full(changes, found.open[-1]).sum()), float(found.open[-1])
        bounds.append(by_changes(changes, domain, later=later, total=total, least=least))
    return bounds


def _on_and_off(found: Stationary, offset: float, case: BinCase, *, coarse: bool) -> list[float]:
    """Bounds for convex coefficients and an on/off unit."""
    changes, span = case.within(found.bins)
    bounds = [above_product(float(changes), float(found.open[-1]))]
    if span < 4 * changes:
        bounds.append(any_changes_within(found, offset, span, coarse=coarse))
    if changes < span:
        bounds.append(OnIntervals(found, offset, changes, span, coarse=coarse).bound())
    return bounds


def _both_sides(found: Stationary, offset: float, case: BinCase, domain: Domain, *, coarse: bool) -> float:
    """The bound for values above and below 0, not in groups: for paths that end on either side."""
    changes, span = case.within(found.bins)
    whole = Fraction(domain.high) + Fraction(domain.low)
    apart = above(whole)
    chain = OnIntervals(found, offset, changes, span, coarse=coarse) if changes < span else None

    def bound(low: float, ends_on: bool) -> float:
        sunk = low / apart  # rounded; the range between -sunk and 1 - sunk, made wider, holds the true one
        wide = max(Fraction(low) / Fraction(sunk), (whole - Fraction(low)) / (1 - Fraction(sunk)))
        bounds = [] if chain is None else [chain.bound_below(sunk, ends_on=ends_on)]
        if span < 4 * changes:
            bounds.append(any_changes_within(found, offset, span, below=(sunk, ends_on), coarse=coarse))
        return above_product(above(wide), above(wide), min(bounds))

    ends = [
        min(bound(low, ends_on=True), bound(high, ends_on=False))
        for low, high in {(domain.low, domain.high), (domain.high, domain.low)}
    ]
    if (
        domain.loaded and (later := case.after_load(found.bins))[0]
    ):  # alternates from there, with one change less
        between = ON_OFF._replace(high=apart)
        ends.append(
            toeplitz_paths(
                found.coefficients, case=BinCase(*later), domain=between, offset=offset, coarse=coarse
            )
        )
    return max(ends)


def _priced(found: Stationary, offset: float, case: BinCase, domain: Domain) -> float:
    """Every interval by itself, in groups or on either side of 0; priced by the bin."""
    changes, span = case.within(found.bins)
    high, low, groups, loaded = domain
    limited, lengths, apart = (
        span < found.bins,
        np.arange(found.bins + 1),
        above(Fraction(high) + Fraction(low)),
    )
    interval, last = _interval_energies(found, offset, span)
    # a unit that came from nothing contributes, on one side or the other, from its first change on
    raised = 4 * (found.error + 2 * found.grid.unit)  # more than roundings raised any of these energies
    shared = high * low * np.maximum(np.minimum.accumulate(last[::-1])[::-1] - raised, 0.0)

    def value(at: Floats) -> float:
        price, totals = abs(at[0]), []
        each = {}
        final = {}
        for side in (high, low):
            each[side] = (apart * side * interval - price * lengths[:span]).max()
            final[side] = (apart * side * last - (shared if limited else price * lengths)).max()
        room = price * (span - 1) if limited else (price * lengths - shared).max()
        for one, other in ((high, low), (low, high)):
            if groups > 1:
                totals.append(final[one] + (changes - 1) * max(each.values()))
            else:  # of the others, every second one lies on the same side
                totals.append(final[one] + (changes - 1) // 2 * each[one] + changes // 2 * each[other])
        sizes = price * found.bins + 8 * apart**2 * float(found.open[-1])
        return above_sum(float(room + max(totals)), 4 * (changes + 64) * U * sizes)

    scale = above_product(apart, max(high, low))
    bound = min(least(value, [[0.0], [4.0 * scale / found.bins]]), value(np.zeros(1)))
    if loaded and (later := case.after_load(found.bins)[0]):  # the earlier level is missing
        most = 2 * float(last.max()) + (later - 1) * float(interval.max())
        bound = max(bound, above_product(scale, nextafter(most, inf)))
    return bound


def _interval_energies(found: Stationary, offset: float, span: int) -> tuple[Floats, Floats]:
    """Upper bounds of the energy of one interval, by its length: one that ends, and one that does not."""
    hidden = offset / (1 + offset * found.open[-1]) * (1 - 16 * U)
    least_level = max(found.level.min(), 0.0) * np.arange(found.bins + 1)
    up = found.grid.up
    lasting = up(found.open - hidden * np.maximum(found.level_of_last, 0.0) ** 2)
    return up(found.closed - hidden * least_level**2)[:span], lasting


def _falls(a: Floats) -> bool:
    return bool((np.diff(a) <= 0).all() and a[-1] >= 0)


def _checked(coefficients: Floats, offset: float, changes: int, *, quick: bool) -> tuple[Stationary, bool]:
    a = np.asarray(coefficients, dtype=np.float64)
    convex = _falls(a) and bool((np.diff(a, 2) >= 0).all())
    if offset and not convex:
        raise SpecError(
            "with a shared offset the coefficients must be convex: not negative, falling, and "
            "ever more slowly"
        )
    return Stationary(a, changes=changes, quick=quick), convex


def _off(found: Stationary, offset: float) -> float:
    """More than the error of any inner product of whitened columns."""
    hidden = offset / (1 + offset * float(found.open[-1]))
    levels = float(found.most_level_of_last.max())
    steps = found.error + 2 * found.grid.unit
    return 4 * steps + 4 * hidden * levels * (levels * 32 * U + steps)


def _whitened(found: Stationary, offset: float, lag: int) -> Floats:
    """Inner products of the whitened columns with those `lag` later."""
    a, n = found.coefficients, found.bins
    hidden = np.sqrt(offset / (1 + offset * found.open[-1])) * found.level_of_last[:0:-1]
    products: Floats = np.cumsum(a[: n - lag] * a[lag:])[::-1] - hidden[: n - lag] * hidden[lag:]
    return products


def _band(found: Stationary, offset: float, width: int) -> Floats:
    """All inner products of whitened columns, by the first column and the lag."""
    band = np.zeros((found.bins, width))
    for lag in range(width):
        band[: found.bins - lag, lag] = _whitened(found, offset, lag)
    return band


def _gram(found: Stationary, offset: float) -> Floats:
    """All inner products of whitened columns, as a matrix."""
    band = _band(found, offset, found.bins)
    rows, lags = np.nonzero(np.tri(found.bins, dtype=bool)[::-1])
    gram = np.zeros((found.bins, found.bins))
    gram[rows, rows + lags] = gram[rows + lags, rows] = band[rows, lags]
    return gram


def _one_or_two(found: Stationary, offset: float, changes: int, span: int) -> float:
    """One change in any bin, or a change and its reversal in any two bins: the largest, rounded up."""
    alone = _whitened(found, offset, 0)
    best = alone.max()
    for lag in range(1, span if changes > 1 else 1):
        best = max(best, (alone[:-lag] + alone[lag:] - 2 * _whitened(found, offset, lag)).max())
    return above_sum(float(best), 4 * _off(found, offset) + 8 * U * float(alone.max()))

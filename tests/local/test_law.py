"""T11 from its definition: patterns one by one, sets of patterns one by one."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import chain, combinations, product
from math import exp, log, prod

import numpy as np
import pytest

from tidegauge.errors import LocalError
from tidegauge.local.law import sharpest_law, sketch, tilted_law
from tidegauge.local.reporter import ONE, acceptance

E = Fraction(2)


def by_definition(
    changes: int, d: int, nu: Fraction, good: frozenset[tuple[int, int]], tilt: Fraction
) -> dict[str, Fraction]:
    """c, gap, match and mismatch from all 3^K patterns."""
    base: dict[tuple[str, ...], Fraction] = {}
    weight: dict[tuple[str, ...], Fraction] = {}
    for pattern in product("+-0", repeat=changes):
        one = {"+": nu, "-": (d - 1) * nu, "0": 1 - d * nu}
        base[pattern] = prod((one[entry] for entry in pattern), start=Fraction(1))
        weight[pattern] = tilt if (pattern.count("+"), pattern.count("-")) in good else Fraction(1)
    c = 1 / sum((base[p] * weight[p] for p in base), Fraction(0))
    law = {p: base[p] * c * weight[p] for p in base}
    assert sum(law.values()) == 1
    match, mismatch = (sum((law[p] for p in law if p[0] == entry), Fraction(0)) for entry in "+-")
    return {"c": c, "match": match, "mismatch": mismatch, "gap": match - mismatch / (d - 1)}


@pytest.mark.parametrize(
    ("changes", "d", "nu"), [(1, 2, "1/7"), (2, 2, "1/2"), (3, 2, "1/10"), (2, 6, "1/20"), (3, 12, "1/12")]
)
def test_the_law_is_the_one_of_the_definition(changes: int, d: int, nu: str) -> None:
    law = tilted_law(changes=changes, epsilon=E, signals=d, nu=Fraction(nu))
    expected = by_definition(changes, d, law.nu, law.good, law.tilt)
    assert {name: getattr(law, name) for name in expected} == expected
    assert abs(law.nu - Fraction(nu)) < Fraction(1, ONE // 2)


@pytest.mark.parametrize(
    ("changes", "d", "nu"), [(1, 2, "1/7"), (2, 2, "1/2"), (2, 2, "1/20"), (2, 6, "1/20")]
)
def test_no_other_set_of_patterns_has_a_larger_gap(changes: int, d: int, nu: str) -> None:
    law = tilted_law(changes=changes, epsilon=E, signals=d, nu=Fraction(nu))
    types = list(law.types)
    every = chain.from_iterable(combinations(types, size) for size in range(len(types) + 1))
    best = max(by_definition(changes, d, law.nu, frozenset(good), law.tilt)["gap"] for good in every)
    assert law.gap == best > 0


@pytest.mark.parametrize("epsilon", ["1/1000", "1/2", "1", "2", "8", "30", "44"])
def test_rounding_never_raises_epsilon(epsilon: str) -> None:
    exact = Fraction(epsilon)
    with localcontext(prec=60):
        wanted = Decimal(exact.numerator) / exact.denominator
        assert (Decimal(ONE) / acceptance(exact)).ln() <= wanted
        assert (Decimal(ONE) / (acceptance(exact) - 1)).ln() > wanted  # and not needlessly lowered


def test_rounding_at_the_ends() -> None:
    assert acceptance(Fraction(10**9)) == 1
    assert log(ONE / acceptance(Fraction(45))) <= 45
    with pytest.raises(LocalError, match="epsilon > 0"):
        tilted_law(changes=1, epsilon=Fraction(0), signals=2, nu=Fraction(1, 4))


@pytest.mark.parametrize("epsilon", [1, 2, 4])
def test_the_best_nu_for_one_change_and_two_signals_is_known(epsilon: int) -> None:
    law = sharpest_law(
        changes=1, epsilon=Fraction(epsilon), signals=2, variance=lambda s: 2 * s.nu / s.gap**2
    )
    assert float(law.nu) == pytest.approx(min(1 / 2, 1 / (exp(epsilon) - 1)), rel=0.01)


@pytest.mark.parametrize(("changes", "d"), [(1, 2), (3, 2), (4, 6), (2, 20)])
def test_the_sketch_agrees_with_the_law(changes: int, d: int) -> None:
    nus = np.array([0.001, 0.02, 1 / d]) if d < 20 else np.array([0.001, 0.05])
    found = sketch(changes=changes, epsilon=E, signals=d, nu=nus)
    for at, nu in enumerate(nus):
        law = tilted_law(changes=changes, epsilon=E, signals=d, nu=min(Fraction(nu), Fraction(1, d)))
        for name in ("gap", "match", "mismatch"):
            assert getattr(found, name)[at] == pytest.approx(float(getattr(law, name)), rel=1e-9)


@pytest.mark.parametrize(
    ("changes", "signals", "nu"), [(0, 2, "1/4"), (1, 1, "1/4"), (1, 2, "0"), (1, 2, "3/5")]
)
def test_what_is_no_law(changes: int, signals: int, nu: str) -> None:
    with pytest.raises(LocalError, match="a tilted law needs"):
        tilted_law(changes=changes, epsilon=E, signals=signals, nu=Fraction(nu))

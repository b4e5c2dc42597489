"""T15 against every path of one unit in small worlds, enforced from the definition alone.

Time is 0, 1, 2, ...; terms begin at 0, T, 2T, ...  A unit truly contributes 0 or 1 at each moment, so every
tuple of zeros and ones is a path.  What it does in some terms is what changes if it is absent in them.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from tidegauge.errors import SpecError
from tidegauge.model.constraint import AtMost, Both, Constraint, Either, Unconstrained, Within
from tidegauge.model.quantity import Exact
from tidegauge.theory import constraint_cases, renewed

Path = tuple[int, ...]


def enforced(true: Path, term: int, k: int | None, bound: int | None, *, retire: bool) -> Path:
    """What is accepted: at the beginning of a term the truth,
    then at most k changes, none after the bound."""
    accepted: list[int] = []
    moves, first, left = 0, None, False
    for at, value in enumerate(true):
        if at % term == 0:
            moves, left, first = 0, False, at if value else None
            accepted.append(0 if retire and bound == 0 else value)
            left = retire and bound == 0 and bool(value)
            continue
        now = accepted[-1]
        if value != true[at - 1]:
            first = at if first is None else first
            moves += 1
            inside = (k is None or moves <= k) and (bound is None or at - first <= bound)
            if inside and not left:
                now, left = (0, True) if retire and moves == k else (value, False)
        if retire and bound is not None and first is not None and at == first + bound and not left:
            now, left = 0, True
        accepted.append(now)
    return tuple(accepted)


def absent(true: Path, term: int, first: int, terms: int) -> Path:
    return tuple(0 if first * term <= at < (first + terms) * term else value for at, value in enumerate(true))


def changes(one: Path, other: Path) -> list[int]:
    """The moments at which the difference of two paths changes; both are 0 before the first moment."""
    apart = [0, *(a - b for a, b in zip(one, other, strict=True))]
    return [at for at in range(len(one)) if apart[at + 1] != apart[at]]


@pytest.mark.parametrize("retire", [False, True])
@pytest.mark.parametrize("terms", [1, 2])
@pytest.mark.parametrize(("k", "bound"), [(2, None), (3, None), (None, 0), (None, 2), (2, 1)])
def test_what_a_unit_does_in_some_terms_is_one_that_obeys(
    k: int | None, bound: int | None, terms: int, *, retire: bool
) -> None:
    term, length = 4, 4 * (terms + 2)
    parts: list[Constraint] = [] if k is None else [AtMost(k)]
    parts += [] if bound is None else [Within(bound)]
    limit = renewed(
        Both(*parts) if len(parts) == 2 else parts[0],
        kind="stock",
        length_of_terms=terms * term,
        touched=lambda longest: int(longest.value) + 1,
        terms=terms,
    )
    ((most, span),) = constraint_cases(limit)
    assert most is not None
    assert span == Exact(Fraction(terms * term), temporal=False)
    for inner in product((0, 1), repeat=length - 8):
        for before, after in product(((0, 0, 0, 0), (1, 1, 0, 1)), ((0, 1, 1, 1), (1, 0, 1, 0))):
            true = (*before, *inner, *after)
            one = enforced(true, term, k, bound, retire=retire)
            other = enforced(absent(true, term, 1, terms), term, k, bound, retire=retire)
            assert one[:4] == other[:4]
            assert one[length - 4 :] == other[length - 4 :]
            moved = changes(one, other)
            assert len(moved) <= most
            assert not moved or moved[-1] - moved[0] <= terms * term


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("terms", [1, 2, 3])
def test_the_number_of_changes_is_reached(k: int, terms: int) -> None:
    term = k + 1
    true = tuple(1 + at % 2 for at in range(term * (terms + 2)))
    paths = [enforced(one, term, k, None, retire=False) for one in (true, absent(true, term, 1, terms))]
    limit = renewed(AtMost(k), kind="stock", length_of_terms=terms * term, touched=lambda _: 1, terms=terms)
    assert limit == Both(AtMost(len(changes(*paths))), Within(terms * term))


def test_flows_change_at_most_k_times_in_a_term() -> None:
    def limit(constraint: Constraint, terms: int) -> Constraint:
        return renewed(constraint, kind="flow", length_of_terms=10 * terms, touched=lambda _: 99, terms=terms)

    assert limit(AtMost(3), 1) == Both(AtMost(3), Within(10))
    assert limit(AtMost(3), 5) == Both(AtMost(15), Within(50))
    assert limit(Within(4), 1) == Within(4)
    assert limit(AtMost(3) & Within(99), 1) == Both(AtMost(3), Within(10))


def test_cases_are_renewed_one_by_one_and_no_constraint_stays_none() -> None:
    found = renewed(AtMost(1) | Within(2), kind="stock", length_of_terms=10, touched=lambda _: 3)
    assert found == Either(Both(AtMost(3), Within(10)), Both(AtMost(4), Within(10)))
    assert renewed(Unconstrained(), kind="stock", length_of_terms=1, touched=lambda _: 1) == Unconstrained()


def test_lengths_of_time_and_plain_numbers_do_not_mix() -> None:
    with pytest.raises(SpecError, match="plain numbers only"):
        renewed(Within("1 day"), kind="stock", length_of_terms=1, touched=lambda _: 1)
    with pytest.raises(SpecError, match="terms"):
        renewed(AtMost(1), kind="stock", length_of_terms=1, touched=lambda _: 1, terms=0)

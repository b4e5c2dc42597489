"""The bin that an instant falls into, as an expression of Spark's SQL: no join, no search."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST: Final = 200_000
"""A lookup table may have so many places."""


def bin_of(instant: str, bins: Sequence[tuple[int, int]]) -> str:
    """SQL: the number of the bin of an instant; NULL after the last one.

    bins: number and end of every bin that an instant of this fold can fall into, in order, without a gap;
    everything up to the first end falls into the first bin.
    """
    if not bins:
        return "CAST(NULL AS BIGINT)"
    numbers, ends = [number for number, _ in bins], [end for _, end in bins]
    first = f"WHEN {instant} <= {ends[0]}L THEN {numbers[0]}L"
    if len(bins) == 1:
        return f"CASE {first} END"
    widths = [late - early for early, late in pairwise(ends)]
    inside = f"WHEN {instant} <= {ends[-1]}L THEN"
    if min(widths) == max(widths):
        passed = f"({instant} - {ends[0]}L + {widths[0] - 1}L) DIV {widths[0]}L"
        return f"CASE {first} {inside} {numbers[0]}L + {passed} END"
    return f"CASE {first} {inside} {numbers[0]}L + {_looked_up(instant, ends, min(widths))} END"


def _looked_up(instant: str, ends: Sequence[int], step: int) -> str:
    """SQL: how many ends lie before an instant.

    A span of the narrowest bin's width holds at most one end: a table says how many ends lie before the
    span, and one comparison decides about the end inside it.
    """
    places = (ends[-1] - ends[0]) // step + 1
    listed = f"array({', '.join(f'{end}L' for end in [*ends, 2**63 - 1])})"
    if places > _MOST:
        return f"size(filter({listed}, one -> one < {instant}))"
    before, passed = [], 0
    for place in range(places):
        begins = ends[0] + place * step
        while passed < len(ends) and ends[passed] < begins:
            passed += 1
        before.append(passed)
    counts = f"array({', '.join(map(str, before))})"
    found = f"element_at({counts}, CAST(({instant} - {ends[0]}L) DIV {step}L AS INT) + 1)"
    return f"({found} + CASE WHEN element_at({listed}, {found} + 1) < {instant} THEN 1L ELSE 0L END)"

"""Which places of sorted hashes have one of the wanted hashes: compared with the definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.store.secret.table.rows import distinct, matching, matching_once

HASHES = st.lists(st.integers(0, 12) | st.integers(2**64 - 3, 2**64 - 1), max_size=20)


@given(HASHES, HASHES)
def test_every_place_of_a_wanted_hash_is_found(known: list[int], wanted: list[int]) -> None:
    hashes, few = np.array(sorted(known), np.uint64), np.array(sorted(set(wanted)), np.uint64)
    places = [place for place, one in enumerate(sorted(known)) if one in set(wanted)]
    assert matching(hashes, few).tolist() == places


@given(HASHES.filter(bool), HASHES)
def test_where_no_two_hashes_are_the_same_one_search_finds_as_many(
    known: list[int], wanted: list[int]
) -> None:
    hashes, few = (np.array(sorted(set(some)), np.uint64) for some in (known, wanted))
    assert matching_once(hashes, few).tolist() == matching(hashes, few).tolist()


@given(HASHES)
def test_distinct_numbers_are_those_of_a_set(known: list[int]) -> None:
    assert distinct(np.array(sorted(known), np.uint64)).tolist() == sorted(set(known))

"""Sums of whole histories are exact, also where they do not fit into 64 bits."""

from __future__ import annotations

from collections import Counter

import duckdb
import numpy as np
import pytest

from tidegauge.engine.duckdb.past.enforce import net
from tidegauge.engine.duckdb.past.totals import totals
from tidegauge.model.program import Total


@pytest.mark.parametrize("amount", [7, 2**62])
def test_sums_of_any_size(amount: int) -> None:
    with duckdb.connect() as db:
        db.execute(
            "CREATE TEMP TABLE places AS SELECT 0::BIGINT AS release, 3::BIGINT AS bin, 11::BIGINT AS own"
        )
        db.execute(f"""CREATE TEMP TABLE parts_0 AS SELECT * FROM (VALUES
            (1, 0::BIGINT, 0::BIGINT, 4::BIGINT, {amount}::BIGINT),
            (2, 0::BIGINT, 1::BIGINT, 4::BIGINT, -{amount}::BIGINT),
            (3, 0::BIGINT, 0::BIGINT, 5::BIGINT, {amount}::BIGINT))
            AS parts(code, release, component, cell, amount)""")
        db.execute("""CREATE TEMP TABLE net_0 AS SELECT * FROM (VALUES
                      (3, 1, 5, 5), (3, 2, 6, 8), (3, 3, 0, 9))
                      AS net(bin, code, accepted, true_)""")
        accepted, dropped = totals(db, 1, ["people"])
    assert accepted == [Total("people", 0, 11, 4, 5 * amount), Total("people", 1, 11, 4, -6 * amount)]
    assert dropped == [Total("people", 0, 11, 5, 9 * amount), Total("people", 1, 11, 4, -2 * amount)]
    assert {type(one.amount) for one in (*accepted, *dropped)} == {int}


@pytest.mark.parametrize("apart", [1, 1 << 20])
def test_signed_places_are_added_up_wherever_they_are(apart: int) -> None:
    """Places that are far apart are sorted; otherwise each one between them has a sum."""
    rng, width = np.random.default_rng(apart), 5
    moved = [
        (rng.integers(0, 40, count) * width * apart + rng.integers(0, width, count), sign)
        for count, sign in ((300, 1), (0, 1), (280, -1))
    ]
    expected = Counter[int]()
    for places, sign in moved:
        for place in places.tolist():
            expected[place] += sign
    found = {place: total for place, total in sorted(expected.items()) if total and place % width}
    assert dict(zip(*(one.tolist() for one in net(moved, width)), strict=True)) == found

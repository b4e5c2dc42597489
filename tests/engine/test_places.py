"""The place of a value among the declared ones is the same for a few values and for many."""

from __future__ import annotations

from contextlib import closing

import duckdb
import pytest

from tidegauge.engine.duckdb import render as rules
from tidegauge.engine.duckdb.render import render
from tidegauge.model.expression import Column, Constant, call

ODD = [
    "",
    " ",
    "a",
    "A",
    "a ",
    " a",
    "it's",
    'say "x"',
    "ä",
    "a\u0308",
    "\u00e4 b",
    "null",
    "NULL",
    "0",
    "1",
    "\n",
    "%",
]


def places(values: list[str | int], asked: list[str | int | None], kind: str) -> list[int | None]:
    found = render(call("place", Column("after", "v"), *map(Constant, values)))
    with closing(duckdb.connect()) as db:
        return [
            db.execute(f"SELECT TRY(CAST({found} AS BIGINT)) FROM (SELECT {{'v': ?::{kind}}} AS after)", [one])
            .fetchall()[0][0]
            for one in asked
        ]  # fmt: skip


@pytest.mark.parametrize("values", [ODD, ODD[::-1], [*ODD, *(f"g{n}" for n in range(200))]])
def test_many_texts_are_found_as_few_are(values: list[str | int], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | int | None] = [*ODD, "b", "g7", "g07", "g200", None]
    expected = [values.index(one) if one in values else None for one in asked]
    for few in (0, 10**6):
        monkeypatch.setattr(rules, "_FEW", few)
        assert places(values, asked, "VARCHAR") == expected
    assert ("ENUM" in render(call("place", Column("after", "v"), *map(Constant, values)))) == (
        few < len(values)
    )


def test_numbers_and_repeated_texts_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_FEW", 0)
    assert places([3, 1, 2], [1, 2, 4, None], "BIGINT") == [1, 2, None, None]
    assert places(["a", "b", "a"], ["a", "b", "c"], "VARCHAR") == [0, 1, None]

"""The place of a value among the declared ones is the same for a few values and for many."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import duckdb
import pytest

from tests.engine.harness import BY_STATE
from tidegauge.engine.duckdb import render as rules
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.engine.duckdb.render import render, types
from tidegauge.model.expression import Column, Constant, call
from tidegauge.model.program import Allowance, Program, Release, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.schedule import Schedule

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
            db.execute(f"SELECT TRY(CAST({found} AS BIGINT)) FROM (SELECT {{'v': ?::{kind}}} AS after)",
                       [one])
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


@pytest.mark.parametrize("many", [0, 10**6])
def test_very_many_texts_are_a_type_of_their_own(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """The engine declares it, and computes the same cells with it."""
    monkeypatch.setattr(rules, "_FEW", 0)
    monkeypatch.setattr(rules, "_MANY", many)
    texts = [str(one) for one in ODD]
    cell = call("place", Column("after", "v"), *map(Constant, texts))
    query = replace(BY_STATE, cell=cell, outside=call("outside", Constant(value=True), cell))
    releases = (Release("places", query, Schedule(0, Span(micros=10))),)
    program = Program(releases, (Scope(("places",), ((None, Allowance()),)),))
    with DuckEngine(program, {"v": "VARCHAR"}) as engine:
        statement = f"SELECT {render(cell)} FROM (SELECT {{'v': ?::VARCHAR}} AS after)"
        found = [engine._db.execute(statement, [one]).fetchall()[0][0] for one in [*texts, "b", None]]
    assert found == [*range(len(texts)), None, None]
    assert (list(types(cell).values()) == [texts]) == (many == 0)

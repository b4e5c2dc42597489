"""Expressions have one text, which is read back as the same tree by this version and every later one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.engine.duckdb import render as module
from tidegauge.engine.duckdb.render import render
from tidegauge.errors import StoreCorrupt, StoreError
from tidegauge.model.expression import OPERATIONS, Call, Column, Constant, Expression, Native, call, parse

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)
leaves: st.SearchStrategy[Expression] = st.one_of(
    st.builds(Constant, scalars),
    st.builds(Column, st.sampled_from(["before", "after"]), st.text(min_size=1, max_size=5)),
)


@st.composite
def _calls(draw: st.DrawFn, children: st.SearchStrategy[Expression]) -> Expression:
    operation = draw(st.sampled_from(sorted(OPERATIONS)))
    least, most = OPERATIONS[operation]
    return call(operation, *draw(st.lists(children, min_size=least, max_size=min(most, least + 2))))


@given(st.recursive(leaves, _calls, max_leaves=12))
def test_the_text_is_read_back_as_the_same_tree(expression: Expression) -> None:
    again = parse(str(expression))
    assert repr(again) == repr(expression)  # repr, because True == 1
    assert str(again) == str(expression)


def test_the_text_of_a_committed_expression_never_changes() -> None:
    cell = call("where", call("=", Column("after", "ward"), "a"), call("place", Column("after", "x"), 1, 2))
    assert str(cell) == 'v1:["where",["=",["after","ward"],"a"],["place",["after","x"],1,2]]'


def test_older_plans_keep_their_sql() -> None:
    assert parse("TRY(after.x)") == Native("TRY(after.x)")
    assert str(parse("TRY(after.x)")) == render(parse("TRY(after.x)")) == "TRY(after.x)"


@pytest.mark.parametrize("text", ['v1:["spell",1]', 'v1:["=",1]', 'v1:["not",1,2]'])
def test_an_operation_of_a_later_version_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="does not know"):
        parse(text)


def test_the_embedded_engine_renders_every_operation() -> None:
    assert set(module._RULES) == set(OPERATIONS)


@pytest.mark.parametrize(
    "forged",
    [
        call("part", "year') FROM x --", Column("after", "at")),
        call("cast", "INT); DROP TABLE x; --", 1),
        call("interval", "1 day' OR '1"),
        call("at", "2026-01-01 00:00:00' --"),
        call("present", "after) OR (1"),
    ],
)
def test_words_of_a_statement_are_only_words(forged: Call) -> None:
    with pytest.raises(StoreCorrupt, match="not as it was committed"):
        render(forged)

"""Every operation gives the documented value: in DuckDB, and in a plain Python reading of
docs/expressions.md."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from tests.engine import reference
from tests.engine.semantics import CASES, DIFFERENCES
from tidegauge.engine.duckdb.render import render
from tidegauge.model.expression import OPERATIONS, Call, Column, Constant, parse

if TYPE_CHECKING:
    from tidegauge.model.expression import Expression

DOCS = Path(__file__).parents[2] / "docs" / "expressions.md"
TYPES: dict[type, str] = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
FIXED = {"present", "cast", "at", "interval", "part", "truncate", "difference", "place", "case"}
"""Operations whose first argument is a constant, or whose arguments must be of one type."""
CONNECTION = duckdb.connect()
CONNECTION.execute("SET TimeZone = 'Pacific/Apia'")  # nothing may depend on the session


def expression(form: Any) -> Expression:
    return parse("v1:" + json.dumps(form))


def named(form: Any) -> str:
    return json.dumps(form, ensure_ascii=True)


def agree(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(found, float) and math.isnan(found)
    return isinstance(found, bool) == isinstance(expected, bool) and bool(found == expected)


def in_duckdb(node: Expression, value: object = None) -> Any:
    """The value in DuckDB; `value` stands in the column `v`."""
    kind = TYPES.get(type(value), "INTEGER")
    rows = f'SELECT NULL::STRUCT(v {kind}) AS "before", struct_pack(v := $1::{kind}) AS "after"'
    ((found,),) = CONNECTION.execute(f"SELECT {render(node)} FROM ({rows})", [value]).fetchall()
    return found


@pytest.mark.parametrize(("form", "expected"), CASES, ids=[named(form) for form, _ in CASES])
def test_duckdb_gives_the_documented_value(form: Any, expected: Any) -> None:
    node = expression(form)
    assert agree(in_duckdb(node), expected)
    match node:
        case Call(operation, (Constant(value), *rest)) if operation not in FIXED and value is not None:
            of_column = Call(operation, (Column("after", "v"), *rest))
            assert agree(in_duckdb(of_column, value), expected)


@pytest.mark.parametrize(("form", "expected"), CASES, ids=[named(form) for form, _ in CASES])
def test_the_reference_gives_the_documented_value(form: Any, expected: Any) -> None:
    assert agree(reference.evaluate(expression(form), None, {}), expected)


def test_every_operation_has_a_case() -> None:
    tried = {
        node.operation for form, _ in CASES for node in expression(form).walk() if isinstance(node, Call)
    }
    assert tried == set(OPERATIONS)
    assert {*reference.OPERATIONS, "present"} == set(OPERATIONS)


@pytest.mark.parametrize("topic", DIFFERENCES)
def test_every_known_difference_of_engines_has_cases(topic: str) -> None:
    assert all(form in [one for one, _ in CASES] for form in DIFFERENCES[topic])


def test_every_operation_is_documented_once() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", DOCS.read_text("utf-8").replace("\\|", "|"), re.MULTILINE)
    assert sorted(rows) == sorted(OPERATIONS)

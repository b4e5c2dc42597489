"""docs/sql.md and the compiler say the same: what is shown as accepted compiles,
what is shown as refused is refused."""

from __future__ import annotations

import re
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest

from tidegauge.errors import QueryError
from tidegauge.plan.sql.compile import compile_query
from tidegauge.plan.sql.refusals import REFUSALS

DOC = (Path(__file__).parents[3] / "docs" / "sql.md").read_text(encoding="utf-8")
ACCEPTED, REFUSED = DOC.split("\n## Refused\n")
SCHEMA = re.search(r"a table `patients` with the columns (.*?)\n\n", DOC, re.DOTALL)
TYPES = {
    name: kind or "VARCHAR" for name, kind in re.findall(r"`(\w+) ?([^`]*)`", SCHEMA[1] if SCHEMA else "")
}
EXAMPLES = re.findall(r"```toml\n(.*?)```", ACCEPTED, re.DOTALL)
EXPRESSIONS = [
    expression.replace("\\|", "|")
    for row in re.findall(
        r"^\| (?:conditions|choice|numbers|text|dates|casts) \| (.*) \|$", ACCEPTED, re.MULTILINE
    )
    for expression in re.findall(r"`([^`]+)`", row)
]
ROWS = re.findall(r"^\| ([^|]+?) \| `([^`]+)` \| (.+) \|$", REFUSED, re.MULTILINE)


def test_the_document_is_read_as_meant() -> None:
    assert TYPES["cost"] == "DECIMAL(10, 2)"
    assert TYPES["seen"] == "TIMESTAMP WITH TIME ZONE"
    assert len(TYPES) == 12
    assert len(EXAMPLES) >= 8
    assert len(EXPRESSIONS) >= 50


@pytest.mark.parametrize("example", EXAMPLES)
def test_shown_declarations_compile(example: str) -> None:
    declared = tomllib.loads(example, parse_float=Fraction)
    query = compile_query(
        declared["sql"],
        table="patients",
        columns=TYPES,
        groups=declared.get("groups"),
        bounds=declared.get("bounds"),
        grids=declared.get("grid"),
    )
    assert query.components


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_shown_expressions_compile(expression: str) -> None:
    compile_query(f"SELECT COUNT({expression}) FROM patients", table="patients", columns=TYPES)


def test_every_refusal_is_shown() -> None:
    assert {name: reason for name, _, reason in ROWS} == REFUSALS


@pytest.mark.parametrize(("name", "sql", "reason"), ROWS, ids=[row[0] for row in ROWS])
def test_shown_refusals_are_refused(name: str, sql: str, reason: str) -> None:
    with pytest.raises(QueryError) as caught:
        compile_query(sql, table="patients", columns=TYPES, key="release.x.sql")
    assert str(caught.value).startswith("release.x.sql: ")
    assert str(caught.value).endswith(f" is refused: {reason}")
    assert "\n" not in str(caught.value)

"""SQL for SQLite has parameters that every Python takes: from 3.14 on, ?1 with a sequence is an error."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[1] / "src" / "tidegauge"
NUMBERED = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|WHERE|SET|VALUES)\b.*\?[0-9]", re.DOTALL)


def numbered(text: str) -> Iterator[int]:
    """The lines of the texts in which SQL has a numbered parameter."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NUMBERED.search(node.value):
            yield node.lineno


def test_no_parameter_has_a_number() -> None:
    found = [f"{path.name}:{line}" for path in SOURCE.rglob("*.py") for line in numbered(path.read_text())]
    assert not found


def test_the_search_finds_one() -> None:
    assert list(numbered('run("DELETE FROM a "\n    "WHERE b = ?1", (b,))')) == [1]

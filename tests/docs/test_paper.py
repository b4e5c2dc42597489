"""The paper, reproduced: every numbered statement has a row, and every row says what shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "paper" / "README.md"
NUMBERED: Final = {
    "Definition": {2: 1, 4: 7},
    "Theorem": {2: 2, 4: 10, 5: 1, 6: 2},
    "Corollary": {2: 1, 4: 2, 5: 5},
}
"""How many statements of each kind each section of the paper has."""


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if re.match(r"\| [^-]", line)]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if row[0] != "paper"]


def test_every_numbered_statement_has_one_row() -> None:
    found = [
        f"{kind.replace('ies', 'y')} {number}"
        for kind, numbers in (row[0].split(" ", 1) for row in rows() if re.search(r"\d\.\d", row[0]))
        for number in numbers.split(", ")
    ]
    assert sorted(found) == sorted(
        f"{kind} {section}.{number}"
        for kind, sections in NUMBERED.items()
        for section, count in sections.items()
        for number in range(1, count + 1)
    )


def test_every_row_names_a_verdict_and_what_shows_it() -> None:
    for paper, words, code, holds, shown in rows():
        assert words, paper
        assert code, paper
        assert re.search(r"yes|no|misprint|upper bound", holds), paper
        assert re.search(r"\]\((\.\./\.\./tests/|#)", shown), paper

"""Plain English: words and phrases that we do not use, and lines that are not too long.

Checked in README, CONTRIBUTING, CHANGELOG, docs and examples, and in every docstring and message of the
source.  Run this file to list the places: `python tests/docs/test_words.py`.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
WIDTH: Final = 110

INSTEAD: Final = {
    r"told|tells|foretold": "published, shows, says; 'too small to tell' is allowed",
    r"mend(s|ed|ing)?": "fix",
    r"anew|afresh": "again, from the start",
    r"nil": "0, none",
    r"unsought": "unwanted, or nothing",
    r"stands?(?! for\b)(?! in for\b)": "is, remains",
    r"news": "a change",
    r"nobody|no one|somebody|whoever": "the noun: no person, another process, the caller",
    r"for ever": "over the gauge's whole lifetime",
    r"confidence intervals?": "noise interval",
    r"would have it": "say who says what",
    r"an error in itself": "internal error",
    r"how a changing database": "statistics of a live database",
    r"report for themselves": "local differential privacy",
    r"what both publish": "the privacy losses of both gauges",
    r"as far off as": "the ratio of the errors",
    r"as long as it is let": "until it is stopped",
    r"there is none of|is none of (them|it|its)": "is not one of",
    r"veils?|foresaw|foreseen|unforeseen": "the word of the glossary",
}
"""What we do not write (regular expressions for whole words), and what we write instead."""
USED: Final = re.compile("|".join(rf"\b(?:{words})\b" for words in INSTEAD), re.IGNORECASE)
CODE: Final = re.compile(r"`[^`\n]*`")


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def modules() -> list[Path]:
    return sorted((ROOT / "src").rglob("*.py"))


def assets() -> list[Path]:
    """Files that are written by hand and are neither Python nor prose; the linter measures Python."""
    folders = ("src", "docs", "examples", "tests", "tools", ".github", "docker")
    endings = ("css", "js", "mjs", "toml", "yml", "yaml", "sql", "service")
    inside = [path for folder in folders for end in endings for path in (ROOT / folder).rglob(f"*.{end}")]
    beside = [path for end in endings for path in ROOT.glob(f"*.{end}")]
    return sorted([*inside, *beside, ROOT / "Makefile", ROOT / "Dockerfile"])


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of everything in this file that a person reads; without names of code."""
    content = path.read_text("utf-8")
    if path.suffix == ".md":
        for number, line in enumerate(content.splitlines(), start=1):
            if not line.startswith("    "):  # quoted messages are checked where they are written
                yield number, CODE.sub("`", line)
        return
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for offset, line in enumerate(node.value.splitlines()):
                yield node.lineno + offset, CODE.sub("`", line)


def unused_words(path: Path) -> list[str]:
    return [
        f"{name(path)}:{number}: {found.group()}"
        for number, text in texts(path)
        for found in USED.finditer(text)
        if "small to tell" not in text
    ]


def long_lines(path: Path) -> list[str]:
    """Lines over the limit.  In a page, rows of tables and quoted output cannot be broken."""
    found, fenced = [], False
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        fenced ^= line.startswith("```")
        quoted = path.suffix == ".md" and (fenced or line.startswith(("|", "    ")))
        if len(line) > WIDTH and not quoted:
            found.append(f"{name(path)}:{number}: {len(line)} characters")
    return found


def offences(path: Path) -> list[str]:
    return [*unused_words(path), *long_lines(path)]


@pytest.mark.parametrize("path", [*pages(), *modules()], ids=name)
def test_plain_english_in_short_lines(path: Path) -> None:
    assert offences(path) == []


@pytest.mark.parametrize("path", assets(), ids=name)
def test_short_lines(path: Path) -> None:
    assert long_lines(path) == []


@pytest.mark.parametrize(
    "text",
    [
        "It tells nothing.",
        "as TOLD before",
        "late news",
        "for ever",
        "Nobody knows",
        "what it stands in",
        "begins anew",
    ],
)
def test_a_word_that_we_do_not_use_is_found(tmp_path: Path, text: str) -> None:
    assert USED.search(text)
    module = tmp_path / "module.py"
    module.write_text(f'def f() -> None:\n    raise ValueError(f"{{1}}: {text}")\n')
    assert [line for line, found in texts(module) if USED.search(found)] == [2]


@pytest.mark.parametrize(
    "text", ["a domain is what it stands for", "newspaper", "`tells`", "understands", "amended"]
)
def test_other_words_are_not(text: str) -> None:
    assert not USED.search(CODE.sub("`", text))


if __name__ == "__main__":
    for one in [*pages(), *modules()]:
        print(*offences(one), sep="\n", end="\n" if offences(one) else "")
    for one in assets():
        print(*long_lines(one), sep="\n", end="\n" if long_lines(one) else "")

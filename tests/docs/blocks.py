"""The code blocks of a page, fenced or indented."""

from __future__ import annotations

import re
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest


@dataclass(frozen=True)
class Block:
    """A block, its language, the heading above it, and the file that the page asks to save it as."""

    line: int
    language: str
    text: str
    heading: str
    file: str | None = None


def blocks(page: Path) -> list[Block]:
    """Every code block of a page.  A block without a language has the one that its text shows."""
    lines, found, heading, at = page.read_text("utf-8").splitlines(), [], "", 0
    while at < len(lines):
        line = lines[at]
        before = lines[at - 1] if at else ""
        if line.startswith("#"):
            heading = line
        if fence := re.match(r" *(`{3,})(\w*)$", line):
            end = next(n for n in range(at + 1, len(lines)) if lines[n].strip() == fence[1])
            text = textwrap.dedent("\n".join(lines[at + 1 : end]))
            named = re.fullmatch(r"<!-- file: (\S+) -->", before)
            found.append(Block(at + 1, fence[2] or shown(text), text, heading, named[1] if named else None))
            at = end
        elif line.startswith("    ") and (not before.strip() or before.startswith("#")):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            text = textwrap.dedent("\n".join(lines[at:end])).rstrip()
            found.append(Block(at + 1, shown(text), text, heading))
            at = end - 1
        at += 1
    return found


def shown(text: str) -> str:
    """The language of a block that does not name it."""
    if re.match(r"\$ |tidegauge ", text):
        return "console"
    if re.match(r"(import|from) \w", text):
        return "python"
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return "text"
    return "toml"


def commands(text: str) -> list[str]:
    """The commands of a console block: the lines after `$`, or all lines if none has one."""
    lines = text.splitlines()
    if any(line.startswith("$ ") for line in lines):
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return lines


ROOT: Final = Path(__file__).parents[2]
PAGES: Final = {
    path.relative_to(ROOT).as_posix(): blocks(path)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
ALL: Final = [(page, block) for page, found in PAGES.items() for block in found]


def of(*languages: str) -> list[Any]:
    """A parameter for each block of these languages: its page and the block."""
    return [
        pytest.param(page, block, id=f"{page}:{block.line}")
        for page, block in ALL
        if block.language in languages
    ]

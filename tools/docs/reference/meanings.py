"""What keys mean; every line must be used, and every key needs one."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


class MeaningProblem(Exception):
    """A key has no meaning in meanings.toml, or a meaning there has no key."""


@cache
def _all() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "meanings.toml").read_text("utf-8"))


class Meanings:
    """The lines of one table of meanings.toml."""

    def __init__(self, *path: str) -> None:
        found = _all()
        for part in path:
            found = found.get(part, {})
        self._name, self._left = (
            ".".join(path),
            {key: one for key, one in found.items() if isinstance(one, str)},
        )
        self._known = dict(self._left)

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def take(self, key: str) -> str:
        """The meaning of a key."""
        if key not in self._known:
            raise MeaningProblem(
                f"{self._name}: write what '{key}' means into tools/docs/reference/meanings.toml"
            )
        self._left.pop(key, None)
        return self._known[key]

    def close(self) -> None:
        """Raise MeaningProblem if a line was not taken."""
        if self._left:
            raise MeaningProblem(f"{self._name}: there is no key {', '.join(sorted(self._left))}; remove it")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table of a page."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]).replace("|  |", "| |") + "\n"

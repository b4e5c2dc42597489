"""One-line errors, made in a copy of the package."""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutant:
    """In a function of a module, `new` replaces `old`.  `caught_by`: arguments of pytest."""

    name: str
    module: str
    function: str
    old: str
    new: str
    caught_by: tuple[str, ...]


def package() -> Path:
    """The folder of the package."""
    spec = importlib.util.find_spec("tidegauge")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def place(mutant: Mutant, root: Path) -> tuple[Path, int, int]:
    """The file with the text, and the start and end of the text in the file.

    The text must occur exactly once: in the function, or, if the function was moved, in the whole package.
    """
    for file, function in _functions(mutant, root):
        source = file.read_text("utf-8")
        lines = source.splitlines(keepends=True)
        start = sum(map(len, lines[: function.lineno - 1]))
        end = sum(map(len, lines[: function.end_lineno]))
        if source.count(mutant.old, start, end) == 1:
            at = source.index(mutant.old, start, end)
            return file, at, at + len(mutant.old)
    found = [(file, text.index(mutant.old)) for file, text in _sources(root) if text.count(mutant.old) == 1]
    assert len(found) == 1, f"{mutant.name}: the text is not there, or more than once"
    ((file, at),) = found
    return file, at, at + len(mutant.old)


def _sources(root: Path) -> list[tuple[Path, str]]:
    return [(file, file.read_text("utf-8")) for file in sorted(root.rglob("*.py"))]


def _functions(mutant: Mutant, root: Path) -> Iterator[tuple[Path, ast.FunctionDef]]:
    """The function, if it is in the module."""
    inside = Path(*mutant.module.split(".")[1:])
    for file in (root / inside.with_suffix(".py"), root / inside / "__init__.py"):
        if file.exists():
            nodes: list[ast.AST] = [ast.parse(file.read_text("utf-8"))]
            for part in mutant.function.split("."):
                nodes = [
                    one
                    for node in nodes
                    for one in ast.walk(node)
                    if isinstance(one, ast.FunctionDef | ast.ClassDef) and one.name == part
                ]
            yield from ((file, node) for node in nodes if isinstance(node, ast.FunctionDef))


def apply(mutant: Mutant, folder: Path) -> Path:
    """Make a copy of the package with the error.  Returns the folder for PYTHONPATH."""
    copy = folder / "src" / "tidegauge"
    shutil.copytree(package(), copy, ignore=shutil.ignore_patterns("__pycache__"))
    file, begin, end = place(mutant, copy)
    source = file.read_text("utf-8")
    changed = source[:begin] + mutant.new + source[end:]
    ast.parse(changed)
    assert changed != source
    file.write_text(changed, "utf-8")
    return copy.parent


def run(selection: tuple[str, ...], path: Path) -> subprocess.CompletedProcess[str]:
    """Run some tests on the package in this folder."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))
    }
    environment |= {"PYTHONPATH": f"{path}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-c",
        _MAIN,
        str(path),
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        *selection,
    ]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


_MAIN = """
import pathlib, sys, pytest, tidegauge
assert pathlib.Path(tidegauge.__file__).is_relative_to(sys.argv[1]), "another copy was imported"
sys.exit(pytest.main(sys.argv[2:]))
"""

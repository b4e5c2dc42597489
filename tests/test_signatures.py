"""Signatures say what a value is: few take or return dict[str, Any] or list[tuple]."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[1] / "src" / "tidegauge"
VAGUE = (
    "dict[str, Any]",
    "Mapping[str, Any]",
    "dict[str, object]",
    "Mapping[str, object]",
    "tuple[Any, ...]",
    "list[Any]",
    "list[dict",
    "list[tuple",
)
OPEN = ("open", "plan")
"""Functions of the public interface that hand on whatever options they get."""
DECLARATIONS = "audit"
"""The audit invents declarations and rows; they are dictionaries, as users write them."""
MOST = 22
"""Signatures at the edges: rows of a database, declarations of users,
or a library whose types are only known when they are read."""


def vague(text: str) -> Iterator[str]:
    """The functions of a module whose signature has a dict or list without a declared shape."""
    tree = ast.parse(text)
    aliases = {
        node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and any(one in ast.unparse(node.value) for one in VAGUE)
        and isinstance(node.value, ast.Subscript | ast.BinOp)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            notes = [one.annotation for one in every] + [node.returns]
            options = node.args.kwarg and node.args.kwarg.annotation
            if options is not None and ast.unparse(options) == "Any" and node.name not in OPEN:
                notes.append(ast.parse("dict[str, Any]", mode="eval").body)
            written = [ast.unparse(one) for one in notes if one is not None]
            names = {
                part.id
                for one in notes
                if one is not None
                for part in ast.walk(one)
                if isinstance(part, ast.Name)
            }
            if names & aliases or any(one in note for note in written for one in VAGUE):
                yield node.name


def test_few_signatures_are_vague() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not path.is_relative_to(SOURCE / DECLARATIONS)
        for name in vague(path.read_text("utf-8"))
    ]
    assert len(found) <= MOST, "\n".join(found)


def test_the_twin_that_must_be_found() -> None:
    text = """
Row = dict[str, Any]
def one(a: int) -> list[tuple[int, str]]: ...
def two(*, a: Mapping[str, Any] | None) -> None: ...
def three(a: Row) -> None: ...
def four(a: dict[str, Json]) -> list[Row2]: ...
def five(*, a: int, **more: Any) -> None: ...
def six(a: Sequence[tuple[Any, ...]], **more: bool) -> None: ...
def open(**options: Any) -> None: ...
"""
    assert list(vague(text)) == ["one", "two", "three", "five", "six"]

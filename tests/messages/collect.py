"""Every refusal in the source: the place, and the text with its placeholders, read from the syntax tree."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE: Final = Path(__file__).parents[2] / "src" / "tidegauge"
EXPECTED: Final = Path(__file__).parent / "expected"
CLASSES: Final = frozenset(
    {
        "TidegaugeError",
        "SpecError",
        "QueryError",
        "BudgetExceeded",
        "PlanChanged",
        "SourceError",
        "StoreError",
        "StoreLocked",
        "StoreBehind",
        "StoreCorrupt",
        "LocalError",
        "Refused",
        "Mismatch",
    }
)
"""The classes whose texts a user reads; a ValueError is one if pydantic turns it into a message."""
PYDANTIC: Final = ("plan/spec/", "model/declared.py", "source/")
"""Where a ValueError becomes a message of the declaration."""


@cache
def messages() -> dict[str, list[str]]:
    """For each folder, its refusals: module, function, and text."""
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        folder = module.split("/")[0] if "/" in module else "top"
        if folder == "source":
            folder = "-".join(module.split("/")[:2])
        lines = [f"{module} {line}" for line in _of_module(path, module)]
        if lines:
            found.setdefault(folder, []).extend(lines)
    return found


def _of_module(path: Path, module: str) -> Iterator[str]:
    classes = set(CLASSES)
    if module.startswith(PYDANTIC):
        classes.add("ValueError")
    yield from _calls(ast.parse(path.read_text("utf-8")), classes, "")
    if module == "plan/sql/refusals.py":
        from tidegauge.plan.sql.refusals import REFUSALS

        yield from (f"REFUSALS {name}: {text}" for name, text in REFUSALS.items())


def _calls(node: ast.AST, classes: set[str], where: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        inside = f"{child.name}" if isinstance(child, ast.FunctionDef | ast.ClassDef) else where
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in classes:
            key = next((text(one.value) for one in child.keywords if one.arg == "key"), "")
            said = text(child.args[0]) if child.args else ""
            if said:
                yield f"{where}: {child.func.id}: {f'[{key}] ' if key else ''}{said}"
        yield from _calls(child, classes, inside)


def text(node: ast.expr) -> str:
    """The text of an expression, with its placeholders in braces; line breaks as \\n."""
    match node:
        case ast.Constant(value=str(said)):
            return said.replace("\n", "\\n")
        case ast.JoinedStr(values=parts):
            return "".join(text(part) for part in parts)
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text(left) + text(right)
        case _:
            return f"{{{ast.unparse(node)}}}"

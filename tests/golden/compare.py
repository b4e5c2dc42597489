"""Compare what a run gives with what was recorded: structure and words exactly,
numbers to a relative 1e-6."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

TOLERANCE: Final = 1e-6
FOLDER: Final = Path(__file__).with_name("expected")
_NUMBER: Final = re.compile(r"[+-]?\d+(?:/\d+|(?:\.\d+)?(?:[eE][+-]?\d+)?)")


def differences(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """One line for each place in which two JSON values differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in sorted(expected.keys() | found.keys()):
            if name not in found or name not in expected:
                yield f"{path}/{name}: {'missing' if name in expected else 'not recorded'}"
            else:
                yield from differences(expected[name], found[name], f"{path}/{name}")
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield f"{path}: {len(found)} items instead of {len(expected)}"
        for number, (one, other) in enumerate(zip(expected, found, strict=False)):
            yield from differences(one, other, f"{path}/{number}")
    elif isinstance(expected, str) and isinstance(found, str):
        if not _alike(expected, found):
            yield f"{path}: {found!r} instead of {expected!r}"
    elif isinstance(expected, bool) or isinstance(found, bool) or expected is None or found is None:
        if expected is not found:
            yield f"{path}: {found!r} instead of {expected!r}"
    elif isinstance(expected, int) and isinstance(found, int):
        if expected != found:
            yield f"{path}: {found} instead of {expected}"
    elif not (isinstance(expected, int | float) and isinstance(found, int | float)) or not isclose(
        expected, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE * 1e-3
    ):
        yield f"{path}: {found!r} instead of {expected!r}"


def _alike(expected: str, found: str) -> bool:
    """The same words around the same numbers."""
    if expected == found:
        return True
    if _NUMBER.split(expected) != _NUMBER.split(found):
        return False
    pairs = zip(_NUMBER.findall(expected), _NUMBER.findall(found), strict=True)
    return all(
        one == other
        or (
            not (one.isdigit() and other.isdigit())
            and isclose(Fraction(one), Fraction(other), rel_tol=TOLERANCE)
        )
        for one, other in pairs
    )


def plain(value: Any) -> Any:
    """A value as JSON gives it back, with floats of ten digits, which keeps the recorded files small."""
    return json.loads(json.dumps(value), parse_float=lambda text: float(f"{float(text):.10g}"))


def write(name: str, value: Any) -> None:
    """Record a value: one line for each key of its first two levels, so that a change shows where it is."""
    blocks = []
    for key, part in plain(value).items():
        lines = [f"  {json.dumps(inner)}: {_compact(one)}" for inner, one in part.items()]
        blocks.append(f" {json.dumps(key)}: {{\n" + ",\n".join(lines) + "\n }")
    text = "{\n" + ",\n".join(blocks) + "\n}\n"
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(text, "utf-8")


def read(name: str) -> Any:
    """What was recorded under a name."""
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)

"""docs/reference/python.md: every public name of the package."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from typing import Any, Final

import tidegauge
from tidegauge import errors, local, theory

HIDDEN: Final = {"Plan": {"from_record", "record", "needed"}}
"""Methods that only the package itself calls."""
GIVEN: Final = {"Plan", "Reading"}
"""Classes whose values the package makes."""


def signature(name: str, found: Any) -> str:
    """How it is called, without the types; the docstring says what they are."""
    try:
        parameters = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):
        return name
    words, starred = [], False
    for one in parameters:
        if one.name in {"self", "cls"}:
            continue
        if one.kind is one.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        starred |= one.kind is one.VAR_POSITIONAL
        sign = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        shown = "" if one.default is one.empty else f"={_short(one.default)}"
        words.append(f"{sign}{one.name}{shown}")
    return f"{name}({', '.join(words)})"


def _short(default: object) -> str:
    text = repr(default)
    return text if re.fullmatch(r"[\w.'\" -]{1,30}|\(\)|\[\]|\{\}", text) else "..."


def documented(found: Any) -> str:
    """The docstring as a quoted block, or nothing for one that dataclasses made."""
    text = inspect.getdoc(found) or ""
    if not text or re.match(r"\w+\(.*\)$", text.partition("\n")[0]):
        return ""
    if "\n" not in text:
        return textwrap.fill(text, 108) + "\n"
    return f"```text\n{text}\n```\n"


def members(name: str, found: type) -> list[tuple[str, Any]]:
    """The public methods and properties of a class, in the order of its source."""
    chosen = []
    for key, one in vars(found).items():
        if key.startswith("_") or key in HIDDEN.get(name, ()):
            continue
        inner = getattr(one, "__func__", getattr(one, "fget", getattr(one, "func", one)))
        if inspect.isfunction(inner):
            chosen.append((key, one))
    return chosen


def entry(prefix: str, name: str, found: Any, level: str) -> list[str]:
    """One name: how it is called, what it does, and for a class its members."""
    called = signature(name, found) if callable(found) and name not in GIVEN else name
    parts = [f"{level} {prefix}{name}\n"]
    if called != name:
        parts.append("```text\n" + textwrap.fill(called, 100, subsequent_indent="    ") + "\n```\n")
    parts.append(documented(found))
    if inspect.isclass(found):
        fields = [one.name for one in dataclasses.fields(found)] if dataclasses.is_dataclass(found) else []
        fields = [one for one in fields if not one.startswith("_")]
        if fields and name != "Plan":
            words = "Fields: " + ", ".join(f"`{one}`" for one in fields) + "."
            parts.append(textwrap.fill(words, 108) + "\n")
        for key, one in members(name, found):
            inner = getattr(one, "__func__", getattr(one, "fget", getattr(one, "func", one)))
            called = signature(key, inner) if inspect.isfunction(one) or hasattr(one, "__func__") else key
            text = " ".join((inspect.getdoc(inner) or "").partition("\n\n")[0].split())
            parts.append(textwrap.fill(f"- `{called}`: {text}", 108, subsequent_indent="  "))
        parts.append("")
    return parts


def page() -> str:
    """The whole page."""
    parts = [
        "# Python\n\nThis page is written from the code by `python -m tools.docs.reference`.\n",
        "## tidegauge\n",
    ]
    for name in tidegauge.__all__:
        if name not in {"local", "theory", "TidegaugeError"}:
            parts += entry("tidegauge.", name, getattr(tidegauge, name), "###")
    parts += ["## Errors\n", f"```text\n{(errors.__doc__ or '').strip()}\n```\n"]
    for module, about in (
        (theory, "Proofs: [Theory](../theory/README.md)."),
        (local, "[Local surveys](../local/guide.md)."),
    ):
        parts.append(f"## {module.__name__}\n{about}\n")
        for name in module.__all__:
            parts += entry("", name, getattr(module, name), "###")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"

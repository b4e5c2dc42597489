"""Texts in lines of a given width, and exact numbers as people read them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction


def wrapped(label: str, text: str, width: int | None, *, hanging: int | None = None) -> list[str]:
    """The text behind its label, in lines of at most `width` characters (None: in one line).

    Later lines are indented by `hanging`, or to below the text.  Expressions like 'epsilon = 2' stay whole.
    """
    if width is None:
        return [f"{label}{text}"]
    whole = text.replace(" = ", "\0=\0").replace("± ", "±\0").replace(" %", "\0%")
    indent = " " * (len(label) if hanging is None else hanging)
    lines = textwrap.wrap(
        whole,
        width,
        initial_indent=label,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def number(value: Fraction) -> str:
    """An exact number, or so many digits that it is not mistaken for one."""
    return str(value) if value.denominator < 10_000 else f"{float(value):.6g}"

"""Whether the rows of a file are versions, by their times alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidegauge.source.files.notation import Notation
    from tidegauge.source.files.sample import Sample

_DAY: Final = 86_400_000_000
_FOLLOWED: Final = 5
"""At least so many rows have a next one of the same key."""


def follow(first: Sample, notation: Notation, begins: str, ends: str, key: str) -> bool:
    """Whether no row ends before it begins, and 9 of 10 end when the next of their key begins.

    A row may also end the day before.
    """
    begin, end = (notation.instant(first.value(one)) for one in (begins, ends))
    rows = f"""(SELECT {begin} AS begins, {end} AS ends, lead({begin}) OVER (
                PARTITION BY {first.value(key)} ORDER BY {begin}) AS following FROM sample)"""
    asked = ["count(following)", f"count_if(following - ends IN (0, {_DAY}))", "count_if(ends < begins)"]
    followed, touching, wrong = first.ask(asked, rows=rows)
    return bool(followed >= _FOLLOWED and (touching or 0) >= 0.9 * followed and not wrong)

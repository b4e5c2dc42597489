"""How often a table was written down, from the dates on which it was."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import DAY, HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Sequence

_CALENDAR: Final = ((28, 31, "1 month"), (90, 92, "1 quarter"), (365, 366, "1 year"))


def rhythm(instants: Sequence[int]) -> tuple[str, tuple[str, ...]]:
    """The time from one picture to the next, as a duration, and a sentence if the times differ."""
    gaps = sorted(later - earlier for earlier, later in pairwise(instants))
    if not gaps:
        return "1 day", (
            "one date only, so the time from one snapshot of the table to the next is not known (every)",
        )
    least, most = gaps[0], gaps[-1]
    for low, high, words in _CALENDAR:
        if low * DAY <= least and most <= high * DAY:
            return words, ()
    unsure = (
        ("the dates are not equally far apart: `every` is the longest time between two of them. A row that "
         "is missing from a picture counts until then",) if least != most else ()
    )  # fmt: skip
    return _duration(most), unsure


def _duration(gap: int) -> str:
    for size, word in ((7 * DAY, "week"), (DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if gap % size == 0:
            return f"{gap // size} {word}{'' if gap == size else 's'}"
    return f"{-(-gap // DAY)} days" if gap > DAY else f"{-(-gap // MINUTE)} minutes"

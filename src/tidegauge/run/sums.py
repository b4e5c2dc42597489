"""The exact sums of a release, with what a fold adds to them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegauge.model.program import Folded, Total
    from tidegauge.model.tick import Sums


def by_release(folded: Iterable[Folded]) -> dict[str, list[Total]]:
    """The exact changes of a fold, by release."""
    found: dict[str, list[Total]] = defaultdict(list)
    for part in folded:
        for total in part.totals:
            found[total.release].append(total)
    return found


def add_sums(known: Sums, totals: Iterable[Total]) -> Sums:
    """Exact sums of a release once these changes have taken effect."""
    sums = Counter(known)
    for total in totals:
        sums[total.component, total.bin, total.cell] += total.amount
    return sums

"""The rows of sums that Spark computed, as the result of a fold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tidegauge.engine.spark.reasons import NO_RELEASE, unpacked
from tidegauge.model.program import Folded, Total

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegauge.engine.spark.layout import Layout


def folded(found: Sequence[Mapping[str, int]], layout: Layout) -> Folded:
    """The result of a fold, of the rows of its sums."""
    sums: dict[tuple[int, int, int, int], list[int]] = {}
    counts: dict[str, int] = {}
    for row in found:
        truly, counted = (
            (row[f"{name}_high"] << 32) + row[f"{name}_low"] if layout.large else row[name]
            for name in ("truly", "counted")
        )
        if row["release"] == NO_RELEASE:
            for reason, times in unpacked(row["cell"], len(layout.program.scopes)).items():
                counts[reason] = counts.get(reason, 0) + times * truly
            continue
        both = sums.setdefault((row["release"], row["component"], row["bin"], row["cell"]), [0, 0])
        both[0] += counted
        both[1] += truly - counted
    names = [release.name for release in layout.program.releases]
    totals = [
        [Total(names[i], j, b, c, both[n]) for (i, j, b, c), both in sorted(sums.items()) if both[n]]
        for n in range(2)
    ]
    return only(totals[0], totals[1], counts)


def only(totals: list[Total], dropped: list[Total], counts: dict[str, int]) -> Folded:
    """The result of a fold whose state lies in files."""
    empty = pa.table({})
    return Folded(
        totals=totals, entries=empty, gone=empty, units=empty, used=empty, counts=counts, dropped=dropped
    )

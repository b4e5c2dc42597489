"""The bins of a history: every instant belongs to one bin, which is part of one bin of each release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from tidegauge.engine.duckdb.past.enforce import Ints
    from tidegauge.model.program import Program


def bins_of(program: Program, earliest: int | None, reached: int) -> tuple[Ints, pa.Table]:
    """The ends of all bins, of any release, that contain times of the history; and the releases' own bins.

    The table has a row for each release and bin: release, bin, own.
    """
    first = reached if earliest is None else earliest
    covering = [list(release.schedule.covering(first, reached)) for release in program.releases]
    ends = np.unique(np.array([end for one in covering for _, end in one], np.int64))
    tables = []
    for number, one in enumerate(covering):
        own = np.array([end for _, end in one], np.int64)
        place = np.searchsorted(own, ends)
        inside = place < len(own)
        indices = np.array([index for index, _ in one], np.int64)
        tables.append(pa.table({
            "release": np.full(int(inside.sum()), number, np.int64),
            "bin": np.flatnonzero(inside),
            "own": indices[place[inside]],
        }))  # fmt: skip
    return ends, pa.concat_tables(tables)

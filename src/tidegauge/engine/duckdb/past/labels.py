"""The labels that name the allowances of units, for rows that are units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.engine.duckdb.past.enforce import Ints, Rules, Versions
    from tidegauge.engine.duckdb.past.terms import Terms


def labels_of(rows: Versions, rules: Rules, at: Ints) -> NDArray[np.int32] | None:
    """The labels of some versions; of a row that ends: as it was.  None: all units have one allowance."""
    if rules.labels is None:
        return None
    picture = rows.picture[at]
    return rules.labels[np.where(picture > 0, picture, rows.picture[at - 1])]


class Standing:
    """The labels of units when terms begin."""

    def __init__(self, rows: Versions, rules: Rules, terms: Terms) -> None:
        self._rows, self._rules, self._terms = rows, rules, terms.last + 2
        seen = np.searchsorted(terms.begins, rows.time) + 1  # the first term that begins with the version
        self._seen = rows.key.astype(np.int64) * self._terms + seen

    def labels(self, unit: NDArray[np.int32], term: Ints) -> NDArray[np.int32]:
        """The labels of units that exist when these terms begin."""
        assert self._rules.labels is not None
        at = np.searchsorted(self._seen, unit.astype(np.int64) * self._terms + term, side="right") - 1
        return self._rules.labels[self._rows.picture[at]]

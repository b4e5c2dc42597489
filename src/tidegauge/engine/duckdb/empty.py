"""The state before the first change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tidegauge.engine.duckdb.views import arrow_schema
from tidegauge.model.program import State
from tidegauge.model.tick import NOTHING_YET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegauge.model.engine import StateLayout
    from tidegauge.model.program import Record, Texts


class EmptyState(State):
    """No row, no unit, no waiting change and no record of a key."""

    watermark = NOTHING_YET

    def __init__(self, layout: StateLayout) -> None:
        self._layout = layout

    def entries(self, names: Texts) -> pa.Table:  # noqa: ARG002
        """None."""
        return self.all_entries()

    def all_entries(self) -> pa.Table:
        """None."""
        return arrow_schema(self._layout.entries).empty_table()

    def entries_of(self, units: Texts) -> pa.Table:  # noqa: ARG002
        """None."""
        return self.all_entries()

    def units(self, units: Texts) -> pa.Table:  # noqa: ARG002
        """None."""
        return arrow_schema(self._layout.units).empty_table()

    def used(self, units: Texts) -> pa.Table:  # noqa: ARG002
        """None."""
        return arrow_schema(self._layout.used).empty_table()

    def expiring(self, upto: int) -> pa.Array:  # noqa: ARG002
        """None."""
        return pa.array([], pa.string())

    def waiting(self) -> Iterator[pa.Table]:
        """None."""
        return iter(())

    def keys(self, names: Sequence[str] | None) -> dict[str, Record]:  # noqa: ARG002
        """None."""
        return {}

    def any_keys(self) -> bool:
        """None has a record."""
        return False

"""A whole history of units that own several rows, from the source to sums and state.

divide    by a hash of the key, so that a change finds the unit that its row has
follow    each part: rows of units, their state, and what changes in what they contribute
divide    these changes by a hash of the unit
enforce   each part: which rows count, and which changes of the unit
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.engine.duckdb.past.enforce import ALIVE
from tidegauge.engine.duckdb.past.fold import UNOWNED, Past
from tidegauge.engine.duckdb.past.owned import OwnedRows, UnitVersions
from tidegauge.engine.duckdb.past.parts import divided, together
from tidegauge.engine.duckdb.past.several import Amounts, Several
from tidegauge.engine.duckdb.past.shuffle import Shuffle, fits, narrow, size_of
from tidegauge.engine.duckdb.past.threads import in_turn
from tidegauge.engine.duckdb.past.work import ScratchFiles
from tidegauge.engine.duckdb.views import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import ExitStack

    from tidegauge.engine.duckdb.past.digests import Digests
    from tidegauge.engine.duckdb.past.enforce import Ints, Rules
    from tidegauge.engine.duckdb.past.parts import Part
    from tidegauge.engine.duckdb.past.shuffle import Changes, Column
    from tidegauge.engine.duckdb.past.state import PastState
    from tidegauge.model.history import History


class PastOfUnits(Past):
    """Folds one history of a program with `max_rows`."""

    _owned: ClassVar[bool] = True

    def _hold(self, history: History, held: ExitStack) -> None:
        files = None if fits(size_of(history, owned=True)) else ScratchFiles()
        if files is not None:
            held.callback(files.close)
        self._versions = Shuffle(history.rows, files=files, ordered=False)
        held.callback(self._versions.close)

    def _selected(self, history: History, parts: int, digests: Digests) -> dict[str, str]:
        columns = super()._selected(history, parts, digests)
        self._text = history.owner == "VARCHAR"
        owned = "coalesce(owner, '') <> ''" if self._text else "owner IS NOT NULL"
        columns["flags"] = (
            f"(({columns['flags']}) + CASE WHEN alive AND NOT ({owned}) THEN {UNOWNED - ALIVE} ELSE 0 END)"
            "::UTINYINT"
        )
        columns["owner"] = "owner"
        if self._text:
            columns["home"] = f"(hash(owner) % {parts})::UTINYINT"
        return columns

    def _owners(self, block: pa.RecordBatch) -> dict[str, Column]:
        if self._text:
            return {"owner": block["owner"], "home": pc.fill_null(block["home"], 0).to_numpy()}
        return {"owner": narrow(pc.fill_null(block["owner"], 0))}

    def _enforced(
        self,
        part: Changes,
        rules: Sequence[Rules],
        outside: Ints,
        ends: Ints,
        reached: int,  # noqa: ARG002
        *,
        stamp: bool,  # noqa: ARG002
    ) -> Part:
        """The state of the rows of a part of all keys; adds the changes of their units to the other parts."""
        rows = OwnedRows(part, ends, outside)
        columns, home = rows.unit_versions(rules)
        if len(rows.versions.key):
            place = divided(columns["unit"], self._versions.parts) if home is None else home
            self._versions.add(columns, place, int(part.row[0]))
        return rows.part(rules)

    def _rest(
        self, rules: Sequence[Rules], ends: Ints, reached: int, pool: ThreadPoolExecutor, *, stamp: bool
    ) -> Iterator[Part]:
        most = self._program.max_rows
        assert most is not None
        self._versions.finish()
        amounts = [
            Amounts.of(self._db.sql(f"SELECT * FROM parts_{s}").to_arrow_table(), one.width)
            for s, one in enumerate(rules)
        ]
        several = Several(rules, amounts, most, ends, reached)

        def work(number: int) -> Part | None:
            part: Any = self._versions.part(number)
            return None if part is None else several.part(UnitVersions(**part), stamp=stamp)

        for found in in_turn(pool, self._threads, work, range(self._versions.parts)):
            if found is not None:
                yield found
        self._versions.close()

    def _tables(
        self, state: PastState, parts: Sequence[Part], pool: ThreadPoolExecutor
    ) -> Iterator[tuple[pa.Table, pa.Table]]:
        entries, units = (
            arrow_schema(columns).empty_table()
            for columns in (self._views.layout.entries, self._views.layout.units)
        )
        rows = [part for part in parts if not part.enforced]
        counters = [part for part in parts if part.enforced]
        return chain(
            ((table, units) for table in in_turn(pool, self._threads, state.rows, together(rows))),
            ((entries, table) for table in in_turn(pool, self._threads, state.counters, together(counters))),
        )

"""The fold of the one instant at which a term begins, where units own rows.  [T15]

Every row of the state is delivered once more, so that all rows of a unit begin again, in the order of
their names.  Counters begin again.  What the unit truly contributes is accepted free of charge: the accepted
change is that from what was accepted before, which is the contribution of the state without `x{s}`.  Flows
count nothing at this instant.  The relation `decided` has one row for each unit and scope:

    base, now      the contribution before and after the instant, with max_rows rows
    contributes    whether there is one after it; stays: whether this is accepted
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.engine.spark.rows import BEGINNING
from tidegauge.engine.spark.rules import NEVER
from tidegauge.engine.spark.units import _LABEL, _MASK, OwnedFold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegauge.model.program import Scope


class OwnedTermFold(OwnedFold):
    """The statements for the instant `reached`, at which a term begins; the watermark is just before it."""

    renews = True

    def leaves(self) -> str:
        """SQL: whether a row of the state takes part: all do, for counters begin again."""
        return "TRUE"

    def _label(self, s: int, n: int) -> str:
        """SQL: the label of a row that contributes; that of the first one names the limit."""
        found = f"CAST(struct(0L, 0L, number, label{n}_now) AS {_LABEL})"
        return f"CASE WHEN instant > {BEGINNING}L AND here{s} THEN {found} END"

    def _steps(self) -> str:
        flows = ", ".join(str(i) for i, _ in self._layout.flows) or "-1"
        stock = f"spot >= 0 AND NOT spot DIV {self._components} IN ({flows})"
        sums = ", ".join(
            f"sum(CASE WHEN {when} THEN {half} ELSE 0L END) AS {name}_{half}"
            for name, when in (("base", f"instant = {BEGINNING}L"), ("now", "TRUE"))
            for half in ("high", "low")
        )
        halves = {
            name: f"{name}_high + shiftright({name}_low, 32) AS {name}_high, "
            f"{name}_low & {_MASK}L AS {name}_low"
            for name in ("base", "now")
        }
        listed = ", ".join(
            f"collect_list(CASE WHEN stock AND ({name}_high <> 0 OR {name}_low <> 0) "
            f"THEN struct(spot, cell, {name}_high AS high, {name}_low AS low) END) AS {name}"
            for name in halves
        )
        return f"""
            SELECT unit, s, min(label) AS label, {listed} FROM (
                SELECT unit, s, spot, cell, label, {stock} AS stock, {", ".join(halves.values())} FROM (
                    SELECT unit, s, spot, cell, min(label) AS label, {sums}
                    FROM ({self._parts()}) GROUP BY unit, s, spot, cell))
            GROUP BY unit, s"""

    def _ruled(self, steps: str) -> str:
        labels, *limits = self._limits("l")
        stays = "contributes AND ruled AND CASE WHEN retires THEN {} ELSE TRUE END".format(
            "coalesce(most > 0, TRUE) AND coalesce(ends > f, TRUE)"
        )
        return f"""
            SELECT *, {stays} AS stays FROM (
                SELECT *, f + within AS ends FROM (
                    SELECT *, {", ".join(limits)} FROM (
                        SELECT *, {labels} FROM (
                            SELECT *, size(now) > 0 AS contributes,
                                   CASE WHEN size(now) > 0 THEN label.label END AS l,
                                   CASE WHEN size(now) > 0 THEN {self._reached}L END AS f
                            FROM ({steps})))))"""

    def _counted(self, decided: str) -> str:
        """SQL: what is accepted now, less what was accepted before."""
        at = self._bins_of_spots(f"{self._reached}L")
        parts = [
            f"SELECT spot, {at} AS bin, cell, {sign}high AS high, {sign}low AS low "
            f"FROM (SELECT part.* FROM (SELECT explode({one}) AS part FROM {decided} WHERE {some}))"
            for one, sign, some in (("now", "", "stays"), ("base", "-", "TRUE"), ("k_x", "", "TRUE"))
        ]
        return self._summed(" UNION ALL ".join(parts))

    def _refused(self, decided: str) -> Iterator[str]:
        del decided
        yield from ()

    def _counters(self, decided: str) -> str:
        columns = []
        for s, scope in self._scopes:
            for name, value in self._counter(scope).items():
                columns.append(f"max(CASE WHEN s = {s} THEN {value} END) AS {name}{s}")
            excess = f"CASE WHEN s = {s} AND NOT stays AND size(now) > 0 THEN now END"
            columns.append(f"first({excess}, TRUE) AS x{s}")
        columns += [f"CAST(NULL AS BIGINT) AS {name}{i}" for i in self._clipped for name in "bn"]
        return f"SELECT unit, {', '.join(columns)} FROM {decided} GROUP BY unit"

    def _counter(self, scope: Scope) -> dict[str, str]:
        expires = f"CASE WHEN stays THEN coalesce(ends, {NEVER}L) END"
        return {
            "m": "CASE WHEN contributes THEN 0L END",
            "f": "f",
            "l": "l" if scope.by is not None else "CAST(NULL AS STRING)",
            "e": expires if scope.retire else "CAST(NULL AS BIGINT)",
        }

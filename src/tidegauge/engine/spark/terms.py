"""The fold of the one instant at which a term begins.  [T15]

Every unit of the state is delivered once more, before the changes of this instant.  Its counters begin again,
and what it truly contributes is accepted free of charge, so the accepted change is that from what was
accepted before (`k_a{i}`) to what is there now.  Flows count nothing at this instant: what they see depends
on the row of the term before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.engine.spark.fold import Fold
from tidegauge.engine.spark.records import Record
from tidegauge.engine.spark.rules import NEVER, allowance_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegauge.model.program import Scope


class TermFold(Fold):
    """The statements for the instant `reached`, at which a term begins; the watermark is just before it.

    contributes{s}: whether the unit has a contribution in scope s; stays{s}: whether this is accepted.
    """

    def _numbered(self) -> str:
        parts = ["*"]
        for s, scope in enumerate(self._layout.program.scopes):
            some = " OR ".join(f"c{i} IS NOT NULL" for i, _ in self._layout.in_scope(scope)) or "FALSE"
            parts += [f"({some}) AS contributes{s}", f"CASE WHEN {some} THEN instant END AS first{s}"]
            if scope.by is not None:
                label = f"label{self._layout.labels.index(scope.by)}_now"
                parts.append(f"CASE WHEN {some} THEN coalesce({label}, '') END AS limit{s}")
        return f"SELECT {', '.join(parts)} FROM changed"

    def _decided(self) -> str:
        limits, parts = ["*"], ["*"]
        for s, scope in enumerate(self._layout.program.scopes):
            at_most, within, ruled = allowance_sql(s, scope)
            limits += [f"{at_most} AS most{s}", f"first{s} + {within} AS ends{s}", f"{ruled} AS open{s}"]
            stays = f"contributes{s} AND open{s}"
            if scope.retire:
                stays += f" AND coalesce(most{s} > 0, TRUE) AND coalesce(ends{s} > instant, TRUE)"
            parts.append(f"({stays}) AS stays{s}")
        return f"SELECT {', '.join(parts)} FROM (SELECT {', '.join(limits)} FROM numbered)"

    def _records_of(self, s: int, scope: Scope) -> Iterator[Record]:
        for i, release in self._layout.in_scope(scope):
            changes = f"CASE WHEN {self._differs(i, release)} THEN {self._bin(i)} END"
            for j, value in enumerate(self._layout.values(i, release)):
                stored = value.startswith("v")
                was, held = (f"was_{value}", f"k_a{value[1:]}") if stored else (value, value)
                yield Record((i, j), changes, f"c{i}", value, "0L")
                yield Record((i, j), changes, f"was_c{i}", f"-{was}", "0L")
                yield Record((i, j), self._bin(i), f"CASE WHEN stays{s} THEN c{i} END", "0L", value)
                if self._known:
                    yield Record((i, j), self._bin(i), f"k_a{i}", "0L", f"-{held}")
        for i, release in self._layout.flows_in(scope):
            for j in range(len(release.query.components)):
                yield Record((i, j), self._bin(i), f"h{i}", f"h{i}_{j}", "0L")

    def _refused(self) -> str:
        return ""

    def _code_names(self) -> dict[str, str]:
        return super()._code_names() | {"alone": "(alone AND place >= 0)"}

    def _counters(self, s: int, scope: Scope) -> list[str]:
        expires = f"CASE WHEN stays{s} THEN coalesce(ends{s}, {NEVER}L) END"
        return [
            f"CASE WHEN contributes{s} THEN 0L END AS m{s}",
            f"first{s} AS f{s}",
            f"{f'limit{s}' if scope.by is not None else 'CAST(NULL AS STRING)'} AS l{s}",
            f"{expires if scope.retire else 'CAST(NULL AS BIGINT)'} AS e{s}",
        ]

    def _clips(self, i: int) -> list[str]:
        return [f"CAST(NULL AS BIGINT) AS {name}{i}" for name in "bn"]

    def _holds(self, s: int, scope: Scope) -> list[str]:
        names = self._layout.accepted(scope)
        return [f"CASE WHEN stays{s} THEN {value} END AS {name}" for name, value in names.items()]

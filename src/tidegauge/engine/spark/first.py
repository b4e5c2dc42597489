"""The first fold of a log in the order of time, for programs without flows; most changes are folded here.

All changes of a unit become one array, sorted by time and position in the log: one shuffle, one sort by a
single column, and no window.  The columns of `decided`, one row a unit:

    unit        the key as the source has it; NULL: rows without a key
    alive, the columns of a version and of labels: what the state keeps
    codes       what did not fit, packed, for each change of which there is something to say; NULL: nothing
    changes{s}  the versions of the row that change what it contributes in scope s, so that the place of a
                version in this array is the number of the change

An array must fit into memory, so units with very many changes are folded by the general statements: a sample
finds them (`heavy_units`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.engine.spark.bins import bin_of
from tidegauge.engine.spark.fold import Fold
from tidegauge.engine.spark.layout import ALIVE
from tidegauge.engine.spark.reasons import NO_RELEASE, REFUSED
from tidegauge.engine.spark.records import Record, summed
from tidegauge.engine.spark.rules import allowance_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegauge.model.program import Scope

TEXT: Final = "coalesce(CAST(unit AS STRING), '') AS unit"
"""SQL: the name of a unit."""
SAMPLED: Final = 64
"""One change of so many is looked at to find units with many changes."""
MANY: Final = 2**18
"""About so many changes of a unit are too many for an array."""


def heavy_units(waiting: str, *, sampled: int = SAMPLED, many: int = MANY) -> str:
    """SQL: the units with very many changes.

    A unit with twice as many as `many` is missed with a probability below 1e-200.
    """
    return f"""
        SELECT unit FROM {waiting} WHERE rand() < {1 / sampled!r}D
        GROUP BY unit HAVING count(*) >= {many // sampled}"""


class FirstFold(Fold):
    """The statements of the first fold of one batch in the order of time."""

    def timed(self, waiting: str) -> str:
        """SQL: the changes; their instants follow from their times."""
        return f"SELECT * FROM {waiting}"

    def later(self, timed: str) -> str:
        """SQL: the changes that still wait after this fold."""
        columns = [TEXT if name == "unit" else name for name in self._layout.changes()]
        return f"""
            SELECT {", ".join(columns)} FROM {timed}
            WHERE greatest(time, {self._watermark + 1}L) > {self._reached}L"""

    def decided(self, timed: str, known: str | None) -> str:
        """SQL of `decided`; `timed` has the changes as they wait."""
        assert known is None
        layout, scopes = self._layout, self._layout.program.scopes
        kept = ["time", "seq", "flags", *layout.views(), *layout.rest()]
        logs = f"""
            SELECT unit, sort_array(collect_list(struct({", ".join(kept)}))) AS log
            FROM (SELECT unit, {", ".join(kept)} FROM {timed}
                  WHERE greatest(time, {self._watermark + 1}L) <= {self._reached}L DISTRIBUTE BY unit)
            GROUP BY unit"""
        last = ["get(versions, size(versions) - 1) AS last", "get(versions, size(versions) - 2) AS was"]
        changes = [f"{self._changes(s, scope)} AS changes{s}" for s, scope in enumerate(scopes)]
        narrow = [] if self._whole else [self._narrow(s, scope) for s, scope in enumerate(scopes)]
        alive = f"last.flags & {ALIVE} <> 0"
        columns = ["unit", f"{alive} AS alive", "codes", *(f"changes{s}" for s in range(len(scopes)))]
        kept_last = [*layout.views(), *(["image", "digest"] if layout.has_image else [])]
        columns += [f"last.{name}" for name in kept_last]
        columns += [
            f"CASE WHEN {alive} THEN last.label{n} ELSE was.label{n} END AS label{n}_now"
            for n in range(len(layout.labels))
        ]
        return f"""
            SELECT {", ".join(columns)} FROM (SELECT unit, codes, {", ".join([*last, *changes])} FROM
                (SELECT {", ".join(["*", *narrow])} FROM
                    (SELECT unit, {self._codes()} AS codes, {self._versions()} AS versions FROM ({logs}))))"""

    def _instant(self, one: str) -> str:
        """SQL: the effective time of a change; NULL if there is none."""
        return f"CASE WHEN {one}.time <= {self._watermark}L THEN {self._watermark + 1}L ELSE {one}.time END"

    def _last_of_instant(self) -> str:
        """SQL: whether `one`, the change at place i, is the last one of its instant."""
        return f"coalesce({self._instant('get(log, i + 1)')} <> {self._instant('one')}, TRUE)"

    def _versions(self) -> str:
        """SQL: the last change of each instant.  Most units have one an instant, which is cheap to see."""
        several = f"size(array_distinct(log.time)) < size(log) OR get(log, 0).time <= {self._watermark}L"
        return f"CASE WHEN {several} THEN filter(log, (one, i) -> {self._last_of_instant()}) ELSE log END"

    def _codes(self) -> str:
        """SQL: the packed reasons of the changes, without those of the constraint."""
        version = {
            "time": "one.time", "flags": "one.flags", "alive": f"(one.flags & {ALIVE} <> 0)",
            "was_alive": f"coalesce(get(log, i - 1).flags & {ALIVE} <> 0, FALSE)",
            "alone": f"coalesce({self._instant('get(log, i - 1)')} <> {self._instant('one')}, TRUE)",
        }  # fmt: skip
        code = f"CASE WHEN {self._last_of_instant()} THEN {self._code(version)} ELSE 0L END"
        nothing = (
            f"array_min(log.flags) = {ALIVE}L AND array_max(log.flags) = {ALIVE}L "
            f"AND get(log, 0).time > {self._watermark}L"
        )
        found = f"filter(transform(log, (one, i) -> {code}), code -> code <> 0L)"
        return f"CASE WHEN NOT ({nothing}) THEN {found} END"

    def _changes(self, s: int, scope: Scope) -> str:
        """SQL: the versions that change what the unit contributes in a scope."""
        origin = "versions" if self._whole else f"versions{s}"
        differs = " OR ".join(
            self._differs(i, release, now="one.", was=f"get({origin}, i - 1).")
            for i, release in self._layout.in_scope(scope)
        )
        return f"filter({origin}, (one, i) -> {differs or 'FALSE'})"

    @property
    def _whole(self) -> bool:
        """Whether the versions of the only scope need all columns."""
        return len(self._layout.program.scopes) == 1 and not self._layout.has_image

    def _narrow(self, s: int, scope: Scope) -> str:
        """SQL: the versions with the columns of one scope alone."""
        names = ["time", *self._contributed(scope)]
        if scope.by is not None:
            names.append(f"label{self._layout.labels.index(scope.by)}")
        return f"arrays_zip({', '.join(f'versions.{name}' for name in names)}) AS versions{s}"

    def _contributed(self, scope: Scope) -> list[str]:
        """The columns of what a unit contributes in a scope."""
        stocks, values = self._layout.in_scope(scope), self._layout.values
        amounts = [one for i, release in stocks for one in values(i, release) if one.startswith("v")]
        return [*(f"c{i}" for i, _ in stocks), *amounts]

    # -- sums ------------------------------------------------------------------------------------------------

    def totals(self, decided: str) -> str:
        """SQL: by release, component, bin and cell the true and the accepted change."""
        reasons = Record((NO_RELEASE, 0), "0L", "code", "1L", "0L")
        parts = [(f"(SELECT explode(codes) AS code FROM {decided} WHERE codes IS NOT NULL)", [reasons])]
        for s, scope in enumerate(self._layout.program.scopes):
            parts.append((f"({self._exploded(s, scope, decided)})", list(self._records_of(s, scope))))
        return " UNION ALL ".join(
            summed(origin, records, large=self._layout.large) for origin, records in parts if records
        )

    def _records_of(self, s: int, scope: Scope) -> Iterator[Record]:
        yield from super()._records_of(s, scope)
        if self._layout.in_scope(scope):
            refused = f"CASE WHEN NOT inside{s} THEN {REFUSED}L END"
            yield Record((NO_RELEASE, 0), "0L", refused, "1L", "0L")

    def _exploded(self, s: int, scope: Scope, decided: str) -> str:
        """SQL: every change of a scope in a row of its own, with the columns that records need."""
        columns = [
            "TRUE AS alive",
            f"TRUE AS x{s}",
            f"pos + 1L AS o{s}",
            f"{self._instant('now')} AS instant",
        ]
        columns += [f"{self._instant('next')} AS instant_next", f"most{s}", f"ends{s}", f"open{s}"]
        columns += [f"now.{name}, was.{name} AS was_{name}" for name in self._contributed(scope)]
        around = f"get(changes{s}, pos - 1) AS was, get(changes{s}, pos + 1) AS next"
        each = f"SELECT *, posexplode(changes{s}) AS (pos, now) FROM ({self._allowed(s, scope, decided)})"
        accepted = ", ".join(self._accepted(s, scope))
        dated = [f"{bin_of('instant', self._bins[i])} AS at{i}" for i in self._dated(scope)]
        return f"""
            SELECT {", ".join(["*", accepted, *dated])} FROM (SELECT {", ".join(columns)} FROM
                (SELECT *, {around} FROM ({each})))"""

    def _allowed(self, s: int, scope: Scope, decided: str) -> str:
        """SQL: what each unit may do in a scope."""
        at_most, within, ruled = allowance_sql(s, scope)
        limit = ""
        if scope.by is not None:
            label = f"label{self._layout.labels.index(scope.by)}"
            limit = f", coalesce(get(changes{s}, 0).{label}, '') AS limit{s}"
        unit = f"SELECT *, {self._instant(f'get(changes{s}, 0)')} AS first{s}{limit} FROM {decided}"
        return f"""
            SELECT *, {at_most} AS most{s}, first{s} + {within} AS ends{s}, {ruled} AS open{s}
            FROM ({unit})"""

    def _dated(self, scope: Scope) -> list[int]:
        """The releases of a scope whose bins are computed; the others have the bins of one of these."""
        return sorted({self._first_with_bins(i, scope) for i, _ in self._layout.in_scope(scope)})

    def _first_with_bins(self, i: int, scope: Scope) -> int:
        return next(j for j, _ in self._layout.in_scope(scope) if self._bins[j] == self._bins[i])

    def _bin(self, i: int) -> str:
        release = self._layout.program.releases[i]
        return f"at{self._first_with_bins(i, self._layout.program.scopes[self._scope_of(release)])}"

    # -- state -----------------------------------------------------------------------------------------------

    def new_state(self, decided: str) -> str:
        """SQL: the state of the units of this fold."""
        layout, origin = self._layout, decided
        columns = [TEXT, "alive", *(f"CASE WHEN alive THEN {name} END AS {name}" for name in layout.views())]
        columns += [f"label{n}_now AS label{n}" for n in range(len(layout.labels))]
        if layout.has_image:
            columns += [f"CASE WHEN alive THEN {name} END AS {name}" for name in ("image", "digest")]
        for s, scope in enumerate(layout.program.scopes):
            counted = (
                f"SELECT *, CAST(size(changes{s}) AS BIGINT) AS o{s} FROM ({self._allowed(s, scope, origin)})"
            )
            origin = f"({counted})"
            columns += self._counters(s, scope)
        return f"SELECT {', '.join(columns)} FROM {origin}"

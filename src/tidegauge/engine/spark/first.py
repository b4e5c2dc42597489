"""The first fold of a log in the order of time, for programs without flows; most changes are folded here.

A window in Spark costs little per row and much per group, and most units have few changes.  Units are
therefore put into buckets, and every window goes over a bucket, sorted by unit: `same` says whether the
previous row is of the same unit.  One shuffle and one sort are enough, and only the columns that sums and
state need are kept.
"""

from __future__ import annotations

from typing import Final

from tidegauge.engine.spark.bins import bin_of
from tidegauge.engine.spark.fold import NO_RELEASE, Fold, allowance_sql
from tidegauge.engine.spark.layout import ALIVE
from tidegauge.engine.spark.records import Record

BUCKETS: Final = 2**16
"""Enough that sorting by bucket is most of the sorting; few enough that groups are large."""
TEXT: Final = "coalesce(CAST(unit AS STRING), '') AS unit"
"""SQL: the name of a unit."""
_OVER: Final = "PARTITION BY bucket ORDER BY unit, time, seq"
_BEFORE: Final = "coalesce(lag(unit) OVER w = unit, unit IS NULL AND lag(flags) OVER w IS NOT NULL)"
"""SQL: whether the previous row is of the same unit.  In a bucket, rows without a key come first."""
_AFTER: Final = (
    "coalesce(lead(unit) OVER w = unit, "
    "unit IS NULL AND lead(flags) OVER w IS NOT NULL AND lead(unit) OVER w IS NULL)"
)
_CONSTANT: Final = ("most", "ends", "open", "first")
_LAST: Final = "CASE WHEN instant_next IS NOT NULL THEN 0L END AS instant_next"
"""SQL: `instant_next` without its value: if units never leave, only whether it is NULL matters."""


class FirstFold(Fold):
    """The statements of the first fold of one batch in the order of time.

    The column `unit` is the key as the source has it; NULL: the row has no key.
    """

    _unit = TEXT

    def timed(self, waiting: str) -> str:
        """SQL: the changes; their instants follow from their times."""
        return f"SELECT * FROM {waiting}"

    def later(self, timed: str) -> str:
        """SQL: the changes that still wait after this fold."""
        columns = [self._unit if name == "unit" else name for name in self._layout.changes()]
        return f"""
            SELECT {", ".join(columns)} FROM {timed}
            WHERE greatest(time, {self._watermark + 1}L) > {self._reached}L"""

    def decided(self, timed: str, known: str | None) -> str:
        """SQL of `decided`; `timed` has the changes as they wait."""
        assert known is None
        return f"""
            WITH due AS ({self._due(timed, None)}), versions AS ({self._versions()}),
            changed AS ({self._changed()}), numbered AS ({self._numbered()})
            SELECT {", ".join(self._needed())} FROM ({self._decided()})"""

    def _due(self, timed: str, known: str | None) -> str:
        del known
        own = ["unit", "time", "seq", "flags", *self._layout.views(), *self._layout.rest()]
        first = self._watermark + 1
        return f"""
            SELECT *, greatest(time, {first}L) AS instant FROM (
                SELECT bucket, {", ".join(own)},
                       CASE WHEN {_BEFORE} THEN greatest(lag(time) OVER w, {first}L) END AS instant_was,
                       CASE WHEN {_AFTER} THEN greatest(lead(time) OVER w, {first}L) END AS instant_next
                FROM (SELECT {", ".join(own)}, pmod(hash(unit), {BUCKETS}) AS bucket FROM {timed}
                      WHERE greatest(time, {first}L) <= {self._reached}L)
                WINDOW w AS ({_OVER}))"""

    def _versions(self) -> str:
        carried = [*self._layout.views(), *self._layout.rest()]
        values = {"alive": f"flags & {ALIVE} <> 0"} | {
            name: name if name.startswith("label") else f"CASE WHEN flags & {ALIVE} <> 0 THEN {name} END"
            for name in carried
        }
        own = ["bucket", "unit", "time", "seq", "instant", "instant_was", "instant_next", "flags", *carried]
        lagged = [f"lag({value}) OVER w AS lag_{name}" for name, value in values.items()]
        was = [f"CASE WHEN same THEN lag_{name} END AS was_{name}" for name in carried]
        return f"""
            SELECT {", ".join(own)}, same, flags & {ALIVE} <> 0 AS alive,
                   instant_was IS NULL OR instant_was <> instant AS alone,
                   same AND lag_alive AS was_alive, {", ".join(was)}
            FROM (SELECT {", ".join(own)}, {_BEFORE} AS same, {", ".join(lagged)} FROM due
                  WHERE instant_next IS NULL OR instant_next <> instant WINDOW w AS ({_OVER}))"""

    def _numbered(self) -> str:
        scopes = list(enumerate(self._layout.program.scopes))
        so_far = f"WINDOW w AS ({_OVER} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        ones = {s: f"CASE WHEN x{s} THEN 1L ELSE 0L END" for s, _ in scopes}
        total = [f"sum({one}) OVER w AS run{s}" for s, one in ones.items()]
        begun = [
            f"run{s} - max(CASE WHEN NOT same THEN run{s} - {one} END) OVER w AS o{s}"  # run{s} never falls
            for s, one in ones.items()
        ]
        numbered = f"""
            SELECT *, {", ".join(begun)} FROM (SELECT *, {", ".join(total)} FROM changed {so_far}) {so_far}"""
        parts, later = ["*"], False
        for s, scope in scopes:
            if any(one.within is not None for _, one in scope.allowances):
                parts.append(f"{_at_first(s, 'instant')} AS first{s}")
                later = True
            else:
                parts.append(f"CAST(NULL AS BIGINT) AS first{s}")
            if scope.by is not None:
                now = f"label{self._layout.labels.index(scope.by)}_now"
                label = _at_first(s, f"coalesce({now}, '')")
                parts.append(f"{label} AS limit{s}")
                later = True
        return f"SELECT {', '.join(parts)} FROM ({numbered}) {so_far if later else ''}"

    def _needed(self) -> list[str]:
        """SQL: the columns that sums and state are computed from."""
        layout, retire = self._layout, self.some_leave
        found = ["CASE WHEN instant_next IS NULL THEN unit END AS unit", "alive", f"{self._code()} AS code"]
        found += ["instant", "instant_next"] if retire else [_LAST]
        found += [*layout.views(), *(f"was_{name}" for name in layout.views())]
        found += [f"CAST({bin_of('instant', self._bins[i])} AS INT) AS at{i}" for i in self._dated()]
        found += [f"label{n}_now" for n in range(len(layout.labels))]
        for s, scope in enumerate(layout.program.scopes):
            found += [f"accepted{s}", f"o{s}", *([f"x{s}"] if retire else [])]
            found += [f"{name}{s}" for name in _CONSTANT] if s not in self._same_for_all() else []
            found += [f"limit{s}"] if scope.by is not None else []
        return found

    def restored(self, decided: str) -> str:
        """SQL: the decided changes with the columns that are the same for all units."""
        columns = ["*"]
        for s, (at_most, _, ruled) in self._same_for_all().items():
            none = "CAST(NULL AS BIGINT)"
            values = {"most": at_most, "ends": none, "open": ruled, "first": none}
            columns += [f"{values[name]} AS {name}{s}" for name in _CONSTANT]
        return f"SELECT {', '.join(columns)} FROM {decided}"

    def _same_for_all(self) -> dict[int, tuple[str, str, str]]:
        """The scopes in which all units have the same `at_most` and no `within`, with their allowance."""
        return {
            s: allowance_sql(s, scope)
            for s, scope in enumerate(self._layout.program.scopes)
            if scope.by is None and scope.allowances[0][1].within is None
        }

    def _reasons(self) -> Record:
        return Record((NO_RELEASE, 0), "0L", "nullif(code, 0L)", "1L", "0L")

    def _dated(self) -> list[int]:
        """The releases whose bins are computed; every other release has the bins of one of these."""
        bins = list(self._bins.values())
        return [i for i, one in enumerate(bins) if bins.index(one) == i]

    def _bin(self, i: int) -> str:
        return f"at{list(self._bins.values()).index(self._bins[i])}"


def _at_first(s: int, value: str) -> str:
    """SQL: a value at the first change of the unit in scope s; NULL before it."""
    first = f"last_value(CASE WHEN x{s} AND o{s} = 1 THEN {value} END, TRUE) OVER w"
    return f"CASE WHEN o{s} > 0 THEN {first} END"

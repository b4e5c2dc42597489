"""The SQL that enforces and folds in Spark, for rows that are their own units.

Everything of one unit is next to each other after one shuffle and one sort, so that a fold is a chain of
windows over the same order, which Spark does not sort again:

    timed      the changes that wait, with their instants (effective times)
    due        those that take effect, with the instants before and after in their unit, and what is known
    versions   the last change of each instant, with the version of the row before it
    changed    what each version contributes, and whether the contribution changed, by scope (x{s})
    numbered   the same with the number of the change, the first instant and the label, by scope
    decided    the same with what is accepted

A `k_` before a name is the stored state of the unit, a `was_` the version before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.engine.spark.bins import bin_of
from tidegauge.engine.spark.layout import ALIVE
from tidegauge.engine.spark.reasons import NO_RELEASE, REFUSED, packed
from tidegauge.engine.spark.records import Record, summed
from tidegauge.engine.spark.render import seen
from tidegauge.engine.spark.rules import MOST, NEVER, allowance_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tidegauge.engine.spark.layout import Layout
    from tidegauge.model.program import Release, Scope


class Fold:
    """The statements of one fold.

    since:    the number of the first batch that arrived since the last tick; late: those are late whose time
              is not after this instant.
    in_order: the changes are one batch in the order of time.
    known:    there is a state, and `due` joins it.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        watermark: int,
        reached: int,
        since: int,
        late: int,
        in_order: bool,
        known: bool,
    ) -> None:
        self._layout, self._known, self._in_order, self._late = layout, known, in_order, late
        self._watermark, self._reached, self._since = watermark, reached, since
        order = "time, seq" if in_order else "place, rank, seq"
        self._by_unit = f"PARTITION BY unit ORDER BY {order}"
        self._so_far = f"{self._by_unit} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
        self._ordering = ["time", "seq"] if in_order else ["time", "place", "rank", "seq"]
        self._bins = {
            i: list(release.schedule.covering(watermark + 1, reached))
            for i, release in enumerate(layout.program.releases)
        }

    # -- from waiting changes to decisions -------------------------------------------------------------------

    def timed(self, waiting: str) -> str:
        """SQL: the waiting changes with their instants."""
        instant = f"greatest(time, {self._watermark + 1}L)"
        if not self._in_order:
            instant = f"max({instant}) OVER ({self._so_far})"
        return f"SELECT *, {instant} AS instant FROM {waiting}"

    def later(self, timed: str) -> str:
        """SQL: the changes that go on waiting."""
        columns = ", ".join(self._layout.changes())
        return f"SELECT {columns} FROM {timed} WHERE instant > {self._reached}L"

    def kept(self, timed: str, known: str | None, keep: Callable[[str, str], str]) -> str:
        """The name of `decided`.  keep: computes a relation once, and gives it a name."""
        return keep(self.decided(timed, known), "decided")

    def decided(self, timed: str, known: str | None) -> str:
        """SQL of `decided`; `known`: the state of the units of this fold."""
        return f"""
            WITH due AS ({self._due(timed, known)}), versions AS ({self._versions()}),
            changed AS ({self._changed()}), numbered AS ({self._numbered()})
            {self._decided()}"""

    def _due(self, timed: str, known: str | None) -> str:
        state = [name for name in self._layout.state() if name != "unit"]
        own = ["unit", *self._ordering, "flags", *self._layout.views(), *self._layout.rest(), "instant"]
        joined, columns = timed, own
        was = "instant" if self._in_order else "CASE WHEN place >= 0 THEN instant END"  # no rows of the state
        if known is not None:
            taken = ", ".join(f"{name} AS k_{name}" for name in state)
            joined = f"{timed} LEFT JOIN (SELECT unit, {taken} FROM {known}) USING (unit)"
            columns = [*own, *(f"k_{name}" for name in state)]
        return f"""
            SELECT {", ".join(columns)}, lag({was}) OVER w AS instant_was,
                   lead(instant) OVER w AS instant_next
            FROM {joined} WHERE instant <= {self._reached}L WINDOW w AS ({self._by_unit})"""

    def _versions(self) -> str:
        carried = [*self._layout.views(), *self._layout.rest()]
        lagged = [self._was(f"flags & {ALIVE} <> 0", "k_alive", "alive")]
        for name in carried:
            if name.startswith("label"):
                lagged.append(self._was(name, f"k_{name}", name))
            else:
                known = f"CASE WHEN k_alive THEN k_{name} END"
                lagged.append(self._was(f"CASE WHEN flags & {ALIVE} <> 0 THEN {name} END", known, name))
        parts = [
            "unit", *self._ordering, "instant", "instant_next", "flags", f"flags & {ALIVE} <> 0 AS alive",
            "instant_was IS NULL OR instant_was <> instant AS alone", *carried, *lagged,
        ]  # fmt: skip
        if self._known:
            state = self._layout.state()
            parts += [f"k_{name}" for name in state if name != "unit"]
            parts.append("row_number() OVER w = 1 AS begins")
        return f"""
            SELECT {", ".join(parts)} FROM due
            WHERE instant_next IS NULL OR instant_next <> instant WINDOW w AS ({self._by_unit})"""

    def _was(self, value: str, known: str, name: str) -> str:
        """SQL: a value of the version before; the stored one for the first."""
        was = f"lag({value}) OVER w"
        if self._known:
            was = f"CASE WHEN row_number() OVER w = 1 THEN {known} ELSE {was} END"
        return f"coalesce({was}, FALSE) AS was_alive" if name == "alive" else f"{was} AS was_{name}"

    def _changed(self) -> str:
        layout, parts, origin = self._layout, ["*"], "versions"
        if layout.flows:
            origin = "(SELECT *, image AS after, was_image AS before FROM versions)"
        for i, flow in layout.flows:
            amounts = [layout.render.amount(part) for part in flow.query.components]
            some = " OR ".join(f"{one} <> 0" for one in amounts)
            really = f"NOT (was_digest <=> digest) AND (alive OR was_alive){seen(flow.query.watched)}"
            cell = f"CAST({layout.render(flow.query.cell)} AS BIGINT)"
            parts.append(f"CASE WHEN {really} AND ({some}) THEN {cell} END AS h{i}")
            parts += [f"{one} AS h{i}_{j}" for j, one in enumerate(amounts)]
        marks = [
            f"{' OR '.join(self._marks(scope)) or 'FALSE'} AS x{s}"
            for s, scope in enumerate(layout.program.scopes)
        ]
        labels = [
            f"CASE WHEN alive THEN label{n} ELSE was_label{n} END AS label{n}_now"
            for n in range(len(layout.labels))
        ]
        return f"SELECT *, {', '.join([*marks, *labels])} FROM (SELECT {', '.join(parts)} FROM {origin})"

    def _marks(self, scope: Scope) -> Iterator[str]:
        """SQL: whether each release of a scope sees a change."""
        for i, release in self._layout.in_scope(scope):
            yield self._differs(i, release)
        for i, _ in self._layout.flows_in(scope):
            yield f"h{i} IS NOT NULL"

    def _differs(self, i: int, release: Release, *, now: str = "", was: str = "was_") -> str:
        """SQL: whether a release sees a change; now, was: how the names of both versions begin."""
        values = [one for one in self._layout.values(i, release) if one.startswith("v")]
        parts = [f"NOT ({now}c{i} <=> {was}c{i})"]
        if values:
            some = " OR ".join(f"{now}{one} <> {was}{one}" for one in values)
            parts.append(f"({now}c{i} IS NOT NULL AND ({some}))")
        return f"({' OR '.join(parts)})"

    def _numbered(self) -> str:
        parts = ["*"]
        for s, scope in enumerate(self._layout.program.scopes):
            order = f"sum(CASE WHEN x{s} THEN 1L ELSE 0L END) OVER so_far"
            first = f"min(CASE WHEN x{s} THEN instant END) OVER so_far"
            if self._known:
                order, first = f"coalesce(k_m{s}, 0L) + {order}", f"coalesce(k_f{s}, {first})"
            parts += [f"{order} AS o{s}", f"{first} AS first{s}"]
            if scope.by is not None:
                now = f"label{self._layout.labels.index(scope.by)}_now"
                label = f"first_value(CASE WHEN x{s} THEN coalesce({now}, '') END, TRUE) OVER so_far"
                if self._known:
                    label = f"CASE WHEN k_m{s} IS NOT NULL THEN k_l{s} ELSE {label} END"
                parts.append(f"{label} AS limit{s}")
        return f"SELECT {', '.join(parts)} FROM changed WINDOW so_far AS ({self._so_far})"

    def _decided(self) -> str:
        limits, parts = ["*"], ["*"]
        for s, scope in enumerate(self._layout.program.scopes):
            at_most, within, ruled = allowance_sql(s, scope)
            opened = f"(k_m{s} IS NULL OR k_e{s} IS NOT NULL) AND " if self._known and scope.retire else ""
            limits += [
                f"{at_most} AS most{s}",
                f"first{s} + {within} AS ends{s}",
                f"{opened}{ruled} AS open{s}",
            ]
            parts += self._accepted(s, scope)
        decided = f"SELECT {', '.join(parts)} FROM (SELECT {', '.join(limits)} FROM numbered)"
        if self._layout.program.terms is not None:
            held = [self._held(s, scope) for s, scope in enumerate(self._layout.program.scopes)]
            decided = f"SELECT {', '.join(['*', *filter(None, held)])} FROM ({decided})"
        if not self._layout.clipped():
            return decided
        turns = []
        for i, flow in self._layout.clipped():
            bin_, hit = bin_of("instant", self._bins[i]), f"h{i} IS NOT NULL AND inside{self._scope_of(flow)}"
            used = f"CASE WHEN k_b{i} = {bin_} THEN k_n{i} ELSE 0L END" if self._known else "0L"
            window = self._so_far.replace("PARTITION BY unit", f"PARTITION BY unit, {bin_}")
            turns += [f"{used} + count_if({hit}) OVER ({window}) AS turn{i}", f"{bin_} AS bin{i}"]
        last = [
            f"last_value(CASE WHEN h{i} IS NOT NULL AND inside{self._scope_of(flow)} "
            f"THEN struct(bin{i} AS bin, turn{i} AS turn) END, TRUE) OVER ({self._so_far}) AS used{i}"
            for i, flow in self._layout.clipped()
        ]
        return f"SELECT *, {', '.join(last)} FROM (SELECT *, {', '.join(turns)} FROM ({decided}))"

    def _held(self, s: int, scope: Scope) -> str:
        """SQL: what is accepted of a unit after a change, if anything was accepted in this fold."""
        if not (names := self._layout.accepted(scope)):
            return ""
        view = ", ".join(f"{value} AS {name}" for name, value in names.items())
        last = f"last_value(CASE WHEN x{s} AND accepted{s} THEN struct({view}) END, TRUE)"
        return f"{last} OVER ({self._so_far}) AS held{s}"

    @staticmethod
    def _accepted(s: int, scope: Scope) -> list[str]:
        """SQL: whether a change is inside of what its unit may do, and whether it is accepted."""
        inside = f"open{s} AND coalesce(o{s} <= most{s}, TRUE) AND coalesce(instant <= ends{s}, TRUE)"
        before = f"open{s} AND coalesce(o{s} < most{s}, TRUE) AND coalesce(instant < ends{s}, TRUE)"
        return [f"{inside} AS inside{s}", f"{before if scope.retire else inside} AS accepted{s}"]

    def _bin(self, i: int) -> str:
        """SQL: the bin of a change in release i."""
        return bin_of("instant", self._bins[i])

    def _scope_of(self, release: Release) -> int:
        scopes = enumerate(self._layout.program.scopes)
        return next(s for s, scope in scopes if release.name in scope.releases)

    # -- from decisions to sums ------------------------------------------------------------------------------

    def totals(self, decided: str) -> str:
        """SQL: by release, component, bin and cell the true and the accepted change."""
        records = [self._reasons()]
        for s, scope in enumerate(self._layout.program.scopes):
            records += self._records_of(s, scope)
        return summed(decided, records, large=self._layout.large)

    def _records_of(self, s: int, scope: Scope) -> Iterator[Record]:
        for i, release in self._layout.in_scope(scope):
            at = f"CASE WHEN {self._differs(i, release)} THEN {self._bin(i)} END"
            for j, value in enumerate(self._layout.values(i, release)):
                was = f"was_{value}" if value.startswith("v") else value
                yield Record((i, j), at, f"c{i}", value, _counted(f"accepted{s}", value))
                yield Record((i, j), at, f"was_c{i}", f"-{was}", _counted(f"accepted{s}", f"-{was}"))
                if scope.retire:
                    yield from self._leaving(s, i, j, value, was)
        for i, release in self._layout.flows_in(scope):
            bin_, allowed = self._bin(i), f"inside{s}"
            if release.clip is not None:
                allowed += f" AND turn{i} <= {min(release.clip, MOST)}L"
            for j in range(len(release.query.components)):
                yield Record((i, j), bin_, f"h{i}", f"h{i}_{j}", _counted(allowed, f"h{i}_{j}"))

    def _leaving(self, s: int, i: int, j: int, value: str, was: str) -> Iterator[Record]:
        """A unit leaves at its last allowed change, or when its time ends, and takes what it contributes."""
        at, ended = self._bin(i), bin_of(f"ends{s}", self._bins[i])
        last = f"open{s} AND x{s} AND o{s} = most{s} AND coalesce(instant < ends{s}, TRUE)"
        yield Record((i, j), f"CASE WHEN {last} THEN {at} END", f"was_c{i}", "0L", f"-{was}")
        over = (
            f"open{s} AND ends{s} <= {self._reached}L AND coalesce(o{s} < most{s}, TRUE) "
            f"AND instant < ends{s} AND (instant_next IS NULL OR instant_next >= ends{s})"
        )
        now = f"CASE WHEN alive THEN c{i} END"
        yield Record((i, j), f"CASE WHEN {over} THEN {ended} END", now, "0L", f"-{value}")
        if self._known:
            before = f"open{s} AND begins AND k_m{s} IS NOT NULL AND ends{s} <= instant"
            yield Record((i, j), f"CASE WHEN {before} THEN {ended} END", f"was_c{i}", "0L", f"-{was}")

    def _reasons(self) -> Record:
        code = self._code(self._code_names()) + self._refused()
        return Record((NO_RELEASE, 0), "0L", f"nullif({code}, 0L)", "1L", "0L")

    def _code(self, of: Mapping[str, str]) -> str:
        """SQL: what did not fit, packed, without what the constraint refused."""
        place = "" if self._in_order else f" AND place >= {self._since}L"
        late = f"{of['time']} <= {self._late}L{place}"
        return packed(of, late, scopes=len(self._layout.program.scopes))

    def _refused(self) -> str:
        """SQL to add to the packed reasons: the limits that kept a change out."""
        scopes = range(len(self._layout.program.scopes))
        return "".join(f" + CASE WHEN x{s} AND NOT inside{s} THEN {REFUSED}L ELSE 0L END" for s in scopes)

    def _code_names(self) -> dict[str, str]:
        """The columns that the packed reasons depend on, with their SQL."""
        return {name: name for name in ("time", "flags", "alive", "was_alive", "alone")}

    # -- from decisions to the state -------------------------------------------------------------------------

    def new_state(self, decided: str) -> str:
        """SQL: the state of the units of this fold."""
        layout, columns = self._layout, ["unit", "alive"]
        columns += [f"CASE WHEN alive THEN {name} END AS {name}" for name in layout.views()]
        columns += [f"label{n}_now AS label{n}" for n in range(len(layout.labels))]
        if layout.has_image:
            columns += [f"CASE WHEN alive THEN {name} END AS {name}" for name in ("image", "digest")]
        for s, scope in enumerate(layout.program.scopes):
            columns += self._counters(s, scope)
        for i, _ in layout.clipped():
            columns += self._clips(i)
        for s, scope in enumerate(layout.program.scopes):
            columns += self._holds(s, scope)
        return f"SELECT {', '.join(columns)} FROM {decided} WHERE instant_next IS NULL"

    def _counters(self, s: int, scope: Scope) -> list[str]:
        """SQL: the counters of a scope after the last change of a unit."""
        left = f"coalesce(o{s} >= most{s}, FALSE) OR coalesce(ends{s} <= {self._reached}L, FALSE)"
        expires = f"CASE WHEN open{s} AND NOT ({left}) THEN coalesce(ends{s}, {NEVER}L) END"
        counters = {
            "m": f"least(o{s}, coalesce(most{s}, o{s}))",
            "f": f"first{s}",
            "l": f"limit{s}" if scope.by is not None else "CAST(NULL AS STRING)",
            "e": expires if scope.retire else "CAST(NULL AS BIGINT)",
        }
        some = f"o{s} > 0 OR k_m{s} IS NOT NULL" if self._known else f"o{s} > 0"
        return [f"CASE WHEN {some} THEN {value} END AS {name}{s}" for name, value in counters.items()]

    def _clips(self, i: int) -> list[str]:
        """SQL: how much of a flow's clip a unit has used, and in which bin."""
        known = (f", k_b{i}", f", k_n{i}") if self._known else ("", "")
        return [f"coalesce(used{i}.bin{known[0]}) AS b{i}", f"coalesce(used{i}.turn{known[1]}) AS n{i}"]

    def _holds(self, s: int, scope: Scope) -> list[str]:
        """SQL: what is accepted of a unit in a scope, after its last change."""
        left = (
            f"open{s} AND (coalesce(o{s} >= most{s}, FALSE) OR coalesce(ends{s} <= {self._reached}L, FALSE))"
        )
        gone = f"WHEN {left} THEN NULL " if scope.retire else ""
        return [
            f"CASE {gone}WHEN held{s} IS NOT NULL THEN held{s}.{name} "
            f"ELSE {f'k_{name}' if self._known else 'CAST(NULL AS BIGINT)'} END AS {name}"
            for name in self._layout.accepted(scope)
        ]

    # -- units that leave although they do not change --------------------------------------------------------

    @property
    def some_leave(self) -> bool:
        """Whether units leave."""
        return any(scope.retire for scope in self._layout.program.scopes)

    def leaves(self) -> str:
        """SQL: whether a unit of the state must leave a scope by now."""
        retiring = (s for s, scope in enumerate(self._layout.program.scopes) if scope.retire)
        return " OR ".join(self._expired(s) for s in retiring)

    def _expired(self, s: int) -> str:
        return f"coalesce(e{s} <= {self._reached}L, FALSE)"

    def left_totals(self, leaving: str) -> str:
        """SQL: the contributions that end because their units leave without a change."""
        records = []
        for s, scope in enumerate(self._layout.program.scopes):
            for i, release in self._layout.in_scope(scope) if scope.retire else ():
                bin_ = f"CASE WHEN {self._expired(s)} AND alive THEN {bin_of(f'e{s}', self._bins[i])} END"
                records += [
                    Record((i, j), bin_, f"c{i}", "0L", f"-{value}")
                    for j, value in enumerate(self._layout.values(i, release))
                ]
        records = records or [Record((NO_RELEASE, 0), "NULL", "NULL", "0L", "0L")]
        return summed(leaving, records, large=self._layout.large)

    def left_state(self, leaving: str) -> str:
        """SQL: the state of the units that leave without a change."""
        gone: dict[str, str] = {}
        for s, scope in enumerate(self._layout.program.scopes):
            gone |= dict.fromkeys([f"e{s}", *self._layout.accepted(scope)], self._expired(s))
        columns = [
            f"CASE WHEN NOT {gone[name]} THEN {name} END AS {name}" if name in gone else name
            for name in self._layout.state()
        ]
        return f"SELECT {', '.join(columns)} FROM {leaving}"


def _counted(accepted: str, value: str) -> str:
    return f"CASE WHEN {accepted} THEN {value} ELSE 0L END"

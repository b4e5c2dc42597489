"""The fold of units that own rows: what each unit contributes, step by step, and what of it is accepted.

The relation `decided` has one row for each unit, scope and instant at which one of its rows changes:

    delta       how the contribution of the unit changes: spot (release and component), cell, and the amount
                in two halves of 32 bits; at the first instant, that of the stored state
    hits        what the changes of flows that count add up to, in the same form
    hit{i}      whether flow i sees a change that counts
    x           whether this is a change of the unit
    o, f, l     its number, the instant of the first, and the label of the limit
    inside      whether the constraint allows it; accepted: whether the contribution changes as well
    leaves      when a unit that retires leaves; NULL: it has left, or it never does

The relation `rows` is that of tidegauge.engine.spark.rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.engine.spark.bins import bin_of
from tidegauge.engine.spark.layout import ALIVE, WITH_BEFORE, WITHOUT_BEFORE
from tidegauge.engine.spark.reasons import NO_RELEASE, REASONS, REFUSED, WITHOUT_UNIT
from tidegauge.engine.spark.records import Record, summed
from tidegauge.engine.spark.rows import BEGINNING, Rows
from tidegauge.engine.spark.rules import MOST, NEVER, allowance_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidegauge.engine.spark.layout import Layout
    from tidegauge.model.program import Scope

_MASK: Final = 4294967295
_LABEL: Final = "STRUCT<place: BIGINT, rank: BIGINT, seq: BIGINT, label: STRING>"
_SO_FAR: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_PART: Final = "struct(spot, cell, high, low)"
_MARK: Final = -1
"""The spot that every version of a row has, so that there is a step; -2 - i: flow i sees a change."""
_FROZEN, _DELETED, _UNKNOWN = (
    1 << REASONS.index(one) for one in ("late", "deleted_unknown", "unknown_before")
)
_TWICE: Final = 1 << REASONS.index("inserted_twice")


class OwnedFold:
    """The statements of one fold; the arguments are those of tidegauge.engine.spark.fold.Fold."""

    renews = False
    """Whether a term begins at the only instant of the fold."""

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
        self._scopes = list(enumerate(layout.program.scopes))
        self._components = 1 + max(len(one.query.components) for one in layout.program.releases)
        self._bins = {
            i: list(release.schedule.covering(watermark + 1, reached))
            for i, release in enumerate(layout.program.releases)
        }
        self._clipped = [i for i, _ in layout.clipped()]
        self._rows, self._timed = "", ""

    # -- from waiting changes to decisions -------------------------------------------------------------------

    def timed(self, waiting: str) -> str:
        """SQL: the waiting changes with their instants; NULL for changes that no unit sees."""
        instant = f"greatest(time, {self._watermark + 1}L)"
        if not self._in_order:
            so_far = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
            instant = f"max({instant}) OVER (PARTITION BY unit ORDER BY place, rank, seq {so_far})"
        return f"""
            SELECT *, {instant} AS instant FROM {waiting} WHERE unit IS NOT NULL
            UNION ALL SELECT *, CAST(NULL AS BIGINT) AS instant FROM {waiting} WHERE unit IS NULL"""

    def later(self, timed: str) -> str:
        """SQL: the changes that go on waiting."""
        columns = ", ".join(self._layout.changes())
        return f"SELECT {columns} FROM {timed} WHERE instant > {self._reached}L"

    def leaves(self) -> str:
        """SQL: whether a row of the state has a unit that must leave a scope by now."""
        retiring = [f"coalesce(e{s} <= {self._reached}L, FALSE)" for s, scope in self._scopes if scope.retire]
        return " OR ".join(retiring) or "FALSE"

    def kept(self, timed: str, known: str | None, keep: Callable[[str, str], str]) -> str:
        """The name of `decided`.  keep: computes a relation once, and gives it a name."""
        rows = Rows(
            self._layout, reached=self._reached, since=self._since, late=self._late, renews=self.renews
        )
        self._timed = timed
        self._rows = keep(rows.statement(timed, known), "rows")
        return keep(self.decided(known), "decided")

    def decided(self, known: str | None) -> str:
        """SQL of `decided`."""
        return self._ruled(self._joined(self._steps(), known))

    def _parts(self) -> str:
        """SQL: by unit, scope, instant, spot and cell how the contribution changes, in halves."""
        listed = [one for s, scope in self._scopes for one in self._listed(s, scope)]
        values = ", ".join(value for one in listed for value in one)
        return f"""
            SELECT unit, s, instant, spot, cell, label, high + shiftright(low, 32) AS high,
                   low & {_MASK}L AS low
            FROM (
                SELECT unit, s, instant, spot, cell, min(label) AS label,
                       sum(shiftright(amount, 32)) AS high, sum(amount & {_MASK}L) AS low
                FROM (SELECT unit, stack({len(listed)}, {values})
                      AS (s, instant, spot, cell, amount, label) FROM {self._rows})
                WHERE instant IS NOT NULL AND cell IS NOT NULL GROUP BY unit, s, instant, spot, cell)"""

    def _listed(self, s: int, scope: Scope) -> Iterator[tuple[str, ...]]:
        """SQL of the records of a row in a scope."""
        none = f"CAST(NULL AS {_LABEL})"
        label = none if scope.by is None else self._label(s, self._layout.labels.index(scope.by))
        yield f"{s}", "instant", f"{_MARK}L", "0L", "0L", label
        begins = f"CASE WHEN from{s} < coalesce(next, {NEVER}L) THEN from{s} END"
        ends = f"CASE WHEN from{s} < next THEN next END"
        for i, release in self._layout.in_scope(scope):
            for j, value in enumerate(self._layout.values(i, release)):
                spot = f"{i * self._components + j}L"
                yield f"{s}", begins, spot, f"c{i}", value, none
                yield f"{s}", ends, spot, f"c{i}", f"-{value}", none
        for i, release in self._layout.flows_in(scope):
            at = f"CASE WHEN counts{i} AND h{i} IS NOT NULL THEN instant END"
            yield f"{s}", at, f"{-2 - i}L", "0L", "1L", none
            for j in range(len(release.query.components)):
                yield f"{s}", at, f"{i * self._components + j}L", f"h{i}", f"h{i}_{j}", none

    def _label(self, s: int, n: int) -> str:
        """SQL: the label of a change, which names the limit if no earlier one of the instant does."""
        del s
        found = f"CAST(struct(place, rank, seq, label{n}_now) AS {_LABEL})"
        return f"CASE WHEN instant > {BEGINNING}L AND (alive OR was_alive) THEN {found} END"

    def _steps(self) -> str:
        """SQL: by unit, scope and instant how the contribution changes and what flows see."""
        flows = [i for i, _ in self._layout.flows]
        of_flow = f"spot DIV {self._components} IN ({', '.join(map(str, flows)) or '-1'})"
        some = "spot >= 0 AND (high <> 0 OR low <> 0)"
        seen = "".join(f", coalesce(max(spot = {-2 - i}L), FALSE) AS hit{i}" for i in flows)
        return f"""
            SELECT unit, s, instant, min(label) AS label,
                   collect_list(CASE WHEN {some} AND NOT {of_flow} THEN {_PART} END) AS delta,
                   collect_list(CASE WHEN {some} AND {of_flow} THEN {_PART} END) AS hits{seen}
            FROM ({self._parts()}) GROUP BY unit, s, instant"""

    def _joined(self, steps: str, known: str | None) -> str:
        """SQL of `steps`, with the counters of the state; `known`: the table that has them."""
        own = ["m", "f", "l", "e", *(["x"] if self._layout.program.terms is not None else [])]
        clips = [f"{name}{i}" for i in self._clipped for name in "bn"]
        if known is None:
            nothing = [f"CAST(NULL AS {self._layout.type_of(name + '0')}) AS k_{name}" for name in own]
            nothing += [f"CAST(NULL AS BIGINT) AS k_{name}" for name in clips]
            return f"SELECT *, {', '.join(nothing)} FROM ({steps})"
        stored = [f"{name}{s}" for s, _ in self._scopes for name in own] + clips
        taken = ", ".join(f"{name} AS k_{name}" for name in stored)
        arms = {name: " ".join(f"WHEN {s} THEN k_{name}{s}" for s, _ in self._scopes) for name in own}
        chosen = ", ".join(f"CASE s {arm} END AS k_{name}" for name, arm in arms.items())
        return f"""
            SELECT *, {chosen} FROM ({steps})
            LEFT JOIN (SELECT unit, {taken} FROM {known} WHERE entry IS NULL) USING (unit)"""

    def _by_scope(self, values: Sequence[str]) -> str:
        """SQL: the value of the scope of a row."""
        if len(set(values)) == 1:
            return values[0]
        return f"CASE s {' '.join(f'WHEN {s} THEN {value}' for s, value in enumerate(values))} END"

    def _limits(self, limit: str) -> list[str]:
        """SQL: most, within, whether the label has a limit, and whether units retire; `limit`: the label."""
        found = zip(*(allowance_sql(s, scope) for s, scope in self._scopes), strict=True)
        named = zip(("most", "within", "ruled"), found, strict=True)
        labels = ", ".join(f"{limit} AS limit{s}" for s, _ in self._scopes)
        retires = self._by_scope(["TRUE" if scope.retire else "FALSE" for _, scope in self._scopes])
        rules = (f"{self._by_scope(values)} AS {name}" for name, values in named)
        return [labels, *rules, f"{retires} AS retires"]

    def _ruled(self, steps: str) -> str:
        """SQL: the steps with their numbers, and what is accepted."""
        hits = "".join(f" OR hit{i}" for i, _ in self._layout.flows)
        labels, *limits = self._limits("l")
        chosen = "min(CASE WHEN x THEN struct(instant, label.label AS label) END) OVER p"
        opened = "(NOT retires OR k_m IS NULL OR k_e IS NOT NULL)"
        left = f"least(min(CASE WHEN x AND o = most THEN instant END) OVER p, ends, {NEVER}L)"
        before = "o < most", "instant < ends"
        inside = "o <= most", "instant <= ends"
        within, earlier = (
            " AND ".join(f"coalesce({one}, TRUE)" for one in pair) for pair in (inside, before)
        )
        decided = f"""
            SELECT *, x AND open AND {within} AS inside,
                   x AND open AND CASE WHEN retires THEN {earlier} ELSE {within} END AS accepted,
                   CASE WHEN retires AND open THEN {left} END AS leaves
            FROM (
                SELECT *, f + within AS ends, ruled AND {opened} AS open FROM (
                    SELECT *, {", ".join(limits)} FROM (
                        SELECT *, {labels} FROM (
                            SELECT *, coalesce(k_m, 0L) + count_if(x) OVER w AS o,
                                   coalesce(k_f, min(CASE WHEN x THEN instant END) OVER p) AS f,
                                   CASE WHEN k_m IS NOT NULL THEN k_l ELSE ({chosen}).label END AS l
                            FROM (SELECT *, instant > {BEGINNING}L AND (size(delta) > 0{hits}) AS x
                                  FROM ({steps}))
                            WINDOW p AS (PARTITION BY unit, s), w AS (PARTITION BY unit, s ORDER BY instant
                                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)))))
            WINDOW p AS (PARTITION BY unit, s)"""
        for i in self._clipped:
            so_far = f"PARTITION BY unit, s, bin{i} ORDER BY instant {_SO_FAR}"
            used = f"CASE WHEN k_b{i} = bin{i} THEN k_n{i} ELSE 0L END"
            decided = f"""
                SELECT *, {used} + count_if(hit{i} AND inside) OVER ({so_far}) AS turn{i}
                FROM (SELECT *, {bin_of("instant", self._bins[i])} AS bin{i} FROM ({decided}))"""
        return decided

    # -- from decisions to sums ------------------------------------------------------------------------------

    def totals(self, decided: str) -> str:
        """SQL: by release, component, bin and cell the true and the accepted change."""
        return " UNION ALL ".join([self._true(), self._counted(decided), self._counts(decided)])

    def _true(self) -> str:
        """SQL: the sums as if all rows of a unit contributed, and nothing was refused."""
        records = []
        for i, release in self._layout.stocks:
            begins = f"CASE WHEN instant > {BEGINNING}L THEN {self._bin(i)} END"
            for j, value in enumerate(self._layout.values(i, release)):
                records.append(Record((i, j), begins, f"CASE WHEN alive THEN c{i} END", value, "0L"))
                records.append(
                    Record((i, j), self._bin(i, "next"), f"CASE WHEN alive THEN c{i} END", f"-{value}", "0L")
                )
        for i, release in self._layout.flows:
            records += [
                Record((i, j), self._bin(i), f"h{i}", f"h{i}_{j}", "0L")
                for j in range(len(release.query.components))
            ]
        return summed(self._rows, records, large=True)

    def _bin(self, i: int, instant: str = "instant") -> str:
        return bin_of(instant, self._bins[i])

    def _bins_of_spots(self, instant: str) -> str:
        """SQL: the bin of an instant in the release of a part."""
        found: dict[str, list[int]] = {}
        for i in self._bins:
            found.setdefault(bin_of(instant, self._bins[i]), []).append(i)
        if len(found) == 1:
            return next(iter(found))
        arms = [
            f"WHEN spot DIV {self._components} IN ({', '.join(map(str, of))}) THEN {one}"
            for one, of in found.items()
        ]
        return f"CASE {' '.join(arms)} END"

    def _counted(self, decided: str) -> str:
        """SQL: the accepted sums.  A unit that leaves takes what was accepted before."""
        clips = " AND ".join(
            f"(part.spot DIV {self._components} <> {i} OR turn{i} <= {min(release.clip or 0, MOST)}L)"
            for i, release in self._layout.clipped()
        )
        at, leaving = self._bins_of_spots("instant"), self._bins_of_spots("leaves")
        gone = f"(instant = {BEGINNING}L OR accepted) AND instant < leaves AND leaves <= {self._reached}L"
        some = f"SELECT *, part.* FROM (SELECT *, explode({{}}) AS part FROM {decided} WHERE {{}})"
        parts = [f"SELECT spot, {at} AS bin, cell, high, low FROM ({some.format('delta', 'accepted')})"]
        if any(scope.retire for _, scope in self._scopes):
            parts.append(f"SELECT spot, {leaving}, cell, -high, -low FROM ({some.format('delta', gone)})")
        if self._layout.flows:
            hits = some.format("hits", "inside")
            parts.append(
                f"SELECT spot, {at}, cell, high, low FROM ({hits}){f' WHERE {clips}' if clips else ''}"
            )
        return self._summed(" UNION ALL ".join(parts))

    def _summed(self, parts: str) -> str:
        """SQL: the sums of accepted parts."""
        n = self._components
        return f"""
            SELECT CAST(spot DIV {n} AS INT) AS release, CAST(spot % {n} AS INT) AS component, bin, cell,
                   0L AS truly_high, 0L AS truly_low, sum(high) AS counted_high, sum(low) AS counted_low
            FROM ({parts}) WHERE bin IS NOT NULL GROUP BY spot, bin, cell"""

    def _counts(self, decided: str) -> str:
        """SQL: how many changes did not fit, and how many the constraint refused."""
        given = "given IS NOT NULL"
        outside = REFUSED * (len(self._scopes) + 1)
        found = {
            _FROZEN: "sum(late)",
            _UNKNOWN: f"count_if({given} AND given & {WITH_BEFORE} <> 0 AND NOT was_alive)",
            _TWICE: f"count_if({given} AND given & {WITHOUT_BEFORE} <> 0 AND alive AND was_alive)",
            _DELETED: f"count_if({given} AND given & {ALIVE} = 0 AND NOT was_alive)",
            outside: "sum(outside)",
        }
        listed = ", ".join(f"{code}L, {one}" for code, one in found.items())
        unseen = f"unit IS NULL AND flags & {ALIVE} {{}} 0"
        lost = (
            f"{WITHOUT_UNIT}L, count_if({unseen.format('<>')}), {_DELETED}L, count_if({unseen.format('=')}), "
            f"{_FROZEN}L, count_if(unit IS NULL AND time <= {self._late}L AND place >= {self._since}L)"
        )
        parts = [
            f"SELECT stack({len(found)}, {listed}) AS (code, times) FROM {self._rows}",
            f"SELECT stack(3, {lost}) AS (code, times) FROM {self._timed}",
            *self._refused(decided),
        ]
        return f"""
            SELECT {NO_RELEASE}, 0, 0L, code, 0L, times, 0L, 0L FROM ({" UNION ALL ".join(parts)})
            WHERE times > 0"""

    def _refused(self, decided: str) -> Iterator[str]:
        yield f"SELECT {REFUSED}L, count(*) FROM {decided} WHERE x AND NOT inside"

    # -- from decisions to the state -------------------------------------------------------------------------

    def new_state(self, decided: str) -> str:
        """SQL: the state of the units of this fold."""
        layout = self._layout
        places = [f"at{s}" for s, _ in self._scopes]
        rows = ["unit", "entry", *layout.views(), *layout.rest()]
        rows += [
            name if layout.in_scope(scope) else f"CAST(NULL AS {layout.type_of(name)}) AS {name}"
            for name, (_, scope) in zip(places, self._scopes, strict=True)
        ]
        rows += [f"CAST(NULL AS {layout.type_of(name)}) AS {name}" for name in layout.counters()]
        units = [
            name
            if name in ("unit", *layout.counters())
            else f"CAST(NULL AS {layout.type_of(name)}) AS {name}"
            for name in layout.state()
        ]
        return f"""
            SELECT {", ".join(rows)} FROM {self._rows} WHERE alive AND next IS NULL
            UNION ALL SELECT {", ".join(units)} FROM ({self._counters(decided)})"""

    def _counters(self, decided: str) -> str:
        """SQL: the counters of the units after the fold."""
        columns = []
        for s, scope in self._scopes:
            for name, value in self._counter(scope).items():
                columns.append(f"max(CASE WHEN s = {s} THEN {value} END) AS {name}{s}")
        for i in self._clipped:
            last = f"max(CASE WHEN hit{i} AND inside THEN struct(bin{i} AS bin, turn{i} AS turn) END)"
            columns += [
                f"coalesce({last}.bin, max(k_b{i})) AS b{i}",
                f"coalesce({last}.turn, max(k_n{i})) AS n{i}",
            ]
        counted = f"SELECT unit, {', '.join(columns)} FROM {decided} GROUP BY unit"
        if self._layout.program.terms is None:
            return counted
        return f"SELECT * FROM ({counted}) LEFT JOIN ({self._excess(decided)}) USING (unit)"

    def _counter(self, scope: Scope) -> dict[str, str]:
        some = "o > 0 OR k_m IS NOT NULL"
        expires = f"CASE WHEN leaves > {self._reached}L THEN leaves END"
        found = {
            "m": "least(o, coalesce(most, o))",
            "f": "f",
            "l": "l" if scope.by is not None else "CAST(NULL AS STRING)",
            "e": expires if scope.retire else "CAST(NULL AS BIGINT)",
        }
        return {name: f"CASE WHEN {some} THEN {value} END" for name, value in found.items()}

    def _excess(self, decided: str) -> str:
        """SQL: by unit the true contribution less the accepted one."""
        gone = f"(instant = {BEGINNING}L OR accepted) AND instant < leaves AND leaves <= {self._reached}L"
        refused = f"instant > {BEGINNING}L AND NOT accepted"
        parts = [
            f"SELECT unit, s, explode(k_x) AS part FROM {decided} WHERE instant = {BEGINNING}L",
            f"SELECT unit, s, explode(delta) FROM {decided} WHERE {refused}",
            f"SELECT unit, s, explode(delta) FROM {decided} WHERE {gone}",
        ]
        columns = ", ".join(
            f"collect_list(CASE WHEN s = {s} AND (high <> 0 OR low <> 0) THEN {_PART} END) AS x{s}"
            for s, _ in self._scopes
        )
        return f"""
            SELECT unit, {columns} FROM (
                SELECT unit, s, spot, cell, high + shiftright(low, 32) AS high, low & {_MASK}L AS low FROM (
                    SELECT unit, s, spot, cell, sum(high) AS high, sum(low) AS low
                    FROM (SELECT unit, s, part.* FROM ({" UNION ALL ".join(parts)}))
                    GROUP BY unit, s, spot, cell))
            GROUP BY unit"""

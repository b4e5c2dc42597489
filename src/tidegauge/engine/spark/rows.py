"""The SQL that finds out when each row of a unit contributes, where units own rows.

A row contributes to the stocks of a scope from its first version that has a cell there.  At most max_rows
rows of a unit count at any time: those that have contributed for longest.  The others wait until fewer than
max_rows earlier ones remain.  The relation `rows` has each version of each row, with the stored one first:

    alive, was_alive     whether the row exists from this instant on, and whether it did before
    next                 the instant of the next version; NULL: this is the last
    here{s}              whether the version has a cell in scope s
    at{s}                since when the row contributes, and its place in the log then
    from{s}              from when on the version counts; it does not if `next` comes earlier
    h{i}, h{i}_{j}       what flow i sees of the change; counts{i}: among the first max_rows at this instant
    late, outside, given  what did not fit, of all changes of the row at this instant

A window over a unit keeps the latest ends of earlier rows: a row counts as soon as the max_rows-th latest end
has passed.  Few of them pass from one window to the next, as in a list that stays sorted; many are sorted,
without those of rows that stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.engine.spark.layout import ALIVE, HANDED, OUTSIDE
from tidegauge.engine.spark.owners import LOG_ORDER, STORED
from tidegauge.engine.spark.render import seen
from tidegauge.engine.spark.rules import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegauge.engine.spark.layout import Layout

BEGINNING: Final = -(2**63) + 1
"""The instant of the stored state, before every other."""
_FEW: Final = 16
"""So many latest ends are passed on from window to window."""
_SO_FAR: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_BEFORE: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"


class Rows:
    """The statements about rows of one fold.

    since, late: as for Fold.  renews: a term begins at the only instant, and every row begins again in it.
    """

    def __init__(self, layout: Layout, *, reached: int, since: int, late: int, renews: bool) -> None:
        self._layout, self._reached, self._since, self._late = layout, reached, since, late
        self._renews = renews

    def statement(self, timed: str, known: str | None) -> str:
        """SQL of `rows`; `known`: the state of the units of this fold."""
        whole = self._marked(self._shown(self._versions(self._due(timed, known))))
        for s, scope in enumerate(self._layout.program.scopes):
            if self._layout.in_scope(scope):
                whole = self._admitted(s, whole)
        return self._flows(whole)

    def _due(self, timed: str, known: str | None) -> str:
        """SQL: the changes that take effect, and the rows of the state; those of one unit in one place."""
        layout = self._layout
        places = [f"at{s}" for s in range(len(layout.program.scopes))]
        carried = [*layout.views(), *layout.rest()]
        late = f"time <= {self._late}L AND place >= {self._since}L AND flags < {HANDED}L"
        nothing = [f"CAST(NULL AS {layout.type_of(name)}) AS {name}" for name in places]
        changes = f"""
            SELECT unit, entry, {LOG_ORDER}, instant, flags, {", ".join([*carried, *nothing])},
                   CASE WHEN {late} THEN 1L ELSE 0L END AS late,
                   CASE WHEN flags & {ALIVE} <> 0 THEN flags DIV {OUTSIDE} ELSE 0L END AS outside
            FROM {timed} WHERE instant <= {self._reached}L"""
        if known is None:
            return f"SELECT * FROM ({changes}) DISTRIBUTE BY unit"
        stored = f"""
            SELECT unit, entry, {STORED}L, 0L, 0L, {BEGINNING}L,
                   CASE WHEN entry IS NOT NULL THEN {ALIVE}L ELSE 0L END,
                   {", ".join([*carried, *places])}, 0L, 0L FROM {known}"""
        return f"SELECT * FROM ({changes} UNION ALL {stored}) DISTRIBUTE BY unit"

    def _versions(self, due: str) -> str:
        """SQL: the last change of each row at each instant, with the version before."""
        layout = self._layout
        image = ["image", "digest"] if layout.has_image else []
        was = [f"lag(label{n}) OVER w AS was_label{n}" for n in range(len(layout.labels))]
        was += [f"lag(CASE WHEN flags & {ALIVE} <> 0 THEN {name} END) OVER w AS was_{name}" for name in image]
        return f"""
            SELECT *, flags & {ALIVE} <> 0 AS alive, lead(instant) OVER w AS next,
                   {", ".join([f"coalesce(lag(flags & {ALIVE} <> 0) OVER w, FALSE) AS was_alive", *was])}
            FROM (
                SELECT * EXCEPT (late, outside), lead(instant) OVER log AS instant_next,
                       first_value(CASE WHEN place >= 0 THEN flags END, TRUE) OVER same AS given,
                       sum(late) OVER same AS late, sum(outside) OVER same AS outside
                FROM ({due})
                WINDOW log AS (PARTITION BY unit, entry ORDER BY instant, {LOG_ORDER}),
                       same AS (PARTITION BY unit, entry, instant ORDER BY {LOG_ORDER} {_SO_FAR})
            ) WHERE instant_next IS NULL OR instant_next <> instant
            WINDOW w AS (PARTITION BY unit, entry ORDER BY instant)"""

    def _shown(self, versions: str) -> str:
        """SQL: the same with what flows see, in which scopes the row has a cell, and its label."""
        layout, parts = self._layout, ["*"]
        for s, scope in enumerate(layout.program.scopes):
            cells = " OR ".join(f"c{i} IS NOT NULL" for i, _ in layout.in_scope(scope))
            parts.append(f"alive AND ({cells or 'FALSE'}) AS here{s}")
        parts += [
            f"coalesce(CASE WHEN alive THEN label{n} ELSE was_label{n} END, '') AS label{n}_now"
            for n in range(len(layout.labels))
        ]
        if self._renews:
            parts.append("row_number() OVER (PARTITION BY unit ORDER BY entry, instant) + 0L AS number")
        origin = versions
        if layout.flows:
            origin = (
                f"SELECT *, CASE WHEN alive THEN image END AS after, was_image AS before FROM ({versions})"
            )
        for i, flow in layout.flows:
            amounts = [layout.render.amount(part) for part in flow.query.components]
            some = " OR ".join(f"{one} <> 0" for one in amounts)
            changed = "NOT (was_digest <=> CASE WHEN alive THEN digest END) AND (alive OR was_alive)"
            really = f"instant > {BEGINNING}L AND {changed}{seen(flow.query.watched)}"
            cell = f"CAST({layout.render(flow.query.cell)} AS BIGINT)"
            parts.append(f"CASE WHEN {really} AND ({some}) THEN {cell} END AS h{i}")
            parts += [f"{one} AS h{i}_{j}" for j, one in enumerate(amounts)]
        return f"SELECT {', '.join(parts)} FROM ({origin})"

    def _scopes(self) -> Iterator[int]:
        """The numbers of the scopes that have stocks."""
        return (s for s, scope in enumerate(self._layout.program.scopes) if self._layout.in_scope(scope))

    def _marked(self, shown: str) -> str:
        """SQL: the same with when a row begins to contribute, and when it ends."""
        if not list(self._scopes()):
            return shown
        entering, ending = ["*"], []
        number = ("0L", "0L", "number") if self._renews else ("place", "rank", "seq")
        named = ", ".join(
            f"{one} AS {name}"
            for one, name in zip(("instant", *number), ("since", "place", "rank", "seq"), strict=True)
        )
        window = "PARTITION BY unit, entry ORDER BY instant"
        for s in self._scopes():
            was = f"coalesce(lag(here{s}) OVER w, FALSE)"
            again = f"here{s} AND instant > {BEGINNING}L" if self._renews else "FALSE"
            entering += [
                f"(here{s} AND NOT {was}) OR ({again}) AS enters{s}",
                f"here{s} <> {was} OR ({again}) AS turns{s}",
            ]
            stored = f"instant = {BEGINNING}L AND at{s} IS NOT NULL"
            begins = f"CASE WHEN {stored} THEN at{s} ELSE struct({named}) END"
            ending += [
                f"CASE WHEN here{s} THEN last_value(CASE WHEN enters{s} THEN {begins} END, TRUE) "
                f"OVER ({window} {_SO_FAR}) END AS since{s}",
                f"coalesce(lead(CASE WHEN turns{s} THEN instant END) IGNORE NULLS OVER ({window}), {NEVER}L) "
                f"AS ends{s}",
            ]
        kept = ", ".join(f"since{s} AS at{s}" for s in self._scopes())
        gone = ", ".join(f"at{s}, since{s}" for s in self._scopes())
        return f"""
            SELECT * EXCEPT ({gone}), {kept} FROM (
                SELECT *, {", ".join(ending)} FROM (
                    SELECT {", ".join(entering)} FROM ({shown}) WINDOW w AS ({window})))"""

    def _admitted(self, s: int, rows: str) -> str:
        """SQL: the same with from when on each version counts in scope s."""
        most = self._layout.program.max_rows or 1
        order = f"PARTITION BY unit ORDER BY at{s}, instant"
        if most > _FEW:
            window, last = f"OVER ({order} {_BEFORE})", "ended"
            stay = f"count_if(enters{s} AND ends{s} = {NEVER}L) {window} AS stay"
            ended = f"collect_list(CASE WHEN enters{s} THEN nullif(ends{s}, {NEVER}L) END) {window} AS gone"
            nth = f"get(sort_array(gone, FALSE), CAST({most - 1} - stay AS INT))"
            rows = f"""
                SELECT *, CASE WHEN stay >= {most} THEN {NEVER}L
                               WHEN enters{s} AND stay + size(gone) >= {most} THEN {nth} END AS ended
                FROM (SELECT *, {stay}, {ended} FROM ({rows}))"""
        else:
            rows = f"SELECT *, CASE WHEN enters{s} THEN ends{s} END AS passed0 FROM ({rows})"
            for n in range(most):
                rows = f"SELECT *, max(passed{n}) OVER ({order} {_BEFORE}) AS ended{n} FROM ({rows})"
                both = f"passed{n} IS NOT NULL AND ended{n} IS NOT NULL"
                passed = f"CASE WHEN {both} THEN least(passed{n}, ended{n}) END"
                rows = f"SELECT *, {passed} AS passed{n + 1} FROM ({rows})"
            last = f"ended{most - 1}"
        counted = f"CASE WHEN enters{s} THEN greatest(instant, coalesce({last}, instant)) END"
        extra = (
            ["ended", "stay", "gone"]
            if most > _FEW
            else [f"{name}{n}" for n in range(most) for name in ("passed", "ended")]
        )
        extra += [] if most > _FEW else [f"passed{most}"]
        return f"""
            SELECT * EXCEPT ({", ".join(extra)}),
                   CASE WHEN here{s}
                        THEN greatest(instant, last_value({counted}, TRUE) OVER ({order} {_SO_FAR}))
                   END AS from{s}
            FROM ({rows})"""

    def _flows(self, rows: str) -> str:
        """SQL: the same with whether a change of a flow is among the first max_rows at its instant."""
        if not self._layout.flows:
            return rows
        counts = ", ".join(
            f"count_if(h{i} IS NOT NULL) OVER (PARTITION BY unit, instant ORDER BY {LOG_ORDER} {_SO_FAR}) "
            f"<= {self._layout.program.max_rows} AS counts{i}"
            for i, _ in self._layout.flows
        )
        return f"SELECT *, {counts} FROM ({rows})"

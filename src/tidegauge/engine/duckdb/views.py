"""The first half of the SQL that enforces and folds: rows, and what each unit contributes.

The tables, in the order in which one fold builds them:

    arrivals         the changes that take effect: seq, entry (the row's name), unit, instant (effective
                     time), after, digest, before_digest (of the delivered old row), informed
    versions         per row of a unit and instant the last arrival, with its cell and amounts in every
                     release; the stored state comes first
    path             the same without the ends of rows that did not exist
    contributing_s   the rows of the path that contribute in scope s (at most max_rows of a unit, first come)
    change_s         per unit, instant, component and cell the net change of the contribution
    true_change_s    the same as if all rows of a unit contributed (only where some do not)
    flow_change_s    the changes that a flow of the scope matches; `counts`: among the first max_rows
    numbered_s       the instants at which a unit's contribution changes, numbered, each accepted or not
    accepted_s       the accepted changes of stocks
    accepted_flow_s  the accepted changes of flows, numbered within their bin

Release i of the program has the cell column c{i} and for component j the value column v{i}_{j}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidegauge.engine.duckdb.digest import is_old
from tidegauge.engine.duckdb.render import amount, quote, render
from tidegauge.model.engine import StateLayout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidegauge.model.engine import StateType
    from tidegauge.model.program import Program, Release, Scope

BEGINNING: Final = -(2**63)
"""The instant of the stored state, before every other."""
NEVER: Final = 2**63 - 1
_MOST_LATEST: Final = 1000
"""The latest ends of so many rows of a unit are found by a heap, those of more by a sort."""
_ARROW: Final = {"VARCHAR": pa.string(), "BIGINT": pa.int64()}


def arrow_schema(columns: Mapping[str, StateType]) -> pa.Schema:
    """The columns of a table of the state, as Arrow has them."""
    return pa.schema([(name, _ARROW[kind]) for name, kind in columns.items()])


class Views:
    """What units contribute, for one program over rows with the given columns."""

    def __init__(self, program: Program, columns: Mapping[str, str]) -> None:
        self.program = program
        self.numbers = {release.name: i for i, release in enumerate(program.releases)}
        self.stocks = [r for r in program.releases if r.query.kind == "stock"]
        self.flows = [r for r in program.releases if r.query.kind == "flow"]
        self.views = [name for release in self.stocks for name in self.view(release)]
        images = {name for flow in self.flows for name in (*flow.query.before, *flow.query.after)}
        images |= set(program.keeps)
        self._long = {name: least for name, least in program.partial if name not in images}
        self.image = {name: columns[name] for name in columns if name in images or name in self._long}
        self.labels = list(program.labels) or sorted({scope.by for scope in program.scopes if scope.by})
        self.layout = self._layout()

    def view(self, release: Release) -> list[str]:
        """The columns that hold a row's cell and amounts in a stock."""
        i = self.numbers[release.name]
        return [f"c{i}", *(f"v{i}_{j}" for j in range(len(release.query.components)))]

    def _layout(self) -> StateLayout:
        """The columns of the state.  `units.moves` counts changes: stores of format 3 have that name.

        `units.excess`: the true contribution less the accepted one, as tidegauge.engine.duckdb.excess writes
        it; NULL where they are equal.
        """
        counters: dict[str, StateType] = {
            "unit": "VARCHAR", "scope": "BIGINT", "moves": "BIGINT", "first": "BIGINT", "label": "VARCHAR",
            "expires": "BIGINT", "excess": "VARCHAR",
        }  # fmt: skip
        used: dict[str, StateType] = {
            "unit": "VARCHAR", "release": "BIGINT", "bin": "BIGINT", "used": "BIGINT"
        }  # fmt: skip
        if self.program.terms is not None:
            counters |= {"leaves": "BIGINT", "term": "BIGINT"}
            used |= {"term": "BIGINT"}
        return StateLayout(self._entry_columns(), counters, used)

    def _entry_columns(self) -> dict[str, StateType]:
        """The state of a row that exists."""
        columns: dict[str, StateType] = {"entry": "VARCHAR"}
        if self.program.max_rows is not None:
            columns["unit"] = "VARCHAR"
        columns["digest"] = "BIGINT"
        columns |= dict.fromkeys(self.views, "BIGINT")
        if self.image:
            columns["image"] = "VARCHAR"
        columns |= {f"label{n}": "VARCHAR" for n in range(len(self.labels))}
        if self.program.max_rows is not None:
            columns |= {
                f"{name}{s}": "BIGINT" for s in range(len(self.program.scopes)) for name in ("since", "order")
            }
        return columns

    def _row_columns(self) -> list[str]:
        """The columns that every version of a row has."""
        return [
            "digest",
            *self.views,
            *(["image"] if self.image else []),
            *(f"label{n}" for n in range(len(self.labels))),
            *(name for name in self.layout.entries if name.startswith(("since", "order"))),
        ]

    def computed(self) -> Iterator[str]:
        """SQL: each column of a new version of a row."""
        yield "digest"
        for release in self.stocks:
            query, (cell, *values) = release.query, self.view(release)
            amounts = [amount(part) for part in query.components]
            some = " OR ".join(f"{amount} <> 0" for amount in amounts)
            yield f"CASE WHEN {some} THEN TRY(CAST({render(query.cell)} AS BIGINT)) END AS {cell}"
            yield from (f"{amount} AS {name}" for amount, name in zip(amounts, values, strict=True))
        if self.image:
            yield f"{self.image_of_row()} AS image"
        for n, column in enumerate(self.labels):
            yield f"coalesce(CAST(after.{quote(column)} AS VARCHAR), '') AS label{n}"
        yield from (f"NULL::BIGINT AS {n}" for n in self.layout.entries if n.startswith(("since", "order")))

    def image_of_row(self) -> str:
        """SQL: the values of a new row that the state stores."""
        fields = ", ".join(f"{quote(name)} := {self.image_value(name)}" for name in self.image)
        return f"struct_pack({fields})"

    def image_value(self, name: str) -> str:
        """SQL: a stored value of a column, which a flow uses or a source may leave out."""
        value = f"after.{quote(name)}"
        return (
            f"CASE WHEN strlen({value}) >= {self._long[name]} THEN {value} END"
            if self._long.get(name)
            else value
        )

    def from_state(self, name: str) -> str:
        """SQL: a column of a row, read from the state."""
        if name != "image" or not self.image:
            return name
        shape = ", ".join(f"{quote(column)} {kind}" for column, kind in self.image.items())
        return f"TRY(CAST(CAST(image AS JSON) AS STRUCT({shape}))) AS image"

    def _lagged_with_row(self) -> list[str]:
        """Columns of stocks whose old value is that of the version before: all, if the unit is the row."""
        return self.views if self.program.max_rows is None else []

    def renew(self, *, by_hash: bool) -> str:
        """SQL: give unchanged rows with a digest of format 2 a new one, so that they do not count as changed.

        Where DuckDB's hash function has changed (not `by_hash`), the columns that flows use decide.
        """
        same = "known_entries.digest = seen.elder"
        if not by_hash:
            same = f"known_entries.image = to_json({self.image_of_row()})::VARCHAR" if self.image else "false"
        return f"""
            UPDATE known_entries SET digest = seen.digest
            FROM (SELECT entry, unit, after, digest, elder FROM arrivals WHERE after IS NOT NULL) seen
            WHERE seen.entry = known_entries.entry AND seen.unit = known_entries.unit
                  AND {is_old("known_entries.digest")} AND {same}"""

    def versions(self) -> str:
        """SQL of `versions`, beginning with the stored state."""
        carried = ", ".join(self._row_columns())
        row = "entry" if self.program.max_rows is None else "unit, entry"
        lagged = [f"lag(label{n}) OVER row_versions AS label{n}_was" for n in range(len(self.labels))]
        lagged += [
            f"lag(CASE WHEN alive THEN {name} END) OVER row_versions AS was_{name}"
            for name in self._lagged_with_row()
        ]
        return f"""
            CREATE OR REPLACE TEMP TABLE versions AS
            WITH net AS (
                SELECT * REPLACE (first_value(before_digest) OVER same AS before_digest,
                    first_value(informed) OVER same AS informed),
                       first_value("after" IS NULL) OVER same AS ends_first
                FROM arrivals
                WINDOW same AS (PARTITION BY {row}, instant ORDER BY seq
                                ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
                QUALIFY lead(seq) OVER (PARTITION BY {row}, instant ORDER BY seq) IS NULL
            ), seen AS (
                SELECT entry, instant, seq, unit, after IS NOT NULL AS alive, informed, before_digest,
                       ends_first,
                       {", ".join(self.computed())}
                FROM net
            ), known_and_seen AS (
                SELECT entry, {BEGINNING} AS instant, 0 AS seq, unit, true AS alive, false AS informed,
                    NULL::BIGINT AS before_digest,
                       false AS ends_first, {", ".join(map(self.from_state, self._row_columns()))}
                FROM known_entries
                UNION ALL
                SELECT entry, instant, seq, unit, alive, informed, before_digest, ends_first, {carried}
                FROM seen
            )
            SELECT *, lag(CASE WHEN alive THEN unit END) OVER row_versions AS was,
                   lag(CASE WHEN alive THEN digest END) OVER row_versions AS digest_was,
                   lead(instant) OVER row_versions IS NULL AS last{"".join(f", {one}" for one in lagged)}
            FROM known_and_seen WINDOW row_versions AS (PARTITION BY {row} ORDER BY instant)"""

    def path(self) -> str:
        """SQL of `path`: the versions per unit and row; a deletion ends the path of a row that existed."""
        carried = self._row_columns()
        nothing = ", ".join(
            f"{name}_was AS {name}" if name.startswith("label") else f"NULL AS {name}" for name in carried
        )
        before = "".join(f", was_{name}" for name in self._lagged_with_row())
        return f"""
            CREATE OR REPLACE TEMP TABLE path AS
            SELECT unit, entry, instant, seq, true AS alive, {", ".join(carried)}{before} FROM versions
                WHERE alive
            UNION ALL BY NAME
            SELECT was AS unit, entry, instant, seq, false AS alive, {nothing}{before}
            FROM versions WHERE was IS NOT NULL AND NOT alive"""

    def contributing(self, s: int, scope: Scope) -> str:
        """SQL of `contributing_s`; a row waits until fewer than max_rows earlier ones remain."""
        cells = [self.view(r)[0] for r in self.stocks if r.name in scope.releases]
        if self.program.max_rows is None or not cells:
            return f"""
                CREATE OR REPLACE TEMP VIEW contributing_{s} AS
                SELECT *, instant AS since, seq AS order_, false AS waits FROM path"""
        present = " OR ".join(f"{cell} IS NOT NULL" for cell in cells)
        masked = ", ".join(
            f"CASE WHEN counts THEN {name} END AS {name}"
            for r in self.stocks
            if r.name in scope.releases
            for name in self.view(r)
        )
        plain = ", ".join(n for n in self._row_columns() if n not in self.views)
        most = self.program.max_rows
        last_ends = f"max(ends, {most}) OVER earlier"  # the latest ends of earlier rows, latest first
        if most > _MOST_LATEST:
            last_ends = "list_reverse_sort(list(ends) OVER earlier)"
        return f"""
            CREATE OR REPLACE TEMP TABLE contributing_{s} AS
            WITH marked AS (
                SELECT *, coalesce({present}, false) AS here FROM ({self._placed_rows()})
            ), transitions AS (
                SELECT *, here AND (NOT coalesce(lag(here) OVER row_path, false) OR renewed) AS enters,
                       coalesce(lag(here) OVER row_path, false) AND NOT here AS leaves
                FROM marked WINDOW row_path AS (PARTITION BY unit, entry ORDER BY instant)
            ), presences AS (
                SELECT unit, entry, instant AS begins,
                       CASE WHEN renewed THEN instant ELSE coalesce(since{s}, instant) END AS since,
                       CASE WHEN renewed THEN key_order ELSE coalesce(order{s}, seq) END AS order_,
                       enters,
                       coalesce(lead(instant) OVER (PARTITION BY unit, entry ORDER BY instant),
                           {NEVER}) AS ends
                FROM transitions WHERE enters OR leaves
            ), admissions AS (
                SELECT * EXCLUDE (last_ends, enters),
                       greatest(begins, coalesce(last_ends[{most}], begins)) AS counted
                FROM (
                    SELECT *, {last_ends} AS last_ends FROM presences WHERE enters
                    WINDOW earlier AS (PARTITION BY unit ORDER BY since, order_
                                       GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
            ), admitted AS (
                SELECT transitions.* REPLACE (greatest(transitions.instant, admissions.counted) AS instant)
                FROM admissions ASOF JOIN transitions
                  ON transitions.unit = admissions.unit AND transitions.entry = admissions.entry
                      AND transitions.instant <= admissions.counted
                WHERE admissions.counted > admissions.begins AND admissions.counted < admissions.ends
                    AND transitions.instant < admissions.counted
            ), all_transitions AS (
                SELECT * FROM transitions UNION ALL BY NAME SELECT * FROM admitted
            ), placed AS (
                SELECT all_transitions.*, admissions.since, admissions.order_,
                       here AND all_transitions.instant >= admissions.counted
                           AND all_transitions.instant < admissions.ends AS counts
                FROM all_transitions ASOF LEFT JOIN admissions
                  ON admissions.unit = all_transitions.unit AND admissions.entry = all_transitions.entry
                      AND admissions.begins <= all_transitions.instant
            )
            SELECT unit, entry, instant, seq, alive, {plain}, {masked}, since, order_,
                   here AND NOT coalesce(counts, false) AS waits
            FROM placed"""

    def _placed_rows(self) -> str:
        """SQL: the path; where a term begins, every row once more (`renewed`), in the order of the keys."""
        return "SELECT *, false AS renewed, NULL::BIGINT AS key_order FROM path"

    def change(self, s: int, scope: Scope, *, every_row: bool = False) -> str:
        """SQL of `change_s`; the contribution of the stored state is at BEGINNING.

        `every_row`: of `true_change_s`, to which all rows of a unit contribute.
        """
        made, origin = (f"true_change_{s}", "path") if every_row else (f"change_{s}", f"contributing_{s}")
        stocks = [release for release in self.stocks if release.name in scope.releases]
        if stocks and self.program.max_rows is None:
            own = " UNION ALL ".join(self._own_change(release, origin) for release in stocks)
            return f"CREATE OR REPLACE TEMP TABLE {made} AS {own}"
        parts = []
        names = [name for release in stocks for name in self.view(release)]
        for release in stocks:
            i, (cell, *values) = self.numbers[release.name], self.view(release)
            for j, value in enumerate(values):
                parts.append(f"SELECT unit, instant, {i} AS release, {j} AS component, {cell} AS cell, "
                             f"{value} AS amount "
                             f"FROM row_changes WHERE {cell} IS NOT NULL")  # fmt: skip
                parts.append(f"SELECT unit, instant, {i}, {j}, was_{cell}, -was_{value} "
                             f"FROM row_changes WHERE was_{cell} IS NOT NULL")  # fmt: skip
        if not parts:
            parts = ["SELECT ''::VARCHAR AS unit, 0 AS instant, 0 AS release, 0 AS component, 0 AS cell, "
                     "0 AS amount WHERE false"]  # fmt: skip
        lagged = [f"lag({name}) OVER row_path AS was_{name}" for name in names]
        return f"""
            CREATE OR REPLACE TEMP TABLE {made} AS
            WITH row_changes AS MATERIALIZED (
                SELECT *{"".join(f", {one}" for one in lagged)} FROM {origin}
                {"WINDOW row_path AS (PARTITION BY unit, entry ORDER BY instant)" if lagged else ""}
            )
            SELECT unit, instant, release, component, cell, sum(amount) AS amount
            FROM ({" UNION ALL ".join(parts)})
            GROUP BY unit, instant, release, component, cell HAVING sum(amount) <> 0"""

    def _own_change(self, release: Release, origin: str) -> str:
        """SQL: the change of a stock where the unit is the row: a unit has one version at an instant."""
        i, (cell, *values) = self.numbers[release.name], self.view(release)
        found = []
        for j, value in enumerate(values):
            now, was = f"coalesce({value}, 0)::HUGEINT", f"coalesce(was_{value}, 0)::HUGEINT"
            head = f"SELECT unit, instant, {i} AS release, {j} AS component"
            found += [
                f"{head}, {cell} AS cell, "
                f"{now} - CASE WHEN {cell} = was_{cell} THEN {was} ELSE 0 END AS amount FROM {origin} "
                f"WHERE {cell} IS NOT NULL AND ({cell} IS DISTINCT FROM was_{cell} AND {now} <> 0 "
                f"OR {cell} = was_{cell} AND {now} <> {was})",
                f"{head}, was_{cell}, -{was} FROM {origin} "
                f"WHERE was_{cell} IS NOT NULL AND {cell} IS DISTINCT FROM was_{cell} AND {was} <> 0",
            ]
        return " UNION ALL ".join(found)

    def flow_change(self, s: int, scope: Scope) -> str:
        """SQL of `flow_change_s`: the row really changed, and the flow's WHERE accepts the change."""
        parts = ["SELECT ''::VARCHAR AS unit, 0::BIGINT AS instant, 0::BIGINT AS seq, 0 AS release, "
                 "0 AS component, 0::BIGINT AS cell, 0::BIGINT AS amount, true AS counts "
                 "WHERE false"]  # fmt: skip
        for release in self.flows:
            if release.name not in scope.releases:
                continue
            i, query = self.numbers[release.name], release.query
            counts = "true" if self.program.max_rows is None else (
                "row_number() OVER (PARTITION BY unit, instant ORDER BY seq, cell, amounts) "
                f"<= {self.program.max_rows}"
            )  # fmt: skip
            amounts = [amount(part) for part in query.components]
            hits = f"""(SELECT unit, instant, seq, TRY(CAST({render(query.cell)} AS BIGINT)) AS cell,
                [{", ".join(amounts)}] AS amounts, {counts} AS counts
                        FROM changed
                        WHERE {_seen(query.watched)} AND TRY(CAST({render(query.cell)} AS BIGINT)) IS NOT NULL
                          AND ({" OR ".join(f"{amount} <> 0" for amount in amounts)}))"""
            parts.extend(
                f"SELECT unit, instant, seq, {i}, {j}, cell, amounts[{j + 1}], counts FROM {hits}"
                for j in range(len(amounts))
            )
        image = "image" if self.image else "NULL::STRUCT(none INTEGER)"
        return f"""
            CREATE OR REPLACE TEMP TABLE flow_change_{s} AS
            WITH row_changes AS (
                SELECT unit, entry, instant, seq, alive, digest, CASE WHEN alive THEN {image} END AS "after",
                       lag(CASE WHEN alive THEN {image} END) OVER row_path AS "before",
                       lag(CASE WHEN alive THEN digest END) OVER row_path AS was
                FROM path WINDOW row_path AS (PARTITION BY unit, entry ORDER BY instant)
            ), changed AS (
                SELECT * FROM row_changes WHERE instant > {BEGINNING} AND was IS DISTINCT
                    FROM CASE WHEN alive THEN digest END
            )
            {" UNION ALL ".join(parts)}"""


def _seen(watched: tuple[str, ...] | None) -> str:
    """SQL: whether a flow sees a row's change: an insertion, a deletion or an update of a watched column."""
    if watched is None:
        return "true"
    differ = (f'"before".{quote(name)} IS DISTINCT FROM "after".{quote(name)}' for name in watched)
    return f"({' OR '.join(['was IS NULL', 'NOT alive', *differ])})"

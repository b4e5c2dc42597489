"""The state after a stamped changelog, from the two tables of the embedded engine, in Spark's columns.

The embedded engine keeps the columns that flows look at as JSON, and in `excess` the true contribution of a
unit less the accepted one, as texts release:component:cell:amount.  Its digests are negative and Spark's are
not, so the next change of a row counts as one; every flow that can be stamped then looks at its own columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.engine.spark.render import literal, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegauge.engine.spark.layout import Layout
    from tidegauge.model.program import Scope

_AS_TEXT: Final = frozenset({"DATE", "TIMESTAMP"})
"""Types that JSON has as texts."""
_NONE: Final = "CAST(NULL AS {}) AS {}"
_HALF: Final = 2**32


class StampedState:
    """The statements for one program; `upto`: the end of the stamped history."""

    def __init__(self, layout: Layout, upto: int) -> None:
        self._layout, self._terms = layout, layout.program.terms
        self._begin: int | None = None
        self._term = 0 if self._terms is None else self._terms.bin_at(upto + 1)
        if self._terms is not None and self._term:
            self._begin = self._terms.bin_end(self._term - 1)
        self._scopes = list(enumerate(layout.program.scopes))

    def statement(self, rows: str, units: str, used: str | None, columns: Sequence[str]) -> str:
        """SQL of the state, from the tables of these names; `columns`: of `rows`."""
        counters = self._counters(units, used)
        found = self._rows(columns)
        if self._layout.owned:
            nothing = [_NONE.format(self._layout.type_of(one), one) for one in self._layout.counters()]
            mine = [*found, *nothing]
            theirs = {"unit": "unit"} | {name: name for name in self._layout.counters()}
            others = [
                theirs.get(name) or _NONE.format(self._layout.type_of(name), name)
                for name in self._layout.state()
            ]
            return f"""
                SELECT {", ".join(mine)} FROM ({self._placed(rows)})
                UNION ALL SELECT {", ".join(others)} FROM ({counters})"""
        there = f"SELECT {', '.join(found)} FROM {rows}"
        joined = f"SELECT * FROM ({there}) FULL JOIN ({counters}) USING (unit)"
        held = [one for s, scope in self._scopes for one in self._accepted(s, scope)]
        listed = {"alive": "coalesce(alive, FALSE) AS alive"}
        names = (listed.get(name, name) for name in self._layout.state())
        return f"SELECT {', '.join(names)} FROM (SELECT {', '.join(['*', *held])} FROM ({joined}))"

    # -- rows ------------------------------------------------------------------------------------------------

    def _rows(self, columns: Sequence[str]) -> list[str]:
        """SQL of the columns of a row that exists."""
        layout = self._layout
        image = [f"{self._image(columns)} AS image", "digest"] if layout.has_image else []
        rest = [*layout.views(), *(f"label{n}" for n in range(len(layout.labels))), *image]
        if not layout.owned:
            return ["entry AS unit", "TRUE AS alive", *rest]
        return ["unit", "entry", *rest, *(self._place(s, scope) for s, scope in self._scopes)]

    def _image(self, columns: Sequence[str]) -> str:
        """SQL: the columns that flows look at or that are kept; a row of which all are NULL has no text."""
        fields = {name: self._layout.columns[name] for name in self._layout.image}
        if not fields or "image" not in columns:
            return "named_struct('_', TRUE)"
        shape = ", ".join(
            f"{quote(name)} {'STRING' if kind in _AS_TEXT else kind}" for name, kind in fields.items()
        )
        found = f"from_json(coalesce(image, '{{}}'), {literal(shape)}, map('mode', 'FAILFAST'))"
        if not any(kind in _AS_TEXT for kind in fields.values()):
            return found
        values = ", ".join(
            f"{literal(name)}, CAST({found}.{quote(name)} AS {kind})" for name, kind in fields.items()
        )
        return f"named_struct({values})"

    def _placed(self, rows: str) -> str:
        """SQL: the rows; where a term has begun since a row began to contribute, in the order of the keys."""
        if self._begin is None:
            return f"SELECT * FROM {rows}"
        again = ", ".join(
            f"CASE WHEN since{s} < {self._begin}L THEN CAST(number AS BIGINT) ELSE order{s} END AS order{s}, "
            f"greatest(since{s}, {self._begin}L) AS since{s}"
            for s, _ in self._scopes
        )
        columns = ", ".join(f"since{s}, order{s}" for s, _ in self._scopes)
        numbered = f"SELECT *, row_number() OVER (PARTITION BY unit ORDER BY entry) AS number FROM {rows}"
        return f"SELECT * EXCEPT ({columns}, number), {again} FROM ({numbered})"

    def _place(self, s: int, scope: Scope) -> str:
        """SQL: since when a row contributes, and its place then."""
        some = " OR ".join(f"c{i} IS NOT NULL" for i, _ in self._layout.in_scope(scope)) or "FALSE"
        place = f"struct(since{s} AS since, 0L AS place, 0L AS rank, order{s} AS seq)"
        return f"CASE WHEN ({some}) AND since{s} IS NOT NULL THEN {place} END AS at{s}"

    # -- counters --------------------------------------------------------------------------------------------

    def _counters(self, units: str, used: str | None) -> str:
        """SQL: the counters of each unit, in one row."""
        leaves = "expires" if self._terms is None else "leaves"
        counters = {"m": "moves", "f": "first", "l": "label", "e": leaves}
        columns = [
            f"max(CASE WHEN scope = {s} THEN {column} END) AS {name}{s}"
            for s, _ in self._scopes
            for name, column in counters.items()
        ]
        if self._terms is not None:
            columns += [f"{self._excess(s)} AS x{s}" for s, _ in self._scopes]
        found = f"SELECT unit, {', '.join(columns)} FROM {units} GROUP BY unit"
        clipped = [i for i, _ in self._layout.clipped()]
        if not clipped:
            return found
        if used is None:
            nothing = ", ".join(f"CAST(NULL AS BIGINT) AS {name}{i}" for i in clipped for name in "bn")
            return f"SELECT *, {nothing} FROM ({found})"
        now = "" if self._terms is None else f" AND term = {self._term}"
        some = ", ".join(
            f"max(CASE WHEN release = {i}{now} THEN {column} END) AS {name}{i}"
            for i in clipped
            for name, column in (("b", "bin"), ("n", "used"))
        )
        return f"""
            SELECT * FROM ({found})
            FULL JOIN (SELECT unit, {some} FROM {used} GROUP BY unit) USING (unit)"""

    def _excess(self, s: int) -> str:
        """SQL: the true contribution of a unit less the accepted one; where units own rows, as `x{s}` is."""
        text = f"max(CASE WHEN scope = {s} THEN excess END)"
        part = "split(part, ':')"
        release, component, cell, amount = (f"{part}[{n}]" for n in range(4))
        numbers = ", ".join(
            f"CAST({one} AS BIGINT) AS {name}"
            for one, name in ((release, "release"), (component, "component"), (cell, "cell"))
        )
        if not self._layout.owned:
            fields = f"struct({numbers}, CAST({amount} AS BIGINT) AS amount)"
            return f"transform(split({text}, ' '), part -> {fields})"
        components = 1 + max(len(one.query.components) for one in self._layout.program.releases)
        whole = f"CAST({amount} AS DECIMAL(38, 0))"
        low = f"CAST(pmod({whole}, CAST({_HALF} AS DECIMAL(38, 0))) AS BIGINT)"
        spot = f"CAST({release} AS BIGINT) * {components} + CAST({component} AS BIGINT)"
        fields = (
            f"struct({spot} AS spot, CAST({cell} AS BIGINT) AS cell, "
            f"({whole} - {low}) DIV CAST({_HALF} AS DECIMAL(38, 0)) AS high, {low} AS low)"
        )
        return f"transform(split({text}, ' '), part -> {fields})"

    def _accepted(self, s: int, scope: Scope) -> Iterator[str]:
        """SQL: what is accepted of a unit: what its row contributes, less the excess."""
        if not (names := self._layout.accepted(scope)):
            return
        for i, release in self._layout.in_scope(scope):
            values = self._layout.values(i, release)
            mine = f"filter(x{s}, one -> one.release = {i})"
            cells = f"filter(array_distinct(concat(array(c{i}), {mine}.cell)), cell -> cell IS NOT NULL)"
            amounts = ", ".join(
                f"CASE WHEN c{i} <=> cell THEN {value} ELSE 0L END - aggregate(filter({mine}, one -> "
                f"one.cell = cell AND one.component = {j}), 0L, (sum, one) -> sum + one.amount) AS m{j}"
                for j, value in enumerate(values)
            )
            some = " OR ".join(f"one.m{j} <> 0" for j in range(len(values)))
            found = f"get(filter(transform({cells}, cell -> struct(cell, {amounts})), one -> {some}), 0)"
            held = {f"a{i}": "cell"} | {f"a{i}_{j}": f"m{j}" for j in range(len(values))}
            for name, part in held.items():
                if name in names:
                    yield f"CASE WHEN x{s} IS NULL THEN {names[name]} ELSE {found}.{part} END AS {name}"

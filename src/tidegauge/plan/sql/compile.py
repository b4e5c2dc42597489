"""From the SELECT of a release to the query that is measured.

docs/sql.md lists what is accepted, and what is refused and why.  Every engine can compute the query, if its
columns have the declared types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from tidegauge.errors import QueryError
from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.model.expression import Constant, call
from tidegauge.model.query import Query
from tidegauge.plan.sql.columns import Columns
from tidegauge.plan.sql.groups import cell_number, domains, named_groups
from tidegauge.plan.sql.lower import Lowering, shown
from tidegauge.plan.sql.measure import component_of, count_of, declared_range, refuse_declared
from tidegauge.plan.sql.parse import argument, canonical, parse, take_apart
from tidegauge.plan.sql.refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from fractions import Fraction

    from tidegauge.model.query import Component, Value
    from tidegauge.plan.sql.parse import Parts


def compile_query(
    sql: str,
    *,
    table: str,
    columns: Mapping[str, str],
    groups: Mapping[str, Sequence[Value]] | None = None,
    bounds: Mapping[str, tuple[Fraction, Fraction]] | None = None,
    grids: Mapping[str, Fraction] | None = None,
    dialect: str = "duckdb",
    key: str = "sql",
) -> Query:
    """The linear query of the SELECT over `table`.  Raises QueryError if the SELECT is not a linear query.

    `columns` gives every column's type in the embedded engine ('VARCHAR' where nothing is declared); `key` is
    the spec's key of the SELECT, beside which groups, bounds and grids are declared.
    """
    try:
        return _compile(
            sql,
            table=table,
            types=columns,
            groups=groups or {},
            bounds=bounds or {},
            grids=grids or {},
            dialect=dialect,
        )
    except Refused as refused:
        beside = key.rpartition(".")[0]
        at = ".".join(filter(None, [beside, refused.key])) if refused.key else key
        raise QueryError(str(refused), key=at, unknown=refused.unknown) from None
    except RecursionError:
        raise QueryError("the SELECT is nested too deeply to be read; simplify it", key=key) from None


def _compile(
    sql: str,
    *,
    table: str,
    types: Mapping[str, str],
    groups: Mapping[str, Sequence[Value]],
    bounds: Mapping[str, tuple[Fraction, Fraction]],
    grids: Mapping[str, Fraction],
    dialect: str,
) -> Query:
    select = parse(sql, dialect)
    parts = take_apart(select, table=table, dialect=dialect)
    columns = Columns(types, parts.kind, parts.qualifiers)
    lower = Lowering(columns.term, dialect)
    what = shown(parts.aggregate, dialect)
    written = argument(sql, parts.aggregate.key, dialect)
    for node in (*parts.where, parts.aggregate):
        columns.settle(node)
    named = named_groups(parts, columns, dialect)
    declared = domains(named, groups)
    place = cell_number(named, declared, lower)
    alive = [call("present", "after")] if parts.kind == "stock" else []
    conditions = [*alive, *(lower.condition(node).expression for node in parts.where)]
    where = call("and", *conditions) if conditions else Constant(True)
    components = _measured(parts, lower, what, written, bounds=bounds, grids=grids)
    used = [*parts.where, parts.aggregate, *(group.expression for group in named)]
    return Query(
        kind=parts.kind,
        aggregate=parts.aggregate.key,
        table=table,
        text=canonical(sql, dialect),
        cell=call("where", where, place),
        outside=call("outside", where, place) if named else Constant(False),
        components=components,
        groups=declared,
        before=tuple(sorted(_names(used, "before"))),
        after=tuple(sorted(_names(used, "after"))),
        own_columns=parts.kind == "flow",
    )


def _measured(
    parts: Parts,
    lower: Lowering,
    what: str,
    written: str,
    *,
    bounds: Mapping[str, tuple[Fraction, Fraction]],
    grids: Mapping[str, Fraction],
) -> tuple[Component, ...]:
    of, aggregate = parts.aggregate.this, aggregate_of(parts.aggregate.key)
    if not aggregate.bounded:
        refuse_declared(what, "bounds", bounds)
        refuse_declared(what, "grid", grids)
        counted = None if of is None or isinstance(of, exp.Star) else lower(of)
        return tuple(count_of(counted) for _ in aggregate.parts)
    term = lower.quantity(of)
    column = of.name if isinstance(of, exp.Column) else None
    names = [name for name in (parts.alias, column, written) if name]
    steps = declared_range(what, names, bounds=bounds, grids=grids)
    return tuple(component_of(part, term, steps) for part in aggregate.parts)


def _names(nodes: Sequence[exp.Expr], side: str) -> Iterator[str]:
    for node in nodes:
        for column in node.find_all(exp.Column):
            if (column.table or "after") == side:
                yield column.name

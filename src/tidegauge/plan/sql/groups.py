"""GROUP BY over declared domains: the cell of a row."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from tidegauge.model.expression import Constant, call
from tidegauge.model.query import Group
from tidegauge.plan.sql.lower import Lowering, shown
from tidegauge.plan.sql.refusals import Refused
from tidegauge.plan.sql.terms import (
    NUMBERS,
    TIMES,
    Kind,
    Term,
    alike,
    boolean,
    integer_literal,
    number,
    text,
    text_literal,
    time,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegauge.model.expression import Expression
    from tidegauge.model.query import Value
    from tidegauge.plan.sql.columns import Columns
    from tidegauge.plan.sql.parse import Parts

MOST_CELLS: Final = 1_000_000


@dataclass(frozen=True)
class Named:
    """The expression of a group, with settled columns, and the name under which it is published."""

    name: str
    expression: exp.Expr


def named_groups(parts: Parts, columns: Columns, dialect: str) -> list[Named]:
    """The groups of GROUP BY: columns, expressions, positions and aliases of the SELECT."""
    selected = [one for one in parts.columns if not one.find(exp.AggFunc)]
    for one in selected:
        columns.settle(one)
    groups = [_named(one, parts, columns, dialect) for one in parts.groups]
    for one in selected:
        if all(one.unalias() != group.expression for group in groups):
            raise Refused(
                f"{shown(one, dialect)} is selected but is not in GROUP BY; add it there or leave it out"
            )
    names = [group.name.lower() for group in groups]
    for group in groups:
        if names.count(group.name.lower()) > 1:
            raise Refused(
                f"two groups are called {group.name}; give them different names in the SELECT: ... AS name"
            )
    return groups


def _named(one: exp.Expr, parts: Parts, columns: Columns, dialect: str) -> Named:
    one = one.unnest()
    if isinstance(one, exp.Literal) and one.is_int:
        return _of_column(int(one.name), parts, dialect)
    aliases = [column.alias.lower() for column in parts.columns]
    if isinstance(one, exp.Column) and not one.table and one.name.lower() in aliases:
        position = aliases.index(one.name.lower())
        if parts.kind == "flow" or not columns.has(one.this):
            return _of_column(position + 1, parts, dialect)
        columns.settle(one)
        if parts.columns[position].unalias() != one:
            raise Refused(f"GROUP BY {one.name} may be the column or the alias; give the alias another name")
    columns.settle(one)
    positions = [n for n, column in enumerate(parts.columns) if column.unalias() == one and column.alias]
    return _of_column(positions[0] + 1, parts, dialect) if positions else _unselected(one, dialect)


def _of_column(position: int, parts: Parts, dialect: str) -> Named:
    """The column of the SELECT at this position, counted from 1."""
    if not 1 <= position <= len(parts.columns) or parts.columns[position - 1].find(exp.AggFunc):
        raise Refused(f"GROUP BY {position}: that is no group column of the SELECT")
    column = parts.columns[position - 1]
    return Named(column.alias, column.unalias()) if column.alias else _unselected(column, dialect)


def _unselected(one: exp.Expr, dialect: str) -> Named:
    if not isinstance(one, exp.Column):
        raise Refused(
            f"GROUP BY {shown(one, dialect)} needs a name: select it as {shown(one, dialect)} AS name"
        )
    return Named(one.name, one)


def domains(groups: Sequence[Named], declared: Mapping[str, Sequence[Value]]) -> tuple[Group, ...]:
    """The declared domain of every group.  Raises Refused if one is missing, or declared for no group."""
    left, found = dict(declared), []
    for group in groups:
        key = next((key for key in left if key.lower() == group.name.lower()), None)
        if key is None:
            others = [one for one in left if all(one.lower() != each.name.lower() for each in groups)]
            near = difflib.get_close_matches(group.name, others, n=1)
            advice = f"rename groups.{toml_key(near[0])} to " if near else "add "
            example = "" if near else ' = ["first", "second"]'
            raise Refused(
                f"GROUP BY {group.name} needs its public domain, which is never read from the data; "
                f"{advice}groups.{toml_key(group.name)}{example}"
            )
        values = left.pop(key)
        if isinstance(values, str) or not values:
            raise Refused("a domain is a list of at least one value", key=f"groups.{toml_key(key)}")
        found.append(Group(group.name, tuple(values)))
    for key in left:
        there = (
            f"the groups are {', '.join(group.name for group in groups)}"
            if groups
            else "there is no GROUP BY"
        )
        raise Refused(f"{key} is no group: {there}; remove it or group by it", key=f"groups.{toml_key(key)}")
    if prod(len(group.values) for group in found) > MOST_CELLS:
        raise Refused(
            f"the domains have more than {MOST_CELLS} combinations; declare fewer values", key="groups"
        )
    return tuple(found)


def cell_number(groups: Sequence[Named], declared: Sequence[Group], lower: Lowering) -> Expression:
    """The cell number of a row; the last group varies fastest.  NULL if a value is not declared."""
    cell: Expression | None = None
    for group, domain in zip(groups, declared, strict=True):
        place = _place(lower(group.expression), domain)
        cell = place if cell is None else call("cell", cell, len(domain.values), place)
    return Constant(0) if cell is None else cell


def _place(term: Term, domain: Group) -> Expression:
    key = f"groups.{toml_key(domain.name)}"
    try:
        value, *values = _comparable(term, domain.values)
    except Refused as refused:
        raise Refused(str(refused), key=key) from None
    if len({str(one.expression) for one in values}) < len(values):
        raise Refused("a value is declared twice", key=key)
    return call("place", value.expression, *(one.expression for one in values))


def _comparable(term: Term, values: Sequence[Value]) -> list[Term]:
    """The term of a group and its values, converted to one kind; text to the kind of the values."""
    types = {type(value) for value in values}
    if types == {bool}:
        return [boolean(term), *(Term(Constant(bool(value)), Kind.BOOLEAN) for value in values)]
    if types == {int}:
        if term.kind is not Kind.INTEGER and any(abs(int(value)) > 2**53 for value in values):
            raise Refused("an integer is too large to be exact in DOUBLE; CAST the group to BIGINT")
        return alike(
            [
                term if term.kind is Kind.INTEGER else number(term),
                *(integer_literal(int(value)) for value in values),
            ]
        )
    if types != {str}:
        raise Refused("a domain is all text, all integers or all booleans (write a decimal number as text)")
    literals = [text_literal(str(value)) for value in values]
    if term.kind in NUMBERS:
        return alike([term, *literals])
    if term.kind in TIMES:
        return [time(term), *map(time, literals)]
    if term.kind is Kind.BOOLEAN:
        return [term, *map(boolean, literals)]
    return [text(term), *literals]


def toml_key(key: str) -> str:
    """The key as it is written in tidegauge.toml."""
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'

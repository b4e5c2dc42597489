"""From the text of a SELECT to its parts.  Refuses, by name, everything but a linear query of one table."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, TokenError

from tidegauge.mechanism.aggregates import AGGREGATES
from tidegauge.model.quoting import literal, quote
from tidegauge.plan.sql.lower import shown
from tidegauge.plan.sql.refusals import Refused, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlglot import Token

    from tidegauge.model.query import Kind

DIALECTS: Final = ("duckdb", "postgres", "sqlite")
_READ: Final = frozenset({"expressions", "from_", "where", "group"})
_CLAUSES: Final = {
    "with_": ("WITH", "WITH"),
    "distinct": ("DISTINCT", "DISTINCT"),
    "joins": ("JOIN", "a second table"),
    "laterals": ("JOIN", "LATERAL"),
    "having": ("HAVING", "HAVING"),
    "qualify": ("window function", "QUALIFY"),
    "windows": ("window function", "WINDOW"),
    "order": ("ORDER BY", "ORDER BY"),
    "limit": ("LIMIT", "LIMIT"),
    "offset": ("LIMIT", "OFFSET"),
    "sample": ("SAMPLE", "SAMPLE"),
}
_OPENINGS: Final = frozenset({TokenType.SELECT, TokenType.FROM, TokenType.WITH, TokenType.L_PAREN})
_OPEN: Final = frozenset({None, TokenType.L_PAREN, TokenType.DOT})
_MARKS: Final = frozenset("'\"`[$*")
"""Where a quotation or, after a slash, a comment opens."""
_QUOTED: Final = frozenset({TokenType.STRING, TokenType.IDENTIFIER})
_CLOSE: Final = frozenset({TokenType.R_PAREN, TokenType.DOT, TokenType.COMMA})


@dataclass(frozen=True)
class Parts:
    """A SELECT that has the form of a linear query; its expressions are not checked yet."""

    kind: Kind
    qualifiers: frozenset[str]
    """The accepted prefixes of a column (`prefix.column`), in lower case."""
    columns: tuple[exp.Expr, ...]
    """The columns of the SELECT in order, the aggregate included."""
    aggregate: exp.AggFunc
    alias: str | None
    """The name that the SELECT gives to the aggregate."""
    where: tuple[exp.Expr, ...]
    groups: tuple[exp.Expr, ...]


def canonical(sql: str, dialect: str) -> str:
    """The statement without comments, in one spacing and letter case.

    Built from tokens, not from the parsed tree: the text of a committed query must be the same under every
    version of the parser.
    """
    return _spaced(token for token in _tokens(sql, dialect) if token.token_type is not TokenType.SEMICOLON)


def argument(sql: str, function: str, dialect: str) -> str:
    """The argument of the first call of the function, in canonical form."""
    tokens = _tokens(sql, dialect)
    kinds = [token.token_type for token in tokens]
    calls = (
        n
        for n, kind in enumerate(kinds)
        if kind is TokenType.L_PAREN and tokens[n - 1].text.lower() == function
    )
    start = end = next(calls) + 1
    depth = 1
    while depth:
        depth += (kinds[end] is TokenType.L_PAREN) - (kinds[end] is TokenType.R_PAREN)
        end += 1
    return _spaced(tokens[start : end - 1])


def _spaced(tokens: Iterable[Token]) -> str:
    out, before = "", None
    for token in tokens:
        kind, text = token.token_type, token.text
        if kind is TokenType.STRING:
            text = literal(text)
        elif kind is TokenType.IDENTIFIER:
            text = quote(text)
        else:
            text = text.lower()
        tight = before in _OPEN or kind in _CLOSE or (kind is TokenType.L_PAREN and before is TokenType.VAR)
        out += text if tight else f" {text}"
        before = kind
    return out


def _tokens(sql: str, dialect: str) -> list[Token]:
    try:
        return sqlglot.tokenize(sql, read=dialect)
    except TokenError:
        raise Refused(_unclosed(sql, dialect)) from None


def _unclosed(sql: str, dialect: str) -> str:
    """Where the quotation or comment opens that nothing closes.

    No field of the tokenizer's error says it.  Every text that ends inside the quotation or comment is
    refused as the whole is, so the longest text that is not refused ends where it opens.
    """
    at, mark, before = 0, sql[:1], []
    for at in (n for n in range(len(sql) - 1, -1, -1) if sql[n] in _MARKS):
        with suppress(TokenError):
            before = sqlglot.tokenize(sql[:at], read=dialect)
            mark = sql[at]
            break
    if before and (last := before[-1]).end + 1 == at:
        if last.token_type in _QUOTED:  # what looks like its end is the first half of a doubled quote
            at = last.start
        elif last.token_type is TokenType.SLASH and mark == "*":
            at, mark = last.start, "/*"
    line, column = sql.count("\n", 0, at) + 1, at - sql.rfind("\n", 0, at)
    return f"syntax error in line {line}, column {column}: {mark} is not closed"


def parse(sql: str, dialect: str) -> exp.Select:
    """The SELECT in the text.  Raises Refused unless there is exactly one."""
    if dialect not in DIALECTS:
        raise Refused(
            f"dialect {dialect!r} is not supported; write the SELECT for one of {', '.join(DIALECTS)}"
        )
    tokens = _tokens(sql, dialect)
    if not tokens or tokens[0].token_type not in _OPENINGS:
        refuse("not a SELECT", tokens[0].text.upper() if tokens else "an empty text")
    try:
        statements = [
            one for one in sqlglot.parse(sql, read=dialect) if one and not isinstance(one, exp.Semicolon)
        ]
    except ParseError as error:
        raise Refused(_syntax(error)) from None
    if len(statements) != 1:
        refuse("second statement", "a second statement")
    select = statements[0]
    if isinstance(select, exp.SetOperation):
        refuse("UNION", select.key.upper())
    if isinstance(select, exp.Subquery):
        refuse("sub-query", "a SELECT in parentheses")
    if not isinstance(select, exp.Select):
        refuse("not a SELECT", select.key.upper())
    return select


def _syntax(error: ParseError) -> str:
    """One line with the position, without the parser's class names and colours."""
    first = error.errors[0]
    what = str(first["description"]).split(" but got <")[0]
    if "<class" in what or "/" in what:
        what = "something is missing or not expected here"
    word = str(first["highlight"])
    column = int(first["col"] or 1) - len(word) + 1
    return f"syntax error in line {first['line']}, column {column}, at {word!r}: {what[0].lower()}{what[1:]}"


def take_apart(select: exp.Select, *, table: str, dialect: str) -> Parts:
    """The parts of a SELECT that has the form of a linear query over `table`."""
    for clause, value in select.args.items():
        if value and clause not in _READ:
            refuse(*_CLAUSES.get(clause, ("clause", clause.strip("_").upper())))
    _refuse_what_looks_beyond_the_row(select, dialect)
    kind, qualifiers = _table(select, table, dialect)
    aggregate, alias, filtered = _aggregate(select, dialect)
    where = tuple(clause.this for clause in (select.args.get("where"), filtered) if clause is not None)
    groups = _groups(select, dialect)
    for node in [*where, *groups]:
        if found := node.find(exp.AggFunc):
            refuse("misplaced aggregate", shown(found, dialect))
    return Parts(kind, qualifiers, tuple(select.expressions), aggregate, alias, where, groups)


def _groups(select: exp.Select, dialect: str) -> tuple[exp.Expr, ...]:
    clause = select.args.get("group")
    if clause is None:
        return ()
    if any(value and argument != "expressions" for argument, value in clause.args.items()):
        refuse("GROUPING SETS", shown(clause, dialect).strip())
    if not clause.expressions:
        raise Refused("syntax error: GROUP BY names nothing")
    for one in clause.expressions:
        if isinstance(one, exp.Rollup | exp.Cube | exp.GroupingSets):
            refuse("GROUPING SETS", shown(one, dialect))
    return tuple(clause.expressions)


def _refuse_what_looks_beyond_the_row(select: exp.Select, dialect: str) -> None:
    for node in select.walk():
        if node is not select and isinstance(node, exp.Query | exp.Exists):
            refuse("sub-query", shown(node, dialect))
        if isinstance(node, exp.Window):
            refuse("window function", shown(node, dialect))
        if isinstance(node, exp.ApproxDistinct | exp.Hll):
            refuse("DISTINCT", shown(node, dialect))
        if isinstance(node, exp.Distinct):
            refuse("DISTINCT", shown(node.parent or node, dialect))
        if isinstance(node, exp.Placeholder | exp.Parameter | exp.SessionParameter):
            refuse("parameter", shown(node, dialect))


def _table(select: exp.Select, table: str, dialect: str) -> tuple[Kind, frozenset[str]]:
    source = select.args.get("from_")
    if source is None:
        refuse("no table", "a SELECT without FROM")
    found, kind = source.this, "stock"
    if not isinstance(found, exp.Table):
        refuse("other table", shown(found, dialect))
    for clause, value in found.args.items():
        if value and clause not in {"this", "db", "catalog", "alias"}:
            refuse(*_CLAUSES.get(clause, ("clause", clause.upper())))
    parts, alias = found.parts, found.args.get("alias")
    if isinstance(found.this, exp.Anonymous) and found.this.name.lower() == "changes" and len(parts) == 1:
        kind, arguments = "flow", found.this.expressions
        if alias is not None or len(arguments) != 1 or not isinstance(arguments[0], exp.Column):
            raise Refused(f"a flow is read FROM changes({table}), with nothing more")
        parts = arguments[0].parts
    if not all(isinstance(part, exp.Identifier) for part in parts) or not _named(parts, table):
        if [part.name.lower() for part in parts] == ["changes"]:
            raise Refused(
                f"FROM changes is refused: FROM changes({table}) counts the changes of {table}, and FROM "
                f"{table} its rows; write one of them"
            )
        refuse("other table", f"FROM {shown(found, dialect)} (the table is {table})")
    if kind == "flow":
        return "flow", frozenset({"before", "after"})
    if alias is None:
        return "stock", frozenset({table.lower(), parts[-1].name.lower()})
    if alias.args.get("columns"):
        refuse("clause", "a table alias with column names")
    return "stock", frozenset({alias.name.lower()})


def _named(parts: list[exp.Expr], table: str) -> bool:
    written = ".".join(part.name for part in parts)
    return written == table or (
        written.lower() == table.lower() and not any(part.args.get("quoted") for part in parts)
    )


def _aggregate(select: exp.Select, dialect: str) -> tuple[exp.AggFunc, str | None, exp.Expr | None]:
    """The aggregate, the name it is given, and the WHERE of its FILTER."""
    columns = [column for column in select.expressions if column.find(exp.AggFunc)]
    found = [_linear(column.unalias(), dialect) for column in columns]
    if any(column.is_star for column in select.expressions):
        refuse("*")
    if not found:
        named = ", ".join(shown(column, dialect) for column in select.expressions)
        refuse("no aggregate", f"SELECT {named} without an aggregate")
    if len(found) > 1:
        refuse("second aggregate", ", ".join(shown(aggregate, dialect) for aggregate, _ in found))
    aggregate, filtered = found[0]
    return aggregate, columns[0].alias or None, filtered


def _linear(found: exp.Expr, dialect: str) -> tuple[exp.AggFunc, exp.Expr | None]:
    inner, filtered = (found.this, found.expression) if isinstance(found, exp.Filter) else (found, None)
    if not isinstance(inner, exp.AggFunc) or inner.key not in AGGREGATES.names():
        within = any(one.key in AGGREGATES.names() for one in inner.find_all(exp.AggFunc))
        arithmetic = within and not isinstance(inner, exp.AggFunc)
        refuse("aggregate arithmetic" if arithmetic else "other aggregate", shown(inner, dialect))
    if len(list(inner.find_all(exp.AggFunc))) > 1:
        refuse("nested aggregate", shown(inner, dialect))
    if inner.args.get("expressions"):
        refuse("expression", shown(inner, dialect))
    return inner, filtered

"""Translate the expressions of a SELECT into expressions that every engine can compute and that cannot fail.

A node without a rule is refused, and so is an argument that its rule does not read.  Syntax that a later
parser adds is therefore refused until a rule exists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from sqlglot import ErrorLevel, exp

from tidegauge.model.expression import Constant
from tidegauge.plan.sql import times as sql_times
from tidegauge.plan.sql.refusals import Mismatch, Refused, refuse
from tidegauge.plan.sql.terms import (
    Kind,
    Term,
    alike,
    apply,
    boolean,
    cast,
    integer,
    number,
    number_literal,
    text,
    text_literal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_VOLATILE: Final = re.compile(
    r"(now|today|timeofday|setseed|nextval|currval|(gen_)?rand.*|uuid.*|(current|local|utc|session"
    r"|transaction|statement|clock|get_current|txid).*)",
    re.IGNORECASE,
)
_COMPARISONS: Final = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
                       exp.NullSafeEQ: "same", exp.NullSafeNEQ: "differs"}  # fmt: skip
_NUMERIC: Final = {exp.Abs: "abs", exp.Floor: "floor", exp.Ceil: "ceil"}
_TEXTUAL: Final = {exp.Lower: "lower", exp.Upper: "upper"}
_MANY: Final = {exp.Coalesce: "coalesce", exp.Least: "least", exp.Greatest: "greatest"}


@dataclass(frozen=True)
class Lowering:
    """Translates expressions; `column` resolves their columns."""

    column: Callable[[exp.Column], Term]
    dialect: str

    def __call__(self, node: exp.Expr) -> Term:
        """The expression with its kind.  Raises Refused if a part of it is not accepted."""
        rule = _RULES.get(type(node))
        if rule is None:
            refuse_node(node, self.dialect)
        for argument, value in node.args.items():
            if value and argument not in rule.reads:
                refuse("expression", f"{argument.upper()} in {shown(node, self.dialect)}")
        try:
            return rule.lower(self, node)
        except Mismatch as mismatch:
            raise Refused(f"{shown(node, self.dialect)}: {mismatch}") from None

    def each(self, nodes: Iterable[exp.Expr]) -> list[Term]:
        """Every expression, in order."""
        return [self(node) for node in nodes]

    def condition(self, node: exp.Expr) -> Term:
        """The expression as a condition."""
        return self._read_as(boolean, node)

    def quantity(self, node: exp.Expr) -> Term:
        """The expression as a number."""
        return self._read_as(number, node)

    def _read_as(self, reading: Callable[[Term], Term], node: exp.Expr) -> Term:
        try:
            return reading(self(node))
        except Mismatch as mismatch:
            raise Refused(f"{shown(node, self.dialect)}: {mismatch}") from None


class _Rule(NamedTuple):
    reads: frozenset[str]
    lower: Callable[[Lowering, exp.Expr], Term]


def shown(node: exp.Expr, dialect: str) -> str:
    """The expression as SQL, cut to what fits in a message."""
    sql = node.sql(dialect=dialect, comments=False, unsupported_level=ErrorLevel.IGNORE)
    return sql if len(sql) <= 60 else f"{sql[:57]}..."


def refuse_node(node: exp.Expr, dialect: str) -> NoReturn:
    """Refuse a node that has no rule, by the most specific name."""
    what = shown(node, dialect)
    if isinstance(node, exp.Star):
        refuse("*", what)
    if isinstance(node, exp.Func):
        called = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        refuse("non-deterministic function" if _VOLATILE.fullmatch(called) else "unknown function", what)
    refuse("expression", what)


def _column(low: Lowering, node: exp.Expr) -> Term:
    assert isinstance(node, exp.Column)
    return low.column(node)


def _literal(_: Lowering, node: exp.Expr) -> Term:
    return text_literal(node.name) if node.args["is_string"] else number_literal(node.name)


def _boolean(_: Lowering, node: exp.Expr) -> Term:
    return Term(Constant(bool(node.this)), Kind.BOOLEAN)


def _null(_: Lowering, _node: exp.Expr) -> Term:
    return Term(Constant(None), Kind.NULL)


def _paren(low: Lowering, node: exp.Expr) -> Term:
    return low(node.this)


def _junction(word: str, low: Lowering, node: exp.Expr) -> Term:
    return apply(Kind.BOOLEAN, word, *(low.condition(part) for part in node.flatten()))


def _not(low: Lowering, node: exp.Expr) -> Term:
    return apply(Kind.BOOLEAN, "not", low.condition(node.this))


def _comparison(sign: str, low: Lowering, node: exp.Expr) -> Term:
    return apply(Kind.BOOLEAN, sign, *alike([low(node.this), low(node.expression)]))


def _is(low: Lowering, node: exp.Expr) -> Term:
    test, word = node.expression, "is not" if node.args.get("negate") else "is"
    if isinstance(test, exp.Null):
        return apply(Kind.BOOLEAN, f"{word} null", low(node.this))
    if not isinstance(test, exp.Boolean):
        refuse("expression", shown(node, low.dialect))
    return apply(Kind.BOOLEAN, word, low.condition(node.this), low(test))


def _between(low: Lowering, node: exp.Expr) -> Term:
    return apply(
        Kind.BOOLEAN, "between", *alike([low(node.this), low(node.args["low"]), low(node.args["high"])])
    )


def _in(low: Lowering, node: exp.Expr) -> Term:
    if not node.expressions:
        raise Mismatch("IN needs a list of values")
    return apply(Kind.BOOLEAN, "in", *alike([low(node.this), *low.each(node.expressions)]))


def _like(low: Lowering, node: exp.Expr, escape: str | None = None) -> Term:
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        refuse("pattern", shown(node, low.dialect))
    if escape is None and low.dialect == "postgres" and "\\" in pattern.name:
        escape = "\\"
    if escape and (len(pattern.name) - len(pattern.name.rstrip(escape))) % 2:
        refuse("pattern", shown(node, low.dialect))
    any_case = isinstance(node, exp.ILike) or low.dialect == "sqlite"
    word = ("not " if node.args.get("negate") else "") + ("ilike" if any_case else "like")
    texts = [text_literal(one) for one in (pattern.name, escape) if one is not None]
    return apply(Kind.BOOLEAN, word, text(low(node.this)), *texts)


def _escape(low: Lowering, node: exp.Expr) -> Term:
    like, escape = node.this, node.expression
    single = isinstance(escape, exp.Literal) and len(escape.name) == 1 and escape.name.isascii()
    if not single or not isinstance(like, exp.Like | exp.ILike):
        refuse("pattern", shown(node, low.dialect))
    return _like(low, like, escape.name)


def _neg(low: Lowering, node: exp.Expr) -> Term:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return number_literal(f"-{node.this.name}")
    value = number(low(node.this))
    return apply(Kind.DOUBLE, "negative", value, whole=value.whole)


def _arithmetic(sign: str, low: Lowering, node: exp.Expr) -> Term:
    left, right = low(node.this), low(node.expression)
    shifted = sql_times.shifted(sign, left, right)
    if shifted is not None:
        return shifted
    left, right = number(left), number(right)
    return apply(Kind.DOUBLE, sign, left, right, whole=left.whole and right.whole)


def _divided(low: Lowering, node: exp.Expr) -> Term:
    left, right = number(low(node.this)), number(low(node.expression))
    whole = left.whole and right.whole
    if isinstance(node, exp.IntDiv) and not whole:
        raise Mismatch("// divides integers; CAST both sides, or use FLOOR(a / b)")
    if isinstance(node, exp.Mod):
        return apply(Kind.DOUBLE, "%", left, right, whole=whole)
    if whole and (isinstance(node, exp.IntDiv) or node.args.get("typed")):
        return apply(Kind.DOUBLE, "div", left, right, whole=True)
    return apply(Kind.DOUBLE, "/", left, right)


def _cast(low: Lowering, node: exp.Expr) -> Term:
    return cast(low(node.this), node.args["to"])


def _case(low: Lowering, node: exp.Expr) -> Term:
    """CASE WHEN, CASE x WHEN, and IF."""
    arms = node.args.get("ifs") or [node]
    if node.args.get("ifs") and node.this is not None:
        subject, *whens = alike([low(node.this), *(low(arm.this) for arm in arms)])
        tests = [apply(Kind.BOOLEAN, "=", subject, when) for when in whens]
    else:
        tests = [low.condition(arm.this) for arm in arms]
    last = node.args.get("default") or node.args.get("false") or exp.Null()
    *results, default = terms = alike(low.each([*(arm.args["true"] for arm in arms), last]))
    pairs = (one for pair in zip(tests, results, strict=True) for one in pair)
    return _one_of(terms, "case", *pairs, default)


def _one_of(terms: list[Term], operation: str, *arguments: Term) -> Term:
    """An operation whose result is one of several terms of one kind."""
    kind = next((term.kind for term in terms if term.kind is not Kind.NULL), Kind.NULL)
    return apply(kind, operation, *arguments, whole=all(term.whole for term in terms))


def _many(function: str, low: Lowering, node: exp.Expr) -> Term:
    terms = alike(low.each([node.this, *node.expressions]))
    return _one_of(terms, function, *terms)


def _nullif(low: Lowering, node: exp.Expr) -> Term:
    left, right = alike([low(node.this), low(node.expression)])
    return apply(left.kind, "nullif", left, right, whole=left.whole)


def _numeric(function: str, low: Lowering, node: exp.Expr) -> Term:
    value = number(low(node.this))
    return apply(Kind.DOUBLE, function, value, whole=value.whole)


def _round(low: Lowering, node: exp.Expr) -> Term:
    value, decimals = number(low(node.this)), low(node.args.get("decimals") or exp.Literal.number(0))
    if (digits := integer(decimals)) is None or abs(digits) > 99:
        raise Mismatch("the number of digits must be a small integer")
    return apply(Kind.DOUBLE, "round", value, digits, whole=value.whole)


def _textual(function: str, low: Lowering, node: exp.Expr) -> Term:
    return apply(Kind.TEXT, function, text(low(node.this)))


def _length(low: Lowering, node: exp.Expr) -> Term:
    return apply(Kind.INTEGER, "length", text(low(node.this)))


def _trim(low: Lowering, node: exp.Expr) -> Term:
    function = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")).upper(), "trim")
    terms = [text(term) for term in low.each(filter(None, [node.this, node.args.get("expression")]))]
    return apply(Kind.TEXT, function, *terms)


def _substring(low: Lowering, node: exp.Expr) -> Term:
    places = [
        low.quantity(place)
        for place in (node.args.get("start"), node.args.get("length"))
        if place is not None
    ]
    return apply(Kind.TEXT, "substring", text(low(node.this)), *places)


def _concat(low: Lowering, node: exp.Expr) -> Term:
    return apply(Kind.TEXT, "concat", *map(text, low.each(node.expressions)))


def _joined(low: Lowering, node: exp.Expr) -> Term:
    return apply(Kind.TEXT, "join", text(low(node.this)), text(low(node.expression)))


def _interval(_: Lowering, node: exp.Expr) -> Term:
    return sql_times.interval(node)


def _part(low: Lowering, node: exp.Expr) -> Term:
    """EXTRACT(part FROM time), or a function with the name of the part."""
    if isinstance(node, exp.Extract):
        return sql_times.part(node.name, low(node.expression))
    assert isinstance(node, exp.Func)
    return sql_times.part(node.sql_name(), low(node.this))


def _anonymous(low: Lowering, node: exp.Expr) -> Term:
    """Functions of time for which the parser has no class."""
    called, arguments = node.name.lower(), node.expressions
    if called in {"date_part", "datepart"} and len(arguments) == 2 and isinstance(arguments[0], exp.Literal):
        return sql_times.part(arguments[0].name, low(arguments[1]))
    if called in sql_times.PARTS and len(arguments) == 1:
        return sql_times.part(called, low(arguments[0]))
    refuse_node(node, low.dialect)


def _truncated(low: Lowering, node: exp.Expr) -> Term:
    return sql_times.truncated(node.args["unit"].name, low(node.this))


def _difference(low: Lowering, node: exp.Expr) -> Term:
    unit = node.args.get("unit")
    return sql_times.difference("" if unit is None else unit.name, low(node.expression), low(node.this))


def _date_add(low: Lowering, node: exp.Expr) -> Term:
    if not isinstance(node.expression, exp.Interval):
        refuse("expression", shown(node, low.dialect))
    return _arithmetic("+", low, node)


def _date(low: Lowering, node: exp.Expr) -> Term:
    return cast(low(node.this), exp.DataType.build("DATE"))


def _rules() -> dict[type[exp.Expr], _Rule]:
    one, two = frozenset({"this"}), frozenset({"this", "expression"})
    many = one | {"expressions"}
    return {
        exp.Column: _Rule(one | {"table"}, _column),
        exp.Literal: _Rule(one | {"is_string"}, _literal),
        exp.Boolean: _Rule(one, _boolean),
        exp.Null: _Rule(frozenset(), _null),
        exp.Paren: _Rule(one, _paren),
        exp.And: _Rule(two, partial(_junction, "and")),
        exp.Or: _Rule(two, partial(_junction, "or")),
        exp.Not: _Rule(one, _not),
        **{node: _Rule(two, partial(_comparison, sign)) for node, sign in _COMPARISONS.items()},
        exp.Is: _Rule(two | {"negate"}, _is),
        exp.Between: _Rule(one | {"low", "high"}, _between),
        exp.In: _Rule(many, _in),
        exp.Like: _Rule(two | {"negate"}, _like),
        exp.ILike: _Rule(two | {"negate"}, _like),
        exp.Escape: _Rule(two, _escape),
        exp.Neg: _Rule(one, _neg),
        **{node: _Rule(two, partial(_arithmetic, sign))
           for node, sign in ((exp.Add, "+"), (exp.Sub, "-"), (exp.Mul, "*"))},
        exp.Div: _Rule(two | {"typed", "safe"}, _divided),
        exp.IntDiv: _Rule(two, _divided),
        exp.Mod: _Rule(two, _divided),
        exp.Cast: _Rule(one | {"to"}, _cast),
        exp.TryCast: _Rule(one | {"to", "safe"}, _cast),
        exp.Case: _Rule(one | {"ifs", "default"}, _case),
        exp.If: _Rule(one | {"true", "false"}, _case),
        **{node: _Rule(many | {"ignore_nulls"}, partial(_many, function))
           for node, function in _MANY.items()},
        exp.Nullif: _Rule(two, _nullif),
        **{node: _Rule(one, partial(_numeric, function)) for node, function in _NUMERIC.items()},
        exp.Round: _Rule(one | {"decimals"}, _round),
        **{node: _Rule(one, partial(_textual, function)) for node, function in _TEXTUAL.items()},
        exp.Length: _Rule(one, _length),
        exp.Trim: _Rule(two | {"position"}, _trim),
        exp.Substring: _Rule(one | {"start", "length"}, _substring),
        exp.Concat: _Rule(frozenset({"expressions", "safe", "coalesce"}), _concat),
        exp.DPipe: _Rule(two | {"safe"}, _joined),
        exp.Interval: _Rule(one | {"unit"}, _interval),
        exp.Extract: _Rule(two, _part),
        **{node: _Rule(one, _part) for node in sql_times.PART_NODES},
        exp.Anonymous: _Rule(many, _anonymous),
        exp.TimestampTrunc: _Rule(one | {"unit"}, _truncated),
        exp.DateTrunc: _Rule(one | {"unit"}, _truncated),
        exp.DateDiff: _Rule(two | {"unit", "date_part_boundary"}, _difference),
        exp.DateAdd: _Rule(two, _date_add),
        exp.Date: _Rule(one, _date),
    }  # fmt: skip


_RULES: Final = _rules()

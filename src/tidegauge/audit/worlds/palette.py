"""Rows that reach what a plan's queries distinguish: one for every cell and for the ends of every range.

Values are taken from the plan alone: constants that its expressions compare with, the declared groups, the
bounds, and what lies beyond them.  The engine then says what each invented row contributes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidegauge.audit.findings import require
from tidegauge.audit.worlds.world import Random
from tidegauge.engine.registry import open_engine
from tidegauge.errors import SpecError
from tidegauge.model.expression import Call, Column, Constant
from tidegauge.model.json import as_object, as_text
from tidegauge.model.program import Allowance, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.schedule import Schedule
from tidegauge.model.tick import NOTHING_YET
from tidegauge.source.batch.rows import schema
from tidegauge.source.batch.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tidegauge.audit.worlds.world import Row
    from tidegauge.model.engine import StateLayout
    from tidegauge.model.expression import Expression
    from tidegauge.model.program import Release, Texts
    from tidegauge.plan.plan import Plan

_TRIED: Final = 3000
"""Rows whose contributions are computed."""


@dataclass(frozen=True)
class Contribution:
    """What one row (or one change of a row, for a flow) adds: a cell, and an amount for each component."""

    cell: int
    amounts: tuple[int, ...]
    rows: tuple[Row | None, ...]
    """The row; for a flow the old row and the new one."""


@dataclass(frozen=True)
class Palette:
    """Rows to choose from, and by release what is worth choosing."""

    rows: list[Row]
    by_release: dict[str, list[Contribution]]

    def extremes(self, release: str) -> list[Contribution]:
        """For each cell the contributions with the largest and the least amounts, largest first."""
        found: dict[tuple[Any, ...], Contribution] = {}
        for one in self.by_release[release]:
            for j, amount in enumerate(one.amounts):
                for sign in (1, -1):
                    place = one.cell, j, sign
                    if place not in found or sign * amount > sign * found[place].amounts[j]:
                        found[place] = one
        unique = {(one.cell, one.amounts): one for one in found.values() if any(one.amounts)}
        return sorted(unique.values(), key=lambda one: (-max(map(abs, one.amounts)), one.cell, one.amounts))


class _NoState:
    """A store in which nothing is."""

    watermark = NOTHING_YET

    def __init__(self, layout: StateLayout) -> None:
        self._layout = layout

    def _empty(self, columns: Mapping[str, str]) -> pa.Table:
        kinds = {"VARCHAR": pa.string(), "BIGINT": pa.int64()}
        return pa.schema([(name, kinds[kind]) for name, kind in columns.items()]).empty_table()

    def entries(self, names: Texts) -> pa.Table:
        del names
        return self._empty(self._layout.entries)

    def all_entries(self) -> pa.Table:
        return self._empty(self._layout.entries)

    def entries_of(self, units: Texts) -> pa.Table:
        del units
        return self._empty(self._layout.entries)

    def units(self, units: Texts) -> pa.Table:
        del units
        return self._empty(self._layout.units)

    def used(self, units: Texts) -> pa.Table:
        del units
        return self._empty(self._layout.used)

    def expiring(self, upto: int) -> pa.Array:
        del upto
        return pa.array([], pa.string())

    def waiting(self) -> Iterator[pa.Table]:
        return iter(())

    def keys(self, names: Sequence[str] | None) -> dict[str, list[Any]]:
        del names
        return {}

    def any_keys(self) -> bool:
        return False


def palette(plan: Plan, seed: int = 0) -> Palette:
    """Rows for a plan, and what they contribute.  Raises Discrepancy where an amount exceeds its bounds."""
    rng = Random(seed)
    rows = list(_rows(plan, rng))
    pairs: list[tuple[Row | None, Row | None]] = [(None, row) for row in rows]
    flows = [one for one in plan.program.releases if one.query.kind == "flow"]
    if flows:
        pairs += [(rng.choice(rows), rng.choice(rows)) for _ in range(_TRIED)]
        pairs += [(row, None) for row in rows[: _TRIED // 4]]
    found = _contributions(plan, pairs)
    return Palette(rows, found)


def _contributions(
    plan: Plan, pairs: Sequence[tuple[Row | None, Row | None]]
) -> dict[str, list[Contribution]]:
    """Each pair happens in two bins of its own, so that the sums of the second say what it contributes."""
    count = 2 * len(pairs) + 2
    schedule = Schedule(0, Span(micros=1), count)
    program = replace(
        plan.program,
        releases=tuple(replace(one, schedule=schedule, clip=None) for one in plan.program.releases),
        scopes=(Scope(tuple(one.name for one in plan.program.releases), ((None, Allowance()),)),),
        max_rows=None,
        owner=None,
        partial=(),
    )
    times, keys, rows = [], [], []
    for n, (before, after) in enumerate(pairs):
        for at, row in ((2 * n + 1, before), (2 * n + 2, after)):
            if row is not None or at % 2 == 0:
                times.append(at)
                keys.append(f"p{n}")
                rows.append(row)
    goal = schema(plan.columns)
    values: dict[str, list[Any]] = {
        "time": times,
        "entry": keys,
        "after": rows,
        "informed": [False for _ in keys],
    }
    empty = [None for _ in keys]
    table = pa.table([pa.array(values.get(one.name, empty), one.type) for one in goal], schema=goal)
    sums: dict[tuple[str, int], dict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    kind = as_text(as_object(plan.declaration.get("engine", {})).get("kind", "duckdb"))
    with open_engine(kind, program, plan.columns) as engine:
        state = _NoState(engine.layout)
        engine.arrive(table, state=state, now=count, arrivals=0)
        for folded in engine.fold(state=state, watermark=NOTHING_YET, reached=count - 1):
            for total in folded.totals:
                sums[total.release, total.bin][total.cell][total.component] = total.amount
    found: dict[str, list[Contribution]] = {}
    for release in program.releases:
        stock, parts = release.query.kind == "stock", release.query.components
        mine = found[release.name] = []
        for n, (before, after) in enumerate(pairs):
            if stock and before is not None:
                continue
            for cell, amounts in sums.get((release.name, 2 * n + 2), {}).items():
                whole = tuple(amounts.get(j, 0) for j in range(len(parts)))
                for amount, part in zip(whole, parts, strict=True):
                    require(
                        min(part.lower, 0) <= amount <= max(part.upper, 0),
                        f"a row adds more to '{release.name}' than its bounds allow",
                    )
                mine.append(Contribution(cell, whole, (after,) if stock else (before, after)))
    return found


def _rows(plan: Plan, rng: Random) -> Iterator[Row]:
    """Rows with every value of every column at least once, and random combinations."""
    values = {name: _values(plan, name, kind) for name, kind in plan.columns.items()}
    used = sorted(plan.program.used & values.keys())
    plain = {name: one[0] for name, one in values.items()}
    wanted = [plain]
    for release in plan.program.releases:
        wanted += _group_rows(release, plain)
    for name in used:
        wanted += [plain | {name: value} for value in values[name]]
    while len(wanted) < _TRIED:
        base = rng.choice(wanted[:200])
        wanted.append(base | {name: rng.choice(values[name]) for name in used if rng.random() < 0.6})
    for row in wanted[:_TRIED]:
        yield {name: value for name, value in row.items() if name in plan.columns}


def _group_rows(release: Release, plain: Row) -> Iterator[Row]:
    """A row for each declared group value, where a group is a column."""
    for group in release.query.groups[:3]:
        for value in group.values[:200]:
            if group.name in plain:
                yield plain | {group.name: value}


def _values(plan: Plan, name: str, kind: str) -> list[Any]:
    """Values of a column that make a difference to some expression; the first is a plain value."""
    found: list[Any] = []
    for release in plan.program.releases:
        query = release.query
        for expression in (query.cell, query.outside, *(part.value for part in query.components)):
            found += [value for column, value in _compared(expression) if column == name]
        found += [value for group in query.groups for value in group.values[:200] if group.name == name]
    for scope in plan.program.scopes:
        if scope.by == name:
            found += [label for label, _ in scope.allowances if label is not None]
    near: list[Any] = []
    for value in found:
        near.append(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            near += [value - 1, value + 1, value - 7, value + 7, value + 0.5]
    typed = [one for value in [*near, *_PLAIN.get(kind, ("a", "b", 0, 1))] for one in _typed(value, kind)]
    unique = list({repr(one): one for one in typed}.values())
    return [*unique, None]


_PLAIN: Final[dict[str, tuple[Any, ...]]] = {
    "VARCHAR": ("a", "b"),
    "BOOLEAN": (True, False),
    "DATE": (date(2024, 2, 29), date(1970, 1, 1)),
    "TIMESTAMP": (datetime(2024, 2, 29, 12), datetime(1970, 1, 1)),  # noqa: DTZ001
    "TIME": (time(12, 30), time(0, 0)),
}


def held(plan: Plan, column: str, value: object) -> Any:
    """The value as this column holds it; as it is where the column cannot hold it."""
    return next(_typed(value, plan.columns.get(column, "VARCHAR")), value)


def _typed(value: Any, kind: str) -> Iterator[Any]:
    """The value as this type of column holds it; nothing where it cannot."""
    goal = arrow_type(kind)
    if isinstance(value, str) and kind in ("DATE", "TIMESTAMP"):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return
        for shift in (0, 1, -1):
            at = moment.replace(tzinfo=None) + timedelta(days=shift)
            yield at.date() if kind == "DATE" else at
        return
    if pa.types.is_string(goal):
        yield str(value) if not isinstance(value, bool) else str(value).lower()
        return
    try:
        if pa.types.is_integer(goal):
            value = int(value)
        elif pa.types.is_floating(goal):
            value = float(value)
        elif pa.types.is_decimal(goal):
            value = Decimal(str(value)).quantize(Decimal(1).scaleb(-goal.scale))
        pa.scalar(value, goal)
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException, SpecError):
        return
    yield value


def _compared(expression: Expression) -> Iterable[tuple[str, Any]]:
    """(column, constant) wherever both are among the arguments of one operation, directly or below."""
    for node in expression.walk():
        if isinstance(node, Call):
            parts = list(node.walk())
            if len(parts) > 400:
                parts = list(node.children())
            columns = {part.name for part in parts if isinstance(part, Column)}
            if len(columns) <= 1 or all(isinstance(part, Constant | Column) for part in node.children()):
                for column in columns:
                    for part in parts:
                        if isinstance(part, Constant) and part.value is not None:
                            yield column, part.value

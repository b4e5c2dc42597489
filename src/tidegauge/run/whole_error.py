"""The whole error of the latest readings, for the operator: noise, and bias of the constraint.  Secret."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import reduce
from typing import TYPE_CHECKING

from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.model.engine import Excess
from tidegauge.model.quantity import Span
from tidegauge.model.status import CellError, WholeError
from tidegauge.store.secret.exact import EARLIER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from tidegauge.model.program import Program, Release, State
    from tidegauge.model.tick import Published
    from tidegauge.plan.plan import Plan
    from tidegauge.store.store import Store


def whole_error(plan: Plan, store: Store) -> WholeError | None:
    """Accepted and true value of the latest reading of every measured release and cell, and the units for
    which they differ; None where an earlier version wrote the store and did not keep them.
    """
    if not store.secret.keeps_excess:
        return None
    exact, found = store.secret.exact, {}
    units, counted = _units(plan.program, store), store.secret.clock.watermark
    for one in plan.releases:
        release = one.release
        bins = release.schedule.latest_bins(store.public.next_bin(release.name))
        if not bins:
            continue
        latest = _latest(store.public.readings(release.name))
        sums = exact.of(release.name)
        begins = release.schedule.bin_end(bins.start - 1) if bins.start else None
        if release.schedule.span is not None and exact.since is not None:
            sums = None if begins is None or begins < exact.since else sums
        window = {*bins, EARLIER} if release.schedule.span is None else set(bins)
        inside = sums and {(j, cell, bin_): both for (j, bin_, cell), both in sums.items() if bin_ in window}
        cause, off = _cause(plan.program, release), {cell: units[release.name, cell] for cell in latest}
        found[release.name] = tuple(
            _cell(release, inside, latest[cell], units=off[cell], counted=counted, cause=cause)
            for cell in sorted(latest)
        )
    return WholeError(since=exact.since, releases=found)


def running_values(program: Program, state: State) -> dict[str, dict[tuple[int, int], int]]:
    """The running values of stocks over all rows, by (component, cell), where the state has them.

    Reads all rows: for a store that did not keep them.
    """
    rows, found = state.all_entries(), {}
    for i, release in enumerate(program.releases):
        parts = range(len(release.query.components))
        columns = [f"v{i}_{j}" for j in parts]
        if release.query.kind == "stock" and {f"c{i}", *columns} <= set(rows.column_names):
            grouped = rows.group_by(f"c{i}").aggregate([(name, "sum") for name in columns]).to_pylist()
            found[release.name] = {
                (j, row[f"c{i}"]): row[f"v{i}_{j}_sum"] or 0
                for row in grouped
                if row[f"c{i}"] is not None
                for j in parts
            }
    return {name: amounts for name, amounts in found.items() if _runs(program, name)}


def _runs(program: Program, name: str) -> bool:
    """Whether a release publishes its running value."""
    return next(one for one in program.releases if one.name == name).schedule.span is None


def _latest(readings: list[Published]) -> dict[int, Published]:
    last = max(one.number for one in readings)
    return {one.cell: one for one in readings if one.number == last}


def _units(program: Program, store: Store) -> Counter[tuple[str, int]]:
    """How many units contribute something else than they truly would, by release and cell."""
    names = [release.name for release in program.releases]
    off: defaultdict[str, Counter[tuple[int, int, int]]] = defaultdict(Counter)
    for unit, text in store.secret.excess():
        off[unit].update(
            {(part.release, part.component, part.cell): part.amount for part in Excess.parse(text)}
        )
    if program.max_rows is not None:
        for rows in store.secret.living_rows():
            for unit, place, amount in _beyond_max_rows(program, rows):
                off[unit][place] += amount
    found: Counter[tuple[str, int]] = Counter()
    for amounts in off.values():
        found.update({(names[release], cell) for (release, _, cell), amount in amounts.items() if amount})
    return found


def _beyond_max_rows(program: Program, rows: pa.Table) -> Iterator[tuple[str, tuple[int, int, int], int]]:
    """What rows would add that wait because their unit has max_rows earlier ones.

    Yields unit, (release, component, cell) and amount.
    """
    import pyarrow.compute as pc  # noqa: PLC0415  (slow to load)

    assert program.max_rows is not None
    stocks = {i: one for i, one in enumerate(program.releases) if one.query.kind == "stock"}
    for s, scope in enumerate(program.scopes):
        mine = {i: one for i, one in stocks.items() if one.name in scope.releases}
        if not mine or f"since{s}" not in rows.column_names:  # added releases that have not begun
            continue
        here = reduce(pc.or_, (pc.is_valid(rows[f"c{i}"]) for i in mine))
        present = rows.filter(here)
        counts = present.group_by("unit").aggregate([("unit", "count")])
        many = counts.filter(pc.greater(counts["unit_count"], program.max_rows))["unit"]
        if not len(many):
            continue
        some = present.filter(pc.is_in(present["unit"], value_set=many.combine_chunks()))
        order = [(name, "ascending") for name in ("unit", f"since{s}", f"order{s}")]
        seen: Counter[str] = Counter()
        for row in some.sort_by(order).to_pylist():
            seen[row["unit"]] += 1
            if seen[row["unit"]] > program.max_rows:
                for i, one in mine.items():
                    for j in range(len(one.query.components)) if row[f"c{i}"] is not None else ():
                        yield row["unit"], (i, j, row[f"c{i}"]), row[f"v{i}_{j}"] or 0


def _cell(
    release: Release,
    sums: Mapping[tuple[int, int, int], tuple[int, int]] | None,
    reading: Published,
    *,
    units: int,
    counted: int,
    cause: str,
) -> CellError:
    """`sums`: (component, cell, bin) -> (accepted, dropped), of the bins of the reading; None: not known."""
    aggregate, accepted, true = aggregate_of(release.query.aggregate), [], []
    for component in range(len(release.query.components)):
        known = (sums or {}).items()
        mine = [both for (j, cell, _), both in known if (j, cell) == (component, reading.cell)]
        accepted.append(sum(one for one, _ in mine))
        true.append(accepted[-1] + sum(other for _, other in mine))
    return CellError(
        time=reading.time,
        group=release.query.cells[reading.cell],
        accepted=None if sums is None else aggregate.exact(release.query, accepted),
        true=None if sums is None else aggregate.exact(release.query, true),
        noise=(reading.high - reading.low) / 2,
        units=units,
        counted=counted,
        cause=cause,
    )


def _cause(program: Program, release: Release) -> str:
    """What a unit passed, in words."""
    (scope,) = (scope for scope in program.scopes if release.name in scope.releases)
    if scope.by is not None:
        return f"the limit of their '{scope.by}'"
    ((_, limit),) = scope.allowances
    parts = [] if limit.at_most is None else [f"at_most = {limit.at_most}"]
    parts += [] if limit.within is None else [f"within = {Span(micros=limit.within)}"]
    parts += [] if program.max_rows is None else [f"max_rows = {program.max_rows}"]
    return " or ".join(parts) or "clip"

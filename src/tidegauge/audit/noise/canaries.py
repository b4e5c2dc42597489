"""Canaries: one real gauge with many cells, a unit on its worst path in half of them, and real noise.

Noise is independent between cells, so one run gives hundreds of samples of each world.  A matched filter over
the published values then says how well the two worlds can be distinguished.  Where the plan has groups, a
canary moves within a pair of cells of its own.

    shift             the distance of the two means in standard deviations; a lower bound of mu if the
                      statistic is normal, which Gaussian noise makes it
    Clopper-Pearson   exact bounds of both error rates at a threshold that was fixed before; no assumption
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import sqrt
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy import special, stats

from tidegauge.audit.findings import require
from tidegauge.audit.noise.bounds import Bounds, Samples, bounds
from tidegauge.audit.noise.laws import Recorder, deviation, laws_of
from tidegauge.audit.replay.paths import Rows, horizon, width_of
from tidegauge.audit.replay.replay import scope_of, worst_path, write
from tidegauge.audit.worlds.rehearsal import MemoryLog, Subject, carry_out
from tidegauge.audit.worlds.world import Random, Table
from tidegauge.model.expression import Call, Column, Constant
from tidegauge.model.query import Group
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.audit.noise.laws import Laws
    from tidegauge.audit.replay.paths import Path
    from tidegauge.audit.worlds.palette import Palette
    from tidegauge.mechanism.encode import ComponentPlan
    from tidegauge.model.expression import Expression
    from tidegauge.plan.plan import ReleasePlan

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

LEVEL: Final = 0.95
"""Confidence of the reported lower bounds."""
_COLUMN: Final = "tidegauge_canary"
_MEASURED: Final = 250_000
"""Measurements of one run: of a longer plan, fewer bins are run."""


@dataclass(frozen=True)
class _Run:
    """How a run of canaries was set up."""

    cells: int
    each: int
    """Cells of a sample."""
    bins: int
    rows: int
    pure: bool


@dataclass
class Canaries:
    """What the canaries of one release showed."""

    release: str
    cells: int
    """Samples a world."""
    bins: int
    claimed: float
    """The mu that the release's reservation allows."""
    path: float
    """The mu of the path, computed exactly: what a perfect observer of the published values could reach."""
    bounds: Bounds
    limits: Bounds
    """The same bounds at the confidence of the whole audit; beyond the claim, the audit fails."""
    laws: Laws
    statistics: tuple[list[float], list[float]] = field(repr=False)


def claimed_mu(loss: float, *, pure: bool) -> float:
    """The mu of Gaussian differential privacy that a loss implies: rho, or epsilon if pure."""
    return 2 * float(-special.ndtri_exp(-np.logaddexp(0, loss))) if pure else sqrt(2 * loss)


def run_canaries(
    subject: Subject, name: str, rows: Palette, *, cells: int, seed: int, alpha: float
) -> Canaries | None:
    """Canaries in one release; None where no row can contribute to it.  Raises Discrepancy.

    `cells`: samples a world.  `alpha`: the chance of a false alarm that this run may have.
    """
    release = next(one for one in subject.plan.releases if one.release.name == name)
    grouped = len(release.release.query.cells) > 1
    each = 2 if grouped else 1
    measured = 2 * cells * each * len(release.component_plans)
    bins = horizon(release.release.schedule, max(4, _MEASURED // measured))
    path = worst_path(subject, release, rows, Random(seed), bins)
    if not path.changes:
        return None
    used = sorted({one.contribution.cell for one in path.changes if one.contribution is not None})[:each]
    if any(one.contribution and one.contribution.cell not in used for one in path.changes):
        path = _in_pair(path, used)
    gauge = _with_canaries(subject, release, used, each, cells)
    recorder, pure = Recorder(), subject.plan.measure == "epsilon"
    published = _published(gauge, release, path, recorder, cells=cells, bins=bins)
    run = _Run(cells, each, bins, subject.plan.program.max_rows or 1, pure)
    samples = _statistics(release, path, used, published, run=run)
    claim, mu = claimed_mu(float(release.loss), pure=pure), samples.mu
    delta = float(subject.plan.budget.delta or 0)
    found = Canaries(
        release=name,
        cells=cells,
        bins=bins,
        claimed=claim,
        path=mu,
        bounds=bounds(samples, level=LEVEL, delta=delta),
        limits=bounds(samples, level=1 - alpha / 3, delta=delta),
        laws=laws_of(recorder),
        statistics=(samples.filtered[:cells].tolist(), samples.filtered[cells:].tolist()),
    )
    found.laws.check(alpha / 3)
    require(mu <= claim * (1 + 1e-6), f"the path of the canaries has mu = {mu:.4g}, more than is claimed")
    worst = found.limits.exact if pure else max(found.limits.exact, found.limits.shift)
    require(worst <= claim, f"the canaries show mu of at least {worst:.4g}; {claim:.4g} is claimed")
    if pure:
        require(
            found.limits.epsilon <= float(release.loss),
            f"the canaries show epsilon of at least {found.limits.epsilon:.4g}, more than is reserved",
        )
    _require_centred(*found.statistics, mu, alpha / 3)
    for values in found.statistics if mu else ():
        _require_spread(values, alpha / 3, pure=pure)
    _require_decoded(release, published, bins)
    _require_unbiased(release, bins)
    return found


def _require_decoded(release: ReleasePlan, published: dict[str, Floats], bins: int) -> None:
    """Readings follow from the measurements alone, and their standard errors from the noise."""
    if len(release.component_plans) > 1:
        return
    decode, component_plan = _decoder(release, bins), release.component_plans[0]
    expected = decode @ published["measured0"]
    slack = 1e-6 * max(1.0, float(np.abs(expected).max()))
    found = published["readings"]
    require(found.shape == expected.shape, "another number of readings was published than is due")
    require(np.abs(found - expected).max() <= slack, "readings do not follow from the measurements")
    decode, layers = _over_draws(component_plan, decode, bins)
    spread = (decode * np.array([deviation(component_plan.noise_of(int(one))) for one in layers])) ** 2
    variance = spread.sum(axis=1)
    if component_plan.shared_noise is not None:
        times = np.array([row.shared for row in component_plan.strategy.measured(bins - 1)])
        variance = variance + (decode @ times * deviation(component_plan.shared_noise)) ** 2
    off = np.abs(published["stderr"][:, 0] ** 2 - variance).max()
    require(off <= 1e-6 * variance.max() + 1e-12, "standard errors are not those of the noise")


def _require_unbiased(release: ReleasePlan, bins: int) -> None:
    """Decoding the exact measurements gives the exact sums of every reading's bins."""
    component_plan = release.component_plans[0]
    strategy, schedule = component_plan.strategy, release.release.schedule
    if strategy.stream is not None:  # its rows are rounded: bounded elsewhere
        return
    exact = np.zeros((len(strategy.layers(bins - 1)), bins))
    for n, row in enumerate(strategy.measured(bins - 1)):
        for first, last, factor in row.ranges:
            exact[n, max(first, 0) : last + 1] += factor * component_plan.refine
    part = release.release.query.components[0]
    sums = _decoder(release, bins) @ exact / float(part.grid)
    for line, bin_ in zip(
        sums, (one for one in range(bins) if schedule.reading_of_bin(one) is not None), strict=True
    ):
        right = np.zeros(bins)
        right[0 if schedule.span is None else max(0, bin_ + 1 - schedule.span) : bin_ + 1] = 1
        require(np.abs(line - right).max() < 1e-6, "readings are biased: they are not sums of their bins")


def _require_spread(values: list[float], alpha: float, *, pure: bool) -> None:
    """The filter's variance is 1, within what chance allows: the kurtosis is at most that of the noise."""
    off = abs(float(np.var(values)) - 1) / sqrt((5 if pure else 2) / len(values))
    require(off <= stats.norm.isf(alpha / 8) + 2, "the published values have more or less noise than claimed")


def _require_centred(zero: list[float], one: list[float], mu: float, alpha: float) -> None:
    """The means of both worlds are 0 and mu: what is published is what the path says."""
    for values, mean in ((zero, 0.0), (one, mu)):
        off = abs(float(np.mean(values)) - mean) * sqrt(len(values)) / max(float(np.std(values)), 1e-12)
        require(
            off <= stats.norm.isf(alpha / 8) or not np.any(values),
            "the published values of the canaries are not where the path says",
        )


def _in_pair(path: Path, used: list[int]) -> Path:
    """A path through three cells, kept within the first two."""
    changes = []
    by_cell = {s.contribution.cell: s.contribution for s in path.changes if s.contribution is not None}
    for n, change in enumerate(path.changes):
        here = None if change.contribution is None else by_cell[used[n % len(used)]]
        changes.append(change._replace(contribution=here))
    return replace(path, changes=tuple(changes))


def _with_canaries(subject: Subject, release: ReleasePlan, used: list[int], each: int, cells: int) -> Subject:
    """The same release with the same noise, over cells of its own for every canary."""
    query, plan = release.release.query, subject.plan
    number: Expression = Call("coalesce", (Column("after", _COLUMN), Column("before", _COLUMN)))
    if query.kind == "stock":
        number = Column("after", _COLUMN)
    arms: list[Expression] = []
    for place, cell in enumerate(used):
        here = Call("+", (Call("*", (number, Constant(each))), Constant(place)))
        arms += [Call("=", (query.cell, Constant(cell))), here]
    marked = replace(
        query,
        cell=Call("case", (*arms, Constant(None))),
        groups=(Group("canary", tuple(range(2 * cells * each))),),
        after=(*query.after, _COLUMN),
        before=(*query.before, _COLUMN) if query.kind == "flow" else query.before,
    )
    changed = replace(release.release, query=marked)
    scope = replace(scope_of(subject, release.release.name), releases=(release.release.name,))
    program = replace(plan.program, releases=(changed,), scopes=(scope,), partial=())
    canary = replace(
        plan,
        columns={**plan.columns, _COLUMN: "BIGINT"},
        program=program,
        releases=(replace(release, release=changed),),
        derived=(),
        parts=(),  # one release is left, of whichever plan it was
    )
    return Subject(subject.spec, canary)


def _published(
    gauge: Subject,
    release: ReleasePlan,
    path: Path,
    recorder: Recorder,
    *,
    cells: int,
    bins: int,
) -> dict[str, Floats]:
    """Readings (readings by cells) and, by component, measurements (rows by cells) of a real run."""
    owner, query = gauge.plan.program.owner, release.release.query
    table = Table(owner)
    for n in range(cells):
        begun = len(table.log)
        write(table, gauge, gauge.plan.releases[0], path, number=n)
        for event in table.log[begun:]:
            for row in (event.row, event.before):
                if row is not None:
                    row[_COLUMN] = cells + n
    schedule, name = release.release.schedule, release.release.name
    log_ = sorted(table.log, key=lambda event: event.arrival)
    source = MemoryLog(query.table, gauge.plan.columns, Random(0), owner=owner, informed=False)
    source.most = 10**6
    passes = sorted({schedule.bin_end(bins // 2), schedule.bin_end(bins - 1)})
    with ScratchFolder() as folder:
        path_ = FilePath(folder.name)
        carry_out(gauge, source, log_, folder=path_, passes=passes, sampler=recorder)
        with closing(sqlite3.connect(f"file:{path_}/store.db?mode=ro", uri=True)) as db:
            values = db.execute(
                "SELECT value, stderr FROM readings WHERE release = ? ORDER BY number, cell", [name]
            ).fetchall()
            measured = [
                db.execute(
                    "SELECT value FROM journal WHERE release = ? AND component = ? ORDER BY number, cell",
                    [name, component],
                ).fetchall()
                for component in range(len(release.component_plans))
            ]
    whole = len(gauge.plan.releases[0].release.query.cells)
    readings = np.array(values, dtype=np.float64).reshape(-1, whole, 2)
    found = {"readings": readings[:, :, 0], "stderr": readings[:, :, 1]}
    for component, numbers in enumerate(measured):
        exact = np.array([int(value) for (value,) in numbers], dtype=object).reshape(-1, whole)
        found[f"measured{component}"] = exact.astype(np.float64)
    return found


def _statistics(
    release: ReleasePlan, path: Path, used: list[int], published: dict[str, Floats], *, run: _Run
) -> Samples:
    """The matched filter of every sample in both worlds, and its score.

    For a linear aggregate both are computed from the readings; for a mean, from the public measurements.  The
    score is the filter itself, or for Laplace noise the ratio of the likelihoods, which distinguishes the
    worlds better, where the measurements follow from the readings.
    """
    parts = [Rows(one, run.bins) for one in release.component_plans]
    moved = _moved(release, path, used, parts, rows=run.rows)
    linear, strength, scored = len(parts) == 1, 0.0, run.pure
    total, score = np.zeros(2 * run.cells), np.zeros(2 * run.cells)
    for place in range(run.each):
        for j, component_plan in enumerate(release.component_plans):
            rows = len(component_plan.strategy.layers(run.bins - 1))
            decode, layers = _over_draws(
                component_plan, _decoder(release, run.bins) if linear else np.eye(rows), run.bins
            )
            laws = [component_plan.noise_of(int(layer)) for layer in layers]
            scales = np.array([width_of(law) for law in laws])
            widths = np.array([deviation(law) for law in laws])
            shift = moved[place][j] * scales / widths
            noise = np.eye(len(shift))
            if component_plan.shared_noise is not None:
                times = np.array([row.shared for row in component_plan.strategy.measured(run.bins - 1)])
                hidden = times / widths * deviation(component_plan.shared_noise)
                noise = noise + np.outer(hidden, hidden)
                scored = False
            decode = decode * widths[None, :]
            values = published["readings" if linear else f"measured{j}"][: len(decode), place :: run.each]
            mean, cover = decode @ shift, decode @ noise @ decode.T
            weights = np.linalg.pinv(cover, rcond=1e-12, hermitian=True) @ mean
            strength += float(weights @ mean)
            total += weights @ values
            if scored and np.linalg.matrix_rank(decode) == len(widths):
                rows = np.linalg.pinv(decode) @ values * (widths / scales)[:, None]
                score += (np.abs(rows) - np.abs(rows - moved[place][j][:, None])).sum(axis=0)
            else:
                scored = False
    mu = sqrt(max(strength, 0.0))
    filtered = total / (mu or 1.0)
    thresholds = (0.0, 0.98 * float(release.loss)) if scored else (mu / 2, mu / 2 + 1)
    return Samples(filtered, score if scored else filtered, mu, thresholds, run.cells)


def _decoder(release: ReleasePlan, bins: int) -> Floats:
    """Readings by rows: the weights with which readings are decoded, in published units."""
    component_plan, part = release.component_plans[0], release.release.query.components[0]
    schedule, strategy = release.release.schedule, release.component_plans[0].strategy
    count = len(strategy.layers(bins - 1))
    found = []
    for bin_ in range(bins):
        if schedule.reading_of_bin(bin_) is not None:
            weights = strategy.weights(bin_, schedule.span)
            found.append(np.concatenate([weights, np.zeros(count - len(weights))]))
    return np.array(found) * float(part.grid / component_plan.refine)


def _over_draws(component_plan: ComponentPlan, decode: Floats, bins: int) -> tuple[Floats, Indices]:
    """Weights over independent draws, from weights over rows, and the layer of each draw."""
    strategy = component_plan.strategy
    if strategy.ahead is None:
        return decode, strategy.layers(bins - 1)
    return strategy.ahead.reach(decode.T).T, np.array([node.layer for node in strategy.ahead.nodes])


def _moved(
    release: ReleasePlan, path: Path, used: list[int], parts: list[Rows], *, rows: int
) -> list[list[Floats]]:
    """By place in the pair and component: how far the path moves each row, in widths of its noise."""
    flow = release.release.query.kind == "flow"
    found = []
    for cell in used:
        differences = np.zeros((len(parts), parts[0].matrix.shape[1]))
        before = None
        for bin_, after in path.changes:
            for one, sign in ((None if flow else before, -1), (after, 1)):
                if one is not None and one.cell == cell:
                    differences[:, bin_] += sign * rows * np.array(one.amounts, dtype=np.float64)
            before = after
        found.append([part.matrix @ differences[j] for j, part in enumerate(parts)])
    while len(found) < (2 if len(release.release.query.cells) > 1 else 1):
        found.append([np.zeros(part.matrix.shape[0]) for part in parts])
    return found

"""Every kind of strategy as a linear map: which sums it needs again, and the error of what it decodes.

Each row of measurements is decoded by itself, so the weights of an estimate are seen from outside.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tidegauge.audit.findings import require
from tidegauge.audit.installed.exercises import COUNT, Exercise, toggles
from tidegauge.errors import SpecError
from tidegauge.mechanism.decode import Decoder
from tidegauge.mechanism.decoding.windows import Windows
from tidegauge.mechanism.registry import STRATEGIES
from tidegauge.mechanism.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidegauge.mechanism.encode import ComponentPlan
    from tidegauge.plan.plan import ReleasePlan

_LONG: Final = COUNT | {"for": "110 microseconds"}
_SLIDING: Final = {"window": "30 microseconds", "start": "1970-01-01T00:00:00.000040Z"}
_SHAPES: Final[tuple[tuple[dict[str, Any], dict[str, Any]], ...]] = (
    (_LONG, {"at_most": 2}),
    (_LONG | _SLIDING, {"at_most": 2}),
    (COUNT | {"for": "ever"}, {"at_most": 2}),
    (_LONG, {"at_most": 2, "renews": "30 microseconds"}),
)
_ENDLESS: Final = 12
"""Bins of a release without end that are looked at."""


def _plans(name: str) -> Iterator[ReleasePlan]:
    """Small plans with this strategy."""
    for (release, constraint), pure in product(_SHAPES, (False, True)):
        exercise = Exercise(toggles(), release | {"strategy": name}, constraint, pure=pure)
        try:
            (plan,) = exercise.subject().plan.releases
        except SpecError:  # not a strategy for this release
            continue
        yield plan


def check_kept(name: str) -> None:
    """No row needs the sum of a bin that was dropped before it was measured.  Raises Discrepancy."""
    tried = 0
    for plan in _plans(name):
        (part,) = plan.component_plans
        bins = plan.release.schedule.bins or _ENDLESS
        if part.strategy.stream is not None:  # no sum of an earlier bin is needed again
            continue
        tried += 1
        for last in range(-1, bins - 1):
            needed = part.strategy.needed_from(last)
            begins = [
                begin
                for bin_ in range(last + 1, bins)
                for row in part.strategy.rows(bin_)
                for begin, _, weight in row.ranges
                if weight
            ]
            require(needed <= min(begins, default=needed), "a sum is dropped before it is measured")
    require(tried, "no small plan uses this strategy")


def check_errors_of(name: str) -> None:
    """The standard error of each reading follows from its weights and the noise.  Raises Discrepancy."""
    tried = 0
    for plan in _plans(name):
        (part,) = plan.component_plans
        if part.strategy.ahead is not None:  # rows have no noise of their own
            continue
        tried += 1
        _require_errors(plan, part)
    require(tried, "no small plan uses this strategy")


def _require_errors(plan: ReleasePlan, part: ComponentPlan) -> None:
    schedule, strategy = plan.release.schedule, part.strategy
    last = (schedule.bins or _ENDLESS) - 1
    rows = list(strategy.measured(last))
    decoding = strategy.decoding(len(rows) + 1)
    decoding.add(np.column_stack([np.eye(len(rows)), [float(row.shared) for row in rows]]))
    ends = [bin_ for bin_ in range(last + 1) if schedule.reading_of_bin(bin_) is not None]
    windows = Windows.of(np.array(ends), schedule.span, through=last if strategy.plain_sums else None)
    if not strategy.plain_sums:  # later rows are not used: each reading by itself
        windows = Windows.of(np.array(ends[-1:]), schedule.span)
    weights = decoding.sums(windows)
    variances = np.array([part.noise_of(row.layer).variance for row in rows])
    right = (weights[:, :-1] ** 2) @ variances
    if part.shared_noise is not None:
        right += weights[:, -1] ** 2 * part.shared_noise.variance
    (component,) = plan.release.query.components
    unit = float(component.grid) / part.refine
    (errors,) = Decoder(plan.release.query, schedule, plan.component_plans, schedule.span).errors(windows)
    near = np.allclose(errors.stderrs, np.sqrt(right) * unit, rtol=1e-3)
    require(near, "a standard error is not that of the noise that is added")
    require(bool((right > 0).all()), "a reading has no noise")


def response_checks() -> dict[str, Callable[[], None]]:
    """Two for each kind of strategy, by name, where there is something to check."""
    found: dict[str, Callable[[], None]] = {}
    for kind in STRATEGIES:
        if kind.strategy.stream is Strategy.stream:  # else a stream state takes the place of sums
            found[f"strategy {kind.name}, kept sums"] = partial(check_kept, kind.name)
        if kind.strategy.ahead is Strategy.ahead:  # else the noise of all rows is drawn together
            found[f"strategy {kind.name}, errors of its noise"] = partial(check_errors_of, kind.name)
    return found

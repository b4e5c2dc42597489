"""Published rows as readings that users see, and readings made consistent with each other."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.mechanism.estimate import add_up, not_negative
from tidegauge.publish.reading import as_reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegauge.model.reading import Reading
    from tidegauge.model.tick import Published
    from tidegauge.plan.plan import Plan


def plan_reading(plan: Plan, published: Published) -> Reading:
    """A published row as users see it."""
    series = plan.series[published.release]

    def half_width(level: float) -> float:
        return series.half_width(published.number, published.stderr or 0.0, level)

    return as_reading(series.outline, published, half_width)


def same(derived: list[Published], published: list[Published]) -> bool:
    """Whether the readings are the same, up to digits that another order of additions may change."""
    if len(derived) != len(published):
        return False
    for one, other in zip(derived, published, strict=True):
        if replace(one, value=None, stderr=None, low=0, high=0) != replace(
            other, value=None, stderr=None, low=0, high=0
        ):
            return False
        if not _are_numbers(_numbers(other), optional=2):
            return False
        slack = 1e-9 * max(1.0, abs(other.low), abs(other.high))
        for left, right in zip(_numbers(one), _numbers(other), strict=True):
            if (left is None) != (right is None) or abs((left or 0.0) - (right or 0.0)) > slack:
                return False
    return True


def _are_numbers(stored: Sequence[object], *, optional: int) -> bool:
    """Whether a store has numbers here (the first ones may be missing) and not, by damage, texts."""
    return all(
        isinstance(one, int | float) or (one is None and place < optional) for place, one in enumerate(stored)
    )


def _numbers(published: Published) -> tuple[float | None, ...]:
    return published.value, published.stderr, published.low, published.high


def agree(readings: list[Reading], plan: Plan, wholes: Mapping[str, str]) -> list[Reading]:
    """Parts add up to their whole by least squares, counts are cut off at 0; each reading has its bias."""
    places: dict[tuple[str, object], list[int]] = defaultdict(list)
    for i, reading in enumerate(readings):
        places[reading.release, reading.time].append(i)
    found = list(readings)
    for (name, time), parts in places.items():
        whole = places.get((wholes.get(name, ""), time), [])
        if len(whole) == 1:
            _add_up(found, parts, whole[0])
    counts = {
        name
        for name, one in plan.series.items()
        if one.running and aggregate_of(one.plan.release.query.aggregate).never_negative
    }
    for i, reading in enumerate(found):
        if reading.value is not None and reading.stderr is not None and reading.release in counts:
            clipped = not_negative(reading.value, reading.stderr)
            found[i] = replace(reading, value=clipped.value, bias=clipped.bias)
        elif reading.bias is None:
            found[i] = replace(reading, bias=0.0)
    return found


def _add_up(found: list[Reading], parts: list[int], whole: int) -> None:
    values = np.array([found[i].value for i in parts], dtype=np.float64)
    spreads = np.array([(found[i].stderr or 0.0) ** 2 for i in parts])
    total, spread = found[whole].value, (found[whole].stderr or 0.0) ** 2
    if total is None or not spreads.sum() + spread:
        return
    agreed = add_up(values, total, spreads, spread)
    for i, value, variance in zip(parts, agreed.parts, agreed.part_variances, strict=True):
        found[i] = _moved(found[i], float(value), float(variance) ** 0.5)
    found[whole] = _moved(found[whole], agreed.whole, agreed.whole_variance**0.5)


def _moved(reading: Reading, value: float, stderr: float) -> Reading:
    def interval(level: float) -> tuple[float, float]:
        half = stderr * NormalDist().inv_cdf((1 + level) / 2)
        return value - half, value + half

    return replace(reading, value=value, stderr=stderr, _interval=interval)

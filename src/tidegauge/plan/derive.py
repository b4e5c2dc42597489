"""Series derived from a release without further privacy loss: changes over other windows, running values."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.model.quantity import Span
from tidegauge.model.schedule import roll_up
from tidegauge.plan.plan import Derived

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegauge.model.program import Release
    from tidegauge.model.schedule import Schedule
    from tidegauge.plan.choose import Aim, Option
    from tidegauge.plan.plan import ReleasePlan
    from tidegauge.plan.spec.declaration import DerivedSpec


def derived_spans(wanted: Mapping[str, DerivedSpec], release: Release) -> dict[str, int | None]:
    """Bins per reading of each series that is derived from this release (None: all).

    Raises SpecError unless its window is a whole number of bins.
    """
    return {name: _span(name, one, release) for name, one in wanted.items() if one.of == release.name}


def _span(name: str, spec: DerivedSpec, release: Release) -> int | None:
    schedule, of = release.schedule, f"'{release.name}'"
    if why := aggregate_of(release.query.aggregate).no_windows:
        raise SpecError(
            f"{of} {why}. Derive from a release whose aggregate adds up, such as COUNT or SUM",
            key=f"release.{name}.of",
        )
    if spec.every is not None:
        try:
            return roll_up(schedule, spec.every, window_of(spec, schedule)).span
        except SpecError as error:
            raise SpecError(str(error), key=f"release.{name}") from None
    key = f"release.{name}.window"
    if spec.window == schedule.window:
        own = "running value" if spec.window is None else f"change over {spec.window}"
        raise SpecError(f"the {own} is what {of} itself publishes; name another window", key=key)
    if spec.window is None:
        if schedule.sliding:
            raise SpecError(
                f"is missing, and {of} has no running value: it measures changes, and not what was there "
                "before the first. Name a window, or derive from a release without one",
                key=key,
            )
        return None
    span = schedule.bins_in(spec.window)
    if span is None:
        raise SpecError(f"must be a whole multiple of {_fitting(spec.window, schedule)}", key=key)
    if schedule.count is not None and schedule.first_telling(span) >= schedule.count:
        raise SpecError(f"{spec.window} is longer than all that {of} measures{_longest(schedule)}", key=key)
    return span


def window_of(spec: DerivedSpec, schedule: Schedule) -> Span | None:
    """The window of a derived series; a roll-up of changes is the change over each of its own periods."""
    rolled = spec.every is not None and spec.window is None and schedule.window is not None
    return spec.every if rolled else spec.window


def _fitting(window: Span, schedule: Schedule) -> str:
    """The width of a bin, and the nearest windows that are a whole number of bins."""
    width = schedule.bin_width
    bin_width = f"{width}, in which the release is measured"
    if width.months or window.months:
        return bin_width
    below = window.micros // width.micros
    near = [f"'{Span(micros=count * width.micros)}'" for count in (below, below + 1) if count]
    return f"{bin_width}: {' or '.join(near)} would fit"


def _longest(schedule: Schedule) -> str:
    assert schedule.bins is not None
    if schedule.bins == 1:
        return ", which is a single reading"
    width, most = schedule.bin_width, schedule.bins - 1
    return f"; at most '{Span(width.months * most, width.micros * most)}' fits"


_HALF: Final = 2
"""The weight of a release's own error in the score, in weights of a derived series."""


def able(found: Sequence[Option], spans: Mapping[str, int | None], aim: Aim) -> list[Option]:
    """The strategies from which all derived series can be decoded, the best first.

    Score: the largest ratio of its error to the best option's, over the release itself and, counting half
    as much, the derived series; the lowest score wins.  Raises SpecError if no option gives all of them.
    """
    for name, span in spans.items():
        if not any(option.gives(span) for option in found):
            raise SpecError(
                f"strategy '{found[0].strategy.name}' measures the windows of '{found[0].release.name}' "
                "alone and no other. Pin another strategy there, or leave it to the planner",
                key=f"release.{name}.of",
            )
    left = [option for option in found if all(option.gives(span) for span in spans.values())]
    if not spans:
        return left
    own = np.array([option.error(aim) for option in left])
    worst = own / own.min()
    for span in spans.values():
        errors = np.array([option.over(span).error(aim) for option in left])
        worst = np.maximum(worst, errors / errors.min() / _HALF)
    return [left[at] for at in np.argsort(worst, kind="stable")]


def derive(
    name: str, spec: DerivedSpec, *, span: int | None, plan: ReleasePlan, options: Sequence[Option]
) -> Derived:
    """The derived series, with its error under the strategy that was chosen and under every other option."""
    found = tuple(replace(option.over(span).candidate(plan.loss), loss=Fraction(0)) for option in options)
    window = window_of(spec, plan.release.schedule)
    chosen = found[plan.candidates.index(plan.chosen)]
    return Derived(name, spec.of, window, chosen, found, spec.every)

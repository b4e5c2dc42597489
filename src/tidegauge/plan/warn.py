"""What a user should know before a plan is committed."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from tidegauge.model.constraint import Unconstrained
from tidegauge.model.person import row_note
from tidegauge.model.quantity import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidegauge.model.budget import Budget
    from tidegauge.plan.plan import ReleasePlan
    from tidegauge.plan.spec.declaration import GaugeSpec


def warnings(
    spec: GaugeSpec, budget: Budget, plans: Sequence[ReleasePlan], columns: Mapping[str, str]
) -> tuple[str, ...]:
    """One sentence for each thing about the declaration that is probably not meant."""
    return (*_of_budget(budget), *_of_constraint(spec), *_of_unit(spec, columns), *_of_times(spec, plans))


def overdue(plans: Sequence[ReleasePlan], now: int) -> Iterator[str]:
    """One sentence for each release that starts in the past, for a source without a past."""
    for plan in plans:
        schedule = plan.release.schedule
        if schedule.count != 1 and schedule.bin_end(schedule.bin_of_reading(1)) <= now:
            yield (
                f"release.{plan.release.name} starts at {rfc3339(schedule.start)}, which is in the past. "
                "Rows that exist at the first run count from the latest due reading on: the readings before "
                "it will be 0 plus noise, unless the source delivers changes with earlier times. Without "
                "'start' the first reading is the next one that is due."
            )


def _of_budget(budget: Budget) -> Iterator[str]:
    if budget.epsilon is not None and budget.epsilon > 10:
        yield f"epsilon = {budget.epsilon} is so large that it gives no protection."
    if budget.delta is not None and budget.delta > Fraction(1, 10_000):
        yield "delta is the chance of no protection at all; keep it far below one over the number of units."


def _of_constraint(spec: GaugeSpec) -> Iterator[str]:
    for release in spec.measured.values():
        declared = release.constraint or spec.constraint
        if declared is None or isinstance(declared.constraint, Unconstrained):
            yield (
                "Without a [constraint] a unit may change every reading: the loss is counted for all of them."
            )
            return


def _of_unit(spec: GaugeSpec, columns: Mapping[str, str]) -> Iterator[str]:
    """A row is protected, but a column looks as if persons owned several rows."""
    keys = [spec.source.key] if isinstance(spec.source.key, str) else spec.source.key
    note = row_note(columns, key=keys, unit=spec.source.unit)
    if note is not None:
        yield note


def _of_times(spec: GaugeSpec, plans: Sequence[ReleasePlan]) -> Iterator[str]:
    for plan in plans:
        schedule, declared = plan.release.schedule, spec.measured[plan.release.name]
        if declared.start is None and spec.source.PAST:
            yield (
                f"release.{plan.release.name} declares no start, so its first reading is at "
                f"{rfc3339(schedule.start)} and counts all changes up to then. To publish the past, "
                'declare the first day, for example start = "2026-01-01".'
            )
        if schedule.count != 1:
            continue
        short = (
            ""
            if declared.for_ == "ever"
            else f": 'for' ({declared.for_}) is shorter than 'every' ({declared.every})"
        )
        yield f"release.{plan.release.name} has only one reading{short}."

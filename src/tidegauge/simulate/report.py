"""A simulation as text: one table a release, at most 80 columns wide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidegauge.model.query import Value
    from tidegauge.simulate.simulation import Simulated, Simulation

_WIDTH: Final = 80
_GROUP: Final = 24
"""Characters of a group's name that are shown."""


def report(simulation: Simulation, *, groups: bool = False) -> str:
    """The text that `tidegauge simulate` prints; `groups`: every group as well."""
    lines = [
        "SECRET: exact numbers about the history, for the operator only; never publish.",
        f"Readings from {rfc3339(simulation.first)} to {rfc3339(simulation.last)}.",
    ]
    for name, found in simulation.releases.items():
        lines += ["", *_release(name, found, groups=groups)]
    lines += [
        "",
        "noise: predicted RMSE of the noise. bias: RMSE of what the constraint (and",
        "max_rows or clip) leaves out. whole: noise and bias. covered: readings whose",
        "noise interval (95 %, the noise alone) would contain the plain truth.",
        "* least whole error.",
    ]
    return "\n".join(lines)


def best_of(found: Sequence[Simulated]) -> Simulated | None:
    """The combination with the least whole error of all groups together."""
    able = [one for one in found if one.group is None and one.errors.whole == one.errors.whole]
    return min(able, key=lambda one: one.errors.whole, default=None)


def _release(name: str, found: Sequence[Simulated], *, groups: bool) -> Iterator[str]:
    shown = [one for one in found if one.group is None or groups]
    yield f"{name}: {_what(shown)}"
    if not shown:
        yield "  no reading falls into the history"
        return
    columns: dict[str, list[str]] = {
        "at_most": [_or_none(one.bounds.at_most) for one in shown],
        "within": [_or_none(one.bounds.within) for one in shown],
        "renews": [_or_none(one.bounds.renews) for one in shown],
        "on_excess": [one.bounds.on_excess for one in shown],
        "epsilon": [_or_none(None if one.epsilon is None else float(one.epsilon)) for one in shown],
        "every": [str(one.every) for one in shown],
        "group": [_group(one.group) for one in shown],
    }
    varied = {head: cells for head, cells in columns.items() if len(set(cells)) > 1}
    figures = {
        "noise": [_number(one.errors.noise) for one in shown],
        "bias": [_number(one.errors.bias) for one in shown],
        "whole": [_number(one.errors.whole) for one in shown],
        "covered": [_share(one.errors.coverage) for one in shown],
    }
    best = best_of(found)
    marks = ["*" if one is best else " " for one in shown]
    table: dict[str, list[str]] = {"": marks, **varied, **figures}
    widths = {head: max(len(head), *map(len, cells)) for head, cells in table.items()}
    for row in (list(table), *zip(*table.values(), strict=True)):
        cells = (
            cell.rjust(widths[head]) if head in figures or head == "at_most" else cell.ljust(widths[head])
            for head, cell in zip(table, row, strict=True)
        )
        yield "  ".join(cells).rstrip()[:_WIDTH]


def _what(shown: Sequence[Simulated]) -> str:
    """What all rows have in common."""
    if not shown:
        return "not read"
    one = shown[0]
    common = [f"{one.readings:,} readings"]
    if len({row.every for row in shown}) == 1:
        common.append(f"every {one.every}")
    if len({row.epsilon for row in shown}) == 1 and one.epsilon is not None:
        common.append(f"epsilon {float(one.epsilon):g}")
    if len({row.bounds.within for row in shown}) == 1 and one.bounds.within is not None:
        common.append(f"within {one.bounds.within}")
    if len({row.bounds.renews for row in shown}) == 1 and one.bounds.renews is not None:
        common.append(f"renews every {one.bounds.renews}")
    return ", ".join(common)


def _or_none(value: object) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _group(group: Mapping[str, Value] | None) -> str:
    if group is None:
        return "(all)"
    text = ", ".join(map(str, group.values()))
    return text if len(text) <= _GROUP else f"{text[: _GROUP - 1]}…"


def _number(value: float) -> str:
    if value != value:  # noqa: PLR0124  (not a number: no reading has a value)
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _share(value: float) -> str:
    return "-" if value != value else f"{100 * value:.0f} %"  # noqa: PLR0124

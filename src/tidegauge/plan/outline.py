"""What showing readings needs of a committed plan: the names of groups, and what values mean.

It is read from the plan's record, without building strategies or computing a loss: showing readings
draws no noise and spends nothing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tidegauge.errors import SpecError, StoreCorrupt
from tidegauge.mechanism.aggregates import aggregate_of
from tidegauge.model.json import as_list, as_object, as_text, objects
from tidegauge.model.query import Group, cells_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tidegauge.model.json import Json, JsonObject
    from tidegauge.model.ledger import Reservation
    from tidegauge.model.query import Value


@dataclass(frozen=True)
class Outline:
    """A series as those need it who read it."""

    cells: tuple[dict[str, Value] | None, ...]
    """The group of each cell; None is all rows."""
    grid: Fraction | None
    """What its exact values are multiples of; a mean has no grid."""
    never_negative: bool
    """Whether its exact values cannot be below 0: a count of rows, or of the changes of a flow."""
    zero_is_nothing: bool
    """Whether 0 means that there is nothing; a mean of 0 is a value as any other."""


def outline(
    aggregate: str, kind: str, groups: Sequence[Group], grids: Sequence[Fraction], *, running: bool
) -> Outline:
    """The outline of a series; `running`: whether it is a running value and not a change.

    grids: that of each component of its query.
    """
    found = aggregate_of(aggregate)
    return Outline(
        cells=cells_of(tuple(groups)),
        grid=grids[0] if len(grids) == 1 else None,
        never_negative=found.never_negative and (running or kind == "flow"),
        zero_is_nothing=found.zero_is_nothing,
    )


def outlines(records: Sequence[JsonObject], commits: Iterable[Reservation]) -> dict[str, Outline]:
    """The outline of every series of these committed plans, by name.

    `commits`: everything that the ledger reserved.  Raises StoreCorrupt if those are not these plans.
    """
    reserved = list(commits)
    for record in records:
        require_reserved(record, reserved)
    require_recorded(records, reserved)
    try:
        return {name: found for record in records for name, found in _outlines(record)}
    except (SpecError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        raise not_a_plan() from None


def require_reserved(record: JsonObject, commits: Iterable[Reservation]) -> list[Reservation]:
    """What the ledger reserved for the plan of this record.  Raises StoreCorrupt if that is nothing."""
    digest = address(record)
    if not (reserved := [one for one in commits if one.plan == digest]):
        raise StoreCorrupt(
            "the plan in the store is not the one that the ledger committed; nothing was read or spent"
        )
    return reserved


def require_recorded(records: Iterable[JsonObject], commits: Iterable[Reservation]) -> None:
    """Raise StoreCorrupt if the ledger committed a plan that is not one of these records."""
    known = {address(record) for record in records}
    if any(one.choice is None and one.plan not in known for one in commits):
        raise StoreCorrupt(
            "the ledger committed a plan that the store does not have; nothing was read or spent"
        )


def not_a_plan() -> StoreCorrupt:
    """The refusal of a record that is no plan."""
    return StoreCorrupt("the committed plan is not one that can be carried out; nothing was read or spent")


def address(record: JsonObject) -> str:
    """The hash that identifies the plan of this record."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _outlines(record: JsonObject) -> Iterator[tuple[str, Outline]]:
    derived = objects(record.get("derived", ()))
    for release in objects(as_object(record["program"])["releases"]):
        name, query = as_text(release["name"]), as_object(release["query"])
        windows = {name: as_object(release["schedule"])["window"]}
        windows |= {as_text(one["name"]): one["window"] for one in derived if one["of"] == name}
        for series, window in windows.items():
            yield series, _from_query(query, running=window is None)


def _from_query(query: JsonObject, *, running: bool) -> Outline:
    groups = [
        Group(as_text(one["name"]), tuple(_value(value) for value in as_list(one["values"])))
        for one in objects(query["groups"])
    ]
    grids = [Fraction(as_text(one["grid"])) for one in objects(query["components"])]
    return outline(as_text(query["aggregate"]), as_text(query["kind"]), groups, grids, running=running)


def _value(value: Json) -> Value:
    """The value of a group column."""
    if not isinstance(value, str | int):
        raise TypeError("no value of a group")
    return value

"""The [calendar] table: the time zone whose days and months releases count."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from tidegauge.errors import SpecError
from tidegauge.model.calendar import local_instant, zone_named
from tidegauge.model.declared import Name, Table
from tidegauge.model.quantity import moment
from tidegauge.plan.spec.values import plainly

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


class CalendarSpec(Table):
    """Whose days and months releases count."""

    time_zone: Name | None = None

    @model_validator(mode="after")
    def _known(self) -> CalendarSpec:
        if self.time_zone is not None:
            plainly(zone_named, self.time_zone)
        return self


def with_local_starts(data: Any) -> Any:
    """A declaration whose `start` and `renews_from`, without an offset, are read in the calendar's zone."""
    match data:
        case {"calendar": {"time_zone": str(name)}, "release": dict(releases)}:
            try:
                zone = zone_named(name)
            except SpecError:  # the key's own check refuses it
                return data
            local = {key: _with_local_time(one, "start", zone) for key, one in releases.items()}
            constraint = _with_local_time(data.get("constraint"), "renews_from", zone)
            return {**data, "release": local, **({} if constraint is None else {"constraint": constraint})}
    return data


def _with_local_time(table: Any, key: str, zone: ZoneInfo) -> Any:
    if isinstance(table, dict) and isinstance(written := table.get(key), str | date):
        with suppress(SpecError):  # the key's own check refuses it
            return {**table, key: moment(local_instant(written, zone))}
    return table

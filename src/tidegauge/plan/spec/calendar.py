"""The [calendar] table: the time zone whose days and months releases count."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from tidegauge.errors import SpecError
from tidegauge.model.calendar import local_instant, zone_named
from tidegauge.model.declared import Name, Table
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
    """A declaration whose releases' `start`, where it has no offset, is read in the calendar's time zone."""
    match data:
        case {"calendar": {"time_zone": str(name)}, "release": dict(releases)}:
            try:
                zone = zone_named(name)
            except SpecError:  # the key's own check refuses it
                return data
            local = {key: _with_local_start(one, zone) for key, one in releases.items()}
            return {**data, "release": local}
    return data


def _with_local_start(release: Any, zone: ZoneInfo) -> Any:
    if isinstance(release, dict) and isinstance(start := release.get("start"), str | date):
        with suppress(SpecError):  # the key's own check refuses it
            return {**release, "start": local_instant(start, zone)}
    return release

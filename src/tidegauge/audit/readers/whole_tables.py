"""Tables that are read whole: written again for every pass, or with all versions of their rows."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from tidegauge.audit.installed.exercises import COLUMNS
from tidegauge.audit.readers.sources import WrittenLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.audit.worlds.world import Event, Row

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES: Final = {name: "integer" if kind == "BIGINT" else "text" for name, kind in COLUMNS.items()}


def _time(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds")


class WholeTableLog(WrittenLog):
    """A csv file with all rows of the table, which an export replaces before every pass."""

    extra: tuple[str, ...] = ()

    def _begin(self) -> None:
        self._rows: dict[str, Row] = {}
        self.write([])

    def _declared(self) -> dict[str, object]:
        owned = {"unit": self._owner, "max_rows": 1} if self._owner else {}
        return {"of": "csv", "path": "t.csv", "table": "t", "key": "id", "types": _TYPES, **owned}

    def write(self, events: Sequence[Event]) -> None:
        """Replace the file."""
        for event in events:
            self._take(event)
        with (self._folder / "t.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.DictWriter(file, [*COLUMNS, *self.extra], restval="")
            rows.writeheader()
            rows.writerows(
                {n: "" if v is None else v for n, v in one.items()} for one in self._written_rows()
            )

    def _take(self, event: Event) -> None:
        if event.key is None:
            self._rows.clear()
            return
        self._rows.pop(event.previous or event.key, None)
        if event.row is not None:
            self._rows[event.key] = event.row | {"id": event.key}

    def _written_rows(self) -> list[Row]:
        return list(self._rows.values())


class _Version(NamedTuple):
    """A row, and from when until when it was valid; None: it still is."""

    row: Row
    begins: int
    ends: int | None


class VersionsLog(WholeTableLog):
    """A table with every version of its rows, as dbt's snapshots and dimensions of type 2 have it."""

    extra: tuple[str, ...] = ("valid_from", "valid_to")

    def _begin(self) -> None:
        self._versions: list[_Version] = []
        super()._begin()

    def _declared(self) -> dict[str, object]:
        return super()._declared() | {"valid_from": "valid_from", "valid_to": "valid_to"}

    def _take(self, event: Event) -> None:
        gone = {event.key, event.previous} - {None}
        for n, one in enumerate(self._versions):
            if one.ends is None and (one.row["id"] in gone or event.key is None):
                self._versions[n] = one._replace(ends=event.stamp)
        if event.row is not None:
            self._versions.append(_Version(event.row | {"id": event.key}, event.stamp, None))

    def _written_rows(self) -> list[Row]:
        return [self._of(one) for one in self._versions]

    @staticmethod
    def _of(one: _Version) -> Row:
        ends = None if one.ends is None else _time(one.ends)
        return one.row | {"valid_from": _time(one.begins), "valid_to": ends}


class MarkedLog(VersionsLog):
    """The same without ends: a column marks the current version, another one a deletion."""

    extra: tuple[str, ...] = ("valid_from", "current", "deleted")

    def _declared(self) -> dict[str, object]:
        plain = {name: value for name, value in super()._declared().items() if name != "valid_to"}
        return plain | {"current": "current", "deleted": "deleted"}

    def _take(self, event: Event) -> None:
        before = len(self._versions)
        super()._take(event)
        ended = [one for one in self._versions[:before] if one.ends == event.stamp]
        if event.row is None:
            gone = [_Version(one.row | {"deleted": "true"}, event.stamp, None) for one in ended]
            self._versions += [one for one in gone if "deleted" not in ended[0].row]

    @staticmethod
    def _of(one: _Version) -> Row:
        return one.row | {
            "valid_from": _time(one.begins),
            "current": "true" if one.ends is None else "false",
            "deleted": one.row.get("deleted", "false"),
        }

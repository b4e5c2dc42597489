"""Which exercises run through the readers of real sources."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Final

from tidegauge.audit.findings import require
from tidegauge.audit.readers import wal
from tidegauge.audit.readers.sources import DebeziumLog, FilesLog, InboxLog, SQLiteLog
from tidegauge.audit.readers.whole_tables import MarkedLog, VersionsLog, WholeTableLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tidegauge.audit.installed.exercises import Exercise
    from tidegauge.audit.readers.sources import WrittenLog
    from tidegauge.audit.replay.pairs import OpenLog
    from tidegauge.audit.worlds.world import Random

_LOGS: Final[dict[str, tuple[str, Callable[..., WrittenLog]]]] = {
    "debezium": ("debezium", DebeziumLog),
    "an inbox": ("debezium", InboxLog),
    "sqlite": ("sqlite", SQLiteLog),
    "files": ("files", FilesLog),
    "whole tables": ("snapshots", WholeTableLog),
    "versions": ("snapshots", VersionsLog),
    "marked versions": ("snapshots", MarkedLog),
}
_EVERY_BIN: Final = (10, 20, 30, 40, 50, 60, 200)
"""A table that is read whole at the end of every bin shows each change in its bin."""
_CHANGES: Final = ("three changes, and two more", "changes of group", "values of both signs")
_KEYS: Final = ("a row whose key changes", "an emptied table", "keys of deleted rows", "a key that was freed")
_ALONE: Final = "a row that changes its unit alone"
_UNITS: Final = ("several changes of a unit at one time", "a row that changes its unit", _ALONE)
_READ: Final[Mapping[str, tuple[str, ...]]] = {
    "files": _CHANGES[:2],
    "debezium": ("three changes, and two more", *_KEYS[:2], *_UNITS[1:]),
    "an inbox": ("three changes, and two more", "a row whose key changes"),
    "sqlite": ("three changes, and two more", _KEYS[0], _KEYS[2], *_UNITS[1:]),
    "versions": (*_CHANGES, "a late change", *_UNITS[1:]),
    "marked versions": ("three changes, and two more",),
    "whole tables": (*_CHANGES, *_UNITS[1:]),
}
_WAL: Final = ("values that are left out", *_CHANGES, "several changes at one time", *_KEYS, *_UNITS)


def opener(kind: str, *, owner: str | None) -> OpenLog:
    """Opens an empty log of this kind in a folder."""

    def open_log(folder: Path, rng: Random) -> WrittenLog:
        del rng
        declared, log = _LOGS[kind]
        return log(declared, folder, owner=owner)

    return open_log


def reader_checks(known: Mapping[str, Exercise]) -> dict[str, Callable[[], object]]:
    """Exercises that are read from written logs, by name."""
    found: dict[str, Callable[[], object]] = {}
    for kind, names in _READ.items():
        passes = _EVERY_BIN if kind == "whole tables" else None
        for name in names:
            open_log = opener(kind, owner=None if known[name].rows is None else "owner")
            found[f"{name}, read from {kind}"] = partial(known[name].check, open_log=open_log, passes=passes)
    if wal.installed():
        for n, name in enumerate(_WAL):
            owner = None if known[name].rows is None else "owner"
            for full in (False, True) if n % 2 else (False,):
                what = "PostgreSQL's log, whole rows" if full else "PostgreSQL's log"
                open_log = wal.wal(owner=owner, full=full)
                found[f"{name}, read from {what}"] = partial(known[name].check, open_log=open_log)
    unknown_end = replace(known[_ALONE], unit=None, sums=(0, 1, 0, 0, 0, 0))  # the first version never counts
    open_log = opener("marked versions", owner="owner")
    found["versions whose end is unknown"] = partial(unknown_end.check, open_log=open_log, passes=(24, 200))
    found["values of change events"] = check_event_values
    return found


def _field(name: str, plain: str, meaning: str | None = None, **parameters: str) -> dict[str, object]:
    more = {"parameters": parameters} if parameters else {}
    return {"field": name, "type": plain, **({"name": meaning} if meaning else {}), **more}


_TIME: Final = "io.debezium.time."
_FIELDS: Final = (
    (_field("id", "int32"), 7, 7),
    (_field("a", "bytes", "org.apache.kafka.connect.data.Decimal", scale="2"), "/nE=", Decimal("-3.99")),
    (_field("b", "int32", f"{_TIME}Date"), 19782, date(2024, 2, 29)),
    (_field("c", "int64", f"{_TIME}Timestamp"), 1_709_164_800_500,
     datetime.fromisoformat("2024-02-29T00:00:00.500")),
    (_field("d", "int64", f"{_TIME}NanoTimestamp"), 1_709_164_800_000_001_000,
     datetime.fromisoformat("2024-02-29T00:00:00.000001")),
    (_field("e", "boolean"), False, False),
    (_field("f", "string"), "", ""),
    (_field("g", "double"), None, None),
)  # fmt: skip
"""Fields of an event, their values as a connector writes them, and what they mean."""


def check_event_values() -> None:
    """Times and values of change events are those that their schemas say.  Raises Discrepancy."""
    from tidegauge.source.debezium.events import event  # noqa: PLC0415
    from tidegauge.source.debezium.rows import Reading  # noqa: PLC0415

    row = {field["field"]: value for field, value, _ in _FIELDS}
    schema = {"fields": [{"field": "after", "fields": [field for field, _, _ in _FIELDS]}]}
    for stamp, micros in (({"ts_ms": 3}, 3000), ({"ts_us": 5, "ts_ms": 0}, 5), ({"ts_ns": 7999}, 7)):
        payload = {"op": "c", "source": {"table": "t", **stamp}, "before": None, "after": row}
        found = event(json.dumps({"schema": schema, "payload": payload}))
        require(found is not None and found.time == micros, "the time of a change event is another one")
        assert found is not None
        reading = Reading("t", key="id")
        reading.describe(found)
        (read,) = reading.rows([found])["after"].to_pylist()
        right = {field["field"]: value for field, _, value in _FIELDS}
        require(read == right, "the values of a change event are others")

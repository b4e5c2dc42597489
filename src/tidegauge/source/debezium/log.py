"""The places of events in the log of their database, and the recognition of repeated events."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SourceError
from tidegauge.model.json import as_list, as_object, as_text, as_whole, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.json import Json, JsonObject
    from tidegauge.source.debezium.events import Event

_LSN: Final = re.compile(r"[0-9a-fA-F]{1,8}:[0-9a-fA-F]{1,8}:[0-9a-fA-F]{1,8}")
_SHORT: Final = 255
"""Most characters of a name in an event's source."""

RESTORED: Final = (
    "at log positions before those of events that were received earlier, but committed later: the database "
    "was restored from a backup, or its log was reset. Rows that the restore took back are still counted. "
    "Start a new gauge with what is left of the budget; or, to go on with this one, give the connector "
    "another topic.prefix and let it take a new snapshot"
)


class Restored(SourceError):
    """An event of a database that was restored from a backup."""


@dataclass(frozen=True)
class Mark:
    """A place in a log, as bytes that increase along the log."""

    log: str
    place: bytes
    former: str = ""
    """The name that earlier versions gave to the log."""


def mark(event: Event) -> Mark | None:
    """The place of an event in its database's log; None if the event does not have one in a known form."""
    source = event.source
    connector, name = source.get("connector"), source.get("name") or ""
    if not isinstance(connector, str) or not isinstance(name, str) or len(name) > _SHORT:
        return None
    try:
        match connector:
            case "postgresql":
                return _postgresql(name, source.get("sequence"))
            case "mysql" | "mariadb":
                file, server = source.get("file"), source.get("server_id")
                if (
                    not isinstance(file, str)
                    or not 0 < len(file) <= _SHORT
                    or isinstance(server, dict | list)
                ):
                    return None
                named = file.encode()
                places = [_eight(source.get(part)) for part in ("pos", "row")]
                log = f"{connector} {str(server)[:_SHORT]}"
                return Mark(_named(log, name), len(named).to_bytes(2) + named + b"".join(places), log)
            case "sqlserver":
                commit, change = source.get("commit_lsn"), source.get("change_lsn")
                number = _eight(source.get("event_serial_no"))
                place = _lsn(commit) + _lsn(change or "0:0:0") + number
                return Mark(_named("sqlserver", name), place, "sqlserver")
            case _:
                return None
    except ValueError:
        return None


def _named(log: str, name: str) -> str:
    return f"{log} {name}" if name else log


def _postgresql(name: str, sequence: Json) -> Mark | None:
    """The place of a sequence [commit before this transaction, record].

    The first transaction of a connector has no commit before it.  Such places are comparable only with each
    other, so they form a log of their own.
    """
    if not isinstance(sequence, str) or len(sequence) > _SHORT:
        return None
    parts = json.loads(sequence)
    if not isinstance(parts, list) or len(parts) != 2 or parts[1] is None:
        return None
    committed, record = (_eight(part) for part in parts)
    if parts[0] is None:
        return Mark(_named("postgresql/first", name), committed + record)
    return Mark(_named("postgresql", name), committed + record, "postgresql")


def _eight(value: Json) -> bytes:
    """A number that is not negative, or its text, as eight bytes; None counts as 0.  Raises ValueError."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,20}", value):
        value = int(value)
    if value is None:
        value = 0
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**64:
        raise ValueError
    return value.to_bytes(8)


def _lsn(value: Json) -> bytes:
    if not isinstance(value, str) or not _LSN.fullmatch(value):
        raise ValueError
    return b"".join(int(part, 16).to_bytes(4) for part in value.split(":"))


_RECENT: Final = 8


@dataclass
class Reached:
    """The last places of a log, in order of arrival, with the events at each, and the latest time so far."""

    recent: dict[str, list[str]]
    stamp: int
    former: str = ""
    """The last place that an earlier version had read; such a version kept no other places."""

    @classmethod
    def parse(cls, stored: JsonObject) -> Reached:
        """From a stored position."""
        recent = {
            place: [as_text(content) for content in as_list(events)]
            for place, events in as_object(stored["recent"]).items()
        }
        return cls(recent, as_whole(stored["stamp"]), as_text(stored.get("former", "")))

    def add(self, place: str, content: str, stamp: int) -> None:
        """Add an event."""
        self.recent.setdefault(place, []).append(content)
        if len(self.recent) > _RECENT:
            del self.recent[next(iter(self.recent))]
        self.stamp = max(self.stamp, stamp)

    def lies_before(self, place: str) -> bool:
        """Whether this place is before most of the last places.

        Most of them, so that one event with a wrong place does not decide about others.  As long as there are
        few places, all of them are known.
        """
        few = len(self.recent) < _RECENT
        return place < self.former if few else 2 * sum(known > place for known in self.recent) > _RECENT


@dataclass
class Replays:
    """Recognises repeated events in an ordered stream (a file, or a partition of a topic).

    Debezium delivers at least once and in order: after a restart it repeats all events from an earlier place
    on. So an event before the last places is a repetition, unless its time is later than all times so far:
    then it is new, and its log is not the one that was followed.  At the last places, events are recognised
    by their content, because a changed key is a deletion and an insertion at one place.  A row of a snapshot
    is never a repetition.
    """

    logs: dict[str, Reached] = field(default_factory=dict)

    @classmethod
    def parse(cls, stored: JsonObject, clock: int) -> Replays:
        """From a stored position.  Those of earlier versions have one log, one place and a separate time."""
        if "logs" in stored:
            return cls({log: Reached.parse(one) for log, one in tables(stored["logs"]).items()})
        if stored["log"] is None:
            return cls()
        log, seen = as_text(stored["log"]), [as_text(one) for one in as_list(stored["seen"])]
        place = _former(log, as_list(stored["place"]))
        return cls({f"former {log}": Reached({place: seen}, clock, former=place)})

    def old(self, event: Event, now: int) -> bool:
        """Remember the event.  Returns whether it was seen before.  Raises Restored.

        An event whose time is after `now`, the time of the read, counts as one of that time.
        """
        found = mark(event)
        if found is None or event.kind == "r":
            return False
        place, content, stamp = found.place.hex(), _content(event), min(event.time, now)
        reached = self._reached(found) or self.logs.setdefault(found.log, Reached({}, stamp))
        if content in reached.recent.get(place, ()):
            return True
        if place not in reached.recent and reached.lies_before(place):
            if stamp > reached.stamp:
                raise Restored(f"an event lies {RESTORED}. Nothing after it was read.")
            return True
        reached.add(place, content, stamp)
        return False

    def before(self, event: Event) -> bool:
        """Whether an earlier version of the inbox, which had no index, delivered this event."""
        found = None if event.kind == "r" or not self.logs else mark(event)
        reached = None if found is None else self._reached(found)
        if found is None or reached is None or event.time > reached.stamp:
            return False
        place = found.place.hex()
        return place < reached.former or _content(event) in reached.recent.get(place, ())

    def _reached(self, found: Mark) -> Reached | None:
        """The last places of a log; None if it has none yet."""
        if found.log not in self.logs and (former := f"former {found.former}") in self.logs:
            self.logs[found.log] = self.logs.pop(former)
        return self.logs.get(found.log)


def _content(event: Event) -> str:
    content = json.dumps([event.kind, event.before, event.after], sort_keys=True)
    return sha256(content.encode()).hexdigest()[:16]


def _former(log: str, place: Sequence[Json]) -> str:
    """The place that an earlier version stored, as hexadecimal text."""
    match log.split(" ", maxsplit=1)[0]:
        case "postgresql":
            parts = [_eight(part) for part in place]
        case "sqlserver":
            parts = [_lsn(place[0]), _lsn(place[1] or "0:0:0"), _eight(place[2])]
        case _:
            named = str(place[1]).encode()
            parts = [len(named).to_bytes(2), named, _eight(place[2]), _eight(place[3])]
    return b"".join(parts).hex()

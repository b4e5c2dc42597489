"""Debezium's change events: what they say, when, and whether they were said before."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal

from tidegauge.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Row = dict[str, Any]
    Convert = Callable[[Any], Any]

UNAVAILABLE: Final = "__debezium_unavailable_value"
"""What Debezium writes for a long value that did not change."""
_UNAVAILABLE_BYTES: Final = base64.b64encode(UNAVAILABLE.encode()).decode()
NOTHING: Final = (b"", "", b"default", "default", b'"default"', '"default"')
"""How sinks that cannot send nothing write a tombstone."""
Unit = Literal["ms", "us", "ns"]
_MICROS: Final[dict[Unit, Convert]] = {
    "ms": lambda value: int(value) * 1000,
    "us": int,
    "ns": lambda value: int(value) // 1000,
}


_LATEST: Final = 2**62
"""Microseconds; no clock shows more."""


@dataclass(frozen=True)
class Event:
    """A change of one row, a row of a snapshot (r), or a truncation (t)."""

    kind: Literal["r", "c", "u", "d", "t"]
    before: Row | None
    after: Row | None
    time: int
    source: Mapping[str, Any]
    fields: list[dict[str, Any]] | None
    """How the row's values are written, where the event carries its schema."""


def event(line: bytes | str) -> Event | None:
    """Read one event; None for what is none: tombstones, heartbeats, notes about transactions and schemas."""
    if line.strip() in NOTHING:
        return None
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        raise SourceError("is not JSON") from None
    schema = None
    if isinstance(told, dict) and "payload" in told and "op" not in told:
        schema, told = told.get("schema"), told["payload"]
    if told is None:
        return None
    if not isinstance(told, dict):
        raise SourceError("is not a Debezium event")
    kind = told.get("op")
    if kind == "m" or (
        kind is None and (told.keys() <= {"ts_ms", "ts_us", "ts_ns"} or "status" in told or "ddl" in told)
    ):
        return None
    source, before, after = (told.get(name) for name in ("source", "before", "after"))
    shaped = isinstance(source, dict) and all(isinstance(row, dict | None) for row in (before, after))
    whole: dict[str, Any] = {"r": after, "c": after, "u": after, "d": before, "t": {}}
    if not shaped or not isinstance(kind, str) or whole.get(kind) is None:
        raise SourceError(
            "is not a Debezium envelope (op, source, before, after): take out transformations that unwrap it"
        )
    return Event(kind, before, after, _time(source), source, _row_fields(schema))  # type: ignore[arg-type]


def _time(source: Mapping[str, Any]) -> int:
    for name, micros in (("ts_us", _MICROS["us"]), ("ts_ns", _MICROS["ns"]), ("ts_ms", _MICROS["ms"])):
        if isinstance(source.get(name), int):
            time = int(micros(source[name]))
            if abs(time) < _LATEST:
                return time
    raise SourceError("has no time (source.ts_us or source.ts_ms)")


def _row_fields(schema: Any) -> list[dict[str, Any]] | None:
    """The fields of a row, from the envelope's schema."""
    if not isinstance(schema, dict):
        return None
    try:
        parts = [part for part in schema.get("fields") or () if part.get("field") in ("after", "before")]
        fields = parts[0].get("fields") if parts else None
        return fields if fields and all("field" in one for one in fields) else None
    except (AttributeError, TypeError):
        raise SourceError("has a schema that is none of Debezium's") from None


_PLAIN: Final = {
    "int8": "SMALLINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "float": "FLOAT", "float32": "FLOAT",
    "double": "DOUBLE", "float64": "DOUBLE", "boolean": "BOOLEAN",
}  # fmt: skip
_TEMPORAL: Final[dict[str, tuple[str, Convert]]] = {
    "io.debezium.time.Date": ("DATE", int),
    "org.apache.kafka.connect.data.Date": ("DATE", int),
    "io.debezium.time.Timestamp": ("TIMESTAMP", _MICROS["ms"]),
    "org.apache.kafka.connect.data.Timestamp": ("TIMESTAMP", _MICROS["ms"]),
    "io.debezium.time.MicroTimestamp": ("TIMESTAMP", _MICROS["us"]),
    "io.debezium.time.NanoTimestamp": ("TIMESTAMP", _MICROS["ns"]),
    "io.debezium.time.ZonedTimestamp": ("TIMESTAMP", str),
    "io.debezium.time.Time": ("TIME", _MICROS["ms"]),
    "org.apache.kafka.connect.data.Time": ("TIME", _MICROS["ms"]),
    "io.debezium.time.MicroTime": ("TIME", _MICROS["us"]),
    "io.debezium.time.NanoTime": ("TIME", _MICROS["ns"]),
}
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_ANY_DECIMAL: Final = "io.debezium.data.VariableScaleDecimal"


def written(described: Mapping[str, Any]) -> tuple[str, Convert]:
    """The SQL type of a described field, and how to read its values."""
    meaning = described.get("name") or ""
    if meaning in _TEMPORAL:
        return _TEMPORAL[meaning]
    if meaning == _DECIMAL:
        given = described.get("parameters", {})
        scale, precision = int(given["scale"]), int(given.get("connect.decimal.precision", 38))
        return f"DECIMAL({min(max(precision, scale), 38)},{min(scale, 38)})", lambda value: _unscaled(
            value, scale
        )
    if meaning == _ANY_DECIMAL:
        return "DECIMAL(38,9)", lambda value: _unscaled(value["value"], value["scale"])
    return _PLAIN.get(described.get("type", ""), "VARCHAR"), _text_or_itself


def _unscaled(value: str, scale: int) -> str:
    """A decimal as Kafka Connect writes it: the bytes of an integer, and where its point is."""
    return f"{int.from_bytes(base64.b64decode(value), 'big', signed=True)}e{-scale}"


def _text_or_itself(value: Any) -> Any:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


def guessed(kind: str, unit: Unit) -> Convert:
    """How to read values of a declared type where the event does not describe them."""
    if kind in ("TIMESTAMP", "TIME"):
        return lambda value: value if isinstance(value, str) else _MICROS[unit](value)
    return _text_or_itself


def unavailable(value: Any) -> bool:
    """Whether a value was left out because it did not change."""
    return value in (UNAVAILABLE, _UNAVAILABLE_BYTES)


def mark(told: Event) -> tuple[str, list[Any]] | None:
    """Where in its database's log an event happened: the log, and a place that grows; None where it cannot be told."""
    source = told.source
    connector = source.get("connector")
    try:
        if connector == "postgresql" and source.get("sequence"):
            committed, place = json.loads(source["sequence"])
            return "postgresql", [int(committed or 0), int(place or 0)]
        if connector in ("mysql", "mariadb") and source.get("file"):
            file = str(source["file"])
            where = [int(source.get(name) or 0) for name in ("pos", "row")]
            return f"{connector} {source.get('server_id')}", [len(file), file, *where]
        if connector == "sqlserver" and source.get("commit_lsn"):
            lsns = [str(source.get(name) or "") for name in ("commit_lsn", "change_lsn")]
            return "sqlserver", [*lsns, int(source.get("event_serial_no") or 0)]
    except (TypeError, ValueError):
        pass
    return None


@dataclass
class Replays:
    """Recognises events that were delivered before; Debezium delivers at least once, in order.

    Several events may happen at one place (a changed key is a deletion and an insertion), so those at the last place are
    known by their content.  A row of a snapshot says how the table is now, and is never old news.
    """

    log: str | None = None
    place: list[Any] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def old(self, told: Event) -> bool:
        """Whether this event was seen before; remembers it."""
        found = mark(told)
        if found is None or told.kind == "r":
            return False
        log, place = found
        content = sha256(
            json.dumps([told.kind, told.before, told.after], sort_keys=True).encode()
        ).hexdigest()[:16]
        if log == self.log:
            if place < self.place or (place == self.place and content in self.seen):
                return True
            if place == self.place:
                self.seen.append(content)
                return False
        self.log, self.place, self.seen = log, place, [content]
        return False

"""Parses Debezium's change events.

For an event that cannot be used, every function here raises SourceError and nothing else, whatever its bytes.
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NoReturn

from tidegauge.errors import SourceError
from tidegauge.model.json import as_object, objects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidegauge.model.json import Json, JsonObject

    Row = dict[str, Json]
    Convert = Callable[[Json], Json]

UNAVAILABLE: Final = "__debezium_unavailable_value"
"""Debezium's placeholder for a long value that did not change."""
_UNAVAILABLE_BYTES: Final = base64.b64encode(UNAVAILABLE.encode()).decode()
NOTHING: Final = (b"", "", b"default", "default", b'"default"', '"default"')
"""Tombstones, as sinks write them that cannot send an empty message."""
LARGEST: Final = 16 << 20
"""Most bytes of an event."""
DEEPEST: Final = 64
"""Most levels of objects and lists in an event; Debezium's own schemas need about ten."""
Unit = Literal["ms", "us", "ns"]


def _integer(value: Json) -> int:
    """A number, or its text.  Raises TypeError or ValueError for anything else."""
    if not isinstance(value, str | int | float):
        raise TypeError
    return int(value)


_MICROS: Final[dict[Unit, Callable[[Json], int]]] = {
    "ms": lambda value: _integer(value) * 1000,
    "us": _integer,
    "ns": lambda value: _integer(value) // 1000,
}
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""The first or second half of a character that is written as two escapes."""
_NOTES: Final = {"status", "id", "event_count", "data_collections", "ts_ms", "ts_us", "ts_ns"}


_LATEST: Final = 2**62
"""Microseconds; no real clock is later."""


@dataclass(frozen=True)
class Event:
    """A change of one row, a row of a snapshot (r), or a truncation (t)."""

    kind: Literal["r", "c", "u", "d", "t"]
    before: Row | None
    after: Row | None
    time: int
    source: JsonObject
    fields: list[JsonObject] | None
    """The types of the row's values, if the event carries its schema."""


def parse(line: bytes | str) -> Json:
    """The JSON value of a line of UTF-8.

    Raises SourceError if the line is not JSON, is ambiguous, or could not be written again.
    """
    if len(line) > LARGEST:
        raise SourceError(f"is larger than {LARGEST} bytes")
    try:
        text = line if isinstance(line, str) else line.decode()
        value: Json = _JSON.decode(text)
        if _HALF.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError:
        raise SourceError("holds text that is not Unicode") from None
    except RecursionError:
        raise SourceError(f"is nested deeper than {DEEPEST} levels") from None
    except ValueError:
        raise SourceError("is not JSON, or holds a number that is too long") from None
    _require_shallow(value)
    return value


def _object(pairs: Sequence[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise SourceError("has a key twice in one object")
    return value


def _no_number(_: str) -> NoReturn:
    raise SourceError("holds a number that is not finite")


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise SourceError("holds a number that is not finite")
    return number


_JSON: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite)


def _require_shallow(value: Json) -> None:
    level: list[Json] = [value]
    for _ in range(DEEPEST):
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
            if isinstance(part, dict | list)
        ]
        if not level:
            return
    raise SourceError(f"is nested deeper than {DEEPEST} levels")


def event(line: bytes | str) -> Event | None:
    """Parse one event; None for tombstones, heartbeats, and notes about transactions or schemas."""
    return None if line.strip() in NOTHING else shaped(parse(line))


def shaped(found: Json) -> Event | None:
    """The event in a JSON value; None if the value is not about a change of a row."""
    schema: Json = None
    if isinstance(found, dict) and "payload" in found and "op" not in found:
        schema, found = found.get("schema"), found["payload"]
    if found is None or (isinstance(found, str) and found in NOTHING):
        return None
    if not isinstance(found, dict):
        raise SourceError("is not a Debezium event")
    kind = found.get("op")
    if kind == "m" or (kind is None and _is_note(found)):
        return None
    source, before, after = (found.get(name) for name in ("source", "before", "after"))
    match kind:
        case "r" | "c" | "u" | "d" | "t" if (
            isinstance(source, dict)
            and isinstance(before, dict | None)
            and isinstance(after, dict | None)
            and (kind == "t" or (before if kind == "d" else after) is not None)
        ):
            return Event(kind, before, after, _time(source), source, _row_fields(schema))
    raise SourceError(
        "is not a Debezium envelope (op, source, before, after): take out transformations that unwrap it"
    )


def _is_note(found: JsonObject) -> bool:
    """Whether this is a heartbeat, or says that a transaction began or ended, or that a schema changed.

    An unwrapped row may have columns of the same names; it is not a note.
    """
    if found and found.keys() <= {"ts_ms", "ts_us", "ts_ns"}:
        return True
    if found.get("status") in ("BEGIN", "END") and "id" in found and found.keys() <= _NOTES:
        return True
    return "ddl" in found and "databaseName" in found and isinstance(found.get("source"), dict)


def _time(source: JsonObject) -> int:
    for name, micros in (("ts_us", _MICROS["us"]), ("ts_ns", _MICROS["ns"]), ("ts_ms", _MICROS["ms"])):
        given = source.get(name)
        if isinstance(given, int) and not isinstance(given, bool):
            time = micros(given)
            if abs(time) < _LATEST:
                return time
    raise SourceError("has no time (source.ts_us or source.ts_ms)")


def _row_fields(schema: Json) -> list[JsonObject] | None:
    """The fields of a row, from the envelope's schema.  Raises SourceError if one is not usable."""
    if not isinstance(schema, dict):
        if schema is None:
            return None
        raise _no_schema()
    parts = _objects(schema.get("fields"))
    images = (part.get("fields") for part in parts if part.get("field") in ("after", "before"))
    fields = _objects(next(images, None))
    names = [one.get("field") for one in fields]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise _no_schema()
    for one in fields:
        written(one)
    return fields or None


def _objects(value: Json) -> list[JsonObject]:
    """The objects of a list; none where there is no list."""
    try:
        return [] if value is None else objects(value)
    except TypeError:
        raise _no_schema() from None


def _no_schema() -> SourceError:
    return SourceError("has a schema that is not one of Debezium's")


_PLAIN: Final = {
    "int8": "SMALLINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "float": "FLOAT",
    "float32": "FLOAT", "double": "DOUBLE", "float64": "DOUBLE", "boolean": "BOOLEAN",
}  # fmt: skip
_TEMPORAL: Final[dict[str, tuple[str, Convert]]] = {
    "io.debezium.time.Date": ("DATE", _integer),
    "org.apache.kafka.connect.data.Date": ("DATE", _integer),
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


def written(described: JsonObject) -> tuple[str, Convert]:
    """The SQL type of a described field, and the function that converts its values."""
    meaning, plain = described.get("name"), described.get("type")
    if not isinstance(meaning, str | None) or not isinstance(plain, str | None):
        raise _no_schema()
    if meaning in _TEMPORAL:
        return _TEMPORAL[meaning]
    if meaning == _DECIMAL:
        given = described.get("parameters")
        if not isinstance(given, dict):
            raise _no_schema()
        scale, precision = _whole(given.get("scale")), _whole(given.get("connect.decimal.precision", 38))
        places = min(max(scale, 0), 38)
        digits = min(max(precision, places, 1), 38)
        return f"DECIMAL({digits},{places})", lambda value: _unscaled(value, scale)
    if meaning == _ANY_DECIMAL:
        return "DECIMAL(38,9)", _any_scale
    return _PLAIN.get(plain or "", "VARCHAR"), _text_or_itself


def _whole(value: Json) -> int:
    """A scale or a precision: a small integer, or its text."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,4}", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10_000:
        return value
    raise _no_schema()


def _any_scale(value: Json) -> str:
    """A decimal that comes with its scale."""
    given = as_object(value)
    return _unscaled(given["value"], _whole(given["scale"]))


def _unscaled(value: Json, scale: int) -> str:
    """A decimal as Kafka Connect writes it: the bytes of an integer, and a scale."""
    if not isinstance(value, str):
        raise TypeError
    return f"{int.from_bytes(base64.b64decode(value, validate=True), 'big', signed=True)}e{-scale}"


def _text_or_itself(value: Json) -> Json:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


def guessed(kind: str, unit: Unit) -> Convert:
    """The function that converts values of a declared type if the event does not describe them."""
    if kind in ("TIMESTAMP", "TIME"):
        return lambda value: value if isinstance(value, str) else _MICROS[unit](value)
    return _text_or_itself


def unavailable(value: Json) -> bool:
    """Whether Debezium left the value out because it did not change."""
    return isinstance(value, str) and value in (UNAVAILABLE, _UNAVAILABLE_BYTES)

"""Turns change events into the rows of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.errors import SourceError, SpecError, TidegaugeError
from tidegauge.model.json import as_text
from tidegauge.source.batch.names import key_columns, quote
from tidegauge.source.batch.rows import assemble, image, key, schema
from tidegauge.source.batch.spool import Spool
from tidegauge.source.batch.values import declared_types, from_values, text
from tidegauge.source.debezium.events import LARGEST, guessed, unavailable, written

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tidegauge.model.json import Json, JsonObject
    from tidegauge.source.debezium.events import Convert, Event, Row, Unit
    from tidegauge.source.debezium.quarantine import Quarantine

    Key = tuple[str, ...]

_CHUNK: Final = 10_000
_DAY: Final = 86_400_000_000
UNUSABLE: Final = (
    TidegaugeError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError,
    pa.ArrowException,
)  # fmt: skip
"""The errors that a malformed event may raise; any other error is a bug."""


class Reading:
    """Which table's events are read, and how their values are converted."""

    def __init__(
        self,
        table: str,
        *,
        key: str | Sequence[str],
        unit: str | None = None,
        schema: str | None = None,
        columns: Mapping[str, str] | None = None,
        timestamps: Unit = "us",
    ) -> None:
        self.table = table
        self._key = key_columns(key, required=True)
        self._unit = unit
        self._schema = schema
        self._timestamps = timestamps
        self._declared = None if columns is None else declared_types(columns, key="source.columns")
        self._selected: frozenset[str] | None = None
        self._converters: tuple[list[JsonObject] | None, dict[str, Convert]] | None = None
        """The last event's fields and their converters, as one value, because threads share it."""

    def concerns(self, event: Event) -> bool:
        """Whether the event is about our table.  Raises SourceError if it names no table."""
        named = event.source.get("table", event.source.get("collection"))
        if not isinstance(named, str):
            raise SourceError(
                "does not say which table it is of (source.table): take out transformations that remove it"
            )
        return named == self.table and self._schema in (None, event.source.get("schema"))

    def describe(self, event: Event) -> bool:
        """Take the columns from an event's schema, if none were declared.  Returns whether they are known."""
        if self._declared is None and event.fields:
            self._declared = {as_text(part["field"]): written(part)[0] for part in event.fields}
        return self._declared is not None

    @property
    def described(self) -> bool:
        """Whether the columns are known."""
        return self._declared is not None

    @property
    def columns(self) -> dict[str, str]:
        """All columns."""
        if self._declared is None:
            raise SpecError(
                f"the events of {quote(self.table)} do not carry their schema, or there are none yet: "
                "declare the columns "
                'and their types (columns = { id = "BIGINT", status = "VARCHAR" })',
                key="source.columns",
            )
        return self._declared

    def select(self, columns: Collection[str]) -> None:
        """Deliver these columns only."""
        self._selected, self._converters = frozenset(columns), None

    @property
    def kinds(self) -> dict[str, str]:
        """The delivered columns."""
        return {
            name: kind
            for name, kind in self.columns.items()
            if self._selected is None or name in self._selected
        }

    def _converter(self, event: Event) -> dict[str, Convert]:
        known = self._converters
        if known is None or event.fields != known[0]:
            described = {as_text(part["field"]): _own(written(part)[1]) for part in event.fields or ()}
            known = (
                event.fields,
                {
                    name: _of_day(described.get(name) or _or_null(guessed(kind, self._timestamps)), kind)
                    for name, kind in self.kinds.items()
                },
            )
            self._converters = known
        return known[1]

    def keys(self, event: Event) -> tuple[Key | None, Key | None]:
        """The keys of the row before and after; None if there is no row, or its key has a null."""
        return self._key_of(event.before), self._key_of(event.after)

    def _key_of(self, row: Row | None) -> Key | None:
        if row is None:
            return None
        if any(name not in row for name in self._key):
            raise self._lacking()
        values = [row[name] for name in self._key]
        if any(isinstance(value, dict | list) for value in values):
            raise SourceError(
                "has a key that is not a plain value: name columns of numbers or text ([source] key)"
            )
        return None if any(value is None for value in values) else tuple(text(value) for value in values)

    def _lacking(self) -> SourceError:
        return SourceError(
            f"of {quote(self.table)} lacks a column that is used: it was dropped or renamed. Undo the "
            "change, or start a new gauge with what is left of the budget"
        )

    def rows(self, events: Sequence[Event]) -> pa.Table:
        """The changes that the events describe, each with its own time stamp."""
        kinds = self.kinds
        keys, previous, units, informed, kept = [], [], [], [], []
        befores: list[Row | None] = []
        afters: list[Row | None] = []
        for event in events:
            old, new = self.keys(event)
            convert = self._converter(event)
            after, missing = self._image(None if event.kind in "dt" else event.after, convert)
            whole = event.kind == "u" and event.before is not None
            known = whole and old is not None and old != ("",)  # a row without a key does not count
            befores.append(self._image(event.before if known else None, convert)[0])
            afters.append(after)
            keys.append(old if event.kind == "d" else new)
            previous.append(old if event.kind == "u" and old is not None and old != new else None)
            if after is not None and self._unit is not None and self._unit not in (event.after or {}):
                raise self._lacking()
            unit = None if after is None or self._unit is None else (event.after or {}).get(self._unit)
            if isinstance(unit, dict | list):
                raise SourceError(
                    "has a unit that is not a plain value: name a column of numbers or text ([source] unit)"
                )
            if self._unit and unavailable(unit):
                unit, missing = None, [*missing, *([self._unit] if self._unit not in missing else [])]
            units.append(unit)
            kept.append(missing or None)
            informed.append(whole or event.kind == "c")
        emptied = pa.array([event.kind == "t" for event in events], pa.bool_())
        named = pc.fill_null(_joined(keys, len(self._key)), "")
        return assemble(
            kinds,
            time=pa.array([event.time for event in events], pa.int64()),
            entry=pc.if_else(emptied, pa.scalar(None, pa.string()), named),
            unit=from_values(units, "VARCHAR"),
            before=_images(befores, kinds),
            after=_images(afters, kinds),
            informed=pa.array(informed, pa.bool_()),
            previous=_joined(previous, len(self._key)),
            kept=pa.array(kept, pa.list_(pa.string())),
        )

    def _image(self, row: Row | None, convert: Mapping[str, Convert]) -> tuple[Row | None, list[str]]:
        """The converted values of a row, and the columns that were left out."""
        if row is None:
            return None, []
        if not convert.keys() <= row.keys():
            raise self._lacking()
        missing = [name for name in convert if unavailable(row[name])]
        return {
            name: None if row[name] is None or name in missing else one(row[name])
            for name, one in convert.items()
        }, missing


def _own(convert: Convert) -> Convert:
    """Convert a value as its event's own schema says.  Raises SourceError if the two do not match."""

    def read(value: Json) -> Json:
        try:
            return convert(value)
        except UNUSABLE:
            raise SourceError(
                "has a value that is not written as its schema says: "
                "write events with JsonConverter, unchanged"
            ) from None

    return read


def _or_null(convert: Convert) -> Convert:
    """Convert a value as declared; null if it does not belong to the type, as in every source."""

    def read(value: Json) -> Json:
        try:
            return convert(value)
        except UNUSABLE:
            return None

    return read


def _of_day(convert: Convert, kind: str) -> Convert:
    """The same, but null for a number that is not a time of day."""
    if kind.upper() != "TIME":
        return convert

    def read(value: Json) -> Json:
        found = convert(value)
        return None if isinstance(found, int) and not 0 <= found < _DAY else found

    return read


@dataclass(frozen=True)
class _Placed:
    """An event, its line, the file or partition and the place where it ends, and its order in the batch."""

    event: Event
    line: bytes
    part: str
    place: int
    order: tuple[int, int]


class Gathered:
    """The events of a batch.  Unusable events go to the quarantine, and do not affect the others.

    The columns are known from the first usable event at the latest.
    """

    def __init__(self, reading: Reading, quarantine: Quarantine) -> None:
        self._reading, self._quarantine = reading, quarantine
        self._spool: Spool | None = None
        self._events: list[_Placed] = []
        self._bytes = 0
        self.count = self.bytes = 0
        self.orders: list[tuple[int, int]] = []
        """The order of each row in the batch, as given with its event."""

    def add(self, event: Event, line: bytes, part: str, place: int, order: tuple[int, int] = (0, 0)) -> None:
        """Add an event that ends at this place of this part (a file or a partition)."""
        if not self._reading.described:
            try:
                self._reading.describe(event)
            except UNUSABLE as refusal:
                self._quarantine.put(part, place, reason(refusal), line)
                return
        self._events.append(_Placed(event, line, part, place, order))
        self._bytes += len(line)
        self.count += 1
        self.bytes += len(line)
        if len(self._events) >= _CHUNK or self._bytes >= LARGEST:
            self._convert()

    def _convert(self) -> Spool:
        self._spool = self._spool or Spool(schema(self._reading.kinds))
        events = self._events
        self._events, self._bytes = [], 0
        if events:
            try:
                self._spool.append(self._reading.rows([one.event for one in events]))
                self.orders += [one.order for one in events]
            except UNUSABLE:
                self._one_by_one(self._spool, events)
        return self._spool

    def _one_by_one(self, spool: Spool, events: Sequence[_Placed]) -> None:
        usable = []
        for one in events:
            try:
                usable.append(self._reading.rows([one.event]))
                self.orders.append(one.order)
            except UNUSABLE as refusal:
                self._quarantine.put(one.part, one.place, reason(refusal), one.line)
        if usable:
            spool.append(pa.concat_tables(usable).combine_chunks())

    def take(self) -> pa.Table:
        """The rows of the batch.  The quarantine is durable before this returns.  The next batch begins."""
        self.count = self.bytes = 0
        rows = self._convert().take()
        self._quarantine.settle()
        return rows


def reason(refusal: BaseException) -> str:
    """The reason why an event cannot be used, without any of its values."""
    return str(refusal) if isinstance(refusal, SourceError) else f"cannot be read ({type(refusal).__name__})"


def _joined(keys: Sequence[tuple[str, ...] | None], parts: int) -> pa.Array:
    return key([pa.array([None if k is None else k[i] for k in keys], pa.string()) for i in range(parts)])


def _images(rows: Sequence[Row | None], kinds: Mapping[str, str]) -> pa.Array:
    values = [
        from_values([None if row is None else row[name] for row in rows], kind)
        for name, kind in kinds.items()
    ]
    return image(values, kinds, pa.array([row is None for row in rows], pa.bool_()), len(rows))

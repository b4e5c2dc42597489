"""Change events -> the rows of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.errors import SourceError, SpecError
from tidegauge.source.debezium_events import guessed, unavailable, written
from tidegauge.source.names import quote
from tidegauge.source.rows import assemble, image, key, schema
from tidegauge.source.spool import Spool
from tidegauge.source.values import declared_types, from_values, text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tidegauge.source.debezium_events import Convert, Event, Row, Unit


_CHUNK: Final = 10_000


class Reading:
    """Which table's events are read, and how their values are."""

    def __init__(
        self,
        table: str,
        *,
        entry: str | Sequence[str],
        unit: str | None,
        schema: str | None,
        columns: Mapping[str, str] | None,
        timestamps: Unit,
    ) -> None:
        self.table = table
        self._entry = (entry,) if isinstance(entry, str) else tuple(entry)
        if not self._entry:
            raise SpecError("name the columns of the primary key", key="source.entry")
        self._unit = unit
        self._schema = schema
        self._timestamps = timestamps
        self._declared = None if columns is None else declared_types(columns, key="source.columns")
        self._selected: frozenset[str] | None = None
        self._fields: list[dict[str, Any]] | None = None
        self._converters: dict[str, Convert] = {}

    def concerns(self, event: Event) -> bool:
        """Whether the event is about our table."""
        named = event.source.get("table", event.source.get("collection"))
        return named == self.table and self._schema in (None, event.source.get("schema"))

    def describe(self, event: Event) -> None:
        """Take the columns from an event that carries its schema, where none were declared."""
        if self._declared is None and event.fields:
            self._declared = {part["field"]: written(part)[0] for part in event.fields}

    @property
    def described(self) -> bool:
        """Whether the columns are known."""
        return self._declared is not None

    @property
    def columns(self) -> dict[str, str]:
        """All columns."""
        if self._declared is None:
            raise SpecError(
                f"the events of {quote(self.table)} do not carry their schema, or there are none yet: declare the columns "
                'and their types (columns = { id = "BIGINT", status = "VARCHAR" })',
                key="source.columns",
            )
        return self._declared

    def select(self, columns: Collection[str]) -> None:
        """Deliver these columns only."""
        self._selected = frozenset(columns)

    @property
    def kinds(self) -> dict[str, str]:
        """The delivered columns."""
        return {
            name: kind
            for name, kind in self.columns.items()
            if self._selected is None or name in self._selected
        }

    def _converter(self, event: Event) -> dict[str, Convert]:
        if event.fields is None or event.fields != self._fields or not self._converters:
            self._fields = event.fields
            told = {part["field"]: written(part)[1] for part in event.fields or ()}
            self._converters = {
                name: told.get(name) or guessed(kind, self._timestamps) for name, kind in self.kinds.items()
            }
        return self._converters

    def _key(self, row: Row | None) -> tuple[str, ...] | None:
        """The key's columns; None where there is no row, or no value in one of them."""
        if row is None:
            return None
        if any(name not in row for name in self._entry):
            raise self._lacking()
        return (
            None
            if any(row[name] is None for name in self._entry)
            else tuple(text(row[name]) for name in self._entry)
        )

    def _lacking(self) -> SourceError:
        return SourceError(
            f"an event of {quote(self.table)} lacks a column that is used: it was dropped or renamed. Nothing after it was "
            "read or acknowledged. Undo the change, or start a new gauge with what is left of the budget."
        )

    def rows(self, events: Sequence[Event], times: Sequence[int]) -> pa.Table:
        """The mutations that the events tell."""
        kinds = self.kinds
        keys, previous, units, informed, kept = [], [], [], [], []
        befores: list[Row | None] = []
        afters: list[Row | None] = []
        for event in events:
            old, new = self._key(event.before), self._key(event.after)
            convert = self._converter(event)
            after, missing = self._image(None if event.kind in "dt" else event.after, convert)
            whole = event.kind == "u" and event.before is not None
            known = whole and old is not None and old != ("",)  # what has no key was not there
            befores.append(self._image(event.before if known else None, convert)[0])
            afters.append(after)
            keys.append(old if event.kind == "d" else new)
            previous.append(old if event.kind == "u" and old is not None and old != new else None)
            unit = None if after is None or self._unit is None else (event.after or {}).get(self._unit)
            if self._unit and unavailable(unit):
                unit, missing = None, [*missing, *([self._unit] if self._unit not in missing else [])]
            units.append(unit)
            kept.append(missing or None)
            informed.append(whole or event.kind == "c")
        emptied = pa.array([event.kind == "t" for event in events], pa.bool_())
        named = pc.fill_null(_joined(keys, len(self._entry)), "")
        return assemble(
            kinds,
            time=pa.array(times, pa.int64()),
            entry=pc.if_else(emptied, pa.scalar(None, pa.string()), named),
            unit=from_values(units, "VARCHAR"),
            before=_images(befores, kinds),
            after=_images(afters, kinds),
            informed=pa.array(informed, pa.bool_()),
            previous=_joined(previous, len(self._entry)),
            kept=pa.array(kept, pa.list_(pa.string())),
        )

    def _image(self, row: Row | None, convert: Mapping[str, Convert]) -> tuple[Row | None, list[str]]:
        """A row's values as they are meant, and which of them were left out."""
        if row is None:
            return None, []
        if not convert.keys() <= row.keys():
            raise self._lacking()
        missing = [name for name in convert if unavailable(row[name])]
        return {
            name: None if row[name] is None or name in missing else _read(one, row[name])
            for name, one in convert.items()
        }, missing


def _read(convert: Convert, value: Any) -> Any:
    """A value as it is meant; null where it is not written as its schema says, like any value that is none of its type."""
    try:
        return convert(value)
    except (ValueError, TypeError, KeyError, OverflowError):
        return None


class Gathered:
    """Events on their way to a batch; the columns are known from the first of them at the latest."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._spool: Spool | None = None
        self._events: list[Event] = []
        self._times: list[int] = []
        self.count = 0

    def add(self, event: Event, time: int) -> None:
        """One more."""
        self._reading.describe(event)
        self._events.append(event)
        self._times.append(time)
        self.count += 1
        if len(self._events) >= _CHUNK:
            self._convert()

    def _convert(self) -> Spool:
        self._spool = self._spool or Spool(schema(self._reading.kinds))
        if self._events:
            self._spool.append(self._reading.rows(self._events, self._times))
        self._events, self._times = [], []
        return self._spool

    def take(self) -> pa.Table:
        """All of them, and begin anew."""
        self.count = 0
        return self._convert().take()


def _joined(keys: Sequence[tuple[str, ...] | None], parts: int) -> pa.Array:
    return key([pa.array([None if k is None else k[i] for k in keys], pa.string()) for i in range(parts)])


def _images(rows: Sequence[Row | None], kinds: Mapping[str, str]) -> pa.Array:
    values = [
        from_values([None if row is None else row[name] for row in rows], kind)
        for name, kind in kinds.items()
    ]
    return image(values, kinds, pa.array([row is None for row in rows], pa.bool_()), len(rows))

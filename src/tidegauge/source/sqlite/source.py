"""A table of a live SQLite file, followed through triggers."""

from __future__ import annotations

import re
import secrets
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.json import as_text, as_whole
from tidegauge.model.mutation import Batch
from tidegauge.model.source import Check, FollowedSource
from tidegauge.source.batch.names import key_columns, no_column, no_key_or_unit, no_table, quote
from tidegauge.source.batch.position import Position
from tidegauge.source.batch.rows import assemble, image, key, schema, truncation
from tidegauge.source.batch.spool import Spool
from tidegauge.source.batch.values import declared_types, from_values
from tidegauge.source.sqlite import readers, triggers
from tidegauge.source.sqlite.upgrade import renew

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tidegauge.model.json import JsonObject

_CHUNK: Final = 20_000
_BATCH: Final = 100_000
_USE_WAL: Final = " (with WAL, readers and writers do not wait for each other)"


def sql_type(declared: str) -> str:
    """The SQL type of a declared type: SQLite's rules of affinity, and the usual meaning of other names."""
    kind = declared.upper()
    if "INT" in kind:
        return "BIGINT"
    if any(word in kind for word in ("CHAR", "CLOB", "TEXT", "BLOB", "DATE", "TIME")) or not kind:
        return "VARCHAR"
    if any(word in kind for word in ("REAL", "FLOA", "DOUB")):
        return "DOUBLE"
    if "BOOL" in kind:
        return "BOOLEAN"
    size = re.search(r"\((\d+)\s*(?:,\s*(\d+))?\)", kind)
    if size and int(size[2] or 0) <= int(size[1]) <= 38:
        return f"DECIMAL({size[1]},{size[2] or 0})"
    return "DECIMAL(38,9)"


@dataclass(frozen=True)
class Place(Position):
    """The last change that was read, of which installation, and by which gauge."""

    SOURCE: ClassVar[str] = "an SQLite source"

    id: int
    token: str
    reader: str

    @classmethod
    def from_stored(cls, stored: JsonObject) -> Place:
        """The position with these fields.

        Positions of earlier versions have a time, which is not needed, and no reader: they get one here.
        """
        reader = as_text(stored.get("reader") or _new_reader())
        return cls(as_whole(stored["id"]), as_text(stored["token"]), reader)


def _new_reader() -> str:
    return secrets.token_hex(8)


class SQLite(FollowedSource):
    """Follows one table of a file; `install` must have been run on it.

    If the triggers were installed again since the last read, the whole table is read once more, and the net
    difference counts.
    """

    installs = True

    def __init__(
        self,
        path: str | Path,
        table: str,
        *,
        key: str | Sequence[str] = (),
        entry: str | Sequence[str] = (),
        unit: str | None = None,
        types: Mapping[str, str] | None = None,
    ) -> None:
        self._path = Path(path)
        self._table = table
        self._key = key_columns(key or entry)
        self._unit = unit
        self._types = declared_types(types or {}, key="source.types")
        self._selected: frozenset[str] | None = None

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        return self._table

    @property
    def columns(self) -> Mapping[str, str]:
        """The table's columns; `types` overrides the types that the table declares."""
        with self._opened() as connection:
            found = triggers.declared(connection, self._table)
            if not found:
                names = triggers.table_names(connection)
                raise SourceError(no_table(self._table, names), path=str(self._path))
        used = [*self._key, *([self._unit] if self._unit else [])]
        if missing := [name for name in used if name not in found]:
            raise SpecError(no_key_or_unit(self._table, missing, found), key="source")
        return self._kinds(found)

    def _kinds(self, declared: Mapping[str, str]) -> dict[str, str]:
        if missing := self._types.keys() - declared.keys():
            raise SpecError(no_column(self._table, sorted(missing), declared), key="source.types")
        return {name: self._types.get(name) or sql_type(kind) for name, kind in declared.items()}

    def select(self, columns: Collection[str]) -> None:
        """Deliver these columns only."""
        self._selected = frozenset(columns)

    def install(self) -> str:
        """Record the changes from now on."""
        triggers.install(self._path, self._table, key=self._key)
        return (
            f"From now on every change of {quote(self._table)} is recorded, in the same file. "
            "Undo with: tidegauge uninstall"
        )

    def uninstall(self, position: str | None = None) -> str:
        """Remove everything that was installed, unless another gauge follows the table."""
        reader = None if position is None else Place.parse(position).reader
        with closing(triggers.connect(self._path)) as connection:
            others = readers.leave(connection, self._table, reader)
        if others:
            return (
                f"Changes of {quote(self._table)} are still recorded: {others} other gauge(s) follow the "
                "table. Nothing is kept for this gauge any longer. If the other gauges are gone, first run "
                f"this in the file: DROP TABLE {quote(triggers.readers_name(self._table))};"
            )
        triggers.uninstall(self._path, self._table)
        return (
            f"Changes of {quote(self._table)} are no longer recorded, and nothing of ours is left in the "
            "file. To go on with a gauge, run: tidegauge install. The gauge then reads the table "
            "whole, and the net difference counts."
        )

    def doctor(self, position: str | None = None) -> list[Check]:
        """Whether the changes are recorded, since the store's `position` where there is one."""
        place = None if position is None else Place.parse(position)
        try:
            with self._opened() as connection:
                (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
                checks = [
                    Check(
                        "file",
                        ok=True,
                        detail=f"opens; journal mode {mode}{'' if mode == 'wal' else _USE_WAL}",
                    )
                ]
                try:
                    triggers.recorder(connection, self._table, self._key)
                except (SourceError, SpecError) as refusal:
                    return [*checks, Check("table", ok=False, detail=str(refusal))]
                recording = self._recording(connection)
                removed = readers.removed(connection, self._table)
        except SourceError as refusal:
            return [Check("file", ok=False, detail=str(refusal))]
        detail = "every change is recorded" if recording else "changes are not, or no longer, recorded"
        if recording and place and (place.token != recording.token or place.id < removed):
            cause = (
                "the triggers were installed again since the last run"
                if place.token != recording.token
                else "changes were removed that this store has not read"
            )
            detail += f"; {cause}, so the next run reads the whole table, and the net difference counts"
        return [*checks, Check("triggers", recording is not None, detail, "tidegauge install")]

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Every change recorded so far, in the order of the log.  No lock is held between batches."""
        place = None if position is None else Place.parse(position)
        with self._opened() as connection:
            recording = self._recording(connection)
            if recording is None and renew(self._path, self._table, self._key):
                recording = self._recording(connection)
            if recording is None:
                raise SourceError(
                    f"changes of the table {quote(self._table)} are not, or no longer, recorded: the "
                    "triggers are missing, the table was rebuilt, or its key or columns are others. "
                    "Nothing was read. Install them ('tidegauge install'); the table is then read "
                    "whole once and the net difference counts.",
                    path=str(self._path),
                )
            if place is None or not self._continues(connection, recording, place):
                batches = iter([self._load(connection, recording, until, place)])
            else:
                (target,) = connection.execute(
                    f"SELECT coalesce(max(id), 0) FROM {quote(recording.recorder.log)}"
                ).fetchone()
                batches = self._follow(recording, place, target, until)
        yield from batches

    def acknowledge(self, position: str) -> None:
        """Remove the recorded changes that every gauge of the table has committed.

        If the file is busy, the next acknowledgement removes them.
        """
        place = Place.parse(position)
        try:
            with closing(triggers.connect(self._path, wait=1.0)) as connection:
                found = triggers.installed(connection, self._table)
                if found and found[0] == place.token:
                    readers.acknowledge(connection, self._table, place.reader, place.id)
        except sqlite3.OperationalError:
            pass

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A read-only connection."""
        with closing(triggers.connect(self._path)) as connection:
            connection.execute("PRAGMA query_only = ON")
            try:
                yield connection
            except sqlite3.Error as error:
                raise SourceError(
                    f"cannot be read ({type(error).__name__}). Nothing is lost: what was recorded stays.",
                    path=str(self._path),
                ) from None

    def _recording(self, connection: sqlite3.Connection) -> _Recording | None:
        """What is installed; None unless it is complete and records every column we need."""
        found, declared = (
            triggers.installed(connection, self._table),
            triggers.declared(connection, self._table),
        )
        if found is None or not declared:
            return None
        token, key, columns = found
        kinds = {
            name: kind
            for name, kind in self._kinds(declared).items()
            if name in (columns if self._selected is None else self._selected)
        }
        needed = {*(self._selected or ()), *([self._unit] if self._unit else [])}
        if not needed <= set(columns) or not set(columns) <= set(declared):
            return None
        recorder = triggers.recorder(connection, self._table, self._key, columns)
        whole = key == recorder.key and triggers.intact(connection, recorder)
        return _Recording(recorder, token, kinds, self._unit) if whole else None

    def _continues(self, connection: sqlite3.Connection, recording: _Recording, place: Place) -> bool:
        """Whether the log still has every change after this position."""
        return place.token == recording.token and place.id >= readers.removed(connection, self._table)

    def _load(
        self, connection: sqlite3.Connection, recording: _Recording, until: int, place: Place | None
    ) -> Batch:
        """The whole table, and the last change that is in it, in one transaction.

        place: the gauge's position, whose rows are replaced; None at the first load.
        """
        spool = Spool(schema(recording.kinds))
        connection.execute("BEGIN")
        (seen,) = connection.execute(
            f"SELECT max(id) FROM (SELECT id FROM {quote(recording.recorder.log)} UNION ALL "
            "SELECT seq FROM sqlite_sequence WHERE name = ?)",
            [recording.recorder.log],
        ).fetchone()
        (now,) = connection.execute(f"SELECT {triggers.NOW}").fetchone()
        at = min(now, until)
        if place is not None:
            spool.append(truncation(recording.kinds, at))
        cursor = connection.execute(recording.whole_table())
        while rows := cursor.fetchmany(_CHUNK):
            recording.add(spool, rows, [at] * len(rows), informed=True)
        connection.execute("COMMIT")
        reader = _new_reader() if place is None else place.reader
        return Batch(rows=spool.take(), position=str(Place(seen or 0, recording.token, reader)), upto=until)

    def _follow(self, recording: _Recording, place: Place, target: int, until: int) -> Iterator[Batch]:
        """The recorded changes up to the target, in their order and with their own times."""
        spool, last = Spool(schema(recording.kinds)), place.id
        while last < target:
            with self._opened() as connection:
                connection.execute("BEGIN")  # one state of the file for the check and the rows
                if not self._continues(connection, recording, replace(place, id=last)):
                    raise SourceError(
                        "recorded changes were removed while they were read. Nothing was read. Run again: "
                        "the table is then read whole, and the net difference counts.",
                        path=str(self._path),
                    )
                rows = connection.execute(recording.changes(), [last, target, _CHUNK]).fetchall()
            if not rows:  # rolled back, or removed as read
                break
            recording.add(spool, rows, [row[1] for row in rows])
            last = rows[-1][0]
            if spool.rows >= _BATCH and last < target:
                yield Batch(rows=spool.take(), position=str(replace(place, id=last)), upto=None)
        yield Batch(rows=spool.take(), position=str(replace(place, id=last)), upto=until)


@dataclass(frozen=True)
class _Recording:
    """An installed recorder, and the columns that are read from it.

    Rows are read as (id, at, kind, unit, old keys, new keys, columns).
    """

    recorder: triggers.Recorder
    token: str
    kinds: dict[str, str]
    unit: str | None

    def whole_table(self) -> str:
        """The query of all rows of the table, as insertions."""
        key = self.recorder.key
        nothing = ", ".join(["NULL"] * len(key))
        columns = ", ".join(f"t.{quote(name)}" for name in [*key, *self.kinds])
        unit = "NULL" if self.unit is None else f"t.{quote(self.unit)}"
        return f"SELECT 0, 0, 'i', {unit}, {nothing}, {columns} FROM {quote(self.recorder.table)} AS t"

    def changes(self) -> str:
        """The query of the changes after an id, up to another id, with a limit."""
        key = self.recorder.key
        old = ", ".join(f"t.{quote(f'old_{name}')}" for name in key)
        columns = ", ".join(f"t.{quote(f'new_{name}')}" for name in [*key, *self.kinds])
        unit = "NULL" if self.unit is None else f"t.{quote(f'new_{self.unit}')}"
        return (
            f"SELECT id, at, kind, {unit}, {old}, {columns} FROM {quote(self.recorder.log)} AS t "
            "WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
        )

    def add(self, spool: Spool, rows: list[Any], times: list[int], *, informed: bool = False) -> None:
        """Add rows as a batch has them.

        A recorded insertion does not show the row before it: REPLACE may have inserted it over another row.
        """
        if not rows:
            return
        _, _, what, unit, *rest = zip(*rows, strict=True)
        count = len(self.recorder.key)
        old, new = (
            key([from_values(part, "VARCHAR") for part in parts]).to_pylist()
            for parts in (rest[:count], rest[count : 2 * count])
        )
        changes = list(zip(what, old, new, strict=True))
        entry = [(old if kind == "d" else new) or "" for kind, old, new in changes]
        values = [
            from_values(column, kind)
            for column, kind in zip(rest[2 * count :], self.kinds.values(), strict=True)
        ]
        renamed = [old if kind == "u" and old != new else None for kind, old, new in changes]
        spool.append(
            assemble(
                self.kinds,
                time=pa.array(times, pa.int64()),
                entry=pa.array(entry, pa.string()),
                unit=from_values(unit, "VARCHAR") if self.unit else None,
                after=image(values, self.kinds, pa.array([kind == "d" for kind in what]), len(rows)),
                informed=pa.array([informed] * len(rows)),
                previous=pa.array(renamed, pa.string()),
            )
        )

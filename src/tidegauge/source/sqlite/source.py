"""A table of a live SQLite file, followed through triggers."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.mutation import Batch
from tidegauge.model.source import Check, FollowedSource
from tidegauge.source.batch.names import quote
from tidegauge.source.batch.position import Position
from tidegauge.source.batch.rows import assemble, image, key, schema, truncation
from tidegauge.source.batch.spool import Spool
from tidegauge.source.batch.values import declared_types, from_values
from tidegauge.source.sqlite import triggers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_CHUNK: Final = 20_000
_BATCH: Final = 100_000


def sql_type(declared: str) -> str:
    """What a declared type means: SQLite's own rules of affinity, and what people mean beyond them."""
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
    """The last change that was read, and of which installation."""

    SOURCE: ClassVar[str] = "an SQLite source"

    id: int
    token: str

    @classmethod
    def from_stored(cls, stored: dict[str, Any]) -> Place:
        """The position with these fields; older ones also have a time, which is not needed."""
        return cls(int(stored["id"]), str(stored["token"]))


class SQLite(FollowedSource):
    """Follows one table of a file; `install` must have been run on it.

    Where the triggers were installed anew, or their table rebuilt and installed again, the table is read whole once more
    and the net difference counts.
    """

    installs = True

    def __init__(
        self,
        path: str | Path,
        table: str,
        *,
        entry: str | Sequence[str] = (),
        unit: str | None = None,
        types: Mapping[str, str] | None = None,
    ) -> None:
        self._path = Path(path)
        self._table = table
        self._entry = (entry,) if isinstance(entry, str) else tuple(entry)
        self._unit = unit
        self._types = declared_types(types or {}, key="source.types")
        self._selected: frozenset[str] | None = None

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        return self._table

    @property
    def columns(self) -> Mapping[str, str]:
        """The table's columns; `types` says what their values are where the declaration does not."""
        with self._opened() as connection:
            found = triggers.declared(connection, self._table)
        if not found:
            raise SourceError(f"there is no table {quote(self._table)}", path=str(self._path))
        return self._kinds(found)

    def _kinds(self, declared: Mapping[str, str]) -> dict[str, str]:
        if missing := self._types.keys() - declared.keys():
            raise SpecError(f"no column {', '.join(map(quote, sorted(missing)))}", key="source.types")
        return {name: self._types.get(name) or sql_type(kind) for name, kind in declared.items()}

    def select(self, columns: Collection[str]) -> None:
        """Deliver these columns only."""
        self._selected = frozenset(columns)

    def install(self) -> str:
        """Record the changes from now on."""
        triggers.install(self._path, self._table, entry=self._entry)
        return (
            f"From now on every change of {quote(self._table)} is recorded, in the same file. "
            "Undo with: tidegauge uninstall"
        )

    def uninstall(self) -> str:
        """Remove everything that was made for it."""
        triggers.uninstall(self._path, self._table)
        return (
            f"Changes of {quote(self._table)} are no longer recorded, and nothing of ours is left in the file. A gauge that is "
            "to go on needs: tidegauge install; it then reads the table whole, and the net difference counts."
        )

    def doctor(self, position: str | None = None) -> list[Check]:
        """Whether the changes are recorded, since the store's `position` where there is one."""
        place = None if position is None else Place.parse(position)
        try:
            with self._opened() as connection:
                (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
                checks = [
                    Check("file", ok=True, detail=f"opens; journal mode {mode}" + (
                        "" if mode == "wal" else " (with WAL, readers and writers do not wait for each other)")),
                ]  # fmt: skip
                try:
                    triggers.recorder(connection, self._table, self._entry)
                except (SourceError, SpecError) as refusal:
                    return [*checks, Check("table", ok=False, detail=str(refusal))]
                recording = self._recording(connection)
        except SourceError as refusal:
            return [Check("file", ok=False, detail=str(refusal))]
        told = "every change is recorded" if recording else "changes are not, or no longer, recorded"
        if recording and place and place.token != recording.token:
            told += "; the triggers were installed again since the last run, so the next one reads the table whole, and the net difference counts"
        return [*checks, Check("triggers", recording is not None, told, "tidegauge install")]

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Everything recorded so far, in the order of the log.  No lock is held while a batch is away."""
        place = None if position is None else Place.parse(position)
        with self._opened() as connection:
            recording = self._recording(connection)
            if recording is None and triggers.renew(self._path, self._table, self._entry):
                recording = self._recording(connection)
            if recording is None:
                raise SourceError(
                    f"changes of the table {quote(self._table)} are not, or no longer, recorded: the triggers are missing, "
                    "the table was rebuilt, or its key or columns are others. Nothing was read. Install them ('tidegauge "
                    "install'); the table is then read whole once and the net difference counts.",
                    path=str(self._path),
                )
            if place is None or place.token != recording.token:
                batches = iter([self._load(connection, recording, until, again=place is not None)])
            else:
                (target,) = connection.execute(
                    f"SELECT coalesce(max(id), 0) FROM {quote(recording.recorder.log)}"
                ).fetchone()
                batches = self._follow(recording, place, target, until)
        yield from batches

    def acknowledge(self, position: str) -> None:
        """Remove what was recorded and is committed here, a little at a time; if the file is busy, the next time.

        The newest change stays: after a statement that failed with OR FAIL, SQLite would give its number to another.
        """
        place = Place.parse(position)
        try:
            with closing(triggers.connect(self._path, wait=1.0)) as connection:
                found = triggers.installed(connection, self._table)
                log = quote(triggers.log_name(self._table))
                while found and found[0] == place.token:
                    done = connection.execute(
                        f"DELETE FROM {log} WHERE id IN (SELECT id FROM {log} WHERE id <= ? AND id < (SELECT max(id) FROM {log}) LIMIT 10000)",
                        [place.id],
                    )
                    if not done.rowcount:
                        break
                if (
                    found and found[0] == place.token
                ):  # we hold the lock: no statement is at work that needs its notes
                    connection.execute(f"DELETE FROM {quote(triggers.rivals_name(self._table))}")
        except sqlite3.OperationalError:
            pass

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A connection that cannot write."""
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
        """What is installed, where it is whole and records what we need."""
        found, declared = (
            triggers.installed(connection, self._table),
            triggers.declared(connection, self._table),
        )
        if found is None or not declared:
            return None
        token, entry, columns = found
        kinds = {
            name: kind
            for name, kind in self._kinds(declared).items()
            if name in (columns if self._selected is None else self._selected)
        }
        needed = {*(self._selected or ()), *([self._unit] if self._unit else [])}
        if not needed <= set(columns) or not set(columns) <= set(declared):
            return None
        recorder = triggers.recorder(connection, self._table, self._entry, columns)
        whole = entry == recorder.entry and triggers.intact(connection, recorder)
        return _Recording(recorder, token, kinds, self._unit) if whole else None

    def _load(
        self, connection: sqlite3.Connection, recording: _Recording, until: int, *, again: bool
    ) -> Batch:
        """The whole table, and the last change that is in it, in one transaction."""
        spool = Spool(schema(recording.kinds))
        connection.execute("BEGIN")
        (seen,) = connection.execute(
            f"SELECT max(id) FROM (SELECT id FROM {quote(recording.recorder.log)} UNION ALL "
            "SELECT seq FROM sqlite_sequence WHERE name = ?)",
            [recording.recorder.log],
        ).fetchone()
        (now,) = connection.execute(f"SELECT {triggers.NOW}").fetchone()
        at = min(now, until)
        if again:
            spool.append(truncation(recording.kinds, at))
        cursor = connection.execute(recording.whole_table())
        while rows := cursor.fetchmany(_CHUNK):
            recording.add(spool, rows, [at] * len(rows), informed=True)
        connection.execute("COMMIT")
        return Batch(rows=spool.take(), position=str(Place(seen or 0, recording.token)), upto=until)

    def _follow(self, recording: _Recording, place: Place, target: int, until: int) -> Iterator[Batch]:
        """The recorded changes up to the target, in their order and with their own times."""
        spool, last = Spool(schema(recording.kinds)), place.id
        while last < target:
            with self._opened() as connection:
                rows = connection.execute(recording.changes(), [last, target, _CHUNK]).fetchall()
            if not rows:  # rolled back, or removed as read
                break
            recording.add(spool, rows, [row[1] for row in rows])
            last = rows[-1][0]
            if spool.rows >= _BATCH and last < target:
                yield Batch(rows=spool.take(), position=str(Place(last, place.token)), upto=None)
        yield Batch(rows=spool.take(), position=str(Place(last, place.token)), upto=until)


@dataclass(frozen=True)
class _Recording:
    """A recorder at work, and the columns that are read from it as (id, at, kind, unit, old keys, new keys, columns)."""

    recorder: triggers.Recorder
    token: str
    kinds: dict[str, str]
    unit: str | None

    def whole_table(self) -> str:
        """Every row as if it were inserted now."""
        entry = self.recorder.entry
        nothing = ", ".join(["NULL"] * len(entry))
        columns = ", ".join(f"t.{quote(name)}" for name in [*entry, *self.kinds])
        unit = "NULL" if self.unit is None else f"t.{quote(self.unit)}"
        return f"SELECT 0, 0, 'i', {unit}, {nothing}, {columns} FROM {quote(self.recorder.table)} AS t"

    def changes(self) -> str:
        """What was recorded after an id, up to another, so many rows."""
        entry = self.recorder.entry
        old = ", ".join(f"t.{quote(f'old_{name}')}" for name in entry)
        columns = ", ".join(f"t.{quote(f'new_{name}')}" for name in [*entry, *self.kinds])
        unit = "NULL" if self.unit is None else f"t.{quote(f'new_{self.unit}')}"
        return (
            f"SELECT id, at, kind, {unit}, {old}, {columns} FROM {quote(self.recorder.log)} AS t "
            "WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
        )

    def add(self, spool: Spool, rows: list[Any], times: list[int], *, informed: bool = False) -> None:
        """Add rows as a batch has them.

        A recorded insertion does not tell what was there before: REPLACE may have put it in another's place.
        """
        if not rows:
            return
        _, _, what, unit, *rest = zip(*rows, strict=True)
        count = len(self.recorder.entry)
        old, new = (
            key([from_values(part, "VARCHAR") for part in parts]).to_pylist()
            for parts in (rest[:count], rest[count : 2 * count])
        )
        told = list(zip(what, old, new, strict=True))
        entry = [(old if kind == "d" else new) or "" for kind, old, new in told]
        values = [
            from_values(column, kind)
            for column, kind in zip(rest[2 * count :], self.kinds.values(), strict=True)
        ]
        renamed = [old if kind == "u" and old != new else None for kind, old, new in told]
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

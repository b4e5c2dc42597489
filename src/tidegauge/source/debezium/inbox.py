"""The inbox of change events, durable when accepted.  receive/gatekeeper.py authenticates senders."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import threading
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from tidegauge.durable import lock_file, private_folder, sync_folder, whole_lines
from tidegauge.errors import SourceError, StoreLocked
from tidegauge.source.debezium.events import NOTHING, event, parse, shaped
from tidegauge.source.debezium.index import Index
from tidegauge.source.debezium.log import Mark, mark
from tidegauge.source.debezium.rows import UNUSABLE, reason
from tidegauge.source.debezium.source import ONCE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tidegauge.model.json import Json
    from tidegauge.source.debezium.events import Event
    from tidegauge.source.debezium.rows import Reading

_SEGMENT: Final = 64 << 20


def _now() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True)
class _Received:
    """An event of a request, and its line in the file."""

    event: Event
    line: bytes


class Inbox:
    """A folder of event files that one process writes.  A source `Debezium(..., inbox=True)` reads it.

    reading: how that source reads events; the inbox refuses events that the source could not use.
    """

    def __init__(
        self, folder: Path, reading: Reading, *, segment: int = _SEGMENT, now: Callable[[], int] = _now
    ) -> None:
        private_folder(folder)
        self._folder, self._reading, self._limit, self._now = folder, reading, segment, now
        self._mutex = threading.Lock()
        try:
            self._lock = lock_file(folder / "lock")
        except BlockingIOError:
            raise StoreLocked(
                "another process receives events into this inbox. "
                "Stop it, or declare another inbox ([source] inbox)"
            ) from None
        self._file = -1
        self._sound = True
        """Whether the index has every event of the file."""
        try:
            self._index = Index(folder)
            files = sorted(folder.glob("[0-9]*.jsonl"))
            self._number = max((int(path.name.split(".")[0]) for path in files), default=0)
            if files:
                whole_lines(files[-1])
            self._catch_up()
            self._next()
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._number:015}{ONCE}"

    def _next(self) -> None:
        """Begin a new file, durably, with a name that sorts after all names before it.

        The gauge removes a file once it reads the next file, so the index is made durable first.
        """
        self._index.settle(self._now())
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._number = max(self._number + 1, time.time_ns() // 1_000_000)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._size = 0
        sync_folder(self._folder)

    def _catch_up(self) -> None:
        """Index events of the files that a crash or an earlier version left out of the index."""
        self._index.rollback()
        last, end = self._index.indexed
        for path in sorted(self._folder.glob("[0-9]*.jsonl")):
            if path.name >= last:
                self._index.begin()
                with path.open("rb") as file:
                    os.fsync(file.fileno())
                    file.seek(end if path.name == last else 0)
                    for line in file:
                        if line.endswith(b"\n"):
                            self._remember(line)
                    self._index.commit(path.name, file.tell())

    def _remember(self, line: bytes) -> None:
        try:
            change = event(line)
            if change is not None and self._reading.concerns(change):
                self._index.add(change, _place(change), self._reading.keys(change), self._now(), judged=False)
        except UNUSABLE:
            return  # an earlier version accepted it; the gauge sets it aside

    def append(self, body: bytes) -> None:
        """Write one event, or a list of events, without repetitions; afterwards they survive a power cut.

        Raises SourceError if an event cannot count: then nothing of the request is written, and the refusal
        is counted.
        """
        try:
            self._append(body)
        except SourceError as refusal:
            with self._mutex:
                self._index.count(refusal)
            raise
        except sqlite3.Error as error:
            raise OSError(errno.EIO, "the inbox's index cannot be written") from error

    def _append(self, body: bytes) -> None:
        found = self._usable(body)
        with self._mutex:
            if not self._sound:
                self._recover()
            if self._size > self._limit:
                self._next()
            self._index.begin()
            try:
                data = b"".join(one.line for one in found if self._is_new(one.event))
            except BaseException:
                self._index.rollback()
                raise
            self._keep(data)

    def _keep(self, data: bytes) -> None:
        try:
            if data:
                _write(self._file, data)
                os.fsync(self._file)
            self._size += len(data)
            self._index.commit(self._path.name, self._size)
        except BaseException:
            self._sound = False  # part of the data may be in the file, and may be read
            self._index.rollback()
            raise

    def _recover(self) -> None:
        """After a failed write, index the events that reached the file, to recognise repetitions."""
        self._catch_up()
        self._next()
        self._sound = True

    def _is_new(self, change: Event) -> bool:
        return self._index.add(change, _place(change), self._reading.keys(change), self._now())

    def _usable(self, body: bytes) -> list[_Received]:
        """The events about our table and their lines.  Raises SourceError if the gauge could not use one."""
        if body.strip() in NOTHING:
            return []
        try:
            value = parse(body)
        except SourceError as refusal:
            raise SourceError(f"the request {refusal}; nothing of it was kept") from None
        listed: Sequence[Json] = value if isinstance(value, list) else [value]
        try:
            return self._ours(listed)
        except UNUSABLE:  # now one by one, to say which it was
            for number, one in enumerate(listed, 1):
                try:
                    self._ours([one])
                except UNUSABLE as refusal:
                    which = f"event {number} of the request" if isinstance(value, list) else "the event"
                    raise SourceError(f"{which} {reason(refusal)}; nothing of the request was kept") from None
            raise SourceError(
                "the events cannot be used together; nothing of the request was kept. Send them one by one"
            ) from None

    def _ours(self, listed: Sequence[Json]) -> list[_Received]:
        """The events about our table.  Raises one of UNUSABLE for a malformed event."""
        found = []
        for one in listed:
            change = shaped(one)
            if change is not None and self._reading.concerns(change):
                if not self._reading.described:
                    self._reading.describe(change)
                self._require_place(change)
                found.append(_Received(change, json.dumps(one, separators=(",", ":")).encode() + b"\n"))
        if found:
            self._reading.rows([one.event for one in found])
        return found

    @staticmethod
    def _require_place(change: Event) -> None:
        if change.kind != "r" and mark(change) is None:
            raise SourceError(
                "does not say where in its database's log it happened, so a repetition could not be "
                "recognised: use the connector for PostgreSQL, MySQL, MariaDB or SQL Server, "
                "and keep its source"
            )

    def close(self) -> None:
        """Close the files.  Another process may receive; later calls of `append` fail."""
        with self._mutex:
            self._index.close()
            if self._file >= 0:
                os.close(self._file)
            self._file = -1
            os.close(self._lock)


def _place(change: Event) -> Mark:
    """The place of an event in its log.  The place of a snapshot's row includes its time and content.

    Connectors repeat a snapshot at the same position, so rows are the same only if their times agree, too.
    """
    found = mark(change)
    if change.kind != "r" and found is not None:
        return found
    content = json.dumps(
        [change.time, change.after, None if found is None else found.place.hex()], sort_keys=True
    )
    return Mark("snapshot" if found is None else found.log, sha256(content.encode()).digest())


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]

"""A collector's file: survey, tally and tokens in one SQLite database with one writing process at a time."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.durable import lock_file, private_file
from tidegauge.errors import LocalError, StoreCorrupt, StoreError, StoreLocked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Tokens = NDArray[np.uint64]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS collector (
    one INTEGER PRIMARY KEY CHECK (one = 1), survey TEXT, refused TEXT, closed INTEGER
);
CREATE TABLE IF NOT EXISTS tally (window INTEGER PRIMARY KEY, counts BLOB);
CREATE TABLE IF NOT EXISTS tokens (window INTEGER, run BLOB);
"""


class CollectorStore:
    """The file, of mode 0600; each write is one transaction, durable when the method returns."""

    def __init__(self, path: str | os.PathLike[str], *, writing: bool = True) -> None:
        self._path, self._lock = Path(path), -1
        self._opened: sqlite3.Connection | None = None
        if not writing and not self._path.exists():
            raise StoreError(
                f"{self._path}: there is no such collector "
                f"in {self._path.absolute().parent}. Correct the path"
            )
        try:
            if writing:
                self._take()
            self._opened = sqlite3.connect(
                self._path if writing else f"{self._path.absolute().as_uri()}?mode=ro",
                uri=not writing,
                isolation_level=None,
                check_same_thread=False,
            )
            if writing:
                self._opened.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;" + _SCHEMA)
        except sqlite3.Error:
            self.close()
            raise StoreCorrupt(
                f"{self._path}: this is not a collector's file. Name another, or restore a copy",
                advice=None,
            ) from None

    def _take(self) -> None:
        try:
            self._lock = lock_file(self._path.with_name(f"{self._path.name}.lock"))
        except BlockingIOError:
            raise StoreLocked(
                f"{self._path}: another collector has this file open; nothing was changed. "
                "Stop that one, or name another file"
            ) from None
        os.close(private_file(self._path))  # SQLite gives its own files the same mode

    def close(self) -> None:
        """Close the file, so that another process can open it."""
        if self._opened is not None:
            self._opened.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @property
    def _database(self) -> sqlite3.Connection:
        assert self._opened is not None
        return self._opened

    def begin(self, survey: str) -> None:
        """Write the survey into a new file, and join the runs of tokens of an existing one.

        Raises LocalError if the file belongs to another survey.
        """
        self._database.execute("INSERT OR IGNORE INTO collector VALUES (1, ?, '{}', 0)", [survey])
        if self.survey() != survey:
            self.close()
            raise LocalError(
                f"{self._path} belongs to another survey; nothing was changed. Name another file"
            )
        runs: dict[int, list[Tokens]] = {}
        for window, run in self.tokens():
            runs.setdefault(window, []).append(run)
        self._database.execute("BEGIN IMMEDIATE")
        for window, several in runs.items():
            if len(several) > 1:
                self._database.execute("DELETE FROM tokens WHERE window = ?", [window])
                self._add_tokens(window, np.sort(np.concatenate(several)))
        self._database.execute("COMMIT")

    def survey(self) -> str:
        """The JSON of the survey."""
        return str(self._header()[0])

    def refused(self) -> dict[str, int]:
        """How many reports were refused, by reason."""
        return dict(json.loads(self._header()[1]))

    def closed(self) -> int:
        """How many windows are closed."""
        return int(self._header()[2])

    def _header(self) -> tuple[str, str, int]:
        try:
            found = self._database.execute("SELECT survey, refused, closed FROM collector").fetchone()
        except sqlite3.Error:
            found = None
        if found is None:
            raise StoreCorrupt(
                f"{self._path}: this is not a collector's file. Name another, or restore a copy",
                advice=None,
            )
        return tuple(found)

    def rows(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The tally, window by window."""
        for window, counts in self._database.execute("SELECT window, counts FROM tally"):
            yield window, np.frombuffer(counts, dtype="<i8").astype(np.int64)

    def tokens(self) -> Iterator[tuple[int, Tokens]]:
        """The sorted runs of tokens."""
        for window, run in self._database.execute("SELECT window, run FROM tokens"):
            yield window, np.frombuffer(run, dtype="<u8").astype(np.uint64)

    def save(
        self,
        *,
        rows: Mapping[int, NDArray[np.int64]],
        tokens: Mapping[int, Tokens],
        refused: Mapping[str, int],
        closed: int,
    ) -> None:
        """Write a batch: the new rows of the tally, the added tokens and the counts of refusals."""
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
            for window, counts in rows.items():
                blob = counts.astype("<i8").tobytes()
                database.execute("INSERT OR REPLACE INTO tally VALUES (?, ?)", [window, blob])
            for window, found in tokens.items():
                self._add_tokens(window, found)
            database.execute("DELETE FROM tokens WHERE window < ?", [closed])
            database.execute(
                "UPDATE collector SET refused = ?, closed = ?", [json.dumps(dict(refused)), closed]
            )
            database.execute("COMMIT")
        except sqlite3.Error as problem:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise StoreError(
                f"{self._path}: nothing was written, and the batch is not counted ({problem}). "
                "Make room, or give this user the right to write, and send the batch again"
            ) from None

    def _add_tokens(self, window: int, tokens: Tokens) -> None:
        self._database.execute("INSERT INTO tokens VALUES (?, ?)", [window, tokens.astype("<u8").tobytes()])

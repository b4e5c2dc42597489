"""How far a gauge has published, written down outside of its store.

A store that was restored from an old copy does not know what it published since, and would draw new noise for it.  The
witness does: it names the last tick that was made public and the seal of everything up to it.  It is written after a
tick is committed and before its readings are handed on; so a store may be ahead of its witness, but never behind.
Nothing in it is secret.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

from tidegauge.errors import StoreBehind, StoreError

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path


@dataclass(frozen=True)
class Mark:
    """The last tick of a store: `ledger` is the seal of its first ledger entry, which no other store has."""

    ledger: str
    tick: int
    seal: str

    @classmethod
    def of(cls, db: sqlite3.Connection) -> Self | None:
        """Where a store stands, or None before its plan is committed."""
        first = db.execute("SELECT hash FROM ledger ORDER BY seq LIMIT 1").fetchone()
        last = db.execute("SELECT seq, hash FROM ticks ORDER BY seq DESC LIMIT 1").fetchone()
        return None if first is None else cls(first[0], *(last or (0, "")))


class Witness:
    """The file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last: Mark | None = None

    def require(self, db: sqlite3.Connection, store: str) -> None:
        """Refuse a store that does not remember what was published."""
        seen = self._read()
        if seen is None or not seen.tick:  # nothing was published yet
            return
        mark = Mark.of(db)
        what = f"{self.path.name} says that tick {seen.tick} of this gauge was published"
        if mark is None:
            raise StoreBehind(f"{what}, but {store} is new. {_ADVICE}")
        if mark.ledger != seen.ledger:
            raise StoreBehind(f"{self.path.name} is the witness of another store than {store}. {_ADVICE}")
        if mark.tick < seen.tick:
            raise StoreBehind(f"{what}, but {store} ends with tick {mark.tick}: it is an old copy. {_ADVICE}")
        row = db.execute("SELECT hash FROM ticks WHERE seq = ?", (seen.tick,)).fetchone()
        if row is None or row[0] != seen.seal:
            raise StoreBehind(
                f"{what}, and {store} has another tick {seen.tick}: an old copy was run on, and noise was drawn twice. {_ADVICE}"
            )

    def require_writable(self) -> None:
        """Refuse a place where no witness can be kept, before there is something to witness."""
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            fresh.unlink()
        except OSError as error:
            raise StoreError(
                f"the witness {self.path.name} cannot be written: {error.strerror}. Nothing was read, committed or spent. Make its "
                "folder, or name another ([store] witness), then start again."
            ) from None

    def attest(self, db: sqlite3.Connection) -> None:
        """Write down where the store stands, durably, if it has moved."""
        mark = Mark.of(db)
        if mark is None or mark == self._last:
            return
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as file:
                os.fchmod(handle, 0o600)
                file.write(json.dumps(asdict(mark)) + "\n")
                file.flush()
                os.fsync(handle)
            fresh.replace(self.path)
        except OSError as error:
            raise StoreError(
                f"{self.path.name} cannot be written: {error.strerror}. The last tick is committed but was not handed on; "
                "'tidegauge readings' has it. See to the folder, then start again."
            ) from None
        self._last = mark

    def _read(self) -> Mark | None:
        try:
            told = json.loads(self.path.read_text("utf-8"))
            return Mark(str(told["ledger"]), int(told["tick"]), str(told["seal"]))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(
                f"{self.path.name} cannot be read: {error.strerror}. Nothing was changed."
            ) from None
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                f"{self.path.name} is not a witness of a store: something else wrote it. Nothing was changed. Bring it back "
                "from a copy; or, if you know that the store is the newest there is, remove it."
            ) from None


_ADVICE = (
    "Nothing was read or spent. Running it would draw new noise for windows that are public already. Bring back the newest "
    "store. If there is none, what was published stays valid, but the gauge cannot go on: start another (what both "
    "publish adds up) with a store and a witness of its own."
)

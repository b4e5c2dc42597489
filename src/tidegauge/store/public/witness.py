"""The witness: how far a gauge has published, kept outside of its store.

A store that was restored from an old copy does not know what it published since, and would draw new noise for
it.  The witness has the number of instants that were measured (at which bins end) and the last seal.  It is
written after a tick is committed and before its readings are delivered; so a store may be ahead of its
witness, but never behind.  Nothing in the witness is secret or depends on how many rows changed.  The witness
of an encrypted store is signed.
"""

from __future__ import annotations

import hmac
import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Self

from tidegauge.durable import private_file, replacing
from tidegauge.errors import StoreBehind, StoreCorrupt, StoreError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

    from tidegauge.model.json import Json
    from tidegauge.store.cipher import Cipher

_USE: Final = "witness"


@dataclass(frozen=True)
class Mark:
    """How far a store has come: `ledger` is the seal of its first ledger entry, which no other store has.

    `bins` counts the instants at which measured bins end; what format 2 measured in one tick counts as one.
    """

    ledger: str
    bins: int
    seal: str

    @classmethod
    def of(cls, db: sqlite3.Connection) -> Self | None:
        """How far a store has come, or None before its plan is committed."""
        first = db.execute("SELECT hash FROM ledger ORDER BY seq LIMIT 1").fetchone()
        last = db.execute("SELECT seq, hash FROM ticks ORDER BY seq DESC LIMIT 1").fetchone()
        return None if first is None else cls(first[0], *(last or (0, "")))


class Witness:
    """The file."""

    def __init__(self, path: Path, cipher: Cipher | None = None) -> None:
        self.path = path
        self._cipher = cipher
        self._last: Mark | None = None

    def require(self, db: sqlite3.Connection, store: str, *, unsigned: Callable[[], int]) -> None:
        """Refuse a store that does not remember what was published.

        `unsigned`: how many entries of the journal are of format 2, whose witness was not signed.
        """
        record = self._read()  # before the store: another process may move both on meanwhile
        if record is None or not record[0].bins:  # nothing was published yet
            return
        (seen, code), mark = record, Mark.of(db)
        what = f"{self.path.name} says that {seen.bins} ends of bins of this gauge were published"
        if mark is None:
            raise StoreBehind(f"{what}, but {store} is new. {_ADVICE}")
        if mark.ledger != seen.ledger:
            raise StoreBehind(f"{self.path.name} is the witness of another store than {store}. {_ADVICE}")
        if mark.bins < seen.bins:
            raise StoreBehind(f"{what}, but {store} has {mark.bins}: it is an old copy. {_ADVICE}")
        row = db.execute("SELECT hash FROM ticks WHERE seq = ?", (seen.bins,)).fetchone()
        if row is None or row[0] != seen.seal:
            raise StoreBehind(
                f"{what}, and {store} measured another value there: an old copy was run on, and noise was "
                f"drawn twice. {_ADVICE}"
            )
        if self._cipher is not None and not (code is None and seen.bins <= unsigned()):
            signed = self._cipher.mac(_USE, _parts(seen))
            if not hmac.compare_digest((code or "").encode(), signed.encode()):
                raise StoreCorrupt(
                    f"{self.path.name} was altered: its signature does not match. Nothing was read or spent. "
                    "Bring it back from a copy; or, if you know that the store is the newest there is, "
                    "remove it.",
                    advice=None,
                )

    def require_writable(self) -> None:
        """Refuse a place where no witness can be kept, before there is something to witness."""
        fresh = self.path.with_name(f"{self.path.name}.try")
        try:
            os.close(private_file(fresh))
            fresh.unlink()
        except OSError as error:
            raise StoreError(
                f"the witness {self.path.name} cannot be written: {error.strerror}. Nothing was read, "
                "committed or spent. Make its folder, or name another ([store] witness), then start again."
            ) from None

    def attest(self, db: sqlite3.Connection) -> None:
        """Record how far the store has come, durably, if it has moved."""
        mark = Mark.of(db)
        if mark is None or mark == self._last:
            return
        try:
            with replacing(self.path) as file:
                file.write(json.dumps(self._record(mark)).encode() + b"\n")
        except OSError as error:
            raise StoreError(
                f"{self.path.name} cannot be written: {error.strerror}. The last tick is committed but was "
                "not handed on; 'tidegauge readings' has it. Check the folder, then start again."
            ) from None
        self._last = mark

    def _record(self, mark: Mark) -> dict[str, Json]:
        code = {} if self._cipher is None else {"signature": self._cipher.mac(_USE, _parts(mark))}
        return asdict(mark) | code

    def _read(self) -> tuple[Mark, str | None] | None:
        """What the file says, and its signature if it has one; format 2 called the number `tick`."""
        try:
            found = json.loads(self.path.read_text("utf-8"))
            number = found["bins"] if "bins" in found else found["tick"]
            code = found.get("signature")
            return Mark(str(found["ledger"]), int(number), str(found["seal"])), None if code is None else str(
                code
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(
                f"{self.path.name} cannot be read: {error.strerror}. Nothing was changed."
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StoreError(
                f"{self.path.name} is not a witness of a store: something else wrote it. Nothing was "
                "changed. Bring it back from a copy; or, if you know that the store is the newest there is, "
                "remove it."
            ) from None


def _parts(mark: Mark) -> list[str]:
    return [mark.ledger, str(mark.bins), mark.seal]


_ADVICE = (
    "Nothing was read or spent. Running it would draw new noise for windows that are public already. Bring "
    "back the newest store. If there is none, what was published stays valid, but the gauge cannot go on: "
    "start another with a store and a witness of its own (the privacy losses of both gauges add up)."
)

"""The signature of an encrypted store: a keyed hash of everything that is kept once.

It covers the plan and whatever else is in `meta`, the secrets (source position, watermark, shared noise,
stream state), the last entry of the ledger and the last seal of the journal.  The two chains carry it to
every entry and every measurement before.  It is written in the same transaction as what it covers and checked
whenever the store is opened.  So a plan, an entry or a measurement that was altered is found, as are rows of
an older copy and of another store with the same key.

A store without a key has a checksum in its place, which finds damage by a disk or a copy, but no person who
can compute checksums.  It is one of the secrets, because it depends on them.
"""

from __future__ import annotations

import hmac
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from tidegauge.errors import StoreCorrupt

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from tidegauge.store.cipher import Cipher

_USE: Final = "store"
_KEY: Final = "signature"
CHECKSUM: Final = "checksum"
"""The name of the checksum among the secrets."""


def sign(db: sqlite3.Connection, cipher: Cipher | None) -> None:
    """Sign what is there, or without a key add it up; inside the transaction that wrote it."""
    if cipher is None:
        db.execute("INSERT OR REPLACE INTO secrets VALUES (?, ?)", (CHECKSUM, _checksum(db)))
        return
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_KEY, cipher.mac(_USE, _covered(db))))


def require_signed(db: sqlite3.Connection, cipher: Cipher, store: str) -> None:
    """Refuse a store whose signature is missing or does not match; in one snapshot of the file."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (_KEY,)).fetchone()
    if row is None or not hmac.compare_digest(str(row[0]).encode(), cipher.mac(_USE, _covered(db)).encode()):
        raise StoreCorrupt(
            f"{store} is not as its gauge left it: the plan, the ledger, the journal or the source position "
            "was altered, or comes from another copy. Nothing was read or spent. Bring back the newest copy "
            "that tidegauge verify accepts.",
            advice=None,
        )


def require_undamaged(db: sqlite3.Connection, store: str) -> None:
    """Refuse a store without a key whose checksum does not match.  Some older stores have none."""
    row = db.execute("SELECT value FROM secrets WHERE key = ?", (CHECKSUM,)).fetchone()
    if row is not None and row[0] != _checksum(db):
        raise StoreCorrupt(
            f"{store} is not as its gauge left it: a secret that it keeps, or how far it has measured, was "
            "altered or damaged. Nothing was read or spent. Bring back the newest copy that tidegauge verify "
            "accepts.",
            advice=None,
        )


def digest(parts: Iterable[object], size: int = 16) -> bytes:
    """A hash of these parts that needs no key."""
    found = blake2b(digest_size=size)
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        found.update(b"%d:" % len(data))
        found.update(data)
    return found.digest()


def require_old(db: sqlite3.Connection, cipher: Cipher, store: str) -> None:
    """Refuse a store that was made to look like one of format 2, which was not signed.

    The source position of another format cannot be opened where format 2 has it.
    """
    if db.execute("SELECT 1 FROM meta WHERE key = 'plan'").fetchone() is None:
        return
    row = db.execute("SELECT value FROM meta WHERE key = 'clock'").fetchone()
    if row is None:
        raise StoreCorrupt(f"{store} has a plan but no source position: the store was altered")
    cipher.open(b"meta\0clock", row[0])


def _checksum(db: sqlite3.Connection) -> str:
    """Of all secrets, and of what is kept once.  The ledger has the hash of every plan."""
    secrets = db.execute("SELECT key, value FROM secrets WHERE key <> ? ORDER BY key", (CHECKSUM,))
    once = db.execute(
        "SELECT key, value FROM meta WHERE key <> 'plan' AND key NOT GLOB 'plan:*' ORDER BY key"
    )
    return digest(part for row in [*secrets, ("", ""), *once] for part in row).hex()


def _covered(db: sqlite3.Connection) -> Iterator[str | bytes]:
    """Everything that is signed, in an order that does not depend on the file."""
    for table in ("meta", "secrets"):
        rows = db.execute(f"SELECT key, value FROM {table} WHERE key <> ? ORDER BY key", (_KEY,)).fetchall()
        yield f"{table} {len(rows)}"
        for key, value in rows:
            yield key
            yield value if isinstance(value, bytes) else str(value)
    for table in ("ledger", "ticks"):
        last = db.execute(f"SELECT seq, hash FROM {table} ORDER BY seq DESC LIMIT 1").fetchone()
        yield f"{table} {last[0]} {last[1]}" if last else f"{table} 0"

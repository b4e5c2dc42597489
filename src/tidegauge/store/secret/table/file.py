"""The blocks of a store: one row of SQLite each, written once and deleted, never changed.

In an encrypted store every block is sealed with a key of its own (tidegauge.store.cipher), derived from the
block's random name.  The names are in the directory, which is sealed with the other secrets and signed: so a
block that was altered, exchanged or put back from an older copy cannot be opened.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from tidegauge.store.secret.table.block import Block, encode
from tidegauge.store.secret.table.directory import Name, altered

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from tidegauge.store.cipher import Cipher
    from tidegauge.store.secret.table.rows import Rows

_CACHE: Final = 2**30
"""Bytes of blocks that are kept in memory."""
_GRAIN: Final = 4096
"""Sealed blocks are filled up to a multiple of this length, so that lengths reveal little."""


class BlockFile:
    """Reads and writes blocks, and keeps in memory those that were used last."""

    def __init__(self, db: sqlite3.Connection, cipher: Cipher | None) -> None:
        self._db, self._cipher = db, cipher
        self.next = 1
        """The number of the next block; none is used twice."""
        self._known: OrderedDict[int, Block] = OrderedDict()
        self._bytes = 0
        self._margin: int | None = None

    def read(self, name: Name) -> Block:
        """A block.  Raises StoreCorrupt where it is not as it was written."""
        found = self._known.get(name.number)
        if found is not None:
            self._known.move_to_end(name.number)
            return found
        row = self._db.execute("SELECT content FROM blocks WHERE number = ?", (name.number,)).fetchone()
        if row is None:
            raise altered()
        content = row[0]
        if self._cipher is not None:
            content = self._cipher.open_block(bytes.fromhex(name.secret), _place(name.number), content)
        try:
            block = Block(content)
        except (ValueError, KeyError, OSError, StopIteration):  # Arrow's errors are among these
            raise altered() from None
        if len(block) != name.rows:
            raise altered()
        self._keep(name.number, block)
        return block

    def write(self, rows: Rows) -> Name:
        """A new block of these rows; inside the transaction."""
        number, secret = self.next, b""
        self.next += 1
        content = encode(rows)
        stored = memoryview(content)
        if self._cipher is not None:
            secret = os.urandom(16)
            filled = bytes(content).ljust(-(-len(content) // _GRAIN) * _GRAIN, b"\0")
            stored = memoryview(self._cipher.seal_block(secret, _place(number), filled))
        if self._margin is None:
            (self._margin,) = self._db.execute("PRAGMA page_size").fetchone()
        self._db.execute("INSERT INTO blocks VALUES (?, zeroblob(?), ?)", (number, self._margin, stored))
        self._keep(number, Block(content))
        return Name(number, secret.hex(), len(rows))

    def delete(self, names: Iterable[Name]) -> None:
        """Delete blocks; inside the transaction."""
        for name in names:
            self._db.execute("DELETE FROM blocks WHERE number = ?", (name.number,))
            block = self._known.pop(name.number, None)
            self._bytes -= 0 if block is None else block.size

    def forget(self) -> None:
        """Blocks may have been written by a transaction that was rolled back, or by another process."""
        self._known.clear()
        self._bytes = 0

    def _keep(self, number: int, block: Block) -> None:
        self._known[number] = block
        self._bytes += block.size
        while self._bytes > _CACHE and len(self._known) > 1:
            _, old = self._known.popitem(last=False)
            self._bytes -= old.size


def _place(number: int) -> bytes:
    return f"blocks\0{number}".encode()

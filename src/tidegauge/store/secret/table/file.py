"""The blocks of a store: one row of SQLite each.

In an encrypted store every block is sealed with a key of its own (tidegauge.store.cipher), derived from the
block's random name, in pieces: a tick that rewrites rows in their place seals the pieces that it changes
again.  The names are in the directory with a hash of all pieces' nonces and tags, and the directory is sealed
with the other secrets and signed: so a block or a piece that was altered, exchanged or put back from an older
copy cannot be opened.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidegauge.store.cipher import OVERHEAD
from tidegauge.store.secret.table.block import Block, encode
from tidegauge.store.secret.table.directory import Name, altered

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from tidegauge.store.cipher import Cipher
    from tidegauge.store.secret.table.patch import Patch
    from tidegauge.store.secret.table.rows import Rows

_CACHE: Final = 2**30
"""Bytes of blocks that are kept in memory."""
_PAGE: Final = 4092
"""Bytes of content on a page of SQLite."""
_PIECE: Final = 4 * _PAGE - OVERHEAD
"""Bytes of a piece that is sealed."""
_NONCE: Final = 12


class _Known(NamedTuple):
    """A block in memory, and of its sealed pieces the nonces and tags, one row for each."""

    block: Block
    seals: NDArray[np.uint8]


class BlockFile:
    """Reads and writes blocks, and keeps in memory those that were used last."""

    def __init__(self, db: sqlite3.Connection, cipher: Cipher | None) -> None:
        self._db, self._cipher = db, cipher
        self.next = 1
        """The number of the next block; none is used twice."""
        self._known: OrderedDict[int, _Known] = OrderedDict()
        self._bytes = 0
        self._margin: int | None = None

    def read(self, name: Name) -> Block:
        """A block.  Raises StoreCorrupt where it is not as it was written."""
        return self._read(name).block

    def _read(self, name: Name) -> _Known:
        found = self._known.get(name.number)
        if found is not None:
            self._known.move_to_end(name.number)
            return found
        row = self._db.execute("SELECT content FROM blocks WHERE number = ?", (name.number,)).fetchone()
        if row is None:
            raise altered()
        content, seals = self._opened(name, row[0])
        try:
            block = Block(content)
        except (ValueError, KeyError, OSError, StopIteration):  # Arrow's errors are among these
            raise altered() from None
        if len(block) != name.rows:
            raise altered()
        return self._keep(name.number, _Known(block, seals))

    def _opened(self, name: Name, content: bytes) -> tuple[bytes, NDArray[np.uint8]]:
        if self._cipher is None:
            return content, _seals(())
        secret, place = bytes.fromhex(name.secret), _place(name.number)
        if name.seal is None:
            return self._cipher.open_block(secret, place, content), _seals(())
        size = _PIECE + OVERHEAD
        if not isinstance(content, bytes) or len(content) % size:
            raise altered()
        pieces = _cut(content, size)
        seals = _seals(pieces)
        if _hash(seals) != name.seal:
            raise altered()
        return self._cipher.open_pieces(secret, place, pieces), seals

    def write(self, rows: Rows, key: Sequence[str]) -> Name:
        """A new block of these rows; inside the transaction.  `key`: the columns that name a row."""
        number, secret, seals = self.next, b"", _seals(())
        self.next += 1
        content: bytes | pa.Buffer = encode(rows, key)
        stored = memoryview(content)
        if self._cipher is not None:
            secret = os.urandom(16)
            content = bytes(content).ljust(-(-len(content) // _PIECE) * _PIECE, b"\0")
            plain = dict(enumerate(_cut(content, _PIECE)))
            pieces = list(self._cipher.seal_pieces(secret, _place(number), plain).values())
            stored, seals = memoryview(b"".join(pieces)), _seals(pieces)
        if self._margin is None:
            (self._margin,) = self._db.execute("PRAGMA page_size").fetchone()
        self._db.execute("INSERT INTO blocks VALUES (?, zeroblob(?), ?)", (number, self._margin, stored))
        self._keep(number, _Known(Block(content), seals))
        return Name(number, secret.hex(), len(rows), self._seal(seals))

    def patch(self, name: Name, change: Patch) -> Name:
        """Rewrite and erase rows of a block in their place; inside the transaction.  Returns its new name."""
        block, seals = self._read(name)
        block, places = block.patched(change)
        if not len(places):
            return name
        grain = _PAGE if self._cipher is None else _PIECE
        touched = np.zeros(-(-block.size // grain), bool)
        touched[places // grain] = True
        changed, content = np.flatnonzero(touched), memoryview(block.content)
        pieces = {int(one): bytes(content[one * grain : (one + 1) * grain]) for one in changed}
        if self._cipher is not None:
            pieces = self._cipher.seal_pieces(bytes.fromhex(name.secret), _place(name.number), pieces)
            seals = seals.copy()
            seals[changed] = _seals(list(pieces.values()))
            grain += OVERHEAD
        with self._db.blobopen("blocks", "content", name.number) as blob:
            for run in np.split(changed, np.flatnonzero(np.diff(changed) != 1) + 1):
                begin, some = int(run[0]) * grain, b"".join(pieces[int(one)] for one in run)
                blob.seek(begin)
                blob.write(some)
        self._keep(name.number, _Known(block, seals))
        return name._replace(seal=self._seal(seals))

    def _seal(self, seals: NDArray[np.uint8]) -> str:
        return "" if self._cipher is None else _hash(seals)

    def delete(self, names: Iterable[Name]) -> None:
        """Delete blocks; inside the transaction."""
        for name in names:
            self._db.execute("DELETE FROM blocks WHERE number = ?", (name.number,))
            self._drop(name.number)

    def forget(self) -> None:
        """Blocks may have been written by a transaction that was rolled back, or by another process."""
        self._known.clear()
        self._bytes = 0

    def _keep(self, number: int, known: _Known) -> _Known:
        self._drop(number)
        self._known[number] = known
        self._bytes += known.block.size
        while self._bytes > _CACHE and len(self._known) > 1:
            self._drop(next(iter(self._known)))
        return known

    def _drop(self, number: int) -> None:
        known = self._known.pop(number, None)
        self._bytes -= 0 if known is None else known.block.size


def _cut(content: bytes, size: int) -> list[bytes]:
    """Pieces of this size; the last one may be shorter."""
    return [content[first : first + size] for first in range(0, len(content), size)]


def _seals(pieces: Sequence[bytes]) -> NDArray[np.uint8]:
    """Of each sealed piece the nonce and the tag."""
    both = b"".join(one[:_NONCE] + one[_NONCE - OVERHEAD :] for one in pieces)
    return np.frombuffer(both, np.uint8).reshape(len(pieces), OVERHEAD)


def _hash(seals: NDArray[np.uint8]) -> str:
    return blake2b(seals.tobytes(), digest_size=16).hexdigest()


def _place(number: int) -> bytes:
    return f"blocks\0{number}".encode()

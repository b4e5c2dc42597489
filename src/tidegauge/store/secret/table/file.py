"""The blocks of a store: one row of SQLite for each page of a block.

A row of SQLite is so long that SQLite keeps the content of a page on a page of the file of its own: a tick
that rewrites a row of the state writes one page.  A margin of zeros fills the part of a row that SQLite may
copy from page to page, so that content is overwritten with zeros when the block is deleted.

In an encrypted store every block is sealed with a key of its own (tidegauge.store.cipher), derived from the
block's random name, page by page: a tick that rewrites rows in their place seals the pages that it changes
again.  The names are in the directory with a hash of all pages' nonces and tags, and the directory is sealed
with the other secrets and signed: so a block or a page that was altered, exchanged or put back from an older
copy cannot be opened.  In a store without a key the directory has a hash of the pages' checksums, which finds
damage: Arrow would read a damaged block from anywhere in memory.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

import numpy as np

from tidegauge.store.cipher import OVERHEAD
from tidegauge.store.secret.table.block import Block, encode
from tidegauge.store.secret.table.directory import EACH, Name, altered
from tidegauge.store.secret.table.old_block import OldBlock

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from tidegauge.store.cipher import Cipher
    from tidegauge.store.secret.table.patch import Patch
    from tidegauge.store.secret.table.rows import Rows

_CACHE: Final = 2**30
"""Bytes of blocks that are kept in memory."""
_PAGE: Final = 4092
"""Bytes of content on a page of SQLite."""
_MARGIN: Final = 483
"""Zeros that fill exactly the part of a row that is not on a page of its own, if SQLite's pages have 4096."""
_PIECE: Final = 4 * _PAGE
"""Bytes of a sealed piece in format 5."""
_NONCE: Final = 12


class _Known(NamedTuple):
    """A block in memory, and of its sealed pages the nonces and tags (or checksums), one row for each."""

    block: Block | OldBlock
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
        self._grain = _PAGE if cipher is None else _PAGE - OVERHEAD

    def read(self, name: Name) -> Block:
        """A block.  Raises StoreCorrupt where it is not as it was written."""
        block = self._read(name).block
        assert isinstance(block, Block), "a store of an older format is upgraded before it is changed"
        return block

    def read_any(self, name: Name) -> Block | OldBlock:
        """A block of any format, for reading.  Raises StoreCorrupt where it is not as it was written."""
        return self._read(name).block

    def _read(self, name: Name) -> _Known:
        found = self._known.get(name.number)
        if found is not None:
            self._known.move_to_end(name.number)
            return found
        content, seals = self._opened(name, self.stored(name))
        try:
            block = Block(bytearray().join(content), self._grain) if name.pages else OldBlock(content[0])
        except (ValueError, KeyError, OSError, StopIteration, TypeError):  # Arrow's errors are among these
            raise altered() from None
        if len(block) != name.rows:
            raise altered()
        return self._keep(name.number, _Known(block, seals))

    def stored(self, name: Name) -> list[bytes]:
        """The pages of a block as they are in the file; up to format 5 the block in one piece."""
        if not name.pages:
            query, first, last = (
                "SELECT content FROM blocks WHERE number BETWEEN ? AND ?",
                name.number,
                name.number,
            )
        else:
            query = "SELECT content FROM pages WHERE number BETWEEN ? AND ? ORDER BY number"
            first, last = name.number * EACH, name.number * EACH + EACH - 1
        found = [content for (content,) in self._db.execute(query, (first, last))]
        whole = len(found) == (name.pages or 1) and all(isinstance(one, bytes) for one in found)
        if not whole or (name.pages and any(len(one) != _PAGE for one in found)):
            raise altered()
        return found

    def _opened(self, name: Name, content: Sequence[bytes]) -> tuple[Sequence[bytes], NDArray[np.uint8]]:
        if self._cipher is None:
            checks = _checks(content)
            if name.seal and _hash(checks) != name.seal:
                raise altered()
            return content, checks
        secret, place = bytes.fromhex(name.secret), _place(name.number)
        if name.seal is None:
            return [self._cipher.open_block(secret, place, content[0])], _seals(())
        if not name.pages:
            content = _cut(content[0], _PIECE)
        seals = _seals(content)
        if _hash(seals) != name.seal:
            raise altered()
        return [self._cipher.open_pieces(secret, place, content)], seals

    def write(self, rows: Rows, key: Sequence[str]) -> Name:
        """A new block of these rows; inside the transaction.  `key`: the columns that name a row."""
        number, secret = self.next, b""
        self.next += 1
        block = Block(encode(rows, key, self._grain), self._grain)
        pages: Mapping[int, bytes | memoryview] = self._pages(block, range(block.size // self._grain))
        if self._cipher is not None:
            secret = os.urandom(16)
            sealed = self._cipher.seal_pieces(secret, _place(number), pages)
            pages, seals = sealed, _seals(list(sealed.values()))
        else:
            seals = _checks(pages.values())
        if self._margin is None:
            (size,) = self._db.execute("PRAGMA page_size").fetchone()
            self._margin = _MARGIN if size == 4096 else size
        self._db.executemany(
            f"INSERT INTO pages VALUES (?, zeroblob({self._margin}), ?)",
            ((number * EACH + page, content) for page, content in pages.items()),
        )
        self._keep(number, _Known(block, seals))
        return Name(number, secret.hex(), len(rows), _hash(seals), len(pages))

    def patch(self, name: Name, change: Patch) -> Name:
        """Rewrite and erase rows of a block in their place; inside the transaction.  Returns its new name."""
        seals = self._read(name).seals
        block, changed = self.read(name).patched(change)
        if not len(changed):
            return name
        pages: Mapping[int, bytes | memoryview] = self._pages(block, changed.tolist())
        seals = seals.copy()
        if self._cipher is None:
            seals[changed] = _checks(pages.values())
        else:
            sealed = self._cipher.seal_pieces(bytes.fromhex(name.secret), _place(name.number), pages)
            pages, seals[changed] = sealed, _seals(list(sealed.values()))
        self._db.executemany(
            "UPDATE pages SET content = ? WHERE number = ?",
            zip(pages.values(), (name.number * EACH + changed).tolist(), strict=True),
        )
        self._keep(name.number, _Known(block, seals))
        return name._replace(seal=_hash(seals))

    def _pages(self, block: Block, numbers: Iterable[int]) -> dict[int, memoryview]:
        content, grain = block.content.data, self._grain
        return {page: content[page * grain : (page + 1) * grain] for page in numbers}

    def delete(self, names: Iterable[Name]) -> None:
        """Delete blocks; inside the transaction."""
        for name in names:
            first = name.number * EACH
            self._db.execute("DELETE FROM pages WHERE number BETWEEN ? AND ?", (first, first + EACH - 1))
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
    if len(content) % size:
        raise altered()
    return [content[first : first + size] for first in range(0, len(content), size)]


def _seals(pieces: Sequence[bytes]) -> NDArray[np.uint8]:
    """Of each sealed piece the nonce and the tag."""
    both = b"".join([one[:_NONCE] + one[_NONCE - OVERHEAD :] for one in pieces])
    return np.frombuffer(both, np.uint8).reshape(len(pieces), OVERHEAD)


def _checks(pages: Iterable[bytes | memoryview]) -> NDArray[np.uint8]:
    """The checksum of each page."""
    return np.array([crc32(one) for one in pages], "<u4").view(np.uint8).reshape(-1, 4)


def _hash(seals: NDArray[np.uint8]) -> str:
    return blake2b(seals.tobytes(), digest_size=16).hexdigest()


def _place(number: int) -> bytes:
    return f"blocks\0{number}".encode()

"""Tables of an encrypted folder: files of sealed pieces, each piece a small Parquet file.

Pieces are sealed as blocks of the state are (tidegauge.store.cipher), with a key derived from the user's key,
a random salt of the folder and a random name.  Each is bound to the folder, its file and its number, so that
none can be altered, moved, or taken from another folder.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from io import BytesIO
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import IO

    from tidegauge.model.json import Json
    from tidegauge.store.cipher import Cipher

ENDING: Final = ".sealed"
_PLACE: Final = b"stamped"


@dataclass(frozen=True)
class SealedTables:
    """The tables of one folder; `name`: random."""

    cipher: Cipher
    name: str
    sizes: dict[str, list[int]] = field(default_factory=dict)
    """Of each file the lengths of its pieces."""

    @classmethod
    def fresh(cls, cipher: Cipher) -> SealedTables:
        """For a new folder."""
        return cls(cipher, os.urandom(16).hex())

    def append(self, file: IO[bytes], table: str, rows: pa.Table) -> None:
        """Write rows as the next piece of a table."""
        sink = BytesIO()
        pq.write_table(rows, sink, compression="zstd", compression_level=1)
        sizes = self.sizes.setdefault(table, [])
        number = len(sizes)
        (piece,) = self.cipher.seal_pieces(self._name(table), _PLACE, {number: sink.getbuffer()}).values()
        file.write(piece)
        sizes.append(len(piece))

    def pieces(self, folder: Path, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The pieces of a table.  Raises StoreCorrupt where one was altered."""
        bounds = pairwise([0, *accumulate(self.sizes[table])])
        with (folder / f"{table}{ENDING}").open("rb") as file:
            for number, (begin, end) in enumerate(bounds):
                sealed = file.read(end - begin)
                content = self.cipher.open_piece(self._name(table), _PLACE, number, sealed)
                yield pq.ParquetFile(pa.BufferReader(content)).read(None if columns is None else [*columns])

    def scan(self, folder: Path, table: str, columns: Sequence[str]) -> pa.RecordBatchReader:
        """Some columns of a table, piece by piece."""
        pieces = self.pieces(folder, table, columns)
        first = next(pieces)

        def batches() -> Iterator[pa.RecordBatch]:
            yield from first.to_batches()
            for piece in pieces:
                yield from piece.to_batches()

        return pa.RecordBatchReader.from_batches(first.schema, batches())

    def seal(self, plan: str, said: Mapping[str, Json]) -> str:
        """What stamp.json says, for this plan."""
        return self.cipher.seal(self._name(plan), dict(said)).hex()

    def _name(self, what: str) -> bytes:
        return f"{self.name} {what}".encode()


def opened(cipher: Cipher, name: str, plan: str, sealed: str) -> tuple[SealedTables, dict[str, Json]]:
    """The tables of a folder, and what its stamp.json says.  Raises StoreCorrupt where it was altered."""
    said = cipher.open(SealedTables(cipher, name)._name(plan), bytes.fromhex(sealed))
    return SealedTables(cipher, name, said.pop("pieces")), said

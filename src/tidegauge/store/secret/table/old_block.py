"""Blocks of stores up to format 5, which are only read: Arrow's stream format, one column after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tidegauge.store.secret.table.rows import Part, unfill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_HASH: Final = "\x00hash"
_ERASED: Final = "\x00erased"
"""Since format 5: the row was erased."""
_GONE: Final = "\x00gone"
"""In format 4: the row was deleted, and this one hides what older blocks have of it."""
_OWN: Final = frozenset({_HASH, _ERASED, "\x00deleted", _GONE})


class OldBlock:
    """A block that was read; its columns lie in the bytes that it was made from."""

    def __init__(self, content: bytes) -> None:
        with pa.ipc.open_stream(content) as reader:
            whole = reader.read_next_batch()
        self.size = len(content)
        self.hashes = whole.column(_HASH).to_numpy(zero_copy_only=False)
        erased = _flags(whole, _ERASED)
        self._gone, self._live = _flags(whole, _GONE), None if erased is None else ~erased
        self._batch = whole.select([name for name in whole.schema.names if name not in _OWN])

    def __len__(self) -> int:
        return len(self.hashes)

    def parts(self, places: NDArray[np.intp]) -> Iterator[Part]:
        """The rows at these places, without those that were erased."""
        if self._live is not None:
            places = places[self._live[places]]
        batch = self._batch.take(pa.array(places))
        for place, field in enumerate(batch.schema):
            if field.metadata and field.metadata.get(b"filled"):
                batch = batch.set_column(place, field.name, unfill(batch.column(place)))
        yield Part(self.hashes[places], batch, False if self._gone is None else self._gone[places])


def _flags(batch: pa.RecordBatch, name: str) -> NDArray[np.bool_] | None:
    if name not in batch.schema.names:
        return None
    flags: NDArray[np.bool_] = batch.column(name).to_numpy(zero_copy_only=False)
    return flags

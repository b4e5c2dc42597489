"""A block: rows of a table in the order of their hashes.

Hashes, keys and texts are one batch of Arrow's stream format.  The numbers follow as records
(tidegauge.store.secret.table.record), from the beginning of a page on, as many on each page as fit.  Rows can
be rewritten and erased in their place (tidegauge.store.secret.table.patch).
"""

from __future__ import annotations

import json
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tidegauge.store.secret.table.patch import Overwriting, fitting
from tidegauge.store.secret.table.record import DELETED, ERASED, Layout, Values
from tidegauge.store.secret.table.rows import Part, distinct, matching, matching_once, one_array, unfill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from tidegauge.store.secret.table.hashes import Hashes
    from tidegauge.store.secret.table.patch import Patch
    from tidegauge.store.secret.table.record import Bytes, Flags, Places
    from tidegauge.store.secret.table.rows import Rows

_HASH: Final = "\x00hash"
"""No column of a state has this name."""
_LAYOUT: Final = b"layout"
_FEW: Final = 2**13
"""Up to so many rows, what was read last is kept."""


class Block:
    """A block that was read.  `content`: its bytes, which it may change; `grain`: bytes of a page."""

    def __init__(self, content: bytearray | Bytes, grain: int) -> None:
        self.content, self.grain = np.frombuffer(content, np.uint8), grain
        with pa.ipc.open_stream(pa.py_buffer(self.content)) as reader:
            self._batch = reader.read_next_batch()
        self.layout = _layout(self._batch.schema.metadata[_LAYOUT])
        self.size = len(self.content)
        column = self._batch.column(_HASH)
        self.hashes = np.frombuffer(column.buffers()[1], np.uint64, len(column))
        self.keys = [name for name in self._batch.schema.names if name not in {_HASH, *self.layout.texts}]
        self._span, self._each = _spanned(self.layout, grain)
        count = -(-len(self.hashes) // self._each)
        self._first = len(self.content) // grain - count * self._span
        """The page on which the records begin."""
        width = self.layout.width
        self._records: NDArray[np.void] = np.ndarray(
            (count, self._each),
            f"V{width}",
            self.content,
            self._first * grain,
            (self._span * grain, width),
        )
        """Each record as one value, so that numpy copies it at once."""
        self._least: dict[str, int] = {}
        self._taken: tuple[Places, list[str], list[pa.Array]] | None = None
        """What was taken last: a tick reads the keys of its rows twice."""
        self._copied: tuple[Places, Bytes] | None = None
        """The same for records."""

    def __len__(self) -> int:
        return len(self.hashes)

    def parts(self, places: Places) -> Iterator[Part]:
        """The rows at these places, without those that were erased."""
        return gathered([(self, places)])

    def matching(self, wanted: Hashes) -> Places:
        """The places of the rows that have one of these hashes, which are sorted."""
        return (matching_once if self._distinct else matching)(self.hashes, wanted)

    @cached_property
    def _distinct(self) -> bool:
        """Whether there are rows, and no two with the same hash; so it is in most blocks."""
        return len(self) > 0 and bool((self.hashes[1:] != self.hashes[:-1]).all())

    def records(self, places: Places) -> Bytes:
        """A copy of the records at these places, for reading."""
        known = self._copied
        if known is None or known[0] is not places:
            known = places, self._bytes(self._records[places // self._each, places % self._each])
            self._copied = known if len(places) <= _FEW else None
        return known[1]

    def _bytes(self, records: NDArray[np.void]) -> Bytes:
        return np.ascontiguousarray(records).view(np.uint8).reshape(-1, self.layout.width)

    def texts(self, names: Sequence[str], places: Places) -> list[pa.Array]:
        """Keys or texts, as they lie in the block."""
        names, known = list(names), self._taken
        if known is None or known[0] is not places or known[1] != names:
            at = pa.array(places)
            known = places, names, [self._batch.column(name).take(at) for name in names]
            self._taken = known if len(places) <= _FEW else None
        return known[2]

    def present(self, column: str) -> Places:
        """The places of the rows that have a value in this column."""
        if column not in self.layout.kinds:
            return np.empty(0, np.intp)
        return np.flatnonzero(self.layout.present(self._all(), column))

    def upto(self, column: str, most: int) -> Places:
        """The places of the rows whose value in this column is at most this one."""
        if column not in self.layout.kinds:
            return np.empty(0, np.intp)
        least = self._least.get(column)
        if least is not None and least > most:
            return np.empty(0, np.intp)
        records = self._all()
        there, numbers = self.layout.present(records, column), self.layout.numbers(records, column)
        self._least[column] = int(numbers[there].min(initial=2**63 - 1))
        return np.flatnonzero(there & (numbers <= most))

    def fits(self, places: Places, texts: Mapping[str, Values]) -> Flags:
        """Which of these texts, by column, can be written at these places."""
        fits = np.ones(len(places), bool)
        for name in self.layout.texts:
            if name in texts:
                fits &= fitting(self._batch.column(name), places, texts[name].texts)
        return fits

    def patched(self, change: Patch) -> tuple[Block, Places]:
        """The block after rows were rewritten and erased, and the numbers of the pages that changed.

        Records change in their place; where anything else does, the block is a copy: what was read of this
        one stays as it is.
        """
        block = Block(self.content.copy(), self.grain) if change.moves_texts else self
        pages = block._rewrite(change)
        if change.moves_texts:
            pages = np.union1d(pages, block._overwrite(change, self.content))
        return block, pages

    def _rewrite(self, change: Patch) -> Places:
        """Write records; the pages that changed."""
        erased = np.concatenate([change.replaced, change.deleted])
        places = np.concatenate([change.rewritten, erased])
        records = change.records
        if len(erased):
            marks = np.array([self.layout.marked(ERASED), self.layout.marked(ERASED, DELETED)])
            lengths = len(change.replaced), len(change.deleted)
            records = np.concatenate([records, np.repeat(marks, lengths, axis=0)])
        if change.moves_texts:
            changed = (self.records(places) != records).any(axis=1)
            places, records = places[changed], records[changed]
        groups, within = np.divmod(places, self._each)
        self._records[groups, within] = np.ascontiguousarray(records).view(self._records.dtype)[:, 0]
        self._least.clear()
        self._copied = None
        first = self._first + distinct(np.sort(groups)) * self._span
        return first if self._span == 1 else (first[:, None] + np.arange(self._span)).ravel()

    def _overwrite(self, change: Patch, before: Bytes) -> Places:
        """Overwrite keys and texts; the pages that changed."""
        work = Overwriting(self.content)
        for name in self.keys:
            work.clear(self._batch.column(name), change.deleted)
        for name in self.layout.texts:
            column = self._batch.column(name)
            work.clear(column, np.concatenate([change.replaced, change.deleted]))
            if name in change.texts and len(change.rewritten):
                work.write(column, change.rewritten, change.texts[name])
        if len(change.deleted):
            work.move(self._batch.column(_HASH), self.layout.flag(self._all(), DELETED))
        written = np.concatenate([np.empty(0, np.intp), *work.written])
        return np.unique(written[before[written] != self.content[written]] // self.grain)

    def _all(self) -> Bytes:
        return self._bytes(self._records)[: len(self)]


def gathered(found: Iterable[tuple[Block, Places]]) -> Iterator[Part]:
    """The rows at these places of blocks, without those that were erased; one part for each layout."""
    groups: dict[Layout, list[tuple[Block, Places, Bytes]]] = {}
    for block, places in found:
        groups.setdefault(block.layout, []).append((block, places, block.records(places)))
    for layout, group in groups.items():
        records = np.concatenate([some for _, _, some in group])
        alive = ~layout.flag(records, ERASED)
        hashes = np.concatenate([block.hashes[places] for block, places, _ in group])
        names = [*group[0][0].keys, *layout.texts]
        columns = [
            pa.concat_arrays(_alike(some))
            for some in zip(*(block.texts(names, places) for block, places, _ in group), strict=True)
        ]
        if not alive.all():
            records, hashes = records[alive], hashes[alive]
            columns = [column.filter(pa.array(alive)) for column in columns]
        kept = dict(zip(names, columns, strict=True))
        for name in layout.texts:
            kept[name] = unfill(kept[name], layout.present(records, name))
        kept |= {name: layout.column(records, name) for name in layout.kinds if name not in kept}
        yield Part(hashes, pa.RecordBatch.from_pydict(kept), gone=False)


def _alike(columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
    """With the same type: a number of a key has as many bytes as the block's largest needs."""
    if all(column.type == columns[0].type for column in columns):
        return columns
    return [column.cast(pa.int64()) for column in columns]


def encode(rows: Rows, key: Sequence[str], grain: int) -> bytearray:
    """The bytes of a block of these rows, which are in the order of their hashes: whole pages.

    `key`: the columns that name a row.
    """
    table = rows.table
    values = {name: Values.of(one_array(table[name])) for name in table.column_names if name not in key}
    layout = Layout.of(values)
    columns = {_HASH: pa.array(rows.hashes), **{name: _narrow(one_array(table[name])) for name in key}}
    columns |= {name: values[name].texts for name in layout.texts}
    batch = pa.RecordBatch.from_pydict(columns)
    batch = batch.replace_schema_metadata({_LAYOUT: json.dumps(layout.columns).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    stream = sink.getvalue()
    span, each = _spanned(layout, grain)
    first, count = -(-len(stream) // grain), -(-len(rows) // each)
    records = np.zeros((count * each, layout.width), np.uint8)
    records[: len(rows)] = layout.encode(values, len(rows))
    content = bytearray((first + count * span) * grain)
    content[: len(stream)] = stream
    pages = np.frombuffer(content, np.uint8)[first * grain :].reshape(count, span * grain)
    pages[:, : each * layout.width] = records.reshape(count, -1)
    return content


def _spanned(layout: Layout, grain: int) -> tuple[int, int]:
    """How many pages records lie on together, and how many records: one page, if a record is no longer."""
    span = -(-layout.width // grain)
    return span, span * grain // layout.width


@lru_cache(maxsize=256)
def _layout(stored: bytes) -> Layout:
    return Layout(tuple((str(name), str(kind)) for name, kind in json.loads(stored)))


def _narrow(column: pa.Array) -> pa.Array:
    """In the smallest type that holds the numbers of a key."""
    if not pa.types.is_integer(column.type) or not len(column):
        return column
    kind = Values.of(column).kind
    return column if kind is None else column.cast(f"int{8 * int(kind[2:])}")

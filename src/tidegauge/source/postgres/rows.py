"""Turns row messages and loaded rows into the rows of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.source.batch.rows import assemble, image, key
from tidegauge.source.batch.values import from_text
from tidegauge.source.postgres import pgoutput
from tidegauge.source.postgres.catalog import Changed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tidegauge.source.postgres.messages import Messages


@dataclass(frozen=True)
class Layout:
    """Which columns are used, and for what."""

    columns: dict[str, str]
    """Delivered columns and their SQL types."""
    key: tuple[str, ...]
    unit: str | None
    padded: frozenset[str]
    partitioned: bool = False
    """If so, the partition's replica identity, not the table's, decides which old values are in the log."""

    @property
    def needed(self) -> list[str]:
        """Every column that must be read."""
        return list(dict.fromkeys([*self.columns, *self.key, *([self.unit] if self.unit else [])]))

    def values(self, text: Mapping[str, pa.Array]) -> list[pa.Array]:
        """The delivered columns from their text."""
        return [
            from_text(pc.utf8_rtrim(text[name], " ") if name in self.padded else text[name], kind)
            for name, kind in self.columns.items()
        ]

    def loaded(self, text: Mapping[str, pa.Array], time: int) -> pa.Table:
        """Loaded rows as insertions at one time."""
        entry = pc.fill_null(key([text[name] for name in self.key]), "")
        here = pa.array(np.zeros(len(entry), bool))
        return assemble(
            self.columns,
            time=pa.array(np.full(len(entry), time)),
            entry=entry,
            unit=text[self.unit] if self.unit else None,
            after=image(self.values(text), self.columns, here, len(entry)),
            informed=pc.invert(here),
        )

    def changed(self, messages: Messages, times: NDArray[np.int64], fields: Sequence[str]) -> pa.Table:
        """The changes in messages of the stream, whose tuples have these fields."""
        changes = pgoutput.decode(messages, len(fields))
        number = {name: index for index, name in enumerate(fields)}
        letters = changes.letters
        old_key = key([changes.old.text(number[name]) for name in self.key])
        unnamed = (
            changes.old_is_key
            & (letters == pgoutput.DELETE)
            & pc.is_null(old_key).to_numpy(zero_copy_only=False)
        )
        if unnamed.any():  # the identity of a partition; in the table's own, no column of the key is null
            raise Changed("the log names a deleted row by other columns than the key")
        changes = changes.keyed() if self.partitioned else changes
        new = changes.new.filled_from(changes.old, changes.old_is_row)
        new_key = key([_known(new, changes.old, number[name]) for name in self.key])
        named = pc.fill_null(pc.if_else(pa.array(letters == pgoutput.DELETE), old_key, new_key), "")
        entry = pc.if_else(pa.array(letters == pgoutput.TRUNCATE), pa.scalar(None, pa.string()), named)
        updated = pa.array(letters == pgoutput.UPDATE)
        renamed = pc.and_(updated, pc.fill_null(pc.not_equal(old_key, named), False))
        no_new = pa.array((letters == pgoutput.DELETE) | (letters == pgoutput.TRUNCATE))
        before = None
        if changes.old_is_row.any():
            text = {name: changes.old.text(number[name]) for name in self.columns}
            no_key = pc.equal(pc.fill_null(old_key, ""), "")  # a row without a key does not count
            absent = pc.or_(pa.array(~changes.old_is_row), no_key)
            before = image(self.values(text), self.columns, absent, len(messages))
        text = {name: new.text(number[name]) for name in self.columns}
        return assemble(
            self.columns,
            time=pa.array(times),
            entry=entry,
            unit=new.text(number[self.unit]) if self.unit else None,
            before=before,
            after=image(self.values(text), self.columns, no_new, len(messages)),
            informed=pa.array((letters == pgoutput.INSERT) | changes.old_is_row),
            previous=pc.if_else(renamed, old_key, pa.scalar(None, pa.string())),
            kept=self._kept(new, number),
        )

    def _kept(self, new: pgoutput.Tuples, number: Mapping[str, int]) -> pa.Array | None:
        names = self.needed
        left_out = np.array([new.unchanged(number[name]) for name in names]).reshape(len(names), -1)
        if not left_out.any():
            return None
        return pa.array(
            [[names[i] for i in np.flatnonzero(row)] or None for row in left_out.T], pa.list_(pa.string())
        )


def _known(new: pgoutput.Tuples, old: pgoutput.Tuples, column: int) -> pa.Array:
    """A column of the key; the old value if the server left it out because it had not changed."""
    left_out = new.unchanged(column)
    text = new.text(column)
    return pc.if_else(pa.array(left_out), old.text(column), text) if left_out.any() else text

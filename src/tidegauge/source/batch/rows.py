"""Builds the rows of a batch from columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.source.batch.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def shape(columns: Mapping[str, str]) -> pa.DataType:
    """The type of a row image."""
    return pa.struct([(name, arrow_type(kind)) for name, kind in columns.items()])


def schema(columns: Mapping[str, str]) -> pa.Schema:
    """The columns of a batch, the optional ones included."""
    image = shape(columns)
    return pa.schema(
        [
            ("time", pa.int64()),
            ("entry", pa.string()),
            ("unit", pa.string()),
            ("before", image),
            ("after", image),
            ("informed", pa.bool_()),
            ("previous", pa.string()),
            ("kept", pa.list_(pa.string())),
        ]
    )


def image(values: Sequence[pa.Array], columns: Mapping[str, str], absent: pa.Array, count: int) -> pa.Array:
    """Row images; null where `absent`."""
    kind = shape(columns)
    if not columns:  # a query may count rows and look at none of their columns
        return pa.Array.from_buffers(kind, count, [_bitmap(pc.invert(absent))])
    return pa.StructArray.from_arrays(list(values), fields=list(kind), mask=absent)


def _bitmap(valid: pa.Array) -> pa.Buffer:
    return pa.concat_arrays([valid]).buffers()[1]


def assemble(
    columns: Mapping[str, str],
    *,
    time: pa.Array,
    entry: pa.Array,
    unit: pa.Array | None = None,
    before: pa.Array | None = None,
    after: pa.Array,
    informed: pa.Array,
    previous: pa.Array | None = None,
    kept: pa.Array | None = None,
) -> pa.Table:
    """The rows of a batch; columns that are not given are null.

    A row whose unit or key is empty belongs to no unit and counts nowhere.  An empty unit is delivered as
    null.  A change to an empty key is delivered as the deletion of the row under its previous key.  Without a
    previous key, it is delivered as the deletion of the row with the empty key, which never exists: the
    operator sees it among the deletions of unknown rows.
    """
    goal = schema(columns)
    given = {
        "time": time,
        "entry": entry,
        "unit": unit,
        "before": before,
        "after": after,
        "informed": informed,
        "previous": previous,
        "kept": kept,
    }
    table = pa.table(
        [
            pa.nulls(len(entry), field.type) if given[field.name] is None else given[field.name]
            for field in goal
        ],
        schema=goal,
    )
    for name in ("unit", "previous"):
        if _some(empty := pc.equal(table[name], "")):
            table = _without(table, name, empty)
    if _some(nameless := pc.fill_null(pc.equal(table["entry"], ""), False)):
        known = pc.if_else(nameless, pc.coalesce(table["previous"], table["entry"]), table["entry"])
        informed = pc.and_not(table["informed"], nameless)
        table = table.set_column(1, goal.field("entry"), known).set_column(
            5, goal.field("informed"), informed
        )
        for name in ("unit", "before", "after", "previous", "kept"):
            table = _without(table, name, nameless)
    return table


def _some(flags: pa.ChunkedArray) -> bool:
    return bool(pc.any(flags).as_py())


def _without(table: pa.Table, name: str, flags: pa.ChunkedArray) -> pa.Table:
    """The table without the values of a column where the flag is set."""
    place, field = table.schema.get_field_index(name), table.schema.field(name)
    return table.set_column(place, field, pc.if_else(flags, pa.scalar(None, field.type), table[name]))


def truncation(columns: Mapping[str, str], time: int) -> pa.Table:
    """The row that empties the table."""
    return assemble(columns, time=pa.array([time], pa.int64()), entry=pa.nulls(1, pa.string()),
                    after=pa.nulls(1, shape(columns)), informed=pa.array([False]))  # fmt: skip


def key(parts: Sequence[pa.Array]) -> pa.Array:
    """The text of a key; several columns are joined unambiguously.  Null if a part is null."""
    if len(parts) == 1:
        return parts[0]
    quoted = [pc.replace_substring(pc.replace_substring(part, "\\", "\\\\"), '"', '\\"') for part in parts]
    joined = pc.binary_join_element_wise(*quoted, '","', null_handling="emit_null")
    return pc.binary_join_element_wise('["', joined, '"]', "", null_handling="emit_null")

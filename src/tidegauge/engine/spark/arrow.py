"""Arrow tables of other parts, with types that Spark has."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def plain_types(table: pa.Table) -> pa.Table:
    """The table with types that Spark has: no unsigned integers, no dictionaries, no times of day."""
    place = table.schema.get_field_index("row")
    row = table["row"].combine_chunks() if table["row"].num_chunks else pa.array([], table["row"].type)
    if isinstance(row, pa.ChunkedArray):
        row = row.chunk(0)
    fields = [(field.name, _plain(row.field(n))) for n, field in enumerate(row.type)]
    if not fields:
        fields = [("_", pa.array([True] * len(row)))]
    struct = pa.StructArray.from_arrays(
        [one for _, one in fields], [name for name, _ in fields], mask=pc.is_null(row)
    )
    return table.set_column(place, "row", struct)


def _plain(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if pa.types.is_unsigned_integer(kind):
        return column.cast(pa.decimal128(20, 0)) if kind == pa.uint64() else column.cast(pa.int64())
    if pa.types.is_time(kind):
        return column.cast(pa.string())
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    return column

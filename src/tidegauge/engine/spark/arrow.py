"""Arrow tables of other parts, with types that Spark has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.engine.spark.digest import digest_sql
from tidegauge.engine.spark.render import quote
from tidegauge.errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.engine.spark.layout import Layout

_VIEW: Final = "tidegauge_arrow"


def frame_of(rows: pa.Table, layout: Layout, spark: SparkSession) -> DataFrame:
    """A batch of changes as a frame: the columns that are used, and if rows are kept the digest of all.

    Raises SourceError for changes that are not plain.
    """
    odd = rows["entry"].null_count > 0
    for name in ("previous", "kept"):
        odd = odd or (name in rows.column_names and rows[name].null_count < rows.num_rows)
    if odd:
        raise SourceError(
            "the engine 'spark' takes plain changes: no renamed key, no emptied table, no value left "
            "out. Nothing of this batch was read or spent. Use kind = 'duckdb'"
        )
    nothing = pa.nulls(rows.num_rows, pa.string())
    table = pa.table(
        {
            "time": rows["time"],
            "entry": rows["entry"].cast(pa.string()),
            "unit": rows["unit"].cast(pa.string()) if "unit" in rows.column_names else nothing,
            "informed": rows["informed"],
            "before": pc.is_valid(rows["before"]),
            "row": rows["after"],
            "seq": pa.array(range(rows.num_rows), pa.int64()),
        }
    )
    spark.createDataFrame(_plain_types(table)).createOrReplaceTempView(_VIEW)
    fields = [
        f"try_cast(row.{quote(name)} AS {kind}) AS {quote(name)}" for name, kind in layout.columns.items()
    ]
    after = f"CASE WHEN row IS NOT NULL THEN struct({', '.join(fields) or 'TRUE AS _'}) END"
    digest = ""
    if layout.has_image:
        whole = [f"row.{quote(one.name)}" for one in table.schema.field("row").type]
        digest = f", CASE WHEN row IS NOT NULL THEN {digest_sql(whole)} END AS digest"
    return spark.sql(
        f"SELECT time, entry, unit, informed, before, {after} AS after, 0L AS rank, seq{digest} FROM {_VIEW}"
    )


def _plain_types(table: pa.Table) -> pa.Table:
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

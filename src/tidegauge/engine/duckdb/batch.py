"""A batch of changes as Arrow tables, before it goes into DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.engine.duckdb.identity import Change

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from tidegauge.engine.duckdb.identity import Belongs


def keys_of(rows: pa.Table) -> list[str]:
    """The keys that occur in the changes."""
    keys = pc.unique(pa.chunked_array([*rows["entry"].chunks, *rows["previous"].chunks], pa.string()))
    return [key for key in keys.to_pylist() if key is not None]


def completed(rows: pa.Table, now: int, arrivals: int) -> pa.Table:
    """The batch with all columns, numbered; no time stamp is later than now."""
    for name, kind in (("previous", pa.string()), ("kept", pa.list_(pa.string()))):
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, kind))
    renamed = pc.not_equal(rows["previous"], rows["entry"])
    previous = pc.if_else(renamed, rows["previous"], pa.scalar(None, pa.string()))
    rows = rows.set_column(rows.schema.get_field_index("previous"), "previous", previous)
    time = pc.min_element_wise(rows["time"], pa.scalar(now, pa.int64()))
    rows = rows.set_column(rows.schema.get_field_index("time"), "time", time)
    return rows.append_column("seq", pa.array(np.arange(arrivals, arrivals + rows.num_rows), pa.int64()))


def at_keys(rows: pa.Table, keys: Collection[str]) -> pa.Table:
    """The changes at these keys, and the truncations.

    The key before a rename is in `keys` together with the one after.
    """
    names = pa.array(sorted(keys), pa.string())
    return rows.filter(pc.or_(pc.is_in(rows["entry"], value_set=names), pc.is_null(rows["entry"])))


def changes_of(rows: pa.Table, owner: str | None) -> Iterator[Change]:
    """What decides the row of each change; `owner`: the column that names the unit."""
    found = zip(
        rows["seq"].to_pylist(),
        rows["time"].to_pylist(),
        rows["entry"].to_pylist(),
        rows["previous"].to_pylist(),
        rows["unit"].to_pylist(),
        pc.is_null(rows["after"]).to_pylist(),
        (owner in (kept or ()) for kept in rows["kept"].to_pylist()),
        strict=True,
    )
    return (Change(*one) for one in found)


def belonging_table(found: Iterable[Belongs]) -> pa.Table:
    """The rows that changes belong to, as the table `belonging`."""
    columns = list(zip(*found, strict=True)) or [()] * 4
    kinds = {"seq": pa.int64(), "name": pa.string(), "ended": pa.string(), "lineage": pa.string()}
    return pa.table(
        {name: pa.array(values, kind) for (name, kind), values in zip(kinds.items(), columns, strict=True)}
    )

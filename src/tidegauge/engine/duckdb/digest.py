"""Digests, by which rows are compared: 63 bits of a cryptographic hash over the row's values.

The store keeps the digest for years, so nothing in it may depend on a version of DuckDB: neither its hash
function nor the way it prints numbers and times.  Values are written one after the other, each with a comma;
a null as nothing:

    integers, decimals  as digits                    booleans    1 or 0
    floating point      the 64 bits of the double    dates       microseconds since 1970 (or infinity)
    text                its length in bytes, a colon, the text

Digests are negative.  Those of format 2 were made by DuckDB's `hash` and are not negative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from tidegauge.engine.duckdb.render import quote

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SIGNS: Final = 32
"""Hex digits of a hash."""
_NOTHING: Final = "''"
_KNOWN: Final = ("hash({'a': 1::BIGINT, 'b': 'x'})", 14110061903442261593)
"""What the DuckDB that made the digests of format 2 says of a row."""


def row_digest(row: str, shape: pa.DataType) -> str:
    """SQL: the digest of a row (a struct of this type, not null); NULL where the type is none of a row."""
    if not kinds.is_struct(shape):
        return "NULL::BIGINT"
    return f"-1 - CAST(('0x' || left({row_hash(row, shape)}, 16))::UBIGINT // 2 AS BIGINT)"


def row_hash(row: str, shape: pa.StructType) -> str:
    """SQL: the hash of a row (a struct of this type, or a table with these columns) in 32 hex digits."""
    values = [f"{_written(f'{row}.{quote(field.name)}', field.type)}, ','" for field in shape]
    return f"md5(concat({', '.join(values or [_NOTHING])}))"


def of_hashes(hashes: pa.Array) -> NDArray[np.int64]:
    """The digests of the rows with these hashes: what `row_digest` computes, in fewer steps."""
    signs = hashes.cast(pa.binary()).cast(pa.binary(_SIGNS))
    written = np.frombuffer(signs.buffers()[1], f"S{_SIGNS}", len(signs), signs.offset * _SIGNS)
    words = np.ascontiguousarray(written.view("S16")[::2]).view(">u8").astype(np.uint64)
    # Eight signs are in a word.  A letter is 9 more than its last four bits; then four bits of each remain.
    letters = words >> np.uint64(6)
    letters &= np.uint64(0x0101010101010101)
    letters *= np.uint64(9)
    words &= np.uint64(0x0F0F0F0F0F0F0F0F)
    words += letters
    for shift, mask in ((4, 0x00FF00FF00FF00FF), (8, 0x0000FFFF0000FFFF), (16, 0xFFFFFFFF)):
        words |= words >> np.uint64(shift)
        words &= np.uint64(mask)
    numbers = (words[::2] << np.uint64(31)) | (words[1::2] >> np.uint64(1))
    return -1 - numbers.view(np.int64)


def old_digest(row: str) -> str:
    """SQL: the digest that format 2 gave to a row."""
    return f"CAST(hash({row}) // 2 AS BIGINT)"


def is_old(digest: str) -> str:
    """SQL: whether a digest is of format 2."""
    return f"{digest} >= 0"


def probe() -> tuple[str, int]:
    """A query, and its answer where this DuckDB still makes the digests of format 2."""
    return f"SELECT {_KNOWN[0]}", _KNOWN[1]


def _written(value: str, kind: pa.DataType) -> str:
    """SQL: a value as text, NULL where it is null."""
    if kinds.is_dictionary(kind):
        return _written(f"{value}::VARCHAR", kind.value_type)
    if kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return _measured(value)
    if kinds.is_integer(kind) or kinds.is_decimal(kind):
        return f"{value}::VARCHAR"
    if kinds.is_boolean(kind):
        return f"{value}::INTEGER::VARCHAR"
    if kinds.is_floating(kind):
        double = f"{value}::DOUBLE"
        bits = f"CAST({double} AS BIT)::VARCHAR"
        return f"CASE WHEN {double} = 0 THEN '0' WHEN isnan({double}) THEN 'nan' ELSE {bits} END"
    if kinds.is_timestamp(kind) or kinds.is_date(kind) or kinds.is_time(kind):
        unit = "epoch_ns" if not kinds.is_date(kind) and kind.unit == "ns" else "epoch_us"
        return f"coalesce(TRY({unit}({value}))::VARCHAR, {value}::VARCHAR)"
    if kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind):
        return f"hex({value})"
    return _measured(f"to_json({value})::VARCHAR")


def _measured(text: str) -> str:
    """SQL: a text after its length, so that no text can be taken for another with its neighbours."""
    return f"strlen({text}) || ':' || {text}"

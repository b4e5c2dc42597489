"""A row's digest: the same in every version, for it is kept for years; another for every other row."""

from __future__ import annotations

import hashlib
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isnan
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.engine.duckdb.digest import is_old, old_digest, probe, row_digest

SHAPE = pa.struct(
    [
        ("text", pa.string()), ("number", pa.int64()),
        ("small", pa.int16()), ("yes", pa.bool_()), ("size", pa.float64()),
        ("single", pa.float32()), ("price", pa.decimal128(18, 4)),
        ("day", pa.date32()), ("at", pa.timestamp("us")),
        ("zoned", pa.timestamp("us", "UTC")), ("hour", pa.time64("us")),
        ("raw", pa.binary()), ('a "name"', pa.string()),
    ]
)  # fmt: skip
KNOWN, NOTHING = -1571784946831444492, -5421536402904173178
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def digests(rows: list[Any], shape: pa.DataType = SHAPE) -> list[int]:
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("batch", pa.table({"after": pa.array(rows, shape)}))
        return [one for (one,) in db.execute(f"SELECT {row_digest('after', shape)} FROM batch").fetchall()]


def micros(value: Any) -> str:
    if isinstance(value, time):
        value = datetime.combine(EPOCH, value, UTC)
    elif not isinstance(value, datetime):
        value = datetime.combine(value, time(), UTC)
    return str((value.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1))


def written(name: str, value: Any) -> str:
    """The notation, from its description."""
    if value is None:
        return ""
    match value:
        case bool():
            return "1" if value else "0"
        case str():
            return f"{len(value.encode())}:{value}"
        case float():
            if value == 0:
                return "0"
            if isnan(value):
                return "nan"
            return f"{int.from_bytes(struct.pack('>d', value)):064b}"
        case bytes():
            return value.hex().upper()
        case Decimal():
            return f"{value:.4f}"
        case int():
            return str(value)
        case _:
            return micros(value)


def expected(row: dict[str, Any]) -> int:
    text = "".join(written(field.name, row[field.name]) + "," for field in SHAPE)
    return -1 - (int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:16], 16) >> 1)


def test_it_never_changes() -> None:
    row = {
        "text": "Zoë, 7:x", "number": -(2**63), "small": 7, "yes": True, "size": 0.1, "single": 1.5,
        "price": Decimal("-12.3400"), "day": date(2026, 2, 28),
        "at": datetime.fromisoformat("2026-02-28T12:30:00.000005"),
        "zoned": datetime(1969, 12, 31, 23, tzinfo=UTC),
        "hour": time(1, 2, 3, 4), "raw": b"\x00\xff", 'a "name"': "",
    }  # fmt: skip
    assert digests([row, dict.fromkeys(row)]) == [KNOWN, NOTHING]
    assert [expected(row), expected(dict.fromkeys(row))] == [KNOWN, NOTHING]


values = {
    "text": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "number": st.integers(-(2**63), 2**63 - 1),
    "small": st.integers(-(2**15), 2**15 - 1), "yes": st.booleans(),
    "size": st.floats(), "single": st.floats(width=32),
    "price": st.integers(-(10**17), 10**17).map(lambda n: Decimal(n).scaleb(-4)), "day": st.dates(),
    "at": st.datetimes(), "zoned": st.datetimes(timezones=st.just(UTC)),
    "hour": st.times(), "raw": st.binary(max_size=3),
    'a "name"': st.sampled_from(["", ",", "1:", "1:,", "0:,"]),
}  # fmt: skip
some_rows = st.lists(
    st.fixed_dictionaries({name: st.none() | one for name, one in values.items()}), min_size=1, max_size=20
)


@settings(max_examples=60, deadline=None)
@given(some_rows)
def test_it_is_the_hash_of_the_notation(rows: list[Any]) -> None:
    assert digests(rows) == [expected(row) for row in rows]


def test_rows_are_told_apart_and_equal_ones_are_not() -> None:
    shape = pa.struct([("a", pa.string()), ("b", pa.string()), ("x", pa.float64())])
    rows = [
        {"a": a, "b": b, "x": x}
        for a in (None, "", ",", "0:", "1:,", "x")
        for b in (None, "", ",", "0:", ",x", "x")
        for x in (None, 0.0, float("nan"), 1.0, float("inf"))
    ]
    found = digests(rows, shape)
    assert len(set(found)) == len(rows)
    assert digests([{"a": "", "b": "", "x": -0.0}], shape) == digests([{"a": "", "b": "", "x": 0.0}], shape)
    narrow, wide = pa.struct([("n", pa.int16())]), pa.struct([("n", pa.int64())])
    assert digests([{"n": 7}], narrow) == digests([{"n": 7}], wide)


def test_other_types_have_one_too() -> None:
    shape = pa.struct(
        [
            ("list", pa.list_(pa.int64())),
            ("word", pa.dictionary(pa.int8(), pa.string())),
            ("nano", pa.timestamp("ns")),
        ]
    )
    rows = [
        {"list": one, "word": word, "nano": None}
        for one in (None, [], [1], [1, 2])
        for word in (None, "", "x")
    ]
    assert len(set(digests(rows, shape))) == len(rows)
    assert digests([None], pa.null()) == [None]


def test_old_and_new_ones_can_be_told_apart() -> None:
    assert max(digests([{"n": n} for n in range(2000)], pa.struct([("n", pa.int64())]))) < 0
    with duckdb.connect() as db:
        question, answer = probe()
        assert db.execute(question).fetchall() == [(answer,)]
        old = (
            f"SELECT bool_and({is_old(old_digest('n'))}) FROM (SELECT {{'n': i}} AS n FROM range(2000) r(i))"
        )
        assert db.execute(old).fetchall() == [(True,)]


@pytest.mark.parametrize("value", ["DATE 'infinity'", "TIMESTAMP '-infinity'"])
def test_times_without_an_end(value: str) -> None:
    kind = pa.date32() if value.startswith("DATE") else pa.timestamp("us")
    with duckdb.connect() as db:
        text = row_digest("after", pa.struct([("d", kind)]))
        (found,) = db.execute(f"SELECT {text} FROM (SELECT {{'d': {value}}} AS after)").fetchall()
    assert found[0] is not None

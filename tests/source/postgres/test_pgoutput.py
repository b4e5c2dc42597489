"""The decoder against an encoder written from PostgreSQL's description of its protocol."""

from __future__ import annotations

import struct
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.errors import SourceError
from tidegauge.source.postgres import follow as postgres_follow
from tidegauge.source.postgres import pgoutput
from tidegauge.source.postgres.follow import Place, Transactions
from tidegauge.source.postgres.messages import Messages
from tidegauge.source.postgres.rows import Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

UNCHANGED = object()
OID = 77
FAR = 2**62


def encoded(values: Sequence[object]) -> bytes:
    parts = [struct.pack("!H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            text = str(value).encode()
            parts.append(b"t" + struct.pack("!I", len(text)) + text)
    return b"".join(parts)


def insert(new: Sequence[object]) -> bytes:
    return b"I" + struct.pack("!I", OID) + b"N" + encoded(new)


def update(new: Sequence[object], old: Sequence[object] | None = None, mark: bytes = b"O") -> bytes:
    return b"U" + struct.pack("!I", OID) + (b"" if old is None else mark + encoded(old)) + b"N" + encoded(new)


def delete(old: Sequence[object], mark: bytes = b"K") -> bytes:
    return b"D" + struct.pack("!I", OID) + mark + encoded(old)


def truncate(*oids: int) -> bytes:
    return b"T" + struct.pack(f"!IB{len(oids)}I", len(oids), 0, *oids)


def begin(lsn: int, at: int) -> bytes:
    return b"B" + struct.pack("!QqI", lsn, at - 946_684_800_000_000, 5)


def commit(lsn: int) -> bytes:
    return b"C\0" + struct.pack("!QQq", lsn, lsn + 50, 0)


def relation(
    names: Sequence[str], kinds: Sequence[int], *, oid: int = OID, name: str = "t", keys: int = 1
) -> bytes:
    fields = b"".join(
        bytes([number < keys]) + column.encode() + b"\0" + struct.pack("!Ii", kind, -1)
        for number, (column, kind) in enumerate(zip(names, kinds, strict=True))
    )
    return (
        b"R"
        + struct.pack("!I", oid)
        + b"public\0"
        + name.encode()
        + b"\0d"
        + struct.pack("!H", len(names))
        + fields
    )


value = st.one_of(
    st.none(),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
    st.just("long " * 200),
    st.just(UNCHANGED),
)
row = st.lists(value, min_size=3, max_size=3)
message = st.one_of(
    st.builds(lambda new: ("I", None, new, insert(new)), row),
    st.builds(lambda new: ("U", None, new, update(new)), row),
    st.builds(lambda old, new: ("U", old, new, update(new, old)), row, row),
    st.builds(lambda old, new: ("U", old, new, update(new, old, b"K")), row, row),
    st.builds(lambda old: ("D", old, None, delete(old)), row),
    st.just(("T", None, None, truncate(OID))),
)


@given(st.lists(message, min_size=1, max_size=12))
@settings(max_examples=300, deadline=None)
def test_every_message_is_read_as_it_was_written(
    messages: list[tuple[str, list[object] | None, list[object] | None, bytes]],
) -> None:
    changes = pgoutput.decode(Messages.of([wire for *_, wire in messages]), 3)
    assert bytes(changes.letters).decode() == "".join(letter for letter, *_ in messages)
    for tuples, place in ((changes.old, 1), (changes.new, 2)):
        for column in range(3):
            wanted = [None if found[place] is None else found[place][column] for found in messages]  # type: ignore[index]
            assert tuples.text(column).to_pylist() == [None if v is UNCHANGED else v for v in wanted]
            assert tuples.unchanged(column).tolist() == [v is UNCHANGED for v in wanted]


def test_a_tuple_with_other_columns_than_announced_is_refused() -> None:
    with pytest.raises(SourceError, match="columns that were announced"):
        pgoutput.decode(Messages.of([insert(["1", "2"])]), 3)


def test_a_relation() -> None:
    said = pgoutput.relation(relation(["id", "näme"], [23, 25], name='o"dd'))
    assert (said.oid, said.schema, said.name) == (OID, "public", 'o"dd')
    assert [(field.name, field.type, field.modifier, field.key) for field in said.fields] == [
        ("id", 23, -1, True), ("näme", 25, -1, False),
    ]  # fmt: skip
    assert pgoutput.truncated(truncate(5, OID)) == (5, OID)


NAMES, KINDS = ("id", "person", "age"), (23, 25, 23)
COLUMNS = {"id": "INTEGER", "person": "VARCHAR", "age": "INTEGER"}


def following(lsn: int = 0) -> Transactions:
    place = Place(lsn, "s", OID, {name: [kind, -1] for name, kind in zip(NAMES, KINDS, strict=True)})
    layout = Layout(COLUMNS, ("id",), "person", frozenset())
    return Transactions(
        layout, place, schema_name="public", table="t", base_type=lambda oid, modifier: (oid, modifier)
    )


def transaction(lsn: int, at: int, *rows: bytes) -> list[bytes]:
    return [begin(lsn, at), relation(NAMES, KINDS), *rows, commit(lsn)]


def test_every_change_has_the_stamp_of_its_own_commit() -> None:
    stamps = [10**14, 10**14 - 97, 10**15, 40, 2**60]
    taken = following()
    for number, at in enumerate(stamps):
        rows = [insert([number, "p", 1]), update([number, "p", 2])]
        assert list(taken.feed(Messages.of(transaction(100 * number + 100, at, *rows)), FAR)) == []
    batch = taken.batch(7)
    assert batch.rows["time"].to_pylist() == [stamp for stamp in stamps for _ in range(2)]
    assert batch.upto == 7
    assert Place.parse(batch.position).lsn == 550


def test_what_was_stored_is_passed_over_and_what_lies_beyond_waits() -> None:
    taken = following(lsn=150)
    stream = (
        transaction(100, 1, insert([1, "a", 1]))
        + transaction(200, 2, insert([2, "b", 2]))
        + transaction(300, 9, insert([3, "c", 3]))
    )
    list(taken.feed(Messages.of(stream), 300))
    assert taken.waiting, "what is committed at the target waits"
    batch = taken.batch(5)
    assert batch.rows["entry"].to_pylist() == ["2"]
    assert Place.parse(batch.position).lsn == 250
    list(taken.feed(taken.waiting, 10_000))
    assert not taken.waiting
    assert taken.batch(10).rows["entry"].to_pylist() == ["3"]


def test_a_batch_that_is_full_ends_with_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_follow, "_BATCH", 3)
    taken = following()
    stream = [
        message
        for number in range(4)
        for message in transaction(
            100 * number + 100, 1, *(insert([10 * number + n, "p", 1]) for n in range(2))
        )
    ]
    (first,) = taken.feed(Messages.of(stream), FAR)
    assert first.upto is None
    assert first.rows["entry"].to_pylist() == ["0", "1", "10", "11"]
    assert Place.parse(first.position).lsn == 250
    assert taken.batch(1).rows["entry"].to_pylist() == ["20", "21", "30", "31"]


def test_other_tables_and_their_truncations_are_passed_over() -> None:
    taken = following()
    other = insert([1, "x", 1]).replace(struct.pack("!I", OID), struct.pack("!I", 78), 1)
    list(taken.feed(Messages.of([begin(100, 1), relation(NAMES, KINDS, oid=78, name="u"), other, truncate(78),
                     relation(NAMES, KINDS),
                     insert([2, "y", 2]), truncate(78, OID), commit(100)]), FAR))  # fmt: skip
    assert taken.batch(1).rows["entry"].to_pylist() == ["2", None]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (relation(("id", "person"), (23, 25)), '"age" of "public"."t" was dropped'),
        (relation(NAMES, (23, 25, 20)), '"age" of "public"."t" has another type'),
        (relation(NAMES, KINDS, name="u"), "was renamed or replaced"),
        (relation(NAMES, KINDS, oid=99), "was renamed or replaced"),
        (relation(NAMES, KINDS, keys=0), "replica identity"),
    ],
)
def test_a_table_that_is_no_longer_the_one_we_stood_on(said: bytes, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        list(following().feed(Messages.of([begin(100, 1), said]), FAR))


def test_a_position_of_something_else() -> None:
    with pytest.raises(SourceError, match="not one of a PostgreSQL source"):
        Place.parse('{"offset": 1}')


@pytest.mark.parametrize("rows", [1, 100])
def test_fast_enough(rows: int) -> None:
    """50,000 changes a second must be followed; measured in processor time,
    so that a busy machine does not matter."""
    count = 40_000
    stream: list[bytes] = []
    for number in range(0, count, rows):
        stream += [
            begin(100 * number + 100, number),
            *(update([n, f"person{n}", 33]) for n in range(number, number + rows)),
            commit(100 * number + 100),
        ]
    stream.insert(1, relation(NAMES, KINDS))
    taken = following()
    tracer = sys.gettrace()
    sys.settrace(None)  # a tracer would measure itself
    start = time.process_time()
    for at in range(0, len(stream), 8192):
        list(taken.feed(Messages.of(stream[at : at + 8192]), FAR))
    table = taken.batch(count).rows
    spent = time.process_time() - start
    sys.settrace(tracer)
    assert table.num_rows == count
    assert np.all(np.diff(table["time"].to_numpy()) >= 0)
    assert count / spent > 50_000

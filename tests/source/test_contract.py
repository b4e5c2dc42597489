"""Every source delivers the same history of a table as the same mutations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tests.source.life import FIRST, LIFE, Table, applied, net
from tidegauge.model.source import FollowedSource
from tidegauge.source.batch.rows import shape

if TYPE_CHECKING:
    from tests.source.harness import Harness
    from tests.source.life import State
    from tidegauge.model.mutation import Batch, Source


def follow(harness: Harness, source: Source, position: str | None) -> list[Batch]:
    """Read once, and hold the source to what it promises of every batch."""
    until = harness.now()
    batches = list(source.read(position, until))
    assert batches[-1].upto == until
    reached = -(2**63)
    for batch in batches:
        rows = batch.rows
        assert rows.schema.field("after").type == shape(harness.columns)
        assert rows.schema.field("before").type == rows.schema.field("after").type
        assert rows["time"].null_count == rows["informed"].null_count == 0
        if batch.upto is not None:
            assert reached <= batch.upto <= until, (
                "a batch is complete up to an instant that was asked for, or to none"
            )
            reached = batch.upto
        for name, kind in (
            ("entry", pa.string()),
            ("unit", pa.string()),
            ("time", pa.int64()),
            ("informed", pa.bool_()),
        ):
            assert rows.schema.field(name).type == kind
        for name, kind in (("previous", pa.string()), ("kept", pa.list_(pa.string()))):
            assert name not in rows.schema.names or rows.schema.field(name).type == kind, "optional"
    return batches


def settled(source: Source, batches: list[Batch], state: State) -> tuple[State, str]:
    """Commit what was read, and say so."""
    for batch in batches:
        state = applied(state, batch)
        if isinstance(source, FollowedSource):
            source.acknowledge(batch.position)
    return state, batches[-1].position


def test_the_same_life_is_the_same_mutations(harness: Harness) -> None:
    table = Table()
    state: State = {}
    harness.begin(FIRST)
    table.rows = {row["id"]: row for row in FIRST}
    source = harness.source()
    state, position = settled(source, follow(harness, source, None), state)
    assert state == table.state
    renamed = 0
    for step in LIFE:
        was = table.state
        table.apply(step.transactions)
        harness.live(step.transactions)
        batches = follow(harness, source, position)
        seen, position = settled(source, batches, state)
        assert net(state, seen) == net(was, table.state), step.name
        state = seen
        said = [batch.rows["previous"] for batch in batches if "previous" in batch.rows.column_names]
        renamed += sum(len(column) - column.null_count for column in said)
    if "previous" not in harness.gaps:
        assert renamed == 4, "a key that is changed carries its history along"


def test_a_new_process_goes_on_from_any_position(kind: Harness) -> None:
    """Nothing is acknowledged, as if every commit but the stored one had failed."""
    table = Table()
    kind.begin(FIRST)
    table.rows = {row["id"]: row for row in FIRST}
    source = kind.source()
    state: State = {}
    position = None
    stored: list[tuple[State, str]] = []
    for step in [None, *LIFE[:9]]:
        if step is not None:
            table.apply(step.transactions)
            kind.live(step.transactions)
        for batch in follow(kind, source, position):
            state, position = applied(state, batch), batch.position
        stored.append((state, position or ""))
    for number in (4, 0, -1):
        _close(source)
        source = kind.source()
        state, position = stored[number]
        for batch in follow(kind, source, position):
            state = applied(state, batch)
        assert state == table.state


def test_a_first_load_that_was_not_committed_is_done_again(kind: Harness) -> None:
    kind.begin(FIRST)
    table = Table()
    table.rows = {row["id"]: row for row in FIRST}
    source = kind.source()
    assert sum(batch.rows.num_rows for batch in follow(kind, source, None)) >= len(FIRST)
    _close(source)
    table.apply(LIFE[1].transactions)
    kind.live(LIFE[1].transactions)
    source = kind.source()
    state, position = settled(source, follow(kind, source, None), {})
    assert state == table.state
    table.apply(LIFE[2].transactions)
    kind.live(LIFE[2].transactions)
    state, _ = settled(source, follow(kind, source, position), state)
    assert state == table.state


def test_an_abandoned_read_loses_nothing(kind: Harness) -> None:
    kind.begin(FIRST)
    source = kind.source()
    first = follow(kind, source, None)
    state, position = settled(source, first, {})
    kind.live(LIFE[1].transactions)
    reading = source.read(position, kind.now())
    next(reading)
    del reading
    table = Table()
    table.rows = {row["id"]: row for row in FIRST}
    table.apply(LIFE[1].transactions)
    for batch in follow(kind, source, position):
        state = applied(state, batch)
    assert state == table.state


def _close(source: Source) -> None:
    if isinstance(source, FollowedSource):
        source.close()

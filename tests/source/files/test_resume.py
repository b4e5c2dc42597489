"""However often reading stops, files grow and the end moves: every row is delivered once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.model.quantity import DAY, rfc3339
from tidegauge.source.files.source import Files

if TYPE_CHECKING:
    from tidegauge.model.mutation import Batch

LAST = 6


@dataclass(frozen=True)
class Step:
    """Append rows (file, day) to the files, then read up to a day and stop
    after some batches (None: at the end)."""

    rows: list[tuple[str, int]]
    until: int
    batches: int | None


steps = st.lists(
    st.builds(
        Step,
        rows=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, LAST)), max_size=8),
        until=st.integers(-1, LAST),
        batches=st.none() | st.integers(0, 3),
    ),
    min_size=1,
    max_size=4,
)


@dataclass
class World:
    """Files that grow, and what was delivered of them."""

    folder: Path
    days: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    delivered: list[str] = field(default_factory=list)
    position: str | None = None
    reached: int = -1

    def grow(self, rows: list[tuple[str, int]]) -> None:
        for name, day in rows:
            self.days[name].append(day)
        for name, days in self.days.items():
            lines = [f"{rfc3339(day * DAY)},{name}{row}" for row, day in enumerate(days)]
            (self.folder / f"{name}.csv").write_text("\n".join(["ts,entry", *lines, ""]))

    def expected(self, until: int) -> list[str]:
        """What is to come, in order, from the definition: not delivered yet, and not after `until`."""
        rows = [(day, name, row) for name, days in self.days.items() for row, day in enumerate(days)]
        names = [f"{name}{row}" for day, name, row in sorted(rows) if day <= until]
        return [name for name in names if name not in self.delivered]

    def read(self, until: int) -> list[Batch]:
        source = Files("*.csv", table="t", time="ts", key="entry", base=self.folder, batch_rows=2)
        return list(source.read(self.position, until * DAY))

    def take(self, batches: list[Batch]) -> None:
        for batch in batches:
            self.delivered += batch.rows["entry"].to_pylist()
            self.position = batch.position
            self.reached = max(self.reached, said(batch))


def said(batch: Batch) -> int:
    assert batch.upto is not None
    return batch.upto


def entries(batches: list[Batch]) -> list[str]:
    return [entry for batch in batches for entry in batch.rows["entry"].to_pylist()]


def check(story: list[Step]) -> None:
    with TemporaryDirectory() as folder:
        world = World(Path(folder))
        world.grow([("a", 0)])
        for step in [*story, Step([], LAST, None)]:
            world.grow(step.rows)
            batches = world.read(step.until)
            assert entries(batches) == world.expected(step.until)
            times = [set(batch.rows["time"].to_pylist()) for batch in batches]
            assert all(max(one) < min(two) for one, two in pairwise(times) if one)
            uptos = [said(batch) for batch in batches]
            assert uptos == sorted(uptos)
            assert len(uptos) == len(batches)
            assert uptos[-1] == step.until * DAY
            assert all(upto >= max(late, default=upto) for upto, late in zip(uptos, times, strict=True))
            assert uptos[0] >= min(world.reached, step.until * DAY)
            world.take(batches[: step.batches])
        assert sorted(world.delivered) == sorted(
            f"{name}{row}" for name, days in world.days.items() for row in range(len(days))
        )


@settings(derandomize=True, deadline=None, max_examples=30)
@given(steps)
def test_every_row_comes_once(story: list[Step]) -> None:
    check(story)


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=300)
@given(steps)
def test_every_row_comes_once_in_many_stories(story: list[Step]) -> None:
    check(story)


def test_late_news_is_taken_up_again_where_it_was_left(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.grow([("a", 0), ("a", 5)])
    world.take(world.read(5))
    world.grow([("a", day) for day in (1, 1, 2, 2, 3, 3)])
    late = world.read(5)
    assert [batch.upto for batch in late] == [5 * DAY] * 3
    world.take(late[:1])
    world.grow([("a", 0), ("b", 2), ("a", 6)])
    assert entries(world.read(6)) == ["a8", "a4", "a5", "b0", "a6", "a7", "a9"]
    world.take(world.read(6))
    assert world.expected(6) == []
    assert entries(world.read(6)) == []


def test_rows_of_jsonl_keep_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('\n{"ts": "2026-01-01", "entry": 1}\n\n')
    source = Files("t.jsonl", time="ts", key="entry", base=tmp_path)
    (first,) = source.read(None, 2**60)
    with path.open("a") as file:
        file.write('{"ts": "2026-01-01", "entry": 2}\n')
    (second,) = source.read(first.position, 2**60)
    assert entries([first, second]) == ["1", "2"]

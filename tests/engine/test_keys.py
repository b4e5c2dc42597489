"""Keys of every kind in a whole history: the state, digests included, is that of small batches."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.engine.harness import BY_STATE, Run
from tests.engine.test_past import Result, counted, state
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.engine.duckdb.past import digests, parts, shuffle
from tidegauge.model.program import Allowance, Program, Release, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.schedule import Schedule
from tidegauge.source.files.source import Files

if TYPE_CHECKING:
    from pathlib import Path

START = 1_735_689_600_000_000
REACHED = START + 100
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "small": (pa.int64(), list(range(120))),
    "null": (pa.int64(), [None, *range(40)]),
    "null of 32 bits": (pa.int32(), [None, *range(40)]),
    "just 32 bits": (pa.int64(), [-(2**31), 2**31 - 1, *range(40)]),
    "just above": (pa.int64(), [2**31, 2**31 - 1, *range(40)]),
    "8 bits": (pa.int8(), list(range(-60, 60))),
    "negative": (pa.int32(), list(range(-60, 60))),
    "far apart": (pa.int64(), [-(2**63), 2**63 - 1, 0, 9, 10, 100, 10**16, 10**17 - 1, 10**17]),
    "unsigned": (pa.uint64(), [0, 1, 2**63, 2**64 - 1, *range(10, 60)]),
    "text": (pa.string(), ["", "a", "b\u00e9", *map(str, range(60))]),
}


def changelog(path: Path, kind: pa.DataType, keys: list[Any], *, more: bool, seed: int) -> None:
    """Random changes; `more`: with a column that no release uses."""
    rng = random.Random(seed)
    rows: dict[str, list[Any]] = {"time": [], "id": [], "after_s": [], "after_x": []}
    for n in range(600):
        rows["time"].append(START + n // 6 - (20 if rng.random() < 0.1 else 0))
        rows["id"].append(rng.choice(keys))
        gone = rng.random() < 0.1
        rows["after_s"].append(None if gone else rng.choice(["a", "b", "c"]))
        rows["after_x"].append(None if gone else rng.randrange(5))
    columns = {"time": pa.array(rows["time"], pa.timestamp("us")), "id": pa.array(rows["id"], kind),
               "after_s": pa.array(rows["after_s"]), "after_x": pa.array(rows["after_x"])}  # fmt: skip
    if more:
        columns["after_y"] = pa.array(rows["after_x"])
    parquet.write_table(pa.table(columns), path, row_group_size=100)


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_kind(name: str, more: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffle, "PART", 100)
    monkeypatch.setattr(shuffle, "_TOGETHER", 150)
    monkeypatch.setattr(shuffle, "_SLICE", 70)
    monkeypatch.setattr(shuffle, "IN_MEMORY", 0 if more else 10**9)
    monkeypatch.setattr(parts, "ROWS", 10)
    scanned, scan = [], digests.Digests._scanned

    def noted(self: Any, *given: Any) -> Any:
        scanned.append(True)
        return scan(self, *given)

    monkeypatch.setattr(digests.Digests, "_scanned", noted)
    path = tmp_path / "t.parquet"
    changelog(path, *KEYS[name], more=more, seed=len(name))
    program = Program((Release("state", BY_STATE, Schedule(START, Span(micros=10))),),
                      (Scope(("state",), ((None, Allowance(2)),)),))  # fmt: skip
    source = Files(str(path), time="time", key="id", table="t", after="after_")
    with DuckEngine(program, source.columns) as engine:
        history = source.history(REACHED)
        whole = Result.__new__(Result)
        whole.fold(engine, history)
        rows = pa.concat_tables(history.batches())
        history.close()
    with DuckEngine(program, source.columns) as engine:
        run = Run(engine)
        engine.arrive(rows, state=run.memory, now=10**18, arrivals=0)
        for folded in engine.fold(state=run.memory, watermark=-(2**62), reached=REACHED):
            run.memory.apply(folded)
            run._count(folded.counts)
    assert state(whole.run) == state(run)
    assert counted(whole.run) == counted(run)
    assert bool(scanned) == more


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("step", [1, 64, -3])
def test_a_key_follows_from_its_part_and_its_highest_bits(
    kind: type[Any], step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_AT_ONCE", 100)
    keys = (np.arange(5000) * step).astype(kind)
    part = parts.divided(keys, 64)
    found = set(zip(part.tolist(), (keys >> 6).tolist(), strict=True))
    assert len(found) == len(np.unique(keys))
    assert (parts.divided(keys.astype(np.int64), 64) == part).all()  # blocks have integers of several widths
    sizes = np.bincount(parts.divided(np.unique(keys), 64), minlength=64)
    assert sizes.max() <= 3 * sizes.mean() + 3


def test_keys_of_two_widths_come_together() -> None:
    shuffled = shuffle.Shuffle(10)
    few, far = shuffle.narrow(pa.array([1, 2, 1])), shuffle.narrow(pa.array([2, 2**40]))
    assert isinstance(few, np.ndarray)
    assert few.dtype == np.int32
    for first, key in ((0, few), (3, far)):
        shuffled.add({"key": key}, np.zeros(len(key), np.uint8), first)
    shuffled.finish()
    found = shuffled.part(0)
    assert found is not None
    assert found["key"].tolist() == [1, 2, 1, 2, 2**40]
    assert found["row"].tolist() == [0, 1, 2, 3, 4]

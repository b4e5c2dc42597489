"""A whole gauge: however its source cuts batches, the same readings, the same store, the same log."""

from __future__ import annotations

import logging
import random
import sqlite3
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tidegauge.model.mutation import Batch
from tidegauge.model.source import FollowedSource
from tidegauge.run.gauge import Gauge
from tidegauge.store.cipher import parse_key
from tidegauge.store.secret.part import SecretPart
from tidegauge.store.store import Store
from tidegauge.testing import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COLUMNS = {"ward": "VARCHAR", "age": "BIGINT"}
KEY = "ab" * 32
EVERY = {"start": "1970-01-01T00:00:00.000010Z", "every": "10 microseconds", "for": "60 microseconds"}


class Log(FollowedSource):
    """A log that is followed: at each reading so much of it is there, cut into batches of so many changes."""

    table, columns = "t", COLUMNS

    def __init__(self, rows: list[dict[str, Any]], sizes: list[int]) -> None:
        self.rows, self.sizes = rows, sizes

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        done = int(position or 0)
        end = len([row for row in self.rows if row["seen"] <= until])
        for size in self.sizes:
            if done + size < end:
                yield self.batch(done, done + size, None)
                done += size
        yield self.batch(done, end, until)

    def batch(self, first: int, last: int, upto: int | None) -> Batch:
        image = pa.struct([("ward", pa.string()), ("age", pa.int64())])
        part = [{**row, "before": None, "informed": False} for row in self.rows[first:last]]
        kinds = [
            ("time", pa.int64()), ("entry", pa.string()),
            ("unit", pa.string()), ("before", image), ("after", image),
            ("informed", pa.bool_()), ("previous", pa.string()), ("kept", pa.list_(pa.string())),
        ]  # fmt: skip
        return Batch(pa.Table.from_pylist(part, pa.schema(kinds)), upto, str(last))


def world(seed: int) -> list[dict[str, Any]]:
    """Rows with stamps in any order, seen in the order of the log."""
    rng, rows, seen = random.Random(seed), [], 0
    for _ in range(60):
        seen += rng.choice([0, 0, 1, 2])
        row: dict[str, Any] = {"seen": seen, "time": max(0, seen + rng.choice([0, 0, -1, -7, -25, 30])),
                               "unit": rng.choice(["u", "v", "w"]),
                               "entry": rng.choice("abcdef"), "previous": None,
                               "kept": None, "after": None}  # fmt: skip
        kind = rng.random()
        if kind < 0.04:
            row |= {"entry": None, "unit": None}
        elif kind < 0.85:
            row["after"] = {"ward": rng.choice(["a", "b", None]), "age": rng.randrange(90)}
            if kind < 0.2:
                row["previous"] = rng.choice("abcdef")
            elif kind < 0.3:
                row["kept"] = ["ward"]
        rows.append(row)
    return rows


def gauge(folder: Path, source: Log, clock: Clock, *, owned: bool, **changes: Any) -> Gauge:
    declared: dict[str, Any] = {
        "source": source,
        "constraint": {"at_most": 4, "within": "40 microseconds"},
        "budget": {"epsilon": 10**9},
        "releases": {
            "by_ward": {
                "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward",
                "groups": {"ward": ["a", "b"]},
                **EVERY,
            },
            "moved": {
                "sql": "SELECT COUNT(*) FROM changes(t) WHERE before.ward = 'a' AND after.ward = 'b'",
                **EVERY,
            },
        },
        "store": folder / "store.db",
        "now": clock,
        "sleep": clock.sleep,
    }
    if owned:
        declared |= {"unit": "person", "max_rows": 2}
    return Gauge(**(declared | changes))


def lived(
    folder: Path, seed: int, sizes: list[int], caplog: pytest.LogCaptureFixture, **options: Any
) -> tuple[Any, ...]:
    """Everything that follows from a world: readings, log lines, the secret state, the public counters."""
    folder.mkdir()
    clock = Clock(5)
    one = gauge(folder, Log(world(seed), sizes), clock, **options)
    caplog.clear()
    while clock.now < 100:
        list(one.run())
        clock.now += 7
    lines = [(record.message, record.__dict__.get("upto")) for record in caplog.records]
    key = parse_key(KEY) if options.get("key") else None
    with Store(folder / "store.db", key=key) as store:
        state = store.secret.state()
        rows = [
            *(sorted(map(repr, state.all_of(name).to_pylist())) for name in ("entries", "units", "used")),
            store.secret.clock,
            sorted(state.keys(None).items()),
            store.secret.counts(),
        ]
    tables = []
    if key is None:
        with sqlite3.connect(folder / "store.db") as db:
            tables = [
                sorted(db.execute(f"SELECT * FROM {table}").fetchall(), key=repr)
                for table in ("ticks", "journal")
            ]
        db.close()
    return one.readings().to_pylist(), lines, rows, tables


@pytest.mark.parametrize("case", [(1, False, False), (2, True, False), (3, True, True)])
def test_readings_and_store_are_the_same_for_every_cut(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[int, bool, bool],
) -> None:
    seed, owned, sealed = case
    monkeypatch.setenv("CUTS_KEY", KEY)
    caplog.set_level(logging.INFO, logger="tidegauge")
    options: dict[str, Any] = {"owned": owned} | ({"key": "env:CUTS_KEY"} if sealed else {})
    whole = lived(tmp_path / "whole", seed, [], caplog, **options)
    assert any(reading["value"] for reading in whole[0])
    for name, sizes in (("ones", [1] * 60), ("some", [3, 1, 7, 2])):
        assert lived(tmp_path / name, seed, sizes, caplog, **options) == whole


def test_a_crash_between_batches_loses_and_repeats_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, logger="tidegauge")
    whole = lived(tmp_path / "whole", 4, [], caplog, owned=True)
    fails = iter([False, True] * 200)
    real = SecretPart.set_clock

    def set_clock(self: SecretPart, clock: Any) -> None:
        real(self, clock)
        if next(fails):
            raise KeyboardInterrupt

    monkeypatch.setattr(SecretPart, "set_clock", set_clock)
    ran = Gauge.run

    def run(self: Gauge, *args: Any, **options: Any) -> Iterator[Any]:
        while True:
            try:
                yield from ran(self, *args, **options)
            except KeyboardInterrupt:
                continue
            return

    monkeypatch.setattr(Gauge, "run", run)
    cut = lived(tmp_path / "cut", 4, [2] * 40, caplog, owned=True)
    assert (cut[0], cut[2], cut[3]) == (whole[0], whole[2], whole[3])

"""Programs that name a source's key `entry`, as declarations once did, go on working."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tidegauge.errors import SpecError
from tidegauge.source.debezium.kafka import Kafka
from tidegauge.source.debezium.source import Debezium
from tidegauge.source.postgres.source import Postgres
from tidegauge.source.sqlite.source import SQLite
from tidegauge.source.sqlite.triggers import install

if TYPE_CHECKING:
    from pathlib import Path

OLDER = pytest.mark.parametrize("name", ["key", "entry"])


@OLDER
def test_sqlite_and_its_triggers(tmp_path: Path, name: str) -> None:
    path, key = tmp_path / "app.db", {name: ["b"]}
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE people (a TEXT PRIMARY KEY, b TEXT NOT NULL UNIQUE)")
        install(path, "people", **key)
        connection.execute("INSERT INTO people VALUES ('x', 'y')")
        connection.commit()
    source = SQLite(path, "people", **key)  # type: ignore[arg-type]
    (batch,) = source.read(None, int(time.time() * 1e6) + 1)
    assert batch.rows["entry"].to_pylist() == ["y"]


@OLDER
def test_sources_that_need_a_key(tmp_path: Path, name: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"op": "c", "ts_ms": 1, "after": {"n": 7}, "source": {"table": "t", "ts_ms": 1}}\n')
    key: dict[str, Any] = {name: "n"}
    (batch,) = Debezium(path, "t", **key, columns={"n": "BIGINT"}).read(None, int(time.time() * 1e6))
    assert batch.rows["entry"].to_pylist() == ["7"]
    assert Kafka({}, "topic", "t", **key, columns={"n": "BIGINT"}).table == "t"
    assert Postgres("host=x", "t", **key).table == "t"


def test_no_key_is_refused(tmp_path: Path) -> None:
    for source in (lambda: Postgres("host=x", "t"), lambda: Debezium(tmp_path, "t")):
        with pytest.raises(SpecError, match="name the columns of the primary key"):
            source()

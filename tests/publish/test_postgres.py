"""The kind `postgres`: a table that holds every reading once, whatever happens to the server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.publish.ward import Ward
from tests.servers.postgres import Server, binaries


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server(binaries()[0])
    yield running
    running.stop()


def test_a_table_holds_every_reading_once(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = server.database("once")
    monkeypatch.setenv("WAREHOUSE", dsn)
    ward = Ward(tmp_path, {"it": {"kind": "postgres", "dsn": "env:WAREHOUSE", "table": "public.out"}})
    for day in (0, 3, 40):
        assert not ward.run(day).undelivered
    with psycopg.connect(dsn) as connection:
        connection.execute("SET timezone = 'UTC'; SET datestyle = 'ISO'")
        found = connection.execute(
            "SELECT release, time, group_values, value, stderr, low, high FROM out ORDER BY 1, 2, groups"
        ).fetchall()
        connection.execute("UPDATE out SET value = 0")  # a second delivery puts it right
        connection.execute("DELETE FROM out WHERE release = 'week'")
    want = [
        (one.release, one.time, one.group, one.value, one.stderr, *one.interval())
        for one in ward.gauge().published()
    ]
    assert found == want
    ward.publish["other"] = ward.publish.pop("it")
    ward.run(40)
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT count(*), sum(abs(value)) > 0 FROM out").fetchall() == [
            (len(want), True)
        ]


def test_a_server_that_refuses_is_tried_again_and_quotes_nothing(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = server.database("refuses")
    monkeypatch.setenv("WAREHOUSE", f"{dsn} password=hunter2 dbname=nowhere")
    ward = Ward(tmp_path, {"it": {"kind": "postgres", "dsn": "env:WAREHOUSE"}})
    (failure,) = ward.run(3).undelivered
    assert failure.reason.startswith("PostgreSQL refused: ")
    assert "hunter2" not in failure.reason
    assert "nowhere" not in failure.reason
    monkeypatch.setenv("WAREHOUSE", dsn)
    assert not ward.run(3).undelivered
    with psycopg.connect(dsn) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM tidegauge_readings").fetchall()
    assert count == len(ward.gauge().published())
    assert os.environ["WAREHOUSE"] == dsn

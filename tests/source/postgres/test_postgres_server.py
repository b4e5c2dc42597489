"""Servers that are set up wrong, and servers that die."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.servers.postgres import Server, binaries
from tests.source.harness import now
from tests.source.life import State, applied
from tidegauge.errors import SourceError
from tidegauge.run.gauge import Gauge
from tidegauge.source.postgres.access import Patience
from tidegauge.source.postgres.source import Postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tidegauge.model.source import Check


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """Start servers with settings of the test's own."""
    running: list[Server] = []

    def started(**settings: str) -> Server:
        running.append(Server(binaries()[0], **settings))
        return running[-1]

    yield started
    for server in running:
        server.stop()


def failed(checks: list[Check]) -> dict[str, str | None]:
    return {check.name: check.fix for check in checks if not check.ok}


def test_the_doctor_on_a_server_that_has_everything_wrong(start: Callable[..., Server]) -> None:
    server = start(wal_level="replica", max_replication_slots="0", max_wal_senders="0")
    with server.connect() as connection:
        connection.execute('CREATE ROLE "o""dd" LOGIN')
        connection.execute('CREATE TABLE "x""; drop table y; --" (id integer PRIMARY KEY, n integer)')
        connection.execute("CREATE TABLE bare (id integer)")
        connection.execute("CREATE VIEW seen AS SELECT 1 AS id")
        connection.execute("CREATE UNLOGGED TABLE quick (id integer PRIMARY KEY)")
        connection.execute("CREATE TABLE parts (id integer PRIMARY KEY) PARTITION BY HASH (id)")
        connection.execute(
            "CREATE TABLE later (id integer PRIMARY KEY DEFERRABLE)"
        )  # names no rows in the log
        connection.execute("CREATE publication wide FOR TABLE parts")
    dsn = server.dsn(user='o"dd')
    source = Postgres(dsn, 'x"; drop table y; --', key="id", slot="s", publication="p")
    fixes = failed(source.doctor())
    assert fixes == {
        "wal_level": "ALTER SYSTEM SET wal_level = 'logical'; -- then restart the server",
        "max_replication_slots": "ALTER SYSTEM SET max_replication_slots = 4; -- then restart the server",
        "max_wal_senders": "ALTER SYSTEM SET max_wal_senders = 4; -- then restart the server",
        "replication": 'ALTER ROLE "o""dd" REPLICATION;',
        "select": 'GRANT USAGE ON SCHEMA "public" TO "o""dd"; '
        'GRANT SELECT ON "public"."x""; drop table y; --" TO "o""dd";',
        "publication": 'CREATE PUBLICATION "p" FOR TABLE "public"."x""; drop table y; --";',
    }
    with pytest.raises(SourceError, match="Nothing was read"):
        list(source.read(None, now()))
    source.close()
    for table, fix in (
        ("bare", 'ALTER TABLE "public"."bare" REPLICA IDENTITY FULL;'),
        ("later", 'ALTER TABLE "public"."later" REPLICA IDENTITY FULL;'),
        ("seen", None),
        ("quick", None),
        ("none", None),
    ):
        assert failed(Postgres(dsn, table, key="id").doctor())["table"] == fix
    parts = failed(Postgres(dsn, "parts", key="id", publication="wide").doctor())
    assert parts["publication"] == 'ALTER PUBLICATION "wide" SET (publish_via_partition_root = true);'
    assert "no column" in str(Postgres(dsn, "parts", key="id", unit="who").doctor())

    # What the doctor prints is what helps.
    with server.connect() as connection:
        for fix in fixes.values():
            assert fix is not None
            for statement in fix.partition(" --")[0].split("; ") if "drop table" not in fix else [fix]:
                connection.execute(statement.encode())
    server.crash()
    server.start()
    assert failed(source.doctor()) == {}
    assert [batch.rows.num_rows for batch in source.read(None, now())] == [0]
    source.close()


def test_a_slot_that_the_server_has_given_up(start: Callable[..., Server]) -> None:
    server = start(max_slot_wal_keep_size="'1MB'", min_wal_size="'32MB'", max_wal_size="'32MB'")
    source = Postgres(server.dsn(), "t", key="id", slot="s", patience=5)
    with server.connect() as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY)")
        (loaded,) = source.read(None, now())
        source.acknowledge(loaded.position)
        source.close()
        for number in range(4):
            connection.execute("INSERT INTO t VALUES (%s)", [number])
            connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")
        assert connection.execute("SELECT wal_status FROM pg_replication_slots").fetchone() == ("lost",)
    with pytest.raises(SourceError, match="given up the replication slot s"):
        list(source.read(loaded.position, now()))
    assert failed(source.doctor(loaded.position)) == {"slot": '[source] on_lost = "reload"'}
    assert failed(source.doctor()) == {"slot": "[source] slot = 's_2'"}
    source.close()
    again = Postgres(server.dsn(), "t", key="id", slot="s", on_lost="reload")
    assert failed(again.doctor(loaded.position)) == {}
    (reloaded,) = again.read(loaded.position, now())
    assert reloaded.rows["entry"].to_pylist() == [None, "0", "1", "2", "3"]
    again.acknowledge(reloaded.position)
    again.close()
    assert failed(again.doctor(reloaded.position)) == {}


def test_a_server_that_dies_and_comes_back(start: Callable[..., Server]) -> None:
    """It dies while a large transaction is under way, and again while one is being read."""
    server = start()
    source = Postgres(server.dsn(), "t", key="id", patience=30)
    state: State = {}
    position: str | None = None

    def read() -> None:
        nonlocal state, position
        for batch in source.read(position, now()):
            state, position = applied(state, batch), batch.position
            source.acknowledge(position)

    with server.connect() as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY, n integer)")
        read()
        connection.execute("INSERT INTO t SELECT g FROM generate_series(1, 1000) g")
    open_transaction = psycopg.connect(server.dsn())
    open_transaction.execute("INSERT INTO t SELECT g FROM generate_series(10001, 20000) g")
    read()
    server.crash()
    open_transaction.close()
    server.start()
    with server.connect() as connection:
        connection.execute("UPDATE t SET n = 1 WHERE id <= 500")
        connection.execute("INSERT INTO t SELECT g FROM generate_series(100001, 120000) g")

    def kill() -> None:
        time.sleep(0.3)
        server.crash()
        server.start()

    killer = threading.Thread(target=kill)
    killer.start()
    read()
    killer.join()
    read()
    with server.connect() as connection:
        truth = {str(key): {"id": key, "n": n} for key, n in connection.execute("SELECT id, n FROM t")}
    source.close()
    assert {entry: row for entry, (_, row) in state.items()} == truth
    assert len(truth) == 21000


def test_a_server_that_is_down_at_the_start(
    start: Callable[..., Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A run waits for it as it does later; what waiting does not help is refused at once."""
    server = start()
    with server.connect() as connection:
        connection.execute("CREATE TABLE people (id integer PRIMARY KEY)")
        connection.execute("INSERT INTO people SELECT generate_series(1, 7)")
    monkeypatch.setenv("START_DSN", server.dsn())
    begun = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())  # so that a reading is due at once
    declared = DECLARATION.replace('every = "1 second"', f'start = "{begun}"\nevery = "1 second"')
    (tmp_path / "tidegauge.toml").write_text(declared)
    server.crash()
    came_back = threading.Event()
    real = Patience.wait

    def wait(self: Patience, error: psycopg.Error) -> None:
        real(self, error)
        if not came_back.is_set():
            came_back.set()
            server.start()

    monkeypatch.setattr(Patience, "wait", wait)
    for _ in range(2):  # once before the plan is committed, once after
        came_back.clear()
        caplog.clear()
        gauge = Gauge.from_file(tmp_path / "tidegauge.toml")
        with caplog.at_level(logging.WARNING), closing(gauge.run(follow=True)) as readings:
            assert any(round(reading.value or 0) == 7 for reading in readings)
        assert came_back.is_set()
        assert caplog.text.count("; trying again for at most 600 s") == 1
        assert "no connection to PostgreSQL (" in caplog.text
        assert "SQLSTATE none" not in caplog.text
        server.crash()
    came_back.clear()
    with pytest.raises(SourceError, match="cannot be reached"):  # a single run does not wait
        list(Gauge.from_file(tmp_path / "tidegauge.toml").run())
    assert not came_back.is_set()
    server.start()
    for wrong in (server.dsn(dbname="none"), server.dsn(user="nobody-at-all")):
        monkeypatch.setenv("START_DSN", wrong)
        with pytest.raises(SourceError, match=r"refuses the login|has no such database"):
            list(Gauge.from_file(tmp_path / "tidegauge.toml").run())
    assert not came_back.is_set()


DECLARATION = """
[source]
kind = "postgres"
dsn = "env:START_DSN"
table = "people"
entry = "id"

[constraint]
at_most = 4

[budget]
epsilon = 1e9

[release.people]
sql = "SELECT COUNT(*) FROM people"
every = "1 second"
"""


def test_a_server_that_stays_away(start: Callable[..., Server]) -> None:
    server = start()
    source = Postgres(server.dsn(), "t", key="id", patience=0.5)
    with server.connect() as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY)")
    (loaded,) = source.read(None, now())
    source.acknowledge(loaded.position)
    server.crash()
    with pytest.raises(SourceError, match=r"cannot be reached.*Nothing is lost"):
        list(source.read(loaded.position, now()))
    source.acknowledge(loaded.position)
    server.start()
    assert [batch.rows.num_rows for batch in source.read(loaded.position, now())] == [0]
    source.close()

"""Servers that are killed, restarted and cut off, slots that are lost,
and stores that are older than their slot."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.recovery.town import Load, PostgresTown, events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.postgres import Server


def wait_for(condition: Callable[[], object], seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def goes_on(town: PostgresTown) -> None:
    before = town.unchanged()
    wait_for(lambda: town.unchanged() > before)


def end(process: subprocess.Popen[bytes]) -> int:
    process.terminate()
    return process.wait(600)


def insert(town: PostgresTown, first: int, count: int) -> None:
    """One large transaction; whether it is committed, the server decides."""
    try:
        with psycopg.connect(town.dsn) as connection:
            for start in range(first, first + count, 10_000):
                connection.execute(
                    "INSERT INTO people SELECT i, 'south', mod(i, "
                    "90) FROM generate_series(%s::int, %s::int) i",
                    [start, start + 9_999],
                )
    except psycopg.OperationalError:
        pass


@pytest.mark.parametrize(
    "pauses", [(0.4,), pytest.param((0.2, 0.6, 1.0, 1.5, 2.0, 2.5, 3.0), marks=pytest.mark.slow)]
)
def test_a_server_killed_in_the_middle_of_large_transactions(
    own_server: Server, tmp_path: Path, pauses: tuple[float, ...]
) -> None:
    """Once while the transaction is open, once while it is being read;
    each time everything of the server dies at once."""
    town = PostgresTown(tmp_path, own_server)
    process = town.start("run", "--log", "json")
    wait_for(town.unchanged)
    for number, pause in enumerate(pauses, start=1):
        writer = threading.Thread(target=insert, args=(town, number * 1_000_000, 200_000))
        writer.start()
        time.sleep(pause)
        own_server.kill()
        writer.join()
        own_server.start()
        goes_on(town)
    with Load(town, seed=4):
        time.sleep(1)
    assert process.poll() is None, town.log()
    assert end(process) == 0
    assert any("no connection" in event for event in events(town.log()))
    with town.connect() as connection:
        counted = connection.execute("SELECT count(*) FROM people WHERE id >= 1000000").fetchone()
    assert counted is not None
    assert counted[0] % 200_000 == 0  # all of a transaction or nothing of it
    town.settle()


def test_connections_that_are_cut_again_and_again(postgres_town: PostgresTown) -> None:
    town, cuts = postgres_town, 0
    process = town.start("run", "--log", "json")
    wait_for(town.unchanged)
    with Load(town, seed=5), town.server.connect() as admin:
        while cuts <= 3:
            row = admin.execute(
                "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE datname = %s AND application_name = 'tidegauge'",
                [town.database],
            ).fetchone()
            assert row is not None
            cuts += row[0]
            time.sleep(0.3)
    goes_on(town)
    assert process.poll() is None, town.log()
    assert end(process) == 0
    town.settle()


@pytest.mark.slow
def test_a_server_that_is_away_for_a_while(own_server: Server, tmp_path: Path) -> None:
    town = PostgresTown(tmp_path, own_server)
    process = town.start("run", "--log", "json")
    wait_for(town.unchanged)
    with Load(town, seed=6):
        time.sleep(0.5)
        own_server.crash()
        time.sleep(2)
        own_server.start()
        time.sleep(1)
    goes_on(town)
    assert end(process) == 0
    town.settle()


def test_an_old_copy_of_the_store_is_shown_by_the_slot(postgres_town: PostgresTown, tmp_path: Path) -> None:
    town, store = postgres_town, tmp_path / "tidegauge.db"
    assert town.call("run", "--once")[0] == 0
    with Load(town, seed=7):
        time.sleep(1.2)
        assert town.call("run", "--once")[0] == 0
        shutil.copy(store, tmp_path / "backup")
        time.sleep(1.5)
        assert town.call("run", "--once")[0] == 0
    newest = store.read_bytes()
    shutil.copy(tmp_path / "backup", store)
    code, said = town.call("run", "--once")
    assert (code, "old copy" in said, "witness" in said) == (2, True, True)
    (tmp_path / "tidegauge.db.witness").unlink()  # nothing but the slot shows it now
    code, said = town.call("run", "--once")
    assert code == 2
    assert "has been read further than this store knows" in said
    assert "not-to-be-shown" not in said
    store.write_bytes(newest)
    town.settle()


def test_a_slot_that_was_dropped(postgres_town: PostgresTown) -> None:
    town = postgres_town
    assert town.call("run", "--once")[0] == 0
    with town.connect() as connection:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [town.slot()])
    before = town.unchanged()
    time.sleep(1.1)
    code, said = town.call("run", "--once")
    assert code == 2
    assert "is gone" in said
    assert town.unchanged() == before


def test_a_slot_that_the_server_gave_up(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    from tests.servers.postgres import Server, binaries

    server = Server(
        binaries()[0], max_slot_wal_keep_size="'1MB'", min_wal_size="'32MB'", max_wal_size="'32MB'"
    )
    request.addfinalizer(server.stop)
    town = PostgresTown(tmp_path, server)
    assert town.call("run", "--once")[0] == 0
    with town.connect() as connection:
        for number in range(4):
            connection.execute("INSERT INTO people VALUES (%s, 'south', 30)", [5000 + number])
            connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")
    before = town.unchanged()
    code, said = town.call("run", "--once")
    assert (code, "given up the replication slot" in said) == (2, True), said
    code, said = town.call("doctor")
    assert (code, said.count("MISSING")) == (2, 1)
    assert town.unchanged() == before

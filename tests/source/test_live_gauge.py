"""A whole gauge on live databases: what it publishes is what the database itself answers."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.people import await_reading, releases
from tests.printed import printed
from tests.servers.postgres import Server
from tidegauge.model.quantity import rfc3339
from tidegauge.run.gauge import Gauge
from tidegauge.source.sqlite.triggers import install

DECLARATION = """
[source]
kind = "{kind}"
{place}
table = "people"
entry = "id"
""" + releases(where="age >= 18")

TRUTH = (
    "SELECT count(*) FILTER (WHERE age >= 18 AND city = 'north'), count(*) FILTER (WHERE age >= 18 AND "
    "city = 'south'), coalesce(sum(age), 0) FROM {}people"
)


def last(gauge: Gauge) -> tuple[float | None, ...]:
    readings = gauge.published()
    newest = max(reading.time for reading in readings)
    return tuple(
        r.value for name in ("by_city", "ages") for r in readings if r.release == name and r.time == newest
    )


def scribble(rng: random.Random, execute: Any, mark: str) -> None:
    """One change, as an application makes it."""
    key, city, age = rng.randrange(400), rng.choice(["north", "south", "west"]), rng.randrange(90)
    match rng.randrange(4):
        case 0 | 1:
            execute(
                f"INSERT INTO people VALUES ({mark}, {mark}, {mark}) ON "
                "CONFLICT (id) DO UPDATE SET city = excluded.city",
                (key, city, age),
            )
        case 2:
            execute(
                f"UPDATE people SET age = {mark} WHERE id BETWEEN {mark} AND {mark}", (age, key, key + 20)
            )
        case _:
            execute(f"DELETE FROM people WHERE id = {mark}", (key,))


def test_postgres_through_kills(postgres: Server, fresh: str, tmp_path: Path) -> None:
    rng = random.Random(11)
    with psycopg.connect(postgres.dsn(), autocommit=True) as admin:
        admin.execute(f"CREATE SCHEMA {fresh}")
        admin.execute(f"SET search_path = {fresh}")
        admin.execute("CREATE TABLE people (id int PRIMARY KEY, city text, age int)")
        admin.execute("INSERT INTO people SELECT i, 'north', i % 80 FROM generate_series(1, 300) i")
        place = f'dsn = "env:PEOPLE_DSN"\nschema = "{fresh}"'
        (tmp_path / "tidegauge.toml").write_text(DECLARATION.format(kind="postgres", place=place))
        environment = {**os.environ, "PEOPLE_DSN": postgres.dsn()}
        command = [sys.executable, "-c", "from tidegauge.cli import main; main()", "run", "--log", "json"]
        logs = b""
        for round_ in range(4):
            process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
            assert process.stderr is not None
            logs += process.stderr.readline()
            end = time.monotonic() + rng.uniform(0.5, 1.5)
            while time.monotonic() < end:
                with admin.transaction(force_rollback=rng.random() < 0.2):
                    for _ in range(rng.randrange(1, 30)):
                        scribble(rng, admin.execute, "%s")
            if round_ == 1:
                admin.execute("DELETE FROM people")
            process.send_signal(signal.SIGKILL if round_ % 2 else signal.SIGTERM)
            logs += process.communicate()[1]
            assert process.returncode == (-signal.SIGKILL if round_ % 2 else 0), logs
        os.environ["PEOPLE_DSN"] = postgres.dsn()
        gauge = Gauge.from_file(tmp_path / "tidegauge.toml")
        for _ in range(2):
            list(gauge.run())
            await_reading()
        list(gauge.run())
        assert last(gauge) == pytest.approx(admin.execute(TRUTH.format("")).fetchone(), abs=0.1)
        numbers = sorted({(r.release, r.time) for r in gauge.published()})
        assert len(numbers) == len(gauge.published()) * 2 // 3
        assert gauge.verify().readings == len(gauge.published())
        for line in logs.splitlines():
            assert set(json.loads(line)) <= {"time", "level", "event", "readings", "upto", "plan"}
        everything = logs + b"".join(
            path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".toml"
        )
        assert postgres.dsn().encode() not in everything
        for (slot,) in admin.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE NOT active"
        ).fetchall():
            admin.execute("SELECT pg_drop_replication_slot(%s)", (slot,))


def test_sqlite_while_an_application_writes(tmp_path: Path) -> None:
    rng, path = random.Random(3), tmp_path / "app.db"
    application = sqlite3.connect(path, isolation_level=None)
    application.execute("PRAGMA journal_mode = WAL")
    application.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, city TEXT, age INTEGER)")
    application.executemany("INSERT INTO people VALUES (?, 'north', ?)", [(i, i % 80) for i in range(200)])
    (tmp_path / "tidegauge.toml").write_text(DECLARATION.format(kind="sqlite", place='path = "app.db"'))
    install(path, "people", key="id")
    gauge = Gauge.from_file(tmp_path / "tidegauge.toml")
    for _ in range(4):
        list(gauge.run())
        for _ in range(120):
            scribble(rng, application.execute, "?")
        application.execute("VACUUM")
        await_reading()
    list(gauge.run())
    assert last(gauge) == pytest.approx(application.execute(TRUTH.format("")).fetchone(), abs=0.1)
    assert gauge.verify().readings == len(gauge.published())
    assert rfc3339(0) < printed(gauge.status().as_json())["processed_to"]
    application.close()


def test_rows_that_are_there_count_from_the_first_reading_on(tmp_path: Path) -> None:
    """However long planning and the first load take: here a second passes whenever the clock is looked at."""
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as application:
        application.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, city TEXT, age INTEGER)")
        application.executemany("INSERT INTO people VALUES (?, 'north', 30)", [(i,) for i in range(20)])
    (tmp_path / "tidegauge.toml").write_text(DECLARATION.format(kind="sqlite", place='path = "app.db"'))
    install(path, "people", key="id")
    ticking = itertools.count(int(time.time()) - 60)
    gauge = Gauge.from_file(tmp_path / "tidegauge.toml", now=lambda: next(ticking) * 1_000_000)
    list(gauge.run())
    readings = gauge.published("ages")
    assert len({reading.time for reading in readings}) >= 3
    assert [round(reading.value or 0) for reading in readings] == [600] * len(readings)


def test_a_row_that_comes_and_goes_in_one_transaction_is_no_unknown_deletion(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as application:
        application.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, city TEXT, age INTEGER)")
        (tmp_path / "tidegauge.toml").write_text(DECLARATION.format(kind="sqlite", place='path = "app.db"'))
        install(path, "people", key="id")
        gauge = Gauge.from_file(tmp_path / "tidegauge.toml")
        list(gauge.run())
        application.execute("BEGIN")
        application.execute("INSERT INTO people VALUES (1, 'north', 30)")
        application.execute("DELETE FROM people")
        application.execute("COMMIT")
    await_reading()
    list(gauge.run())
    assert gauge.status().operator_only.get("deleted_unknown", 0) == 0


def test_a_secret_in_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tidegauge.toml").write_text(
        DECLARATION.format(kind="postgres", place='dsn = "postgres://me:hunter2@db/x"')
    )
    with pytest.raises(Exception, match="env:NAME") as refusal:
        Gauge.from_file(tmp_path / "tidegauge.toml")
    assert "hunter2" not in str(refusal.value)


def test_snapshots_of_a_parquet_file(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = 'of = "parquet"\npath = "people.parquet"'
    (tmp_path / "tidegauge.toml").write_text(DECLARATION.format(kind="snapshots", place=place))

    def write(rows: list[tuple[int, str, int]]) -> None:
        ids, cities, ages = zip(*rows, strict=True)
        pq.write_table(pa.table({"id": ids, "city": cities, "age": ages}), tmp_path / "people.parquet")

    write([(1, "north", 20), (2, "south", 30), (3, "north", 5)])
    gauge = Gauge.from_file(tmp_path / "tidegauge.toml")
    list(gauge.run())
    write([(2, "north", 31), (3, "north", 18), (4, "south", 40)])
    for _ in range(2):
        time.sleep(1.05)
        list(gauge.run())
    assert last(gauge) == pytest.approx((2, 1, 89), abs=0.1)

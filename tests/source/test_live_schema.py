"""Schemas that change, partitions, publications of several tables and what a transaction is,
through a whole gauge on a real server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.people import await_reading
from tests.source.harness import clear
from tests.source.test_live_gauge import DECLARATION, TRUTH, last
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.postgres import Server

VERB = [sys.executable, "-c", "from tidegauge.cli import main; main()"]


class World:
    """A schema of its own on the server, a table of people in it, and a gauge that follows it."""

    def __init__(self, admin: psycopg.Connection[Any], dsn: str, schema: str, folder: Path) -> None:
        self.admin, self.dsn, self.schema, self.folder = admin, dsn, schema, folder
        admin.execute(f"CREATE SCHEMA {schema}")
        admin.execute(f"SET search_path = {schema}")

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.admin.execute(statement.encode())

    def declare(self, *lines: str) -> None:
        place = "\n".join(['dsn = "env:PEOPLE_DSN"', f'schema = "{self.schema}"', *lines])
        (self.folder / "tidegauge.toml").write_text(DECLARATION.format(kind="postgres", place=place))

    @property
    def gauge(self) -> Gauge:
        return Gauge.from_file(self.folder / "tidegauge.toml")

    def once(self) -> None:
        list(self.gauge.run())

    def agrees(self) -> None:
        """Publish what there is, and compare it with what the database answers."""
        self.once()
        await_reading()
        self.once()
        assert last(self.gauge) == pytest.approx(
            self.admin.execute(TRUTH.format("").encode()).fetchone(), abs=0.1
        )
        assert self.gauge.verify().readings == len(self.gauge.published())

    def service(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*VERB, "run", "--log", "text"], cwd=self.folder,
            env={**os.environ, "PEOPLE_DSN": self.dsn}, text=True,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        assert "started" in process.stderr.readline()
        return process


@pytest.fixture
def world(postgres: Server, fresh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("PEOPLE_DSN", postgres.dsn())
    with psycopg.connect(postgres.dsn(), autocommit=True) as admin:
        yield World(admin, postgres.dsn(), fresh, tmp_path)
        clear(admin)


TABLE = "CREATE TABLE people (id int PRIMARY KEY, city text, age int)"
FILL = (
    "INSERT INTO people SELECT i, CASE WHEN i % 2 = 0 THEN 'north' "
    "ELSE 'south' END, i FROM generate_series(1, 80) i"
)


def test_columns_that_are_not_used_come_and_go(world: World) -> None:
    world.run(TABLE, FILL)
    world.declare()
    process = world.service()
    time.sleep(0.5)
    world.run(
        "ALTER TABLE people ADD COLUMN note text DEFAULT 'x'",
        "UPDATE people SET note = 'y', age = age + 1 WHERE id < 10",
        "ALTER TABLE people ADD COLUMN first int",
        "INSERT INTO people (id, city, age, first) VALUES (100, 'north', 50, 1)",
        "ALTER TABLE people ALTER COLUMN note TYPE varchar(9)",
        "ALTER TABLE people DROP COLUMN note",
        "UPDATE people SET city = 'south' WHERE id = 2",
        "DELETE FROM people WHERE id = 3",
    )
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=600)[1]
    assert process.returncode == 0, said
    world.agrees()


BREAKS = [
    ("ALTER TABLE people DROP COLUMN age", "ALTER TABLE people ADD COLUMN age int", 'column "age"'),
    ("ALTER TABLE people RENAME age TO years", "ALTER TABLE people RENAME years TO age", 'column "age"'),
    ("ALTER TABLE people ALTER age TYPE text", "ALTER TABLE people ALTER age TYPE int USING age::int",
     'column "age"'),
    ("ALTER TABLE people RENAME TO folk", "ALTER TABLE folk RENAME TO people",
     "there is no table|Changed: the table"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("broken", "mended", "finding"),
    [BREAKS[0], *(pytest.param(*one, marks=pytest.mark.slow) for one in BREAKS[1:3]), BREAKS[3]],
)
def test_a_change_of_what_is_used_stops_and_loses_nothing(
    world: World, broken: str, mended: str, finding: str
) -> None:
    world.run(TABLE, FILL)
    world.declare()
    process = world.service()
    time.sleep(0.5)
    table = "folk" if "TO folk" in broken else "people"
    world.run("UPDATE people SET age = age + 5 WHERE id < 20", broken)
    world.run(f"UPDATE {table} SET city = 'north' WHERE id = 1")
    said = process.communicate(timeout=600)[1]
    assert process.returncode == 2, said
    assert any(one in said for one in finding.split("|"))  # depends on which is seen first
    assert "Undo the change" in said or "is no table" in said
    assert "Traceback" not in said
    before = len(world.gauge.published())
    for _ in range(2):  # it goes on refusing, and publishes nothing
        again = subprocess.run(
            [*VERB, "run", "--once"],
            cwd=world.folder,
            env={**os.environ},
            capture_output=True,
            text=True,
            check=False,
        )
        assert again.returncode == 2, again.stderr
        assert len(world.gauge.published()) == before
    world.run(mended, "UPDATE people SET age = 7 WHERE id BETWEEN 30 AND 40")
    with pytest.raises(Exception, match="Undo the change") as refusal:  # the log still has row 1 as it was
        world.once()
    assert 'on_lost = "reload"' in str(refusal.value)
    world.declare('on_lost = "reload"')
    world.agrees()


@pytest.mark.parametrize(("broken", "mended", "finding"), BREAKS)
def test_what_was_mended_before_a_row_changed_does_not_matter(
    world: World, broken: str, mended: str, finding: str
) -> None:
    world.run(TABLE, FILL)
    world.declare()
    world.once()
    world.run("DELETE FROM people WHERE id = 5", broken)
    with pytest.raises(Exception, match=r"Nothing was read|no longer there|another type"):
        world.once()
    world.run(mended, "INSERT INTO people VALUES (200, 'north', 44)")
    if "DROP" in broken:  # what was there is gone from the database, but not from its log
        world.run("UPDATE people SET age = 1")
    world.agrees()


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_partitions(world: World, identity: str) -> None:
    world.run(
        "CREATE TABLE people (id int, city text, age int, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF people FOR VALUES FROM (0) TO (50)",
        "CREATE TABLE high PARTITION OF people FOR VALUES FROM (50) TO (1000)",
        *(f"ALTER TABLE {name} REPLICA IDENTITY {identity}" for name in ("people", "low", "high")),
        FILL,
    )
    world.declare()
    world.once()
    world.run(
        "UPDATE people SET age = age + 1 WHERE id % 3 = 0",
        "UPDATE people SET id = id + 900 WHERE id < 5",  # from one partition to another
        "DELETE FROM people WHERE id = 60",
        "INSERT INTO low VALUES (0, 'north', 33)",  # past the root
        "CREATE TABLE more PARTITION OF people FOR VALUES FROM (1000) TO (2000)",
        "INSERT INTO people VALUES (1500, 'south', 66)",
        "UPDATE more SET city = 'north'",
    )
    world.agrees()
    world.run("TRUNCATE people", "INSERT INTO people VALUES (1, 'south', 20), (1001, 'north', 30)")
    world.agrees()


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
@pytest.mark.parametrize("publishes", ["FOR TABLE people, visits, others", "FOR ALL TABLES"])
def test_a_publication_of_several_tables(world: World, identity: str, publishes: str) -> None:
    world.run(
        TABLE, FILL, f"ALTER TABLE people REPLICA IDENTITY {identity}",
        "CREATE TABLE visits (id int PRIMARY KEY, person int REFERENCES "
        "people ON DELETE CASCADE, city text, age int)",
        "CREATE TABLE others (id int PRIMARY KEY, city text, age int)",
        f"CREATE PUBLICATION several {publishes}",
    )  # fmt: skip
    world.declare('publication = "several"')
    world.once()
    for number in range(5):
        with world.admin.transaction():
            world.run(
                f"INSERT INTO others VALUES ({number}, 'north', 99)",
                f"UPDATE people SET age = {number} WHERE id % 7 = {number}",
                f"INSERT INTO visits VALUES ({number}, {number + 1}, 'south', 50)",
                f"DELETE FROM people WHERE id = {number + 1}",
            )
    world.run("TRUNCATE others", "UPDATE others SET age = 1")
    world.agrees()


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_what_is_rolled_back_did_not_happen(world: World, identity: str) -> None:
    world.run(TABLE, FILL, f"ALTER TABLE people REPLICA IDENTITY {identity}")
    world.declare()
    world.once()
    with world.admin.transaction(force_rollback=True):
        world.run("DELETE FROM people", "INSERT INTO people VALUES (1, 'north', 1)")
    with world.admin.transaction():
        world.run("UPDATE people SET age = 1 WHERE id = 1")
        with world.admin.transaction(force_rollback=True):  # a savepoint
            world.run("UPDATE people SET age = 90", "TRUNCATE people")
        world.run("UPDATE people SET age = 2, city = 'south' WHERE id = 2")
    with pytest.raises(psycopg.errors.UniqueViolation), world.admin.transaction():
        world.run("UPDATE people SET age = 100", "INSERT INTO people VALUES (3, 'x', 1)")
    world.agrees()


def test_a_mutation_has_the_time_of_its_commit(world: World, postgres: Server) -> None:
    world.run(TABLE, FILL)
    world.declare()
    world.once()
    with psycopg.connect(postgres.dsn()) as other:
        other.execute(f"SET search_path = {world.schema}".encode())
        other.execute("UPDATE people SET age = 0")
        time.sleep(1)
        world.once()
        early = datetime.now(UTC)
        other.commit()
    late = datetime.now(UTC)
    world.agrees()
    ages = [reading for reading in world.gauge.published("ages") if reading.value is not None]
    before = [reading.value for reading in ages if reading.time < early][
        1:
    ]  # the first covers what was before the load
    after = [reading.value for reading in ages if reading.time > late]
    assert len(before) >= 2
    assert before == pytest.approx([80 * 81 / 2] * len(before), abs=0.1)
    assert after == pytest.approx([0] * len(after), abs=0.1)
    assert after

"""A town whose people are born, grow older, move and leave, in a live database that a gauge follows."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from tests.people import releases
from tests.printed import printed
from tidegauge.run.gauge import Gauge
from tidegauge.source.sqlite.triggers import install
from tidegauge.store.database import begun

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.postgres import Server
    from tidegauge.model.reading import Reading

DECLARATION: Final = """
[source]
kind = "{kind}"
{place}
table = "people"
entry = "id"
"""
TRUTH: Final = """
    SELECT count(*) FILTER (WHERE age >= 18 AND city = 'north'),
           count(*) FILTER (WHERE age >= 18 AND city = 'south'),
           coalesce(sum(age), 0) FROM people"""
ENCRYPTED: Final = '[store]\nkey = "env:TOWN_KEY"\n'
_NUMBERS: Final = itertools.count()
_ROOT: Final = Path(__file__).parents[2]


class Town(ABC):
    """The database, the folder of its gauge, and the processes that run it."""

    mark = "?"

    def __init__(self, folder: Path, kind: str, place: str, more: str = "") -> None:
        self.folder = folder
        self.environment = {**os.environ, "TOWN_KEY": "a7" * 32, "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}"}
        os.environ["TOWN_KEY"] = self.environment["TOWN_KEY"]
        (folder / "tidegauge.toml").write_text(
            DECLARATION.format(kind=kind, place=place) + releases(where="age >= 18", every="1 second") + more
        )
        self._seen: dict[tuple[str, str, str], float | None] = {}
        self._ledger: list[Any] = []

    @abstractmethod
    def connect(self) -> Any:
        """A connection to the database of the town."""

    def truth(self) -> tuple[Any, ...]:
        connection = self.connect()
        row = connection.execute(TRUTH).fetchone()
        connection.close()
        return tuple(row)

    @property
    def gauge(self) -> Gauge:
        return Gauge.from_file(self.folder / "tidegauge.toml")

    def start(self, *words: str, crash: tuple[str, str, int] | None = None) -> subprocess.Popen[bytes]:
        """A verb; with `crash` it dies at that point."""
        program = ["-c", "from tidegauge.cli import main; main()"]
        if crash is not None:
            program = [str(Path(__file__).with_name("deadly.py")), *map(str, crash)]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *program, *words],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    def call(self, *words: str) -> tuple[int, str]:
        """Exit code and what a verb said."""
        done = subprocess.run(
            [sys.executable, "-c", "from tidegauge.cli import main; main()", *words],
            cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def unchanged(self) -> int:
        """What was published stays as it is, and so does the ledger; returns how much there is."""
        if not begun(self.folder / "tidegauge.db"):
            return 0
        entries = [entry.as_json() for entry in self.gauge.ledger()]
        if entries:
            rows = [printed(reading.as_json()) for reading in self.gauge.published()]
            now = {(row["release"], row["time"], str(row["group"])): row["value"] for row in rows}
            assert len(now) == len(rows)
            assert {key: now[key] for key in self._seen} == self._seen
            assert self._ledger in ([], entries)
            self._seen, self._ledger = now, entries
        return len(self._seen)

    def settle(self) -> None:
        """Run to the end of the window after now, and compare with what the database itself says."""
        truth = self.truth()
        gauge = self.gauge
        for pause in (0.0, 2.1):
            time.sleep(pause)
            list(gauge.run())
        self.unchanged()
        readings = gauge.published()
        assert latest(readings) == pytest.approx(truth, abs=0.1)
        assert gauge.verify().readings == len(readings)
        assert len(gauge.ledger()) == 1
        times = sorted({reading.time for reading in readings})
        assert {later - earlier for earlier, later in itertools.pairwise(times)} == {timedelta(seconds=1)}
        assert len(readings) == 3 * len(times)


class SQLiteTown(Town):
    def __init__(self, folder: Path, more: str = "") -> None:
        super().__init__(folder, "sqlite", 'path = "app.db"', more)
        with self.connect() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, city TEXT, age INTEGER)")
            connection.executemany(
                "INSERT INTO people VALUES (?, 'north', ?)", [(i, i % 80) for i in range(300)]
            )
        connection.close()
        install(folder / "app.db", "people", key="id")

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.folder / "app.db", isolation_level=None, timeout=600)


class PostgresTown(Town):
    mark = "%s"

    def __init__(self, folder: Path, server: Server, more: str = "") -> None:
        self.server, self.database = server, f"town_{os.getpid()}_{next(_NUMBERS)}"
        self.dsn = server.database(self.database)
        super().__init__(folder, "postgres", 'dsn = "env:TOWN_DSN"', more)
        self.environment["TOWN_DSN"] = os.environ["TOWN_DSN"] = self.dsn
        with self.connect() as connection:
            connection.execute("CREATE TABLE people (id int PRIMARY KEY, city text, age int)")
            connection.execute("INSERT INTO people SELECT i, 'north', i % 80 FROM generate_series(0, 299) i")

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, autocommit=True)

    def slot(self) -> str | None:
        with self.connect() as connection:
            row = connection.execute(
                "SELECT slot_name FROM pg_replication_slots WHERE database = %s", [self.database]
            ).fetchone()
        return None if row is None else str(row[0])

    def end(self) -> None:
        """Leave nothing that keeps the server's log."""
        with self.server.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [self.database]
            )
            time.sleep(0.1)
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM "
                "pg_replication_slots WHERE database = %s AND NOT active",
                [self.database],
            )


def scribble(rng: random.Random, execute: Callable[..., Any], mark: str) -> None:
    """One change, as an application makes it."""
    key, city, age = rng.randrange(400), rng.choice(["north", "south", "west"]), rng.randrange(90)
    match rng.randrange(20):
        case 0:  # the key of a row may change
            execute(
                f"UPDATE people SET id = id + 1000 WHERE id = {mark} AND NOT EXISTS "
                f"(SELECT 1 FROM people WHERE id = {mark})",
                (key, key + 1000),
            )
        case 1:
            execute(f"DELETE FROM people WHERE id >= {mark}", (1000 + key,))
        case 2 if rng.random() < 0.1:
            execute("DELETE FROM people" if mark == "?" else "TRUNCATE people")
        case number if number < 11:
            execute(
                f"INSERT INTO people VALUES ({mark}, {mark}, {mark}) ON "
                "CONFLICT (id) DO UPDATE SET city = excluded.city",
                (key, city, age),
            )
        case number if number < 16:
            execute(
                f"UPDATE people SET age = {mark} WHERE id BETWEEN {mark} AND {mark}", (age, key, key + 20)
            )
        case _:
            execute(f"DELETE FROM people WHERE id = {mark}", (key,))


class Load:
    """Transactions without end, a fifth of them rolled back; a lost connection is opened again."""

    def __init__(self, town: Town, seed: int) -> None:
        self._town, self._rng = town, random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.transactions = 0

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                connection = self._town.connect()
                try:
                    while not self._stop.wait(0.01):
                        self._transaction(connection)
                finally:
                    connection.close()
            except (psycopg.OperationalError, sqlite3.OperationalError):
                self._stop.wait(0.2)

    def _transaction(self, connection: Any) -> None:
        connection.execute("BEGIN")
        for _ in range(self._rng.randrange(1, 15)):
            scribble(self._rng, connection.execute, self._town.mark)
        connection.execute("ROLLBACK" if self._rng.random() < 0.2 else "COMMIT")
        self.transactions += 1


def latest(readings: list[Reading]) -> list[float | None]:
    """The values of the latest instant, in the order of `TRUTH`."""
    newest = max(reading.time for reading in readings)
    now = [reading for reading in readings if reading.time == newest]
    return [one.value for name in ("by_city", "ages") for one in now if one.release == name]


def killed(process: subprocess.Popen[bytes]) -> bool:
    """Whether it died by SIGKILL."""
    return process.wait(600) == -signal.SIGKILL


def events(log: str) -> list[str]:
    """The events of a structured log, in order."""
    return [json.loads(line)["event"] for line in log.splitlines() if line.startswith("{")]

"""Every kind of source from init to readings, as a user declares it;
and what is said of declarations that cannot be."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import time
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.test_verbs import Shell
from tests.source.debezium.harness import Broker
from tests.source.harness import clear
from tidegauge.source.debezium.inbox import Inbox
from tidegauge.source.debezium.rows import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.postgres import Server

Row = tuple[int, str, int]
ROWS: list[Row] = [(1, "north", 20), (2, "south", 30), (3, "north", 5)]
LATER: list[Row] = [(2, "north", 31), (3, "north", 18), (4, "south", 40)]
COLUMNS = 'columns = { id = "BIGINT", city = "VARCHAR", age = "BIGINT" }'


@pytest.fixture
def tidegauge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(capsys)


class Place(ABC):
    """A table somewhere: what init is given, what must be filled in, and how the table changes."""

    words: tuple[str, ...] = ()
    fill: tuple[tuple[str, str], ...] = ()
    installs = False
    name = "people"

    @abstractmethod
    def write(self, rows: list[Row]) -> None:
        """Make the table have these rows."""


class Postgres(Place):
    installs = True

    def __init__(self, connection: psycopg.Connection[Any], schema: str, *extra: str) -> None:
        self.connection = connection
        self.words = ("env:PEOPLE_DSN", "--table", "people", "--schema", schema, *extra)
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"SET search_path = {schema}")
        connection.execute("CREATE TABLE people (id bigint PRIMARY KEY, city text, age bigint)")
        connection.execute("CREATE TABLE others (id bigint PRIMARY KEY)")

    def write(self, rows: list[Row]) -> None:
        with self.connection.transaction():
            self.connection.execute("DELETE FROM people WHERE NOT id = ANY(%s)", [[row[0] for row in rows]])
            for row in rows:
                self.connection.execute(
                    "INSERT INTO people VALUES (%s, %s, %s) ON CONFLICT (id) DO "
                    "UPDATE SET city = excluded.city, age = excluded.age",
                    row,
                )


class SQLiteFile(Place):
    installs = True

    def __init__(self, *extra: str) -> None:
        self.words = ("app.db", "--table", "people", *extra)
        with closing(sqlite3.connect("app.db")) as db:
            db.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, city TEXT, age INTEGER)")
            db.execute("CREATE TABLE others (id INTEGER PRIMARY KEY)")

    def write(self, rows: list[Row]) -> None:
        with closing(sqlite3.connect("app.db")) as db, db:
            db.execute(
                f"DELETE FROM people WHERE id NOT IN ({', '.join('?' * len(rows))})", [row[0] for row in rows]
            )
            db.executemany("INSERT OR REPLACE INTO people VALUES (?, ?, ?)", rows)


class DuckDBFile(Place):
    words = ("warehouse.duckdb",)
    fill = (('every = "1 day"                   # the time from', 'every = "1 second" #'),)

    def write(self, rows: list[Row]) -> None:
        with closing(duckdb.connect("warehouse.duckdb")) as db:
            db.execute("CREATE OR REPLACE TABLE people (id BIGINT, city VARCHAR, age BIGINT)")
            db.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)


class ParquetFile(Place):
    words = ("people.parquet", "--kind", "snapshots")
    fill = DuckDBFile.fill

    def write(self, rows: list[Row]) -> None:
        table = pa.table(dict(zip(("id", "city", "age"), zip(*rows, strict=True), strict=True)))
        pq.write_table(table, "people.parquet")


class Versions(Place):
    """A history table, as dbt's snapshots keep it."""

    words = ("warehouse.duckdb",)
    name = "people_snapshot"

    def __init__(self) -> None:
        with closing(duckdb.connect("warehouse.duckdb")) as db:
            db.execute(
                "CREATE TABLE people_snapshot (id BIGINT, city VARCHAR, age BIGINT, "
                "dbt_valid_from TIMESTAMP, dbt_valid_to TIMESTAMP)"
            )

    def write(self, rows: list[Row]) -> None:
        with closing(duckdb.connect("warehouse.duckdb")) as db:
            db.execute("SET TimeZone = 'UTC'")
            db.execute("CREATE TEMP TABLE now_ (id BIGINT, city VARCHAR, age BIGINT)")
            db.executemany("INSERT INTO now_ VALUES (?, ?, ?)", rows)
            db.execute(
                "UPDATE people_snapshot SET dbt_valid_to = now()::TIMESTAMP WHERE dbt_valid_to IS NULL AND "
                "(id, city, age) NOT IN (SELECT id, city, age FROM now_)"
            )
            db.execute(
                "INSERT INTO people_snapshot SELECT *, now()::TIMESTAMP, NULL FROM now_ WHERE (id, city, "
                "age) NOT IN (SELECT id, city, age FROM people_snapshot WHERE dbt_valid_to IS NULL)"
            )


class Events(Place):
    """Files of events."""

    words: tuple[str, ...] = ("events.jsonl",)

    def __init__(self) -> None:
        self.known: dict[int, Row] = {}
        self.lsn = 0

    def write(self, rows: list[Row]) -> None:
        new = {row[0]: row for row in rows}
        events = [self.event("d", self.known[key], None) for key in self.known.keys() - new.keys()]
        events += [
            self.event("u" if key in self.known else "c", None, row)
            for key, row in new.items()
            if self.known.get(key) != row
        ]
        self.known = new
        self.send([json.dumps(event) for event in events])

    def event(self, op: str, before: Row | None, after: Row | None) -> dict[str, Any]:
        self.lsn += 1
        at = time.time_ns() // 1000
        source = {
            "connector": "postgresql",
            "table": "people",
            "ts_us": at,
            "sequence": f'["{self.lsn}","{self.lsn}"]',
        }
        images = (row and dict(zip(("id", "city", "age"), row, strict=True)) for row in (before, after))
        return {"op": op, "source": source, **dict(zip(("before", "after"), images, strict=True))}

    def send(self, lines: list[str]) -> None:
        with Path("events.jsonl").open("a") as file:
            file.writelines(line + "\n" for line in lines)


class Received(Events):
    """Events that were posted; the endpoint itself is tested in tests/serve."""

    words = ("--kind", "debezium", "--table", "people")
    fill: tuple[tuple[str, str], ...] = (('key = ""', 'entry = "id"'), ("columns = {}", COLUMNS))

    def send(self, lines: list[str]) -> None:
        declared = {"id": "BIGINT", "city": "VARCHAR", "age": "BIGINT"}
        with closing(Inbox(Path("inbox"), Reading("people", key="id", columns=declared))) as inbox:
            inbox.append(f"[{','.join(lines)}]".encode())


class Topic(Events):
    """Events in Kafka: a stand-in for the library, as there is no broker."""

    words = Received.words
    fill: tuple[tuple[str, str], ...] = (
        *Received.fill,
        ("\ninbox =", "\n# inbox ="),
        ("\ntoken =", "\n# token ="),
        ("# topic", "topic"),
        ("# kafka", "kafka"),
    )

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.broker = Broker(1)
        monkeypatch.setitem(sys.modules, "confluent_kafka", self.broker.library())

    def send(self, lines: list[str]) -> None:
        self.broker.logs[0] += [line.encode() for line in lines]


@pytest.fixture
def people(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection[Any]]:
    monkeypatch.setenv("PEOPLE_DSN", postgres.dsn())
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        yield connection
        clear(connection)


def _postgres(*extra: str) -> Callable[[pytest.FixtureRequest], Place]:
    return lambda request: Postgres(
        request.getfixturevalue("people"), request.getfixturevalue("fresh"), *extra
    )


PLACES: dict[str, Callable[[pytest.FixtureRequest], Place]] = {
    "postgres": _postgres(),
    "sqlite": lambda _: SQLiteFile(),
    "debezium": lambda _: Events(),
    "debezium-inbox": lambda _: Received(),
    "debezium-kafka": lambda request: Topic(request.getfixturevalue("monkeypatch")),
    "snapshots-postgres": _postgres("--kind", "snapshots"),
    "snapshots-sqlite": lambda _: SQLiteFile("--kind", "snapshots"),
    "snapshots-duckdb": lambda _: DuckDBFile(),
    "snapshots-parquet": lambda _: ParquetFile(),
    "history": lambda _: Versions(),
}


@pytest.mark.parametrize("kind", PLACES)
def test_from_init_to_readings(kind: str, tidegauge: Shell, request: pytest.FixtureRequest) -> None:
    place = PLACES[kind](request)
    place.write(ROWS)
    assert "tidegauge plan" in tidegauge("init", *place.words)
    text = Path("tidegauge.toml").read_text()
    assert f'kind = "{kind.split("-", maxsplit=1)[0].replace("history", "snapshots")}"' in text
    for old, new in (*place.fill, ("epsilon = 1\n", "epsilon = 1e15\n"), ("at_most = 4", "at_most = 1000")):
        assert old in text, old
        text = text.replace(old, new, 1)
    text = text[: text.index("[release.total]")] + (
        f"""[release.by_city]
sql = "SELECT city, COUNT(*) FROM {place.name} GROUP BY city"
groups.city = ["north", "south"]
every = "1 second"
[release.ages]
sql = "SELECT SUM(age) FROM {place.name}"
bounds.age = [0, 120]
every = "1 second"
"""
    )
    Path("tidegauge.toml").write_text(re.sub(r'every = "1 day".*', 'every = "1 second"', text))
    assert set(tidegauge.json("plan")["releases"]) == {"by_city", "ages"}
    assert not Path("tidegauge.db").exists(), "a plan spends nothing"
    if place.installs and "snapshots" not in kind:
        assert "Undo with: tidegauge uninstall" in tidegauge("init", "--install")
    assert "MISSING" not in tidegauge("doctor")
    tidegauge("run", "--once")
    place.write(LATER)
    for _ in range(2):
        time.sleep(1.05)
        tidegauge("run", "--once")
    readings = tidegauge.json("readings")
    last = max(reading["time"] for reading in readings)
    values = [reading["value"] for reading in readings if reading["time"] == last]
    assert values == pytest.approx([89, 2, 1], abs=0.1)
    assert "readings follow" in tidegauge("verify")
    tidegauge("uninstall")


@pytest.mark.parametrize("kind", PLACES)
def test_what_a_new_user_gets_wrong_is_said_by_the_plan(
    kind: str, tidegauge: Shell, request: pytest.FixtureRequest
) -> None:
    place = PLACES[kind](request)
    place.write(ROWS)
    tidegauge("init", *place.words)
    file = Path("tidegauge.toml")
    text = file.read_text()
    for old, new in place.fill:
        text = text.replace(old, new, 1)
    wrong = () if kind.startswith("debezium") else ('"idd"', '"id"\nunit = "idd"\nmax_rows = 2')
    for key in wrong:  # the key of an event need not be one of its declared columns
        file.write_text(re.sub(r'(key|entry) = "id"', rf"\g<1> = {key}", text, count=1))
        assert re.search(r"has no column .?idd", tidegauge.refused("plan")), key
    text = re.sub(r"\nstart = .*", "", text)
    file.write_text(text.replace("[release.total]", '[release.total]\nstart = "2020-01-01"'))
    said = [one for one in tidegauge.json("plan")["warnings"] if "which is in the past" in one]
    assert len(said) == (kind != "history")
    file.write_text(text)
    assert "which is in the past" not in tidegauge("plan")


START = """
[constraint]
at_most = 4
[budget]
epsilon = 1
[release.total]
sql = "SELECT COUNT(*) FROM t"
every = "1 day"
[source]
table = "t"
entry = "id"
"""
INBOX = 'kind = "debezium"\ninbox = "i"\n' + COLUMNS
TOPIC = 'kind = "debezium"\ntopic = "x"\n' + COLUMNS

REFUSALS = [
    ("", "source.kind: is missing; one of files, postgres, sqlite, debezium, snapshots"),
    ('kind = "postgre"', "there is no such kind; one of"),
    ('kind = "postgre"', "did you mean 'postgres'?"),
    ('kind = "object"', "source.kind: there is no such kind"),
    ('kind = "postgres"', "source.dsn: is missing"),
    ('kind = "postgres"\ndsn = "postgres://me:sesame@h/db"', "source.dsn: secrets come from the environment"),
    ('kind = "postgres"\ndsn = "env:NOT_SET"', "source.dsn: the environment variable NOT_SET is not set"),
    ('kind = "postgres"\ndsn = "env:BAD"', "the connection string cannot be used"),
    ('kind = "postgres"\ndsn = "env:BAD"\nslto = "x"',
     "source.slto: is not a key here; did you mean 'slot'?"),
    ('kind = "postgres"\ndsn = "env:BAD"\nslot = "Ü"', "source.slot"),
    ('kind = "postgres"\ndsn = "env:BAD"\non_lost = "cry"', "source.on_lost: must be 'stop' or 'reload'"),
    ('kind = "sqlite"', "source.path: is missing"),
    ('kind = "sqlite"\npath = ""', "source.path: is empty; fill it in"),
    ('kind = "sqlite"\npath = "no.db"', "no.db: there is no such file. Correct [source] path"),
    ('kind = "sqlite"\npath = "app.db"', 'there is no table "t"'),
    ('kind = "sqlite"\npath = "app.db"\ntypes = { a = "FOO" }', "source.types.a: 'FOO' is not a type"),
    ('kind = "debezium"', "source: say where the events are, in one of: path"),
    ('kind = "debezium"\npath = "a"\ninbox = "b"', "source: say where the events are, in one of: path"),
    ('kind = "debezium"\npath = "no.jsonl"', "no.jsonl: there is no such file"),
    ('kind = "debezium"\npath = "empty.jsonl"', "source.columns: the events of"),
    ('kind = "debezium"\npath = "empty.jsonl"\nconsume = true', "columns: is missing"),
    ('kind = "debezium"\npath = "e.jsonl"\ncolumns = { id = "FOO" }',
     "source.columns.id: 'FOO' is not a type"),
    ('kind = "debezium"\npath = "a"\ntoken = "env:X"', "an inbox, and nothing else, needs token"),
    (INBOX, "an inbox, and nothing else, needs token"),
    (INBOX + '\ntoken = "sesame"', "source.token: secrets come from the environment"),
    ('kind = "debezium"\ninbox = "i"\ntoken = "env:X"', "columns: is missing"),
    (INBOX + '\ntoken = "env:X"\nconsume = true', "consume: is for files"),
    (TOPIC, "topic and kafka go together"),
    (INBOX + '\ntoken = "env:X"\nkafka = { "bootstrap.servers" = "h" }', "topic and kafka go together"),
    (TOPIC + "\nkafka = { x = 'y' }", "kafka: bootstrap.servers is missing"),
    (TOPIC + '\nkafka = { "bootstrap.servers" = "h", "sasl.password" = "sesame" }',
     "kafka.sasl.password: secrets"),
    (TOPIC + '\nkafka = { "bootstrap.servers" = "h", "sasl.password" = "env:NOT_SET" }',
     "variable NOT_SET is not set"),
    ('kind = "snapshots"', "source.of: is missing"),
    ('kind = "snapshots"\nof = "oracle"',
     "source.of: must be 'postgres', 'sqlite', 'duckdb', 'parquet', 'csv' or 'jsonl'"),
    ('kind = "snapshots"\nof = "parquet"',
     "give dsn if the table is of postgres, and path if it is in a file"),
    ('kind = "snapshots"\nof = "postgres"\npath = "x"', "give dsn if the table is of postgres"),
    ('kind = "snapshots"\nof = "parquet"\npath = "no.parquet"', "cannot be read as"),
    ('kind = "snapshots"\nof = "duckdb"\npath = "no.duckdb"', "no.duckdb: does not exist"),
    ('kind = "snapshots"\nof = "parquet"\npath = "x"\nevery = "often"', "source.every: "),
    ('kind = "snapshots"\nof = "parquet"\npath = "x"\nvalid_from = "a"', "has valid_from and valid_to"),
    ('kind = "snapshots"\nof = "parquet"\npath = "x"\nvalid_from = "a"\nvalid_to = "b"\nevery = "1 day"',
     "every: a history table"),
    ('kind = "snapshots"\nof = "parquet"\npath = "x"\nschema = "s"', "schema: is for tables of postgres"),
    ('kind = "snapshots"\nof = "parquet"\npath = "x"\ntypes = { a = "DATE" }',
     "source.types.a: must be one of text, integer"),
    ('kind = "files"', "source.path: is missing"),
    ('kind = "files"\npath = "x.csv"\ntime = "t"\nunit = "u"', "'unit' and 'max_rows' go together"),
    ('kind = "files"\npath = "x.csv"\ntime = "t"\nunit = "u"\nmax_rows = 0', "source.max_rows: "),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "finding"), REFUSALS)
def test_what_cannot_be_declared(
    tidegauge: Shell, monkeypatch: pytest.MonkeyPatch, lines: str, finding: str
) -> None:
    monkeypatch.setenv("BAD", "sesame = = sesame")
    sqlite3.connect("app.db").close()
    Path("empty.jsonl").touch()
    Path("e.jsonl").touch()
    Path("tidegauge.toml").write_text(f"{START}{lines}\n")
    for verb in ("plan", "run"):
        printed = tidegauge.refused(verb)
        assert finding in printed, printed
        assert "sesame" not in printed
    with closing(sqlite3.connect("tidegauge.db")) as store:
        assert not Path("tidegauge.db").stat().st_size or not store.execute("SELECT * FROM ledger").fetchall()


@pytest.mark.parametrize("entry", ['""', "[]", '["id", ""]', "[1]", "7"])
def test_an_entry_that_is_none(tidegauge: Shell, entry: str) -> None:
    Path("tidegauge.toml").write_text(START.replace('"id"', entry) + 'kind = "sqlite"\npath = "app.db"\n')
    assert "source.entry" in tidegauge.refused("plan")


@pytest.mark.parametrize(
    ("words", "finding"),
    [
        ((), "say where the table is"),
        (("no.csv",), "no.csv: the file cannot be read (No such file or directory)"),
        (("postgres://me:sesame@h/db",), "put it into the environment"),
        (("host=h user=me password=sesame dbname=db",), "put it into the environment"),
        (("env:NOT_SET", "--table", "t"), "the environment variable NOT_SET is not set"),
        (("app.db",), "--table: say which table; there are: a, b"),
        (("app.db", "--table", "c"), "--table: no table of this name can be read; there are: a, b"),
        (
            ("app.db", "--kind", "postgres"),
            "--kind: app.db cannot be read as postgres; one of sqlite, snapshots",
        ),
        (("app.db", "--kind", "telepathy"), "--kind: there is no such kind; one of files, postgres"),
        (("app.db", "--schema", "s"), "--schema: is for tables of PostgreSQL"),
        (("--kind", "debezium"), "--table: say which table"),
        ((".",), "there are no events"),
        (("--install",), "tidegauge.toml is not here"),
        (("app.db", "--install"), "--install: reads tidegauge.toml and takes no argument"),
    ],
)
def test_what_init_cannot_begin_with(tidegauge: Shell, words: tuple[str, ...], finding: str) -> None:
    with closing(sqlite3.connect("app.db")) as db:
        db.executescript("CREATE TABLE a (x); CREATE TABLE b (x);")
    printed = tidegauge.refused("init", *words)
    assert finding in printed
    assert "sesame" not in printed
    assert not Path("tidegauge.toml").exists()


def test_how_a_source_is_reached_may_change(
    tidegauge: Shell, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = _postgres()(request)
    place.write(ROWS)
    tidegauge("init", *place.words)
    tidegauge("run", "--once")
    text = Path("tidegauge.toml").read_text()
    monkeypatch.setenv("MOVED_DSN", str(request.getfixturevalue("postgres").dsn()))
    Path("tidegauge.toml").write_text(text.replace('"env:PEOPLE_DSN"', '"env:MOVED_DSN"\non_lost = "reload"'))
    tidegauge("run", "--once")
    Path("tidegauge.toml").write_text(text.replace('table = "people"', 'table = "others"'))
    assert "source.table: was changed" in tidegauge.refused("run", "--once")


def test_uninstall_leaves_a_postgresql_server_as_it_was(
    tidegauge: Shell, request: pytest.FixtureRequest, people: psycopg.Connection[Any]
) -> None:
    place = _postgres()(request)
    place.write(ROWS)
    tidegauge("init", *place.words)
    assert "Nothing of this gauge was installed" in tidegauge("uninstall")
    tidegauge("run", "--once")
    assert people.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (1,)
    assert people.execute("SELECT count(*) FROM pg_publication").fetchone() == (1,)
    assert "Removed the replication slot" in tidegauge("uninstall")
    assert people.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)
    assert people.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)
    assert 'on_lost = "reload"' in tidegauge.refused("run", "--once")

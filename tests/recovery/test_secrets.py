"""Nothing that is secret is written anywhere, whatever goes well or wrong."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pytest

from tidegauge.cli.carry_out import main
from tidegauge.run.gauge import Gauge
from tidegauge.source.postgres.access import Patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.postgres import Server

PASSWORD, HOST, USER, TOKEN, KEY = "hush-password-9", "hush-host-9", "hush_user_9", "hush-token-9", "c3" * 32
VALUE, NUMBER, ENTRY = "hush-value-9", 777_123_454_321, "hush-entry-9"
NEEDLES = [PASSWORD, HOST, USER, TOKEN, KEY, VALUE, str(NUMBER), ENTRY]
VERBS = [
    ["doctor"], ["plan", "--explain"], ["plan", "--json"],
    ["run", "--once", "--log", "json"], ["run", "--once", "--log", "text"],
    ["readings", "--json"], ["readings", "--format", "csv", "--output", "public.csv"],
    ["status"], ["ledger", "--json"], ["verify"],
    ["plot"],
]  # fmt: skip

DECLARATION = """
[source]
{source}

[constraint]
at_most = 100

[budget]
epsilon = 1

[release.people]
sql = "SELECT COUNT(*) FROM t WHERE word <> ''"
every = "1 second"

[release.moved]
sql = "SELECT COUNT(*) FROM changes(t) WHERE before.word <> after.word"
every = "1 second"

[release.sum]
sql = "SELECT SUM(n) FROM t"
bounds.n = [0, 1000]
every = "1 second"
{more}
"""
SEALED = '[store]\nkey = "env:HUSH_KEY"\n'


class Folder:
    """A gauge whose every secret is recognisable, and all that its verbs say."""

    def __init__(self, path: Path, source: str, *, more: str = SEALED, **environment: str) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        (path / "tidegauge.toml").write_text(DECLARATION.format(source=source, more=more))
        self._environment = {"HUSH_KEY": KEY, "HUSH_TOKEN": TOKEN, **environment}
        self.said = ""

    def call(self, *words: str) -> int:
        """Exit code of a verb; what it said is kept."""
        out, code = io.StringIO(), 0
        with (
            pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(out),
        ):  # fmt: skip
            patch.chdir(self.path)
            patch.setattr("sys.argv", ["tidegauge", *words])
            patch.setattr("tempfile.tempdir", None)
            for name, value in self._environment.items():
                patch.setenv(name, value)
            try:
                main()
            except SystemExit as end:
                code = int(end.code or 0)
        said = out.getvalue()
        if words[0] == "doctor":  # its SQL names the role, or it could not be carried out
            said = said.replace(USER, "the role")
        self.said += f"$ {' '.join(words)}\n{said}"
        return code

    def everything(self, verbs: list[list[str]]) -> list[int]:
        return [self.call(*verb) for verb in verbs]

    def silent(self, *inputs: str, also: tuple[str, ...] = ()) -> None:
        """No needle in what was said, nor in any file but the inputs."""
        needles = [*NEEDLES, *also]
        assert [needle for needle in needles if needle in self.said] == [], self.said
        assert "Traceback" not in self.said
        for path in self.path.rglob("*"):
            if path.is_file() and path.name not in inputs:
                data = path.read_bytes()
                assert [needle for needle in needles if needle.encode() in data] == [], path
                assert NUMBER.to_bytes(6, "big") not in data, path
                if path.name.startswith(("tidegauge.db", "image-")):
                    assert path.stat().st_mode & 0o777 == 0o600, path


def postgres(dsn: str, more: str = SEALED) -> dict[str, Any]:
    source = 'kind = "postgres"\ndsn = "env:HUSH_DSN"\ntable = "t"\nentry = "id"'
    return {"source": source, "more": more, "HUSH_DSN": dsn}


@pytest.fixture
def database(server: Server) -> Iterator[tuple[psycopg.Connection[Any], str]]:
    """A table of secrets, and the connection string of a user with a password."""
    name = f"hush_{os.getpid()}_{time.monotonic_ns()}"
    server.database(name)
    connection = server.connect(name)
    connection.execute(
        f"DO $$ BEGIN CREATE ROLE {USER} LOGIN REPLICATION PASSWORD '{PASSWORD}'; EXCEPTION WHEN "
        "duplicate_object THEN END $$"
    )
    connection.execute("CREATE TABLE t (id text PRIMARY KEY, word text, n bigint)")
    connection.execute("INSERT INTO t VALUES (%s, %s, %s)", [ENTRY, VALUE, NUMBER])
    connection.execute(f"ALTER TABLE t OWNER TO {USER}")
    connection.execute(f'GRANT CREATE ON DATABASE "{name}" TO {USER}')
    rules = server.data / "pg_hba.conf"
    if USER not in rules.read_text():
        rules.write_text(
            f"local all {USER} scram-sha-256\nlocal replication {USER} scram-sha-256\n" + rules.read_text()
        )
    connection.execute("SELECT pg_reload_conf()")
    time.sleep(0.3)
    yield connection, f"postgresql://{USER}:{PASSWORD}@/{name}?host={server.root}"
    connection.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [name]
    )
    connection.close()


def test_postgres(database: tuple[psycopg.Connection[Any], str], tmp_path: Path) -> None:
    connection, dsn = database
    one = Folder(tmp_path / "one", **postgres(dsn))
    assert one.everything(VERBS) == [0] * len(VERBS), one.said
    connection.execute("UPDATE t SET word = word || '!', n = n + 1")
    connection.execute("INSERT INTO t VALUES (%s, %s, %s)", [ENTRY + "b", VALUE, NUMBER])
    time.sleep(1.1)
    assert one.everything(VERBS) == [0] * len(VERBS), one.said
    connection.execute("ALTER TABLE t ALTER n TYPE text USING n::text")  # a column we use
    connection.execute("INSERT INTO t VALUES (%s, %s, %s)", [ENTRY + "c", VALUE, VALUE])
    time.sleep(1.1)
    assert one.call("run", "--once") == 2
    connection.execute("ALTER TABLE t DROP n")
    assert one.call("run", "--once") == 2
    connection.execute("DROP TABLE t")
    assert {code for code in one.everything(VERBS[:5]) if code} == {2}
    one.silent("tidegauge.toml")


def test_postgres_that_cannot_be_reached(
    database: tuple[psycopg.Connection[Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no waiting cures is refused at once; `run` waits for a server that does not answer,
    and says so."""
    _, dsn = database
    wrong = {
        "password": dsn.replace(PASSWORD, PASSWORD + "wrong"),
        "user": dsn.replace(USER, USER + "wrong"),
        "database": dsn.replace("@/hush_", f"@/{VALUE}"),
        "host": f"postgresql://{USER}:{PASSWORD}@{HOST}.invalid/x",
        "socket": f"postgresql://{USER}:{PASSWORD}@/x?host=/nowhere/{HOST}",
        "port": f"postgresql://{USER}:{PASSWORD}@{HOST}:{TOKEN}/x",
        "words": f"{PASSWORD} {HOST} nothing of this is a connection string",
        "option": f"host={HOST} user={USER} password={PASSWORD} sslmode={TOKEN}",
        "empty": "",
    }
    monkeypatch.setattr(
        "tidegauge.source.postgres.source.Patience", lambda seconds: Patience(min(seconds, 0.3))
    )
    for name, string in wrong.items():
        one = Folder(tmp_path / name, **postgres(string))
        assert one.everything(VERBS[:4]) == [2] * 4, (name, one.said)
        assert "trying again" not in one.said, "--once waits for nothing"
        assert one.call("run", "--log", "text") == 2
        assert ("trying again for at most 0.3 s" in one.said) == (name in {"host", "socket"}), (
            name,
            one.said,
        )
        one.silent("tidegauge.toml")


def test_a_server_that_quotes_values(database: tuple[psycopg.Connection[Any], str], tmp_path: Path) -> None:
    """Its own words are about a value: 'invalid input syntax for type integer: ...'."""
    connection, dsn = database
    connection.execute("CREATE VIEW v AS SELECT id, word, word::bigint AS n FROM t")
    connection.execute(f"GRANT SELECT ON v TO {USER}")
    source = 'kind = "snapshots"\nof = "postgres"\ndsn = "env:HUSH_DSN"\ntable = "v"\nentry = "id"'
    one = Folder(tmp_path / "one", source.replace('"v"', '"t"'), more="", HUSH_DSN=dsn)
    (one.path / "tidegauge.toml").write_text(
        DECLARATION.format(source=source, more="").replace("FROM t", "FROM v").replace("(t)", "(v)")
    )
    assert one.call("plan") == 0, one.said
    assert one.call("run", "--once", "--log", "json") == 2
    assert "22P02" in one.said
    one.silent("tidegauge.toml")


def _sqlite(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    with sqlite3.connect(folder / "app.db") as connection:
        connection.execute("CREATE TABLE t (id TEXT PRIMARY KEY, word TEXT, n INTEGER)")
        connection.execute("INSERT INTO t VALUES (?, ?, ?)", (ENTRY, VALUE, NUMBER))
        connection.execute("INSERT INTO t VALUES (?, ?, ?)", (ENTRY + "b", b"\xff" + VALUE.encode(), VALUE))
    connection.close()
    return 'kind = "sqlite"\npath = "app.db"\ntable = "t"\nentry = "id"'


def _jsonl(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    rows = [{"at": "2026-01-01", "id": ENTRY, "word": VALUE, "n": NUMBER},
            {"at": VALUE, "id": ENTRY, "word": VALUE, "n": VALUE}]  # fmt: skip
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return (
        'kind = "files"\npath = "log.jsonl"\ntable = "t"\n'
        'time = "at"\nentry = "id"\ntypes = { n = "integer" }'
    )


def _csv(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "log.csv").write_text(
        f"at,id,word,n\n2026-01-01,{ENTRY},{VALUE},{NUMBER}\n{VALUE},{ENTRY},{VALUE},{VALUE}\n"
    )
    return (
        'kind = "files"\npath = "log.csv"\ntable = "t"\ntime = "at"\nentry = "id"\ntypes = { n = "integer" }'
    )


def _debezium(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    row = {"id": ENTRY, "word": VALUE, "n": {"wrong": VALUE}}
    source = {"connector": "postgresql", "schema": "public", "table": "t", "lsn": 7, "ts_ms": 1000}
    (folder / "events.jsonl").write_text(
        json.dumps({"op": "c", "after": row, "source": source, "ts_ms": 1000}) + "\n"
    )
    return (
        'kind = "debezium"\npath = "events.jsonl"\ntable = "t"\nentry = "id"\n'
        'columns = { id = "VARCHAR", word = "VARCHAR", n = "BIGINT" }'
    )


def _duckdb(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    with duckdb.connect(str(folder / "app.duckdb")) as connection:
        connection.execute("CREATE TABLE raw (id VARCHAR, word VARCHAR)")
        connection.execute("INSERT INTO raw VALUES (?, ?)", [ENTRY, VALUE])
        connection.execute("CREATE VIEW t AS SELECT id, word, CAST(word AS BIGINT) AS n FROM raw")
    return 'kind = "snapshots"\nof = "duckdb"\npath = "app.duckdb"\ntable = "t"\nentry = "id"'


@pytest.mark.parametrize("made", [_sqlite, _jsonl, _csv, _debezium, _duckdb])
def test_bad_values(tmp_path: Path, made: Callable[[Path], str]) -> None:
    """Values that are not of the type of their column, or of no type at all."""
    one = Folder(tmp_path / "one", made(tmp_path / "one"), more="" if made is _duckdb else SEALED)
    one.call("init", "--install")
    codes = one.everything(VERBS)
    assert set(codes) <= {0, 2}, one.said
    assert made in (_sqlite, _debezium) or 2 in codes, one.said
    one.silent("tidegauge.toml", "app.db", "app.db-wal", "log.jsonl", "log.csv", "events.jsonl", "app.duckdb")


@pytest.mark.parametrize(
    "mistake",
    [
        f'kind = "postgres"\ndsn = "postgresql://{USER}:{PASSWORD}@{HOST}/x"\ntable = "t"\nentry = "id"',
        f'kind = "postgres"\ndsn = ["{PASSWORD}"]\ntable = "t"\nentry = "id"',
        f'kind = "postgres"\ndsn = "env:{PASSWORD}"\ntable = "t"\nentry = "id"',
        f'kind = "postgres"\ndsn = "env:HUSH_NOTHING"\ntable = "t"\nentry = "id"\nmax_rows = "{TOKEN}"',
        f'kind = "sqlite"\npath = "x.db"\ntable = "t"\nentry = "id"\nunit = {{ a = "{TOKEN}" }}',
        f'kind = "postgres"\ndsn = "{PASSWORD}',
        f'kind = "{TOKEN}"\ndsn = "{PASSWORD}"',
    ],
)
def test_secrets_that_were_written_into_the_file(tmp_path: Path, mistake: str) -> None:
    one = Folder(tmp_path / "one", mistake)
    assert one.everything(VERBS[:4]) == [2] * 4, one.said
    one.silent("tidegauge.toml")
    with_key = Folder(tmp_path / "two", _csv(tmp_path / "two"), more=f'[store]\nkey = "{KEY}"')
    assert with_key.call("plan") == 2
    with_key.silent("tidegauge.toml", "log.csv")


def test_an_error_that_was_not_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last net: an exception whose words are a value."""
    one = Folder(tmp_path / "one", _sqlite(tmp_path / "one"))

    def broken(_: Gauge, **__: object) -> None:
        raise RuntimeError(VALUE)

    monkeypatch.setattr(Gauge, "plan", broken)
    assert one.call("plan") == 1
    assert "builtins.RuntimeError" in one.said
    assert "in broken" in one.said
    one.silent("tidegauge.toml", "app.db")

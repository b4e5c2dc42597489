"""A table called `x"; drop table y; --` is just a table, and so are its columns, publication and key."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pytest
from psycopg import sql

from tidegauge.errors import SpecError
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.postgres import Server

TABLE, KEY, UNIT, COLUMN = (
    'x"; drop table y; --',
    "k'\"; drop table y; --",
    'u%s"{}',
    'a\\"); drop table y; --',
)
GROUPS = ["'; drop table y; --", 'n"', "%s", "\\"]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def declared(source: str, path: Path) -> Gauge:
    """Counts by a column that is as badly named as its table."""
    query = f"SELECT {quoted(COLUMN)}, COUNT(*) FROM {quoted(TABLE)} GROUP BY {quoted(COLUMN)}"
    (path / "tidegauge.toml").write_text(
        f"[source]\n{source}\ntable = {json.dumps(TABLE)}\n"
        f"entry = {json.dumps(KEY)}\nunit = {json.dumps(UNIT)}\nmax_rows = 3\n"
        f"[constraint]\nat_most = 1000\n[budget]\nepsilon = 1e12\n[release.by]\nsql = {json.dumps(query)}\n"
        f'groups.{json.dumps(COLUMN)} = {json.dumps(GROUPS)}\nevery = "1 second"\n'
    )
    return Gauge.from_file(path / "tidegauge.toml")


CREATE = (
    f"CREATE TABLE {quoted(TABLE)} ({quoted(KEY)} VARCHAR(50) PRIMARY KEY, {quoted(UNIT)} VARCHAR(50), "
    f"{quoted(COLUMN)} VARCHAR(50))"
)
ROWS = [(f"'{n}\"; --", f"u{n % 5}'", GROUPS[n % 4]) for n in range(10)]


def counts(gauge: Gauge) -> dict[Any, float | None]:
    newest = max(reading.time for reading in gauge.published())
    return {
        r.group[COLUMN]: round(r.value or 0, 3) for r in gauge.published() if r.group and r.time == newest
    }


def followed(gauge: Gauge, execute: Any, mark: str) -> None:
    """Load, change, follow."""
    for _ in range(2):
        list(gauge.run())
        time.sleep(1.05)
    assert list(gauge.run())
    assert counts(gauge) == dict(zip(GROUPS, (3, 3, 2, 2), strict=True))
    execute(
        f"UPDATE {quoted(TABLE)} SET {quoted(COLUMN)} = {mark} WHERE {quoted(KEY)} = {mark}",
        (GROUPS[3], ROWS[0][0]),
    )
    execute(f"DELETE FROM {quoted(TABLE)} WHERE {quoted(KEY)} = {mark}", (ROWS[1][0],))
    for _ in range(2):
        time.sleep(1.05)
        list(gauge.run())
    assert counts(gauge) == dict(zip(GROUPS, (2, 2, 2, 3), strict=True))
    assert gauge.verify().readings == len(gauge.published())


@pytest.mark.parametrize("kind", ["postgres", "snapshots"])
def test_postgres(postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    name = f'd"; drop table y; -- {kind} {os.getpid()}'
    monkeypatch.setenv("ODD_DSN", postgres.database(name).replace(f"dbname={name}", f"dbname='{name}'"))
    schema, publication = 's"; drop table y; --', 'p"; drop table y; --'
    with psycopg.connect(
        host=str(postgres.root), user="postgres", dbname=name, autocommit=True
    ) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema)))
        connection.execute("CREATE TABLE y (kept integer)")
        connection.execute(CREATE.encode())

        def execute(statement: str, values: tuple[Any, ...]) -> None:
            cursor = psycopg.RawCursor(connection)
            cursor.execute(statement.encode(), values)

        for row in ROWS:
            execute(f"INSERT INTO {quoted(TABLE)} VALUES ($1, $2, $3)", row)
        source = f'kind = "{kind}"\ndsn = "env:ODD_DSN"\nschema = {json.dumps(schema)}\n'
        source += f"publication = {json.dumps(publication)}" if kind == "postgres" else 'of = "postgres"'
        gauge = declared(source, tmp_path)
        assert all(check.ok for check in gauge.doctor()), gauge.doctor()
        list(gauge.run())
        changed = f"UPDATE {quoted(TABLE)} SET {quoted(COLUMN)} = $1 WHERE {quoted(KEY)} = $2"
        execute(changed, (GROUPS[3], ROWS[0][0]))
        execute(f"DELETE FROM {quoted(TABLE)} WHERE {quoted(KEY)} = $1", (ROWS[1][0],))
        for _ in range(2):
            time.sleep(1.05)
            list(gauge.run())
        assert counts(gauge) == dict(zip(GROUPS, (2, 2, 2, 3), strict=True))
        assert connection.execute("SELECT count(*) FROM y").fetchone() == (0,)
        if kind == "postgres":
            assert connection.execute("SELECT pubname FROM pg_publication").fetchall() == [(publication,)]
            connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE "
                               "database = %s", [name])  # fmt: skip


def test_a_slot_has_a_plain_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD_DSN", "host=/nowhere")
    gauge = declared('kind = "postgres"\ndsn = "env:ODD_DSN"\nslot = "s\'; drop table y; --"', tmp_path)
    with pytest.raises(SpecError, match="a slot's name has"):
        list(gauge.run())


@pytest.mark.parametrize("kind", ["sqlite", "snapshots"])
def test_sqlite(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a'b;c.db"
    application = sqlite3.connect(path, isolation_level=None)
    application.execute("CREATE TABLE y (kept)")
    application.execute(CREATE)
    application.executemany(f"INSERT INTO {quoted(TABLE)} VALUES (?, ?, ?)", ROWS)
    source = f'kind = "{kind}"\npath = {json.dumps(path.name)}' + (
        "" if kind == "sqlite" else '\nof = "sqlite"'
    )
    gauge = declared(source, tmp_path)
    gauge.install()
    followed(gauge, application.execute, "?")
    assert application.execute("SELECT count(*) FROM y").fetchone() == (0,)
    gauge.uninstall()
    left = {
        name
        for (name,) in application.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'trigger')"
        )
    }
    assert left - {"sqlite_sequence"} == {"y", TABLE}
    application.close()


def test_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "a'b;c.duckdb"

    def execute(statement: str, values: tuple[Any, ...] = ()) -> None:
        with duckdb.connect(str(path)) as connection:
            connection.execute(statement, values)

    execute("CREATE TABLE y (kept INTEGER)")
    execute(CREATE)
    for row in ROWS:
        execute(f"INSERT INTO {quoted(TABLE)} VALUES (?, ?, ?)", row)
    followed(
        declared(f'kind = "snapshots"\nof = "duckdb"\npath = {json.dumps(path.name)}', tmp_path), execute, "?"
    )
    execute("SELECT * FROM y")

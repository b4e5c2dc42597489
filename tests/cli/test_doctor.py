"""The doctor on a server that is set up wrong: the printed SQL fixes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.called import call
from tests.servers.postgres import Server, binaries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROLE = 'gau"ge'
DECLARATION = """
[source]
kind = "postgres"
dsn = "env:DOCTOR_DSN"
table = "people"
schema = "own"
entry = "id"
slot = "s"
publication = "changes"

[constraint]
at_most = 4

[budget]
epsilon = 1

[release.people]
sql = "SELECT COUNT(*) FROM people"
every = "1 second"
"""


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server(binaries()[0], wal_level="replica", max_replication_slots="1", max_wal_senders="1")
    yield running
    running.stop()


def fixes(said: str) -> list[str]:
    """The lines under what is missing."""
    return [line.strip() for line in said.splitlines() if line.startswith("        ")]


def test_the_printed_sql_fixes_everything(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCTOR_DSN", server.dsn(user=ROLE))
    (tmp_path / "tidegauge.toml").write_text(DECLARATION)
    with server.connect() as admin:
        admin.execute('CREATE ROLE "gau""ge" LOGIN')
        admin.execute("CREATE SCHEMA own")
        admin.execute("CREATE TABLE own.people (id integer NOT NULL, name text)")  # no primary key
        admin.execute("INSERT INTO own.people VALUES (1, 'a'), (2, 'b')")
        admin.execute("ALTER TABLE own.people ENABLE ROW LEVEL SECURITY")
        admin.execute("SELECT pg_create_physical_replication_slot('another')")
    missing: set[str] = set()
    rounds = 0
    while True:
        rounds += 1
        code, said = call(capsys, "doctor")
        assert "not-to-be-shown" not in said
        missing |= {line.split()[1].rstrip(":") for line in said.splitlines() if line.startswith("MISSING")}
        if code == 0:
            break
        assert (code, rounds) == (2, 1), said
        found = fixes(said)
        assert len(found) == said.count("MISSING")  # each has its SQL
        with server.connect() as admin:
            for fix in found:
                admin.execute(fix.encode())
        if any("restart the server" in fix for fix in found):
            server.crash()
            server.start()
    assert rounds == 2
    assert missing == {
        "wal_level",
        "max_replication_slots",
        "table",
        "replication",
        "select",
        "row",
        "publication",
    }
    assert call(capsys, "run", "--once")[0] == 0
    code, said = call(capsys, "doctor", "--json")
    assert code == 0
    assert all(check["ok"] and check["fix"] is None for check in json.loads(said))


def test_before_it_is_fixed_run_says_so_and_leaves_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCTOR_DSN", server.dsn(user=ROLE))
    (tmp_path / "tidegauge.toml").write_text(DECLARATION)
    with server.connect() as admin:
        admin.execute('CREATE ROLE "gau""ge" LOGIN')
        admin.execute("CREATE SCHEMA own")
        admin.execute("CREATE TABLE own.people (id integer PRIMARY KEY, name text)")
        admin.execute('GRANT USAGE ON SCHEMA own TO "gau""ge"; GRANT SELECT ON own.people TO "gau""ge"')
    code, said = call(capsys, "run", "--once")
    assert code == 2
    assert "Nothing was read" in said
    with server.connect() as admin:
        assert admin.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)
        assert admin.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)
    assert "ALTER ROLE" in said
    assert "not committed yet" in call(capsys, "status")[1]

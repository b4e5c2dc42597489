"""Why a server refuses a login is read from its SQLSTATE,
whatever language it speaks and however one logs in."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

from tidegauge.source.postgres import login
from tidegauge.source.postgres.access import Access, final, reason, unreachable
from tidegauge.source.postgres.login import LoginRefused, NoTLS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.postgres import Server

SECRET = "not-to-be-shown"


@pytest.fixture
def demanding(postgres: Server) -> Iterator[Server]:
    """A server that asks some roles for a password, and has no rule for another."""
    rules = postgres.data / "pg_hba.conf"
    before = rules.read_text()
    methods = {"salted": "scram-sha-256", "hashed": "md5", "plain": "password"}
    lines = [f"local all {role} {method}" for role, method in methods.items()]
    with postgres.connect() as connection:
        for role in (*methods, "unwanted"):
            connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'right'".encode())
        connection.execute("CREATE ROLE crowded LOGIN CONNECTION LIMIT 0")
        connection.execute("CREATE DATABASE shut ALLOW_CONNECTIONS false")
        rules.write_text("\n".join([*lines, "local all unwanted reject", before]))
        connection.execute("SELECT pg_reload_conf()")
        yield postgres
        rules.write_text(before)
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("DROP DATABASE shut")
        for role in (*methods, "unwanted", "crowded"):
            connection.execute(f"DROP ROLE {role}".encode())


def refused(dsn: str) -> psycopg.OperationalError:
    with pytest.raises(psycopg.OperationalError) as caught:
        Access(dsn).connect()
    assert SECRET not in f"{final(caught.value)} {reason(caught.value)} {unreachable(caught.value)}"
    return caught.value


@pytest.mark.parametrize(
    ("user", "password", "database", "state"),
    [
        ("salted", SECRET, "postgres", "28P01"),
        ("hashed", SECRET, "postgres", "28P01"),
        ("plain", SECRET, "postgres", "28P01"),
        ("salted", "right", SECRET, "3D000"),
        ("plain", "right", SECRET, "3D000"),
        ("postgres", "right", SECRET, "3D000"),
        ("postgres", "right", "shut", "55000"),
        ("unwanted", "right", "postgres", "28000"),
        (SECRET, "right", "postgres", "28000"),
        ("crowded", "right", "postgres", "53300"),
    ],
)
def test_the_code_of_a_refusal(
    demanding: Server, user: str, password: str, database: str, state: str
) -> None:
    error = refused(f"host={demanding.root} user={user} password={password} dbname={database}")
    assert isinstance(error, LoginRefused)
    assert str(error) == error.sqlstate == state
    shown = final(error)
    assert (shown is None) == (state == "53300"), "only too many connections may pass"
    if shown is not None:
        assert ("has no such database" if state == "3D000" else "refuses the login") in str(shown)


def test_no_password_at_all(demanding: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    error = refused(f"host={demanding.root} user=salted dbname=postgres")
    assert "refuses the login" in str(final(error))


def test_without_the_library_the_login_is_tried_again(
    demanding: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "_library", lambda: None)
    error = refused(f"host={demanding.root} user={SECRET} dbname=postgres")
    assert error.sqlstate is None
    assert final(error) is None


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A port at which every connection gets this answer to its first message."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    one, _ = listening.accept()
                except OSError:
                    return
                with one:
                    one.recv(1024)
                    one.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("answer", [b"N", b"S"])
def test_a_server_with_which_no_tls_can_be_agreed_on(answer: bytes) -> None:
    with answering(answer) as port:
        error = refused(f"host=127.0.0.1 port={port} user=u sslmode=require gssencmode=disable")
    assert isinstance(error, NoTLS)
    assert "no TLS connection" in str(final(error))


def test_a_proxy_that_hangs_up_is_no_refusal() -> None:
    with answering(b"") as port:
        error = refused(f"host=127.0.0.1 port={port} user=u sslmode=require gssencmode=disable")
    assert not isinstance(error, NoTLS)
    assert final(error) is None

"""What a user reads if the PostgreSQL server cannot be reached, or refuses."""

from __future__ import annotations

import errno
import socket

import psycopg
import pytest

from tidegauge.source.postgres.access import Access, final, reason, unreachable
from tidegauge.source.postgres.login import LoginRefused

SECRET = 'connection to server at "db.example" (10.1.2.3), port 5432 failed: '


def free_port() -> int:
    """A port of this machine at which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("host=127.0.0.1 port={port}", " (nothing listens at its host and port)"),
        ("hostaddr=127.0.0.1 host=db.example port={port}", " (nothing listens at its host and port)"),
        ("host=db.invalid", " (its host name is not known)"),
        ("host=db.invalid,other.invalid port={port}", " (its host name is not known)"),
        ("host=/db.example", " (there is no such socket)"),
    ],
)
def test_why_there_is_no_connection(where: str, shown: str) -> None:
    with pytest.raises(psycopg.OperationalError) as caught:
        Access(where.format(port=free_port()) + " user=nobody").connect()
    check(caught.value, shown)
    assert final(caught.value) is None


def test_a_server_that_does_not_answer() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        with pytest.raises(psycopg.errors.ConnectionTimeout) as caught:
            Access(f"host=127.0.0.1 port={port} user=nobody connect_timeout=2").connect()
        check(caught.value, " (it does not answer)")


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        (TimeoutError(), " (it does not answer)"),
        (OSError(errno.ENETUNREACH, "x"), " (there is no route to its host)"),
        (OSError(errno.EIO, "x"), ""),
    ],
)
def test_what_a_socket_finds(monkeypatch: pytest.MonkeyPatch, raised: OSError, shown: str) -> None:
    with pytest.raises(psycopg.OperationalError) as caught:
        Access(f"host=127.0.0.1 port={free_port()} user=nobody").connect()

    def connect(*_: object, **__: object) -> socket.socket:
        raise raised

    monkeypatch.setattr(socket, "create_connection", connect)
    check(caught.value, shown)


def test_an_error_without_a_connection_says_nothing() -> None:
    check(psycopg.OperationalError(SECRET + "Connection refused"), "")


def check(error: psycopg.Error, shown: str) -> None:
    assert reason(error) == shown
    assert str(unreachable(error)).startswith(
        f"the PostgreSQL server cannot be reached{shown}. Nothing is lost"
    )
    for text in (str(unreachable(error)), reason(error)):
        assert "db." not in text
        assert "None" not in text


def test_a_code_is_shown_where_there_is_one() -> None:
    assert reason(psycopg.errors.AdminShutdown("x")) == " (SQLSTATE 57P01)"


def test_a_missing_database_is_not_a_wrong_login() -> None:
    assert str(final(LoginRefused("3D000"))) == (
        "the PostgreSQL server has no such database. Nothing was read. Check the name of the database in the "
        "connection string (source.dsn)."
    )
    assert "refuses the login" in str(final(LoginRefused("28000")))


def test_words_decide_nothing() -> None:
    assert final(psycopg.OperationalError(f'{SECRET}FATAL:  database "patients" does not exist')) is None
    assert final(psycopg.OperationalError(f'{SECRET}FATAL:  role "gauge" does not exist')) is None

"""What a user reads if the PostgreSQL server cannot be reached, or refuses."""

from __future__ import annotations

import psycopg
import pytest

from tidegauge.source.postgres.access import final, reason, unreachable

SECRET = 'connection to server at "db.example" (10.1.2.3), port 5432 failed: '


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Connection refused", " (nothing listens at its host and port)"),
        ("could not translate host name", " (its host name is not known)"),
        ("connection timeout expired", " (it does not answer)"),
        ("something new", ""),
    ],
)
def test_why_there_is_no_connection(said: str, shown: str) -> None:
    error = psycopg.OperationalError(SECRET + said)
    assert reason(error) == shown
    assert str(unreachable(error)).startswith(
        f"the PostgreSQL server cannot be reached{shown}. Nothing is lost"
    )
    for text in (str(unreachable(error)), reason(error)):
        assert "db.example" not in text
        assert "none" not in text


def test_a_code_is_shown_where_there_is_one() -> None:
    assert reason(psycopg.errors.AdminShutdown("x")) == " (SQLSTATE 57P01)"


def test_a_missing_database_is_not_a_wrong_login() -> None:
    missing = final(psycopg.OperationalError(f'{SECRET}FATAL:  database "patients" does not exist'))
    assert str(missing) == (
        "the PostgreSQL server has no such database. Nothing was read. Check the name of the database in the "
        "connection string (source.dsn)."
    )
    role = final(psycopg.OperationalError(f'{SECRET}FATAL:  role "gauge" does not exist'))
    assert "refuses the login" in str(role)
    assert "gauge" not in str(role).replace("tidegauge doctor", "")

"""Connections to PostgreSQL, and what its refusals mean.

What the server or the client library says may name hosts, users and values; no message of ours repeats it.
"""

from __future__ import annotations

import logging
import random
import re
import time
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import conninfo

from tidegauge.errors import SourceError
from tidegauge.source.batch.names import secret

if TYPE_CHECKING:
    from collections.abc import Callable

    Connection = psycopg.Connection[tuple[Any, ...]]

LOG: Final = logging.getLogger("tidegauge.source.postgres.source")
_SESSION: Final = {
    "application_name": "tidegauge",
    "client_encoding": "UTF8",
    "connect_timeout": "10",
    "keepalives_idle": "30",
}
_OPTIONS: Final = (
    "-c datestyle=ISO -c timezone=UTC -c intervalstyle=postgres -c extra_float_digits=3 -c bytea_output=hex"
    " -c row_security=off -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)
"""One notation for the first load and the stream, whatever the server's default; rather fail than read some rows."""
_BUSY: Final = "55006"
_LOST: Final = ("55000", "58P01")
_PASSING: Final = ("08", "53", "57P")
_REASONS: Final = {
    "could not translate host name": "its host name is not known",
    "failed to resolve host": "its host name is not known",
    "Connection refused": "nothing listens at its host and port",
    "No such file or directory": "there is no such socket",
    "timeout": "it does not answer",
    "timed out": "it does not answer",
    "No route to host": "there is no route to its host",
    "Network is unreachable": "there is no route to its host",
}
"""What the client library says if there is no connection at all, and what that means."""
_NO_DATABASE: Final = re.compile(r'database ".*" does not exist')
_REFUSED: Final = ("authentication", "pg_hba.conf", "does not exist", "not permitted", "permission denied", "support SSL",
                   "certificate", "no password supplied", "not currently accepting connections")  # fmt: skip


class Access:
    """Opens connections; keeps the connection string to itself."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def connect(self, *, replication: bool = False) -> Connection:
        """A connection in autocommit mode."""
        try:
            given = conninfo.conninfo_to_dict(secret(self._dsn, key="source.dsn"))
        except psycopg.ProgrammingError:
            raise SourceError(
                "source.dsn: the connection string cannot be read; write postgresql://user@host/database"
            ) from None
        given |= {name: value for name, value in _SESSION.items() if name not in given}
        given["options"] = f"{given.get('options', '')} {_OPTIONS}".strip()
        if replication:
            given["replication"] = "database"
        return psycopg.connect(**given, autocommit=True)  # type: ignore[arg-type]


class Patience:
    """Waits longer and longer between attempts; gives up when the server has been away for too long."""

    def __init__(self, seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self._seconds = seconds
        self._sleep = sleep
        self.restore()

    def restore(self) -> None:
        """It works again."""
        self._attempts, self._since = 0, time.monotonic()

    def wait(self, error: psycopg.Error) -> None:
        """Wait before the next attempt, or say why there will be none."""
        if (refusal := final(error)) is not None:
            raise refusal from None
        waited = time.monotonic() - self._since
        if waited > (min(self._seconds, 15) if error.sqlstate == _BUSY else self._seconds):
            raise unreachable(error) from None
        pause = min(30.0, 0.1 * 2**self._attempts) * random.uniform(0.5, 1)
        self._attempts = min(self._attempts + 1, 16)
        LOG.warning("no connection%s, next attempt in %.1f s", reason(error), pause)
        self._sleep(pause)


def unreachable(error: psycopg.Error) -> SourceError:
    """The refusal to try any longer."""
    if error.sqlstate == _BUSY:
        return SourceError(
            "another process reads this replication slot. Nothing was read or lost. "
            "Stop the other gauge, or give this one a slot of its own ([source] slot)."
        )
    return SourceError(
        f"the PostgreSQL server cannot be reached{reason(error)}. Nothing is lost: the slot keeps the changes. "
        "Check that the server runs and that host and port in the connection string (source.dsn) are right, "
        "then start again."
    )


def reason(error: psycopg.Error) -> str:
    """Why there is no connection, in parentheses: the SQLSTATE, or what the client library found; or nothing.

    The words of the library are looked at, never shown: they name hosts and users.
    """
    if error.sqlstate is not None:
        return f" (SQLSTATE {error.sqlstate})"
    return next((f" ({meaning})" for words, meaning in _REASONS.items() if words in str(error)), "")


def final(error: psycopg.Error) -> SourceError | None:
    """What to tell the user, or None where another attempt may help."""
    state = error.sqlstate
    if state is None:
        # libpq gives no code for a refused login; its words are only looked at, never shown.
        if isinstance(error, psycopg.OperationalError) and _NO_DATABASE.search(str(error)):
            return SourceError(
                "the PostgreSQL server has no such database. Nothing was read. Check the name of the database "
                "in the connection string (source.dsn)."
            )
        if isinstance(error, psycopg.OperationalError) and any(word in str(error) for word in _REFUSED):
            return SourceError(
                "the PostgreSQL server refuses the login. Nothing was read. Check user and password in the "
                "connection string (source.dsn), and pg_hba.conf on the server; 'tidegauge doctor' lists the "
                "rights that the role needs."
            )
        return None
    if state in _LOST:
        return SourceError(
            f"the server no longer has what follows our position, or does not decode its log (SQLSTATE {state}). "
            "Nothing was read. 'tidegauge doctor' says which, and what to do."
        )
    if state == _BUSY or (state.startswith(_PASSING) and state != "53400"):
        return None
    return SourceError(
        f"the PostgreSQL server refuses (SQLSTATE {state}, {type(error).__name__}). Nothing was read or lost. "
        "'tidegauge doctor' says what is missing and prints the SQL that fixes it."
    )

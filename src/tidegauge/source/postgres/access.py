"""Connections to PostgreSQL, and the messages for its refusals.

Messages of the server and of the client library may contain hosts, users and values.  They are never shown.
"""

from __future__ import annotations

import ipaddress
import logging
import random
import time
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import conninfo, pq

from tidegauge.errors import SourceError, SpecError
from tidegauge.source.batch.names import secret
from tidegauge.source.postgres.login import LoginRefused, NoTLS, refusal
from tidegauge.source.postgres.probe import UnknownHost, all_unknown, why_unreached

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
"""One notation for the first load and for the stream, whatever the server's defaults are.

With row_security off, a query that a policy would filter fails instead of returning some of the rows.
"""
_WHOLE_NUMBERS: Final = (
    "connect_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
)
_LAST_PORT: Final = 65535
_NO_SERVER: Final = "/nonexistent"
"""The folder of a Unix socket that does not exist: a connection to it fails at once, without any network."""
_BUSY: Final = "55006"
_BUSY_SECONDS: Final = 15.0
"""A slot that a process has just left is free within seconds; one that another gauge reads stays busy."""
_LOST: Final = ("55000", "58P01")
_PASSING: Final = ("08", "53", "57P")
_NO_DATABASE: Final = "3D000"


def parsed(dsn: str) -> dict[str, str]:
    """The parameters of a connection string.  Raises SpecError if no server could ever be reached with it."""
    if not dsn.strip():
        raise _unusable("it is empty")
    try:
        given = {
            name: str(value) for name, value in conninfo.conninfo_to_dict(dsn).items() if value is not None
        }
    except psycopg.ProgrammingError:
        raise _unusable("it is neither a URL nor a list of parameters") from None
    ports = [port for port in given.get("port", "").split(",") if port]
    if not all(port.isdecimal() and 0 < int(port) <= _LAST_PORT for port in ports):
        raise _unusable(f"its port is not a number from 1 to {_LAST_PORT}")
    for name in _WHOLE_NUMBERS:
        if not given.get(name, "0").strip().removeprefix("-").isdecimal():
            raise _unusable(f"its {name} is not a number")
    for address in filter(None, given.get("hostaddr", "").split(",")):
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise _unusable("its hostaddr is not an IP address") from None
    if not _accepted(given):
        raise _unusable(
            "libpq knows no such sslmode, service or other value, or it names more ports than hosts"
        )
    return given


def _accepted(given: dict[str, str]) -> bool:
    """Whether the client library would try to connect with these parameters."""
    hosts = given.get("hostaddr") or given.get("host") or ""
    elsewhere = {name: value for name, value in given.items() if name != "hostaddr"}
    elsewhere["host"] = ",".join([_NO_SERVER] * (hosts.count(",") + 1))
    return pq.PGconn.ping(conninfo.make_conninfo("", **elsewhere).encode()) != pq.Ping.NO_ATTEMPT


def _unusable(reason: str) -> SpecError:
    return SpecError(
        f"the connection string cannot be used: {reason}. Write postgresql://user@host/database or "
        "'host=... dbname=...'. Nothing was read.",
        key="source.dsn",
    )


class Access:
    """Opens connections.  The connection string is not visible from outside."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._parsed: dict[str, str] | None = None

    def connect(self, *, replication: bool = False) -> Connection:
        """A connection in autocommit mode.  Raises SpecError if the connection string cannot be used."""
        if self._parsed is None:
            self._parsed = parsed(secret(self._dsn, key="source.dsn"))
        given = _SESSION | self._parsed
        given["options"] = f"{given.get('options', '')} {_OPTIONS}".strip()
        if replication:
            given["replication"] = "database"
        try:
            return psycopg.connect(**given, autocommit=True)  # type: ignore[arg-type]
        except psycopg.OperationalError as error:
            if error.pgconn is None and all_unknown(given):
                raise UnknownHost from None
            if (found := refusal(given, error)) is not None:
                raise found from None
            raise


class Patience:
    """Waits between attempts, longer each time, and gives up after so many seconds without an answer."""

    def __init__(self, seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self._seconds = seconds
        self._sleep = sleep
        self.restore()

    def restore(self) -> None:
        """Start counting again: an attempt succeeded."""
        self._attempts, self._since = 0, time.monotonic()

    def wait(self, error: psycopg.Error) -> None:
        """Sleep until the next attempt.  Raises SourceError if no further attempt can help or time is up."""
        if (refusal := final(error)) is not None:
            raise refusal from None
        limit = min(self._seconds, _BUSY_SECONDS) if error.sqlstate == _BUSY else self._seconds
        if time.monotonic() - self._since >= limit:
            raise unreachable(error) from None
        pause = min(30.0, 0.1 * 2**self._attempts) * random.uniform(0.5, 1)
        why = reason(error)
        if not self._attempts:
            LOG.warning("no connection to PostgreSQL%s; trying again for at most %g s", why, limit)
        else:
            LOG.info("no connection to PostgreSQL%s; next attempt in %.1f s", why, pause)
        self._attempts = min(self._attempts + 1, 16)
        self._sleep(pause)


def unreachable(error: psycopg.Error) -> SourceError:
    """The error that ends the attempts to connect."""
    if error.sqlstate == _BUSY:
        return SourceError(
            "another process reads this replication slot. Nothing was read or lost. "
            "Stop the other gauge, or give this one a slot of its own ([source] slot)."
        )
    return SourceError(
        f"the PostgreSQL server cannot be reached{reason(error)}. Nothing is lost: the slot keeps the "
        "changes. Check that the server runs and that host and port in the connection string (source.dsn) "
        "are right, then start again."
    )


def reason(error: psycopg.Error) -> str:
    """Why there is no connection, in parentheses: the SQLSTATE, or what a socket finds; or nothing."""
    if error.sqlstate is not None:
        return f" (SQLSTATE {error.sqlstate})"
    why = why_unreached(error)
    return f" ({why})" if why else ""


def _refused_login(error: psycopg.Error) -> SourceError | None:
    """The error to show if there is no session and no further attempt can help."""
    if isinstance(error, NoTLS):
        return SourceError(
            "the PostgreSQL server is there, but no TLS connection with it can be made as sslmode asks for. "
            "Nothing was read. Check sslmode, sslrootcert, sslcert and sslkey in the connection string "
            "(source.dsn), and ssl and the certificate of the server."
        )
    if error.sqlstate == _NO_DATABASE:
        return SourceError(
            "the PostgreSQL server has no such database. Nothing was read. Check the name of the "
            "database in the connection string (source.dsn)."
        )
    asked = (
        error.pgconn is not None and error.pgconn.status == pq.ConnStatus.BAD and error.pgconn.needs_password
    )
    if asked or isinstance(error, LoginRefused):
        return SourceError(
            "the PostgreSQL server refuses the login. Nothing was read. Check user and password in the "
            "connection string (source.dsn), and pg_hba.conf on the server; 'tidegauge doctor' lists "
            "the rights that the role needs."
        )
    return None


def final(error: psycopg.Error) -> SourceError | None:
    """The error to show to the user, or None if another attempt may help."""
    state = error.sqlstate
    if state is not None and _passes(state):
        return None
    if state is None or isinstance(error, LoginRefused):
        return _refused_login(error)
    if state in _LOST:
        return SourceError(
            f"the server no longer has the log after our position, or cannot decode it (SQLSTATE {state}). "
            "Nothing was read. 'tidegauge doctor' says which of the two, and what to do."
        )
    return SourceError(
        f"the PostgreSQL server refuses (SQLSTATE {state}, {type(error).__name__}). Nothing was read or "
        "lost. 'tidegauge doctor' shows what is missing, and the SQL that adds it."
    )


def _passes(state: str) -> bool:
    """Whether what this SQLSTATE says may be over soon."""
    return state == _BUSY or (state.startswith(_PASSING) and state != "53400")

"""Why there is no connection to a server, found by trying its address again with a plain socket.

The client library says it in words only, which name hosts and change with its language.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Final

import psycopg

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECONDS: Final = 3.0
_NO_ROUTE: Final = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)


class UnknownHost(psycopg.OperationalError):
    """No host name of the connection string has an address."""


def all_unknown(given: Mapping[str, str]) -> bool:
    """Whether the parameters name hosts, and none of them has an address."""
    hosts = [host for host in given.get("host", "").split(",") if host and not host.startswith(("/", "@"))]
    if given.get("hostaddr") or not hosts:
        return False
    return not any(map(_known, hosts))


def _known(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True


def why_unreached(error: psycopg.Error) -> str | None:
    """Why the address of a failed connection cannot be reached; None: it can be, or it is not known."""
    if isinstance(error, UnknownHost):
        return "its host name is not known"
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return "it does not answer"
    at = address(error)
    return None if at is None else _tried(*at)


def address(error: psycopg.Error) -> tuple[str, int] | None:
    """Host, or folder of a socket, and port of a failed connection; None if they are not known."""
    if error.pgconn is None:
        return None
    try:
        host, port = (error.pgconn.hostaddr or error.pgconn.host).decode(), error.pgconn.port.decode()
    except (psycopg.Error, UnicodeDecodeError):  # the connection was closed, and says nothing any more
        return None
    return (host, int(port)) if host and port.isdecimal() else None


def reached(host: str, port: int) -> socket.socket:
    """A socket that is connected to the address.  Raises OSError."""
    if not host.startswith("/"):
        return socket.create_connection((host, port), timeout=_SECONDS)
    local = socket.socket(socket.AF_UNIX)
    try:
        local.settimeout(_SECONDS)
        local.connect(f"{host}/.s.PGSQL.{port}")
    except OSError:
        local.close()
        raise
    return local


def _tried(host: str, port: int) -> str | None:
    try:
        reached(host, port).close()
    except FileNotFoundError:
        return "there is no such socket"
    except ConnectionRefusedError:
        return "nothing listens at its host and port"
    except TimeoutError:
        return "it does not answer"
    except OSError as problem:
        return "there is no route to its host" if problem.errno in _NO_ROUTE else None
    return None

"""The code with which a server refuses a login, and whether both sides agreed on TLS.

The client library keeps no code of a failed login, only words in the languages of client and server.  Asked
for the least detail, it writes the SQLSTATE in place of the words; psycopg cannot ask for that.  So the login
is tried once more by the library alone, with the same settings, TLS and password.  Only the code leaves this
module.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import re
import select
import socket
import struct
import time
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import conninfo

from tidegauge.source.postgres.probe import address, reached

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SECONDS: Final = 10.0
_CODES_ALONE: Final = 3
"""PQERRORS_SQLSTATE; libpq 12 is the first to have it."""
_FIRST: Final = 120000
_READING, _WRITING = 1, 2
_TLS_BEGINS: Final = 7
"""CONNECTION_SSL_STARTUP: the server was asked for TLS, and the login has not begun."""
_CODE: Final = re.compile(rb":  ([0-9A-Z]{5})$", re.MULTILINE)
"""What libpq writes: the severity, a colon, two spaces and the code."""
_ASKS_FOR_TLS: Final = struct.pack("!ii", 8, 80877103)


class LoginRefused(psycopg.OperationalError):
    """The server answered a login with this SQLSTATE."""

    def __init__(self, state: str) -> None:
        super().__init__(state)
        self.sqlstate = state


class NoTLS(psycopg.OperationalError):
    """The server answers, but a TLS connection as the settings ask for it cannot be made."""


def refusal(given: Mapping[str, str], error: psycopg.Error) -> LoginRefused | NoTLS | None:
    """Why a login with these parameters failed; None: the code is not known, or the next attempt worked."""
    if isinstance(error, psycopg.errors.ConnectionTimeout) or (library := _library()) is None:
        return None
    text = conninfo.make_conninfo("", **given).encode()
    code, last = _attempt(library, text)
    if code is not None:
        return LoginRefused(code)
    return NoTLS() if last == _TLS_BEGINS and _answers(error) else None


def _attempt(library: Any, text: bytes) -> tuple[str | None, int]:
    """The last code of an attempt to connect, and what the connection did last."""
    connection = library.PQconnectStart(text)
    if not connection:
        return None, 0
    try:
        library.PQsetErrorVerbosity(connection, _CODES_ALONE)
        waits, last, until = _WRITING, 0, time.monotonic() + _SECONDS
        while waits in (_READING, _WRITING) and (at := library.PQsocket(connection)) >= 0:
            last = library.PQstatus(connection)
            ready = select.poll()
            ready.register(at, select.POLLIN if waits == _READING else select.POLLOUT)
            if not ready.poll(1000 * max(0.0, until - time.monotonic())):
                break
            waits = library.PQconnectPoll(connection)
        codes = _CODE.findall(library.PQerrorMessage(connection) or b"")
        return codes[-1].decode() if codes else None, last
    finally:
        library.PQfinish(connection)


def _answers(error: psycopg.Error) -> bool:
    """Whether a server of PostgreSQL is at the address of a failed connection."""
    if (at := address(error)) is None:
        return False
    with suppress(OSError), reached(*at) as one:
        one.sendall(_ASKS_FOR_TLS)
        return one.recv(1, socket.MSG_WAITALL) in (b"S", b"N")
    return False


@lru_cache(maxsize=1)
def _library() -> Any:
    """The client library, by itself; None where it is not found or too old."""
    for path in _places():
        with suppress(OSError, AttributeError):
            found = ctypes.CDLL(str(path))
            if found.PQlibVersion() < _FIRST:
                continue
            found.PQconnectStart.restype = ctypes.c_void_p
            found.PQconnectStart.argtypes = [ctypes.c_char_p]
            found.PQerrorMessage.restype = ctypes.c_char_p
            for name in ("PQsocket", "PQstatus", "PQconnectPoll", "PQerrorMessage", "PQfinish"):
                getattr(found, name).argtypes = [ctypes.c_void_p]
            found.PQsetErrorVerbosity.argtypes = [ctypes.c_void_p, ctypes.c_int]
            return found
    return None


def _places() -> Iterator[Path | str]:
    """Where the library may be: in the wheel of psycopg, or among those of the system."""
    wheel = find_spec("psycopg_binary")
    for folder in (wheel.submodule_search_locations or ()) if wheel else ():
        yield from sorted(Path(folder).parent.glob("psycopg_binary.libs/libpq-*"))
        yield from sorted(Path(folder).glob(".dylibs/libpq.*"))
    if system := ctypes.util.find_library("pq"):
        yield system

"""The replication stream: the server's messages, and the place in the log up to which they were sent."""

from __future__ import annotations

import select
import struct
import time
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors, pq

from tidegauge.source.batch.names import literal, quote

if TYPE_CHECKING:
    from tidegauge.source.postgres.access import Connection

_DATA, _ALIVE = b"wk"
_HEADER: Final = 25
_AT_ONCE: Final = 8192
_AT_ONCE_BYTES: Final = 32 << 20
_SILENCE: Final = 60.0
"""After so many seconds without an answer, though we ask every second, the connection is considered dead."""


def lsn(place: int) -> str:
    """A place in the log as PostgreSQL writes it."""
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"


def place(written: str) -> int:
    """A place in the log as a number."""
    high, low = written.split("/")
    return int(high, 16) << 32 | int(low, 16)


def identify(connection: Connection) -> str:
    """The server's identity, the same on its replicas."""
    row = connection.execute("IDENTIFY_SYSTEM").fetchone()
    assert row is not None
    return str(row[0])


class Stream:
    """An open stream of one slot."""

    def __init__(self, connection: Connection, *, slot: str, publication: str, start: int) -> None:
        self._connection = connection
        self._pg = connection.pgconn
        self._confirmed = 0
        self._asked = self._heard = time.monotonic()
        self.reached = 0
        """The server has sent everything that was committed before this place."""
        options = f"proto_version '1', publication_names {literal(quote(publication))}"
        try:
            # A long tick confirms nothing for minutes; by default the server would disconnect after one.
            connection.execute("SET wal_sender_timeout = '5min'")
            self.system = identify(connection)
            connection.execute(
                f"START_REPLICATION SLOT {quote(slot)} LOGICAL {lsn(start)} ({options})".encode()
            )
        except BaseException:
            connection.close()
            raise
        self._pg.nonblocking = 0

    def receive(self, wait: float) -> list[bytes]:
        """The messages that have arrived; waits up to `wait` seconds for the first message or keep-alive."""
        messages: list[bytes] = []
        get, append = self._pg.get_copy_data, messages.append
        total = 0
        while len(messages) < _AT_ONCE and total < _AT_ONCE_BYTES:
            size, data = get(1)
            if size > 0:
                kind = data[0]
                if kind == _DATA:
                    total += size
                    append(bytes(data[_HEADER:]))
                elif kind == _ALIVE:
                    self._keep_alive(data)
                    if not messages:
                        break
            elif size == 0:
                if messages or not self._arrived(wait):
                    break
            else:
                self._ended()
        if messages:
            self._heard = time.monotonic()
        return messages

    def _arrived(self, wait: float) -> bool:
        """Whether bytes arrived in time.  Asks the server for its position once a second."""
        now = time.monotonic()
        if now - self._heard > _SILENCE:
            raise psycopg.OperationalError("the stream does not answer")
        if now - self._asked > 1:
            self.ask()
        ready, _, _ = select.select([self._pg.socket], [], [], wait)
        if ready:
            self._pg.consume_input()
        return bool(ready)

    def _keep_alive(self, data: memoryview) -> None:
        self._heard = time.monotonic()
        (self.reached,) = struct.unpack_from("!Q", data, 1)
        if data[17]:
            self._reply(ask=False)

    def _ended(self) -> None:
        result = self._pg.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(result)
        raise psycopg.OperationalError("the stream has ended")

    def confirm(self, upto: int) -> None:
        """Allow the server to remove its log before this place."""
        self._confirmed = max(self._confirmed, upto)
        self._reply(ask=False)

    def ask(self) -> None:
        """Ask the server for its position; the answer arrives among the next messages."""
        self._asked = time.monotonic()
        self._reply(ask=True)

    def _reply(self, *, ask: bool) -> None:
        place = self._confirmed
        self._pg.put_copy_data(struct.pack("!cQQQqB", b"r", place, place, place, 0, ask))
        self._pg.flush()

    def close(self) -> None:
        """End the stream."""
        self._connection.close()

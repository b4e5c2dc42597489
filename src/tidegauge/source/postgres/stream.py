"""The replication stream: the server's messages, and the place in the log up to which they were sent.

A thread receives messages while the gauge works on those before them, so that the server goes on decoding its
log meanwhile.
"""

from __future__ import annotations

import os
import select
import struct
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors, pq

from tidegauge.source.batch.names import literal, quote
from tidegauge.source.postgres.messages import NONE, Messages

if TYPE_CHECKING:
    from tidegauge.source.postgres.access import Connection

_DATA, _ALIVE = b"wk"
_HEADER: Final = 25
_AT_ONCE: Final = 8192
"""At most so many messages are handed over at a time."""
_AHEAD: Final = 32 << 20
"""So many bytes are received ahead, and one more message."""
_PAUSE: Final = 0.002
_GATHERED: Final = 0.02
"""Messages are handed over once no more have come for the first number of seconds, or after the second: few
large deliveries cost less than many small ones."""
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
    """An open stream of one slot.

    The thread alone reads from the connection.  Every use of the connection, to read or to write,
    holds `_talks`.  Messages and positions wait in `_arrived`, in the order of the stream.
    """

    def __init__(self, connection: Connection, *, slot: str, publication: str, start: int) -> None:
        self._connection = connection
        self._pg = connection.pgconn
        self._confirmed = 0
        self._asked = 0.0
        self._unanswered: float | None = None
        """When the server was asked for its position, if it has sent nothing since."""
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
        self._talks = threading.Lock()
        self._changed = threading.Condition()  # around a lock that the same thread may take again
        self._arrived: deque[tuple[Messages, int | None]] = deque()
        self._ahead = 0
        self._failed: BaseException | None = None
        self._closing = False
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="postgres-stream", daemon=True)
        self._thread.start()

    def receive(self, wait: float) -> Messages:
        """The messages that have arrived; waits up to `wait` seconds for the first message or keep-alive."""
        deadline = time.monotonic() + wait
        with self._changed:
            while not self._arrived:
                if self._failed is not None:
                    raise self._failed
                now = time.monotonic()
                if self._unanswered is not None and now - self._unanswered > _SILENCE:
                    raise psycopg.OperationalError("the stream does not answer")
                if now >= deadline:
                    return NONE
                if now - self._asked > 1:
                    self.ask()
                self._changed.wait(deadline - now)
            messages, reached = self._arrived.popleft()
            self._ahead -= len(messages.content)
            self._changed.notify()
        if reached is not None:
            self.reached = reached
        return messages

    def _listen(self) -> None:
        """Receive until the stream is closed or fails."""
        try:
            while self._room():
                with self._talks:
                    messages, reached, more = self._next()
                if len(messages) or reached is not None:
                    with self._changed:
                        self._unanswered = None
                        self._arrived.append((messages, reached))
                        self._ahead += len(messages.content)
                        self._changed.notify()
                if not more:
                    self._readable(None)
        except BaseException as error:  # noqa: BLE001  (the next call of `receive` raises it)
            with self._changed:
                self._failed = error
                self._changed.notify()

    def _room(self) -> bool:
        """Wait until more may be received ahead.  Returns False if the stream is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._ahead < _AHEAD)
            return not self._closing

    def _next(self) -> tuple[Messages, int | None, bool]:
        """Messages, the position that follows them if any, and whether there may be more without waiting."""
        found: list[memoryview] = []
        get, append = self._pg.get_copy_data, found.append
        total, reached, more = 0, None, True
        end = time.monotonic() + _GATHERED
        while len(found) < _AT_ONCE and total < _AHEAD:
            size, data = get(1)
            if size > 0:
                kind = data[0]
                if kind == _DATA:
                    total += size
                    append(data)
                elif kind == _ALIVE:
                    reached = self._keep_alive(data)
                    break
            elif size == 0:
                more = self._readable(_PAUSE if found else 0)
                if not more or time.monotonic() > end:
                    break
                self._pg.consume_input()
            elif found:
                break  # the next call ends the stream
            else:
                self._ended()
        return Messages.of(found, header=_HEADER) if found else NONE, reached, more

    def _readable(self, wait: float | None) -> bool:
        """Whether bytes have arrived; waits so many seconds, None: for as long as the stream is open."""
        ready, _, _ = select.select([self._pg.socket, self._woken], [], [], wait)
        return self._pg.socket in ready

    def _keep_alive(self, data: memoryview) -> int:
        (reached,) = struct.unpack_from("!Q", data, 1)
        if data[17]:
            self._reply(ask=False)
        return int(reached)

    def _ended(self) -> None:
        result = self._pg.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(result)
        raise psycopg.OperationalError("the stream has ended")

    def confirm(self, upto: int) -> None:
        """Allow the server to remove its log before this place."""
        self._confirmed = max(self._confirmed, upto)
        with self._talks:
            self._reply(ask=False)

    def ask(self) -> None:
        """Ask the server for its position; the answer arrives among the next messages."""
        self._asked = time.monotonic()
        with self._changed:
            if self._unanswered is None:
                self._unanswered = self._asked
        with self._talks:
            self._reply(ask=True)

    def _reply(self, *, ask: bool) -> None:
        place = self._confirmed
        self._pg.put_copy_data(struct.pack("!cQQQqB", b"r", place, place, place, 0, ask))
        self._pg.flush()

    def close(self) -> None:
        """End the stream."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify()
        os.write(self._wake, b"!")
        self._thread.join()
        os.close(self._wake)
        os.close(self._woken)
        self._connection.close()

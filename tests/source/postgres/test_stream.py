"""The stream on a connection that the test plays: what arrives,
in which order, and what becomes of errors."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import deque
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tidegauge.source.postgres import stream as streams
from tidegauge.source.postgres.messages import NONE, Messages
from tidegauge.source.postgres.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 60.0


class Played:
    """A connection of psycopg whose server is the test."""

    def __init__(self) -> None:
        self.here, self.there = socket.socketpair()
        self.here.setblocking(False)
        self.frames: deque[bytes] = deque()
        self.sent: list[bytes] = []
        self.taken = 0
        self.ended = False
        self.inside = threading.Lock()
        self.pgconn = SimpleNamespace(
            socket=self.here.fileno(), nonblocking=0, get_copy_data=self.get, consume_input=self.consume,
            put_copy_data=self.put, flush=lambda: None, get_result=lambda: None,
        )  # fmt: skip

    def execute(self, statement: object) -> Any:
        return SimpleNamespace(fetchone=lambda: ("the server",))

    def close(self) -> None:
        self.here.close()
        self.there.close()

    def deliver(self, *frames: bytes) -> None:
        self.frames.extend(frames)
        self.there.send(b"!" * len(frames))

    def end(self) -> None:
        self.ended = True
        self.there.send(b"!")

    @contextmanager
    def alone(self) -> Iterator[None]:
        assert self.inside.acquire(blocking=False), "two threads used the connection at once"
        try:
            yield
        finally:
            self.inside.release()

    def consume(self) -> None:
        with self.alone():
            self.here.recv(1 << 16)

    def get(self, asynchronous: int) -> tuple[int, memoryview]:
        assert asynchronous == 1, "a call that waits would keep the lock"
        with self.alone():
            if self.frames:
                frame = self.frames.popleft()
                self.taken += 1
                return len(frame), memoryview(frame)
            return (-1 if self.ended else 0), memoryview(b"")

    def put(self, data: bytes) -> None:
        with self.alone():
            self.sent.append(data)


def data(message: bytes) -> bytes:
    return b"w" + struct.pack("!QQq", 1, 2, 3) + message


def alive(reached: int, *, reply: bool = False) -> bytes:
    return b"k" + struct.pack("!Qq?", reached, 0, reply)


@pytest.fixture
def played() -> Iterator[Played]:
    yield (one := Played())
    one.close()


@contextmanager
def opened(played: Played) -> Iterator[Stream]:
    stream = Stream(played, slot="s", publication="p", start=7)  # type: ignore[arg-type]
    try:
        yield stream
    finally:
        stream.close()


def until(stream: Stream, count: int) -> list[bytes]:
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < deadline
        messages = stream.receive(0.2)
        found += [messages[n] for n in range(len(messages))]
    return found


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_messages_arrive_whole_and_in_order(played: Played) -> None:
    sent = [f"message {n}".encode() * (n % 5 + 1) for n in range(20_000)]
    with opened(played) as stream:
        played.deliver(*map(data, sent[:3]))
        assert until(stream, 3) == sent[:3]
        played.deliver(*map(data, sent[3:]))
        assert until(stream, len(sent) - 3) == sent[3:]


def test_a_position_counts_only_once_the_messages_before_it_are_handed_over(played: Played) -> None:
    with opened(played) as stream:
        played.deliver(data(b"one"), alive(50), data(b"two"), alive(90))
        wait_for(lambda: played.taken == 4)
        assert stream.reached == 0, "the thread has it, and the source has not received it"
        assert until(stream, 1) == [b"one"]
        assert stream.reached == 50
        assert until(stream, 1) == [b"two"]
        assert stream.reached == 90


def test_what_arrived_before_an_error_is_handed_over_first(played: Played) -> None:
    with opened(played) as stream:
        played.deliver(data(b"one"), data(b"two"))
        played.end()
        assert until(stream, 2) == [b"one", b"two"]
        for _ in range(2):
            with pytest.raises(psycopg.OperationalError, match="has ended"):
                until(stream, 1)


def test_no_more_is_received_ahead_than_fits(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_AHEAD", 1000)
    with opened(played) as stream:
        played.deliver(*[data(b"x" * 100)] * 200)
        wait_for(lambda: played.taken >= 8)
        time.sleep(0.1)
        assert played.taken < 30
        assert len(until(stream, 200)) == 200


def test_positions_are_asked_for_and_confirmed(played: Played) -> None:
    with opened(played) as stream:
        stream.confirm(40)
        stream.confirm(30)  # an older one confirms nothing
        stream.ask()
        played.deliver(alive(60, reply=True))
        wait_for(lambda: len(played.sent) == 4)
        assert [struct.unpack("!cQQQqB", one)[1] for one in played.sent] == [40] * 4
        assert [one[-1] for one in played.sent] == [0, 0, 1, 0]


def test_a_server_that_never_answers(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_SILENCE", 0.05)
    with opened(played) as stream:
        time.sleep(0.1)
        assert stream.receive(0) is NONE, "nothing was asked: silence means nothing"
        stream.ask()
        time.sleep(0.1)
        with pytest.raises(psycopg.OperationalError, match="does not answer"):
            stream.receive(0.2)
        played.deliver(alive(5))
        wait_for(lambda: played.taken == 1)
        stream.receive(PATIENCE)
        assert stream.reached == 5


def test_no_thread_outlives_its_stream(played: Played) -> None:
    before = threading.active_count()
    with opened(played) as stream:
        assert threading.active_count() == before + 1
        assert stream.receive(0) is NONE
    assert threading.active_count() == before
    stream.close()


def test_messages_together() -> None:
    parts = [Messages.of([b"hABC", b"hD"], header=1), NONE, Messages.of([b"EF", b"", b"G"])]
    whole = Messages.joined(parts)
    assert [whole[n] for n in range(len(whole))] == [b"ABC", b"D", b"EF", b"", b"G"]
    rest = whole.since(2)
    assert [rest[n] for n in range(len(rest))] == [b"EF", b"", b"G"]
    assert not Messages.joined([])

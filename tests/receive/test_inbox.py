"""tidegauge serve and tidegauge run, two processes and the folder between them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.people import EVERY, await_reading, releases
from tests.receive.door import RIGHT, TOKEN
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegauge.model.reading import Reading

DECLARATION = """
[source]
kind = "debezium"
inbox = "inbox"
token = "env:INBOX_TOKEN"
table = "people"
schema = "public"
entry = "id"
columns = { id = "BIGINT", city = "VARCHAR", age = "BIGINT" }
""" + releases()
VERB = [sys.executable, "-c", "from tidegauge.cli import main; main()"]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    (tmp_path / "tidegauge.toml").write_text(DECLARATION)
    return tmp_path


def start(world: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*VERB, *words], cwd=world, env={**os.environ, "INBOX_TOKEN": TOKEN, **environment}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@contextmanager
def served(world: Path, *, how: int = signal.SIGTERM) -> Iterator[str]:
    process = start(world, "serve", "--listen", "127.0.0.1:0")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "Receiving change events at http://127.0.0.1:" in line, process.communicate()[1]
    try:
        yield line.split(" at ")[1].split(" ")[0]
    finally:
        process.send_signal(how)
        out = "".join(process.communicate())
        assert process.returncode in (0, -how), out
        assert TOKEN not in out


class Database:
    """A table and its changes as Debezium Server posts them: in order, one event a request, with retries."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self.lsn = 0

    def change(self, rng: random.Random) -> list[dict[str, Any]]:
        key, kind = rng.randrange(200), rng.random()
        old = self.rows.get(key)
        if old is not None and kind < 0.3:
            del self.rows[key]
            return [self.event("d", {"id": key, "city": None, "age": None}, None)]
        self.rows[key] = {"id": key, "city": rng.choice(["north", "south"]), "age": rng.randrange(100)}
        return [self.event("c" if old is None else "u", None, self.rows[key])]

    def event(self, op: str, before: Any, after: Any) -> dict[str, Any]:
        self.lsn += 8
        source = {
            "connector": "postgresql",
            "version": "3.2.0.Final",
            "name": "db",
            "ts_ms": time.time_ns() // 10**6,
            "ts_us": time.time_ns() // 1000,
            "snapshot": "false",
            "db": "postgres",
            "schema": "public",
            "table": "people",
            "sequence": f'["{self.lsn - 8}","{self.lsn}"]',
            "txId": self.lsn,
            "lsn": self.lsn,
        }
        return {"before": before, "after": after, "source": source, "op": op, "ts_ms": source["ts_ms"]}

    @property
    def truth(self) -> list[float]:
        cities = [row["city"] for row in self.rows.values()]
        return [sum(row["age"] for row in self.rows.values()), cities.count("north"), cities.count("south")]


def insistent(address: str, body: str) -> None:
    """What a sink does: send again until it is acknowledged."""
    for _ in range(100):
        try:
            answer = httpx.post(address, content=body, headers=RIGHT)
        except httpx.TransportError:
            time.sleep(0.05)
            continue
        assert answer.status_code == 204, answer.text
        return
    raise AssertionError("never acknowledged")


def settled(gauge: Gauge, database: Database) -> list[Reading]:
    """All readings, of which the latest are what the database itself says."""
    for _ in range(2):
        await_reading()
        list(gauge.run())
    readings = gauge.published()
    newest = max(reading.time for reading in readings)
    assert [r.value for r in readings if r.time == newest] == pytest.approx(database.truth, abs=0.1)
    return readings


def test_posts_while_the_loop_is_killed(world: Path) -> None:
    rng, database = random.Random(5), Database()
    with served(world) as address:
        stop = threading.Event()
        sent = 0

        def post() -> None:
            nonlocal sent
            before: list[str] = []
            while not stop.is_set() or sent <= 50:  # however slow the machine is
                events = [
                    json.dumps(one) for _ in range(rng.choice([1, 1, 1, 7])) for one in database.change(rng)
                ]
                body = events[0] if len(events) == 1 else f"[{','.join(events)}]"
                insistent(address, body)
                before.append(body)
                if rng.random() < 0.2:  # a lost answer: the last ones come again, in their order
                    for old in before[-3:]:
                        insistent(address, old)
                sent += 1

        sender = threading.Thread(target=post)
        sender.start()
        try:
            for round_ in range(4):
                process = start(world, "run", "--log", "json")
                assert process.stderr is not None
                assert "started" in process.stderr.readline()
                time.sleep(rng.uniform(0.1, 1))
                process.send_signal(signal.SIGTERM if round_ % 2 else signal.SIGKILL)
                said = process.communicate()[1]
                assert process.returncode == (0 if round_ % 2 else -signal.SIGKILL), said
        finally:
            stop.set()
            sender.join()
        assert sent > 50
        gauge = Gauge.from_file(world / "tidegauge.toml")
        readings = settled(gauge, database)
        assert len({(r.release, r.time, str(r.group)) for r in readings}) == len(readings), "no window twice"
        assert gauge.verify().readings == len(readings)
    written = b"".join(p.read_bytes() for p in world.rglob("*") if p.is_file() and p.suffix != ".toml")
    assert TOKEN.encode() not in written
    assert all(p.stat().st_mode & 0o077 == 0 for p in (world / "inbox").rglob("*"))


def test_the_receiver_is_killed_too(world: Path) -> None:
    """What was acknowledged stays, what was not comes again; names of files only ever grow."""
    rng, database = random.Random(6), Database()
    gauge = Gauge.from_file(world / "tidegauge.toml")
    for _ in range(3):
        with served(world, how=signal.SIGKILL) as address:
            bodies = [json.dumps(one) for _ in range(20) for one in database.change(rng)]
            for body in [*bodies, *bodies[-4:]]:
                insistent(address, body)
        newest = max((world / "inbox").glob("*.jsonl"))
        with newest.open("ab") as torn:
            torn.write(bodies[-1].encode())  # a line that was not written to its end
        list(gauge.run())
    for file in (world / "inbox").glob("*.jsonl"):
        file.unlink()  # somebody tidied up what was read long ago
    with served(world) as address:
        for one in database.change(rng):
            insistent(address, json.dumps(one))
    settled(gauge, database)


def kept(world: Path) -> list[bytes]:
    return [
        line for file in sorted((world / "inbox").glob("*.jsonl")) for line in file.read_bytes().splitlines()
    ]


GARBAGE = [
    b"sesame",
    b"{",
    b"[1]",
    b"[[]]",
    b'{"op": "c"}',
    b'{"a": 1}',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"op":"c","source":[],"after":{}}',
    b'{"op":"c","source":{},"after":{"id":1}}',
    b'{"op":["c"],"source":{},"after":{}}',
    b'{"op":"c","source":{"ts_us":"x"},"after":{"id":1}}',
    b'{"op":"c","source":{"ts_us":1},"after":"sesame"}',
    b'{"op":"c","source":{"ts_us":1e300},"after":{"id":1}}',
    b'{"op":"u","source":{"ts_us":1},"after":null}',
    b'{"op":"d","source":{"ts_us":1},"before":null}',
    b'{"op":"c","source":{"ts_us":1},"after":{"id":1}}',
    b'{"op":"c","source":{"ts_us":1,"connector":"postgresql","sequence":"sesame"},"after":{"id":1}}',
    b'{"op":"c","source":{"ts_us":1,"connector":"postgresql","sequence":[1,2]},"after":{"id":1}}',
    b'{"op":"c","source":{"ts_us":1,"connector":"mysql","file":"b","pos":"sesame"},"after":{"id":1}}',
    b'{"schema":{"fields":[1]},"payload":{"op":"c","source":{"ts_us":1},"after":{"id":1}}}',
    b'{"schema":{"fields":[{"field":"after","fields":["x"]}]},'
    b'"payload":{"op":"c","source":{"ts_us":1},"after":{"id":1}}}',
]


def test_what_is_refused_is_not_kept(world: Path) -> None:
    good = json.dumps(Database().event("c", None, {"id": 1, "city": "north", "age": 1}))
    with served(world) as address:
        for headers in (
            {},
            {"authorization": "Bearer x"},
            {"authorization": TOKEN},
            {"webhook-signature": "v1,x"},
        ):
            assert httpx.post(address, content=good, headers=headers).status_code == 401
        for body in [*GARBAGE, f"[{good}, 1]".encode()]:
            answer = httpx.post(address, content=body, headers=RIGHT)
            assert 400 <= answer.status_code < 500, (body[:80], answer.status_code)
            assert "sesame" not in answer.text
        large = b"[" + b" " * (17 << 20) + b"]"
        assert _posted(address, large) == 413
        assert _posted(address, iter([large[: 1 << 20]] * 17)) == 413, "chunk by chunk, its length untold"
        assert httpx.get(address, headers=RIGHT).status_code == 405
        assert httpx.get(address.removesuffix("debezium")).status_code == 404
        assert kept(world) == []
        for nothing in (b"", b"null", b"default", b'{"ts_ms": 1}', b"[]"):
            assert httpx.post(address, content=nothing, headers=RIGHT).status_code == 204
        assert kept(world) == []
        assert httpx.post(address, content=good, headers=RIGHT).status_code == 204
        assert len(kept(world)) == 1
        other = start(world, "serve", "--listen", "127.0.0.1:0")
        assert "another process receives events into this inbox" in other.communicate()[1]
        assert other.returncode == 2


def _posted(address: str, body: Any) -> int:
    """The answer's code; a server may close the door on what it will not read."""
    try:
        return httpx.post(address, content=body, headers=RIGHT, timeout=600).status_code
    except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
        return 413


@pytest.mark.parametrize(
    ("words", "environment", "finding"),
    [
        ((), {"INBOX_TOKEN": ""}, "source.token: the environment variable INBOX_TOKEN is not set"),
        ((), {"INBOX_TOKEN": "ü"}, "source.token: a header cannot carry it"),
        (("--listen", "8321"), {}, "--listen: must be HOST:PORT"),
        (("--listen", "127.0.0.1:99999"), {}, "--listen: must be HOST:PORT"),
        (("--listen", "192.0.2.1:1"), {}, "--listen: cannot listen on this address"),
    ],
)
def test_what_serve_refuses(
    world: Path, words: tuple[str, ...], environment: dict[str, str], finding: str
) -> None:
    process = start(world, "serve", *words, **environment)
    said = process.communicate(timeout=600)[1]
    assert finding in said
    assert process.returncode == 2
    assert not (world / "inbox").exists()


def test_a_source_without_an_inbox(world: Path) -> None:
    text = DECLARATION.replace('inbox = "inbox"\ntoken = "env:INBOX_TOKEN"', 'path = "x"')
    (world / "tidegauge.toml").write_text(text)
    process = start(world, "serve", "--inbox")
    assert "is not declared: serve receives change events" in process.communicate(timeout=600)[1]
    assert process.returncode == 2


def test_a_replay_is_not_counted_twice(world: Path) -> None:
    query = "SELECT COUNT(*) FROM changes(people) WHERE after.age >= 0"
    flow = f'[release.moves]\nsql = "{query}"\nclip = 1000\nevery = "{EVERY}"\n'
    (world / "tidegauge.toml").write_text(DECLARATION + flow)
    database, gauge = Database(), Gauge.from_file(world / "tidegauge.toml")
    list(gauge.run())
    with served(world) as address:
        sent: list[str] = []
        for number in range(30):
            after = {"id": 1, "city": "north" if number % 2 else "south", "age": number}
            sent.append(json.dumps(database.event("u" if number else "c", None, after)))
            for body in sent[-4:]:
                insistent(address, body)
        for body in sent[-3:]:  # and once more, each in a tick of its own
            await_reading()
            list(gauge.run())
            insistent(address, body)
    await_reading()
    list(gauge.run())
    assert sum(r.value or 0 for r in gauge.published("moves")) == pytest.approx(30, abs=0.1)

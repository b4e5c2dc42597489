"""What the inbox acknowledges counts, once; what would not count is refused, and the operator sees it."""

from __future__ import annotations

import base64
import hmac
import json
import random
import sqlite3
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.people import await_reading, releases
from tests.receive.door import COLUMNS, RIGHT, SECRET, change, delivered, listening, people, row
from tidegauge.errors import SourceError, StoreCorrupt
from tidegauge.receive.gatekeeper import Gatekeeper
from tidegauge.run.gauge import Gauge
from tidegauge.source.debezium.events import event
from tidegauge.source.debezium.inbox import Inbox
from tidegauge.source.debezium.index import KEPT, OutOfOrder, refused
from tidegauge.source.debezium.log import Restored
from tidegauge.source.debezium.rows import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOUR = 3_600_000_000
SCHEMA = [{"field": name, "type": "string"} for name in COLUMNS]


def written(*events: dict[str, Any]) -> bytes:
    return json.dumps(events[0] if len(events) == 1 else list(events)).encode()


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def inbox(tmp_path: Path, clock: Clock) -> Iterator[Inbox]:
    with closing(Inbox(tmp_path, people(tmp_path).reading, now=clock)) as inbox:
        yield inbox


def test_fifty_posters_a_thousand_inserts(tmp_path: Path) -> None:
    """In any order, some twice, while a gauge reads: each counts once."""
    rng = random.Random(1)
    events = [change("c", row(number), 8 * number) for number in range(1, 1001)]
    rng.shuffle(events)
    read: list[dict[str, Any]] = []
    position = None
    with listening(tmp_path) as (host, port):
        clients = [httpx.Client(timeout=60, headers=RIGHT) for _ in range(50)]

        def poster(number: int) -> list[int]:
            address, client = f"http://{host}:{port}/debezium", clients[number]
            mine = [one for one in events[number::50] for _ in range(2 if number % 7 == 0 else 1)]
            return [client.post(address, content=written(one)).status_code for one in mine]

        with ThreadPoolExecutor(50) as pool:
            posting = [pool.submit(poster, number) for number in range(50)]
            for _ in range(5):
                time.sleep(0.2)
                found, position = delivered(tmp_path, position)
                read += found
            assert {answer for one in posting for answer in one.result()} == {204}
        for client in clients:
            client.close()
    found, _ = delivered(tmp_path, position)
    assert sorted(int(one["entry"]) for one in [*read, *found]) == list(range(1, 1001))
    assert refused(tmp_path) == dict.fromkeys(refused(tmp_path), 0)


class TestRepetitions:
    def test_by_what_was_received_and_not_by_place(self, inbox: Inbox, tmp_path: Path, clock: Clock) -> None:
        events = [
            change("c", row(n), place, at=clock.now) for n, place in [(1, 90), (2, 10), (3, 50), (4, 50)]
        ]
        for _ in range(2):
            inbox.append(written(*events))
            for one in reversed(events):
                inbox.append(written(one))
        assert [one["entry"] for one in delivered(tmp_path)[0]] == ["1", "2", "3", "4"]

    def test_after_a_restart_and_after_files_are_gone(self, tmp_path: Path, clock: Clock) -> None:
        events = [change("c", row(n), n, at=clock.now) for n in range(20)]
        position = None
        found = []
        for _ in range(3):
            with closing(Inbox(tmp_path, people(tmp_path).reading, segment=100, now=clock)) as inbox:
                for one in events:
                    inbox.append(written(one))
            rows, position = delivered(tmp_path, position)
            found += rows
            people(tmp_path).acknowledge(position)
        assert [one["entry"] for one in found] == [str(n) for n in range(20)]

    def test_a_snapshot_that_is_sent_again_undoes_nothing(
        self, inbox: Inbox, tmp_path: Path, clock: Clock
    ) -> None:
        first, later = change("r", row(1), 5, at=clock.now), change("u", row(1, age=2), 6, at=clock.now)
        again = change("r", row(1, age=3), 5, at=clock.now + HOUR)  # at one position, but another snapshot
        for one in (first, later, first, again, later):
            inbox.append(written(one))
        nowhere = change("r", row(2), 5, at=clock.now, sequence=None)
        inbox.append(written(nowhere, nowhere))
        assert [one["after"]["age"] for one in delivered(tmp_path)[0]] == [1, 2, 3, 1]

    def test_a_changed_key_and_many_rows_at_one_place(
        self, inbox: Inbox, tmp_path: Path, clock: Clock
    ) -> None:
        events = [
            change("d", None, 5, before={"id": 1}, at=clock.now), change("c", row(2), 5, at=clock.now),
            change("c", row(3), 5, at=clock.now), change("t", None, 6, at=clock.now),
            change("t", None, 6, at=clock.now, table="other"),
        ]  # fmt: skip
        for _ in range(2):
            inbox.append(written(*events))
        assert [one["entry"] for one in delivered(tmp_path)[0]] == ["1", "2", "3", None]

    def test_a_crash_between_the_file_and_the_index(self, tmp_path: Path, clock: Clock) -> None:
        inbox = Inbox(tmp_path, people(tmp_path).reading, now=clock)
        events = [change("c", row(n), n, at=clock.now) for n in range(4)]
        inbox.append(written(events[0]))
        newest = max(tmp_path.glob("*.jsonl"))
        with newest.open("ab") as file:  # written, and read by the gauge, but never acknowledged
            file.write(written(events[1]) + b"\n" + written(events[2]) + b"\n" + written(events[3])[:50])
        found, position = delivered(tmp_path)
        inbox.close()
        with closing(Inbox(tmp_path, people(tmp_path).reading, now=clock)) as inbox:
            for one in events:
                inbox.append(written(one))
        assert [one["entry"] for one in found + delivered(tmp_path, position)[0]] == ["0", "1", "2", "3"]

    @pytest.mark.parametrize("cut", [0, 10, 250, 500])
    def test_a_write_that_fails_in_the_middle(
        self, inbox: Inbox, tmp_path: Path, clock: Clock, cut: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import os

        events = [change("c", row(n), n, at=clock.now) for n in range(4)]
        inbox.append(written(events[0]))

        def full(file: int, data: bytes) -> None:
            os.write(file, data[:cut])
            raise OSError(28, "no space")

        with monkeypatch.context() as patched:
            patched.setattr("tidegauge.source.debezium.inbox._write", full)
            for _ in range(2):
                with pytest.raises(OSError, match="no space"):
                    inbox.append(written(*events))
        found, position = delivered(tmp_path)
        inbox.append(written(*events))
        assert [one["entry"] for one in found + delivered(tmp_path, position)[0]] == ["0", "1", "2", "3"]

    def test_an_index_that_cannot_be_written(
        self, inbox: Inbox, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The index fails after the event is in the file and may have been read; the event counts once."""
        events = [change("c", row(n), n, at=clock.now) for n in range(3)]

        def fail(*_: object) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        for name in ("commit", "begin"):
            with monkeypatch.context() as patched:
                patched.setattr(inbox._index, name, fail)
                for _ in range(2):
                    with pytest.raises(OSError, match="index cannot be written"):
                        inbox.append(written(*events))
        found, position = delivered(tmp_path)
        for _ in range(2):
            inbox.append(written(*events))
        assert [one["entry"] for one in found + delivered(tmp_path, position)[0]] == ["0", "1", "2"]

    def test_what_is_older_than_the_index_remembers_is_refused(self, tmp_path: Path, clock: Clock) -> None:
        old, new = (change("u", row(1, age=n), n, at=clock.now) for n in (1, 2))
        with closing(Inbox(tmp_path, people(tmp_path).reading, now=clock)) as inbox:
            inbox.append(written(old, new))
            clock.now += KEPT + 1
        with (
            closing(Inbox(tmp_path, people(tmp_path).reading, now=clock)) as inbox,
            pytest.raises(OutOfOrder),
        ):
            inbox.append(written(old))
        assert len(delivered(tmp_path)[0]) == 2

    def test_files_of_earlier_versions(self, tmp_path: Path, clock: Clock) -> None:
        """Their events may be repeated in them; the stored position says what was read."""
        events = [change("c", row(n), n, at=clock.now + n) for n in range(1, 6)]
        lines = [written(one) + b"\n" for one in events]
        (tmp_path / "000000000000001.jsonl").write_bytes(b"".join([*lines[:3], *lines[1:4]]))
        place = len(b"".join(lines[:2]))
        last = event(lines[1])
        assert last is not None
        content = json.dumps([last.kind, last.before, last.after], sort_keys=True).encode()
        former = {"log": "postgresql", "place": [2, 2], "seen": [sha256(content).hexdigest()[:16]]}
        position = json.dumps(
            {"file": "000000000000001.jsonl", "offset": place, "clock": clock.now + 2, "replays": former}
        )
        with closing(Inbox(tmp_path, people(tmp_path).reading, now=clock)) as inbox:
            inbox.append(written(*events))
        found, _ = delivered(tmp_path, position)
        assert [one["entry"] for one in found] == ["3", "4", "5"]

    def test_an_index_that_is_damaged(self, tmp_path: Path) -> None:
        (tmp_path / "index.db").write_bytes(b"sesame" * 1000)
        with pytest.raises(StoreCorrupt, match="Nothing was received"):
            Inbox(tmp_path, people(tmp_path).reading)
        with pytest.raises(StoreCorrupt):
            refused(tmp_path)


class TestOrder:
    def test_a_row_goes_forward_only(self, inbox: Inbox, tmp_path: Path, clock: Clock) -> None:
        inbox.append(written(change("u", row(1, age=2), 20, at=clock.now)))
        for late in (
            change("c", row(1), 10, at=clock.now),
            change("d", None, 15, before={"id": 1}, at=clock.now),
        ):
            with pytest.raises(OutOfOrder, match="later change of the same row"):
                inbox.append(written(change("c", row(9), 5, at=clock.now), late))
        inbox.append(written(change("c", row(2), 10, at=clock.now)))
        assert [one["entry"] for one in delivered(tmp_path)[0]] == ["1", "2"]
        assert refused(tmp_path)["refused_out_of_order"] == 2

    def test_a_truncation_is_a_change_of_every_row(self, inbox: Inbox, clock: Clock) -> None:
        inbox.append(written(change("t", None, 20, at=clock.now)))
        with pytest.raises(OutOfOrder):
            inbox.append(written(change("c", row(1), 10, at=clock.now)))
        inbox.append(written(change("c", row(1), 30, at=clock.now)))
        with pytest.raises(OutOfOrder):
            inbox.append(written(change("t", None, 25, at=clock.now)))

    def test_an_event_dated_ahead_holds_nothing_back(
        self, inbox: Inbox, tmp_path: Path, clock: Clock
    ) -> None:
        places = [
            (1, 40, 0),
            (2, 30, HOUR),
            (3, 50, HOUR),
            (4, 20, 0),
            (5, 60, -HOUR),
            (6, 10, 0),
            (7, 70, 0),
        ]
        for number, place, ahead in places:
            inbox.append(written(change("c", row(number), place, at=clock.now + ahead)))
        found, _ = delivered(tmp_path)
        assert [(one["entry"], one["time"] - clock.now) for one in found] == [
            (str(n), a) for n, _, a in places
        ]


class TestARestoredDatabase:
    def begun(self, inbox: Inbox, clock: Clock) -> None:
        for number in range(100):
            inbox.append(written(change("c", row(number), 1000 + number, at=clock.now + number)))

    def test_is_refused(self, inbox: Inbox, tmp_path: Path, clock: Clock) -> None:
        self.begun(inbox, clock)
        clock.now += HOUR
        for number in (500, 501):
            with pytest.raises(Restored, match=r"restored from a backup.*another topic.prefix"):
                inbox.append(written(change("c", row(number), number, at=clock.now)))
        inbox.append(written(change("c", row(502), 502, at=clock.now - HOUR)))  # late, but of the same log
        assert len(delivered(tmp_path)[0]) == 101
        assert refused(tmp_path)["refused_after_a_restore"] == 2

    def test_even_at_a_place_that_was_there(self, inbox: Inbox, clock: Clock) -> None:
        self.begun(inbox, clock)
        with pytest.raises(Restored):
            inbox.append(written(change("c", row(7), 1007, at=clock.now + 60_000_000)))

    def test_goes_on_under_another_name(self, inbox: Inbox, tmp_path: Path, clock: Clock) -> None:
        self.begun(inbox, clock)
        clock.now += HOUR
        inbox.append(
            written(
                change("r", row(1), 500, at=clock.now, name="db2"),
                change("c", row(500), 501, at=clock.now, name="db2"),
            )
        )
        assert len(delivered(tmp_path)[0]) == 102

    def test_one_odd_stamp_decides_nothing_about_others(
        self, inbox: Inbox, tmp_path: Path, clock: Clock
    ) -> None:
        inbox.append(written(change("c", row(1), 100, at=clock.now - 24 * HOUR)))
        inbox.append(written(*(change("c", row(n), 100 + n, at=clock.now) for n in (2, 3))))
        inbox.append(written(change("c", row(4), 50, at=clock.now)))
        assert len(delivered(tmp_path)[0]) == 4


def poisons() -> dict[str, bytes]:
    """Events that a gauge could not use, or not without doubt."""
    good = change("c", row(1), 8)

    def changed(**to: Any) -> bytes:
        return json.dumps(good | to).encode()

    def described(fields: Any, **values: Any) -> bytes:
        schema = {"type": "struct", "fields": [{"field": "after", "fields": fields}]}
        return json.dumps({"schema": schema, "payload": good | {"after": row(1, **values)}}).encode()

    decimal = {"field": "paid", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}
    exact = [{"field": "id", "type": "int64"}, decimal | {"parameters": {"scale": "2"}}]
    any_decimal = [{"field": "paid", "type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}]
    deep: dict[str, bytes] = {
        f"nested {depth} {opening!r}": json.dumps(good).encode()[:-1]
        + b',"x":'
        + opening * depth
        + b"1"
        + closing * depth
        + b"}"
        for depth in (70, 500, 980, 2000, 100_000)
        for opening, closing in ((b"[", b"]"), (b'{"a":', b"}"))
    }
    text = json.dumps(good).encode()
    return deep | {
        "a lone surrogate in a value": text.replace(b'"north"', b'"\\ud800"'),
        "a lone low surrogate": text.replace(b'"north"', b'"a\\uDFFFb"'),
        "a surrogate in a key": text.replace(b'"city"', b'"\\udc00"'),
        "a surrogate in the connector": text.replace(b'"name": "db"', b'"name": "\\udbff"'),
        "bytes that are not UTF-8": text.replace(b"north", b"\xff\xfe"),
        "UTF-16": json.dumps(good).encode("utf-16"),
        "NaN": text.replace(b'"age": 1', b'"age": NaN'),
        "Infinity": text.replace(b'"age": 1', b'"age": -Infinity'),
        "1e400": text.replace(b'"age": 1', b'"age": 1e400'),
        "a number of 5,000 digits": text.replace(b'"age": 1', b'"age": ' + b"7" * 5000),
        "a key twice": text.replace(b'"op": "c"', b'"op": "c", "op": "d"'),
        "a column twice": text.replace(b'"age": 1', b'"age": 1, "age": 2'),
        "no key": changed(after={"city": "north"}),
        "a column less": changed(after={"id": 1, "city": "north"}),
        "a key that is a list": changed(after=row([1])),
        "a key that is an object": changed(after=row({"a": 1})),
        "a row that is a list": changed(after=[1]),
        "a row that is text": changed(after="north"),
        "no row": changed(after=None),
        "an unknown operation": changed(op="x"),
        "an operation that is a list": changed(op=["c"]),
        "a source that is a list": changed(source=[1]),
        "no table": json.dumps(change("c", row(1), 8, table=None)).encode(),
        "a table that is a number": json.dumps(change("c", row(1), 8, table=7)).encode(),
        "a time that is true": json.dumps(change("c", row(1), 8, ts_us=True)).encode(),
        "a time beyond time": json.dumps(change("c", row(1), 8, ts_us=10**30)).encode(),
        "a decimal that is not base64": described(exact, paid="*!"),
        "a decimal that is a number": described(exact, paid=7),
        "a decimal that is an object": described(any_decimal, paid={"value": "AA=="}),
        "a decimal with a scale of text": described(any_decimal, paid={"scale": "x", "value": "AA=="}),
        "a decimal with a scale beyond": described(any_decimal, paid={"scale": 10**12, "value": "AA=="}),
        "a decimal without a scale": described([decimal]),
        "a decimal whose scale is text": described([decimal | {"parameters": {"scale": "x"}}]),
        "a decimal whose scale is a list": described([decimal | {"parameters": {"scale": []}}]),
        "a decimal whose parameters are a list": described([decimal | {"parameters": [2]}]),
        "a decimal whose precision is text": described(
            [decimal | {"parameters": {"scale": "2", "connect.decimal.precision": "many"}}]
        ),
        "a decimal beyond decimals": changed(after=row(1, paid="1e1000000")),
        "fields that are numbers": described([1]),
        "fields that are text": described("id"),
        "a field without a name": described([{"type": "int64"}]),
        "a field whose name is a list": described([{"field": ["id"]}]),
        "a field whose type is a list": described([{"field": "id", "type": ["int64"]}]),
        "a field whose meaning is an object": described([{"field": "id", "name": {"a": 1}}]),
        "a field twice": described([SCHEMA[0], SCHEMA[0]]),
        "a schema that is text": json.dumps({"schema": "sesame", "payload": good}).encode(),
        "a schema whose fields are text": json.dumps({"schema": {"fields": "x"}, "payload": good}).encode(),
        "a date that is text": described([{"field": "age", "name": "io.debezium.time.Date"}], age="sesame"),
        "an unwrapped row with a status": b'{"id": 1, "status": "BEGINNING", "city": "north"}',
        "an unwrapped row with a status that begins": b'{"id": 1, "status": "BEGIN", "city": "north"}',
        "nothing at all": b"{}",
        "another connector": json.dumps(change("c", row(1), 8, connector="oracle")).encode(),
    }  # fmt: skip


PLACES: list[Any] = [
    "sesame",
    "[1e999, 1]",
    '["1"]',
    '["-1", "2"]',
    '["1", "²"]',
    "[1.5, 2]",
    '["1", true]',
    '["1", null]',
    f'["{2**64}", "1"]',
    '["1", "' + "9" * 400 + '"]',
    "[" * 250,
    [1, 2],
    {"a": 1},
    7,
    True,
    '{"a": 1}',
    "null",
    '["1", "1_0"]',
]
OTHERS: list[dict[str, Any]] = [
    *({"connector": "mysql", "file": "b.1", "pos": pos} for pos in ["sesame", -1, 1.5, [], 2**64, True, "²"]),
    *({"connector": "mysql", "file": file, "pos": 1} for file in ["", [], 7, "x" * 300, {}]),
    {"connector": "mysql", "file": "b.1", "pos": 1, "row": {}},
    {"connector": "mysql", "file": "b.1", "pos": 1, "server_id": []},
    *({"connector": "sqlserver", "commit_lsn": lsn} for lsn in ["sesame", 7, [], "1:2", "g:1:1", ":" * 99]),
    {"connector": "sqlserver", "commit_lsn": "1:2:3", "change_lsn": 7},
    {"connector": ["postgresql"]},
    {"name": ["db"]},
    {"name": "x" * 300},
]


def test_poison_is_refused_at_the_door_and_counted(tmp_path: Path) -> None:
    bodies = poisons()
    bodies |= {f"place {place!r}"[:60]: written(change("c", row(1), 8, sequence=place)) for place in PLACES}
    bodies |= {f"source {one!r}"[:60]: written(change("c", row(1), 8, **one)) for one in OTHERS}
    good = change("c", row(2), 16)
    with listening(tmp_path) as (host, port), httpx.Client(headers=RIGHT, timeout=30) as client:
        for number, (name, body) in enumerate(bodies.items(), 1):
            answer = client.post(f"http://{host}:{port}/debezium", content=body)
            assert answer.status_code == 422, (name, answer.status_code, answer.text)
            assert "sesame" not in answer.text
            assert "north" not in answer.text
            assert refused(tmp_path)["refused_at_the_door"] == number
        listed = client.post(
            f"http://{host}:{port}/debezium",
            content=b"[" + written(good) + b"," + written({"op": "c"}) + b"]",
        )
        assert (listed.status_code, "event 2 of the request" in listed.text) == (422, True)
        assert delivered(tmp_path)[0] == []
        assert client.post(f"http://{host}:{port}/debezium", content=written(good)).status_code == 204
    assert [one["entry"] for one in delivered(tmp_path)[0]] == ["2"]


def test_values_that_are_odd_but_can_be_used(tmp_path: Path, inbox: Inbox, clock: Clock) -> None:
    odd = [
        row(1, city="\0"),
        row(2, city="é\U0001f600"),
        row(3, age=10**30),
        row(4, age="x"),
        row(5, paid="NaN"),
        row(6, paid="x"),
        row(7, at=-1),
        row(8, at=86_400_000_000),
        row(9, at=10**40),
        row(10, age=1.5),
        row(11, city={"a": [1]}),
        row(12, city="x" * 1_000_000),
        row(13, age=True),
        row("x\ny"),
        row(""),
        row(None),
        row(1.5),
        row(True),
        row("é"),
    ]
    for number, one in enumerate(odd):
        inbox.append(written(change("c", one, number, at=clock.now)))
    assert len(delivered(tmp_path)[0]) == len(odd)


DECLARATION = """
[source]
kind = "debezium"
{where}
table = "people"
schema = "public"
entry = "id"
columns = {{ id = "BIGINT", city = "VARCHAR", age = "BIGINT", paid = "DECIMAL(12,2)", at = "TIME" }}
{releases}
[release.paid]
sql = "SELECT SUM(paid) FROM people WHERE at < '12:00:00'"
bounds.paid = [0, 1000]
every = "250 milliseconds"
"""
INBOX = 'inbox = "in"\ntoken = "env:INBOX_TOKEN"'


def test_run_sets_aside_what_an_earlier_door_let_in(tmp_path: Path) -> None:
    """Each bad event alone, in a folder for the operator; the others are counted."""
    (tmp_path / "tidegauge.toml").write_text(DECLARATION.format(where=INBOX, releases=releases()))
    folder = tmp_path / "in"
    folder.mkdir()
    bad = [body for name, body in poisons().items() if "connector" not in name and b"\n" not in body]
    good = [written(change("c", row(number), 8 * number)) for number in range(1, len(bad) + 1)]
    lines = [line for pair in zip(bad, good, strict=True) for line in pair]
    (folder / "000000000000001.once.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    gauge = Gauge.from_file(tmp_path / "tidegauge.toml")
    for _ in range(2):
        list(gauge.run())
        await_reading()
    list(gauge.run())
    newest = [gauge.published(name)[-1].value for name in ("ages", "paid")]
    assert newest == pytest.approx([len(good), 1.5 * len(good)], abs=0.1)
    assert [one.value for one in gauge.published("by_city")][-2:] == pytest.approx([len(good), 0], abs=0.1)
    assert gauge.status().operator_only["quarantined"] == len(bad)
    aside = tmp_path / "tidegauge.quarantine"
    assert stat.S_IMODE(aside.stat().st_mode) == 0o700
    (noted,) = aside.iterdir()
    assert stat.S_IMODE(noted.stat().st_mode) == 0o600
    records = [json.loads(line) for line in noted.read_text().splitlines()]
    assert all(one["event"] and "north" not in one["reason"] for one in records)
    assert [check.ok for check in gauge.doctor() if check.name == "quarantine"] == [False]


def test_run_uses_every_odd_value_that_the_door_lets_in(tmp_path: Path) -> None:
    (tmp_path / "tidegauge.toml").write_text(DECLARATION.format(where=INBOX, releases=releases()))
    values: dict[str, list[Any]] = {
        "city": ["\0", "north\0", {"a": 1}, True, 7, None, "", "x" * 100_000],
        "age": [10**30, -(10**30), 1.5, "7", "x", True, None, {}, 1e308],
        "paid": ["NaN", "sNaN", "-Infinity", "1e99", 1e300, None, True, "x", [1], 10**60],
        "at": [-1, 2**70, "25:00", "11:00", None, 1.5, {}],
    }
    folder, count = tmp_path / "in", 0
    reading = Reading("people", schema="public", key="id", columns=COLUMNS)
    with closing(Inbox(folder, reading)) as inbox:
        for name, odd in values.items():
            for value in odd:
                count += 1
                inbox.append(
                    written(change("c", row(count, **{name: value}), 8 * count, at=time.time_ns() // 1000))
                )
        inbox.append(written(change("c", row(1000, city="south"), 8000, at=-(2**61))))
        inbox.append(written(change("c", row(1001, city="south"), 8008, at=2**61)))
    gauge = Gauge.from_file(tmp_path / "tidegauge.toml")
    for _ in range(2):
        list(gauge.run())
        await_reading()
    list(gauge.run())
    assert gauge.status().operator_only["quarantined"] == 0
    south = [one.value for one in gauge.published("by_city") if one.group == {"city": "south"}]
    assert south[-1] == pytest.approx(2, abs=0.1)


def test_a_file_with_a_line_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    good = [written(change("c", row(n), n)) + b"\n" for n in (1, 2)]
    path.write_bytes(good[0] + b'{"x": "' + b"y" * (40 << 20) + b'"}\n' + good[1])
    source = people(tmp_path)
    rows = [one for batch in source.read(None, 2**62) for one in batch.rows.to_pylist()]
    assert [one["entry"] for one in rows] == ["1", "2"]


def test_signatures_before_bodies(tmp_path: Path) -> None:
    gate = Gatekeeper(signing_secret=SECRET)
    now = int(time.time())
    signature = "v1," + base64.b64encode(bytes(32)).decode()
    hopeful = {"webhook-signature": signature, "webhook-timestamp": str(now), "webhook-id": "1"}
    assert not gate.hopeless(hopeful)
    for name, value in [
        ("webhook-timestamp", "²"), ("webhook-timestamp", "9" * 400), ("webhook-timestamp", str(now - 301)),
        ("webhook-timestamp", ""), ("webhook-timestamp", "-1"), ("webhook-timestamp", f"{now}.0"),
        ("webhook-signature", "v1,x"), ("webhook-signature", "v2" + signature[2:]),
    ]:  # fmt: skip
        assert gate.hopeless(hopeful | {name: value}), (name, value[:20])
        assert not gate.admits(hopeful | {name: value}, b"")
    with listening(tmp_path) as (host, port):
        address = f"http://{host}:{port}/debezium"
        big = httpx.post(address, content=b" " * ((1 << 20) + 1), headers=hopeful)
        assert big.status_code == 413, "a stranger makes us hold one MiB at most"
        body = written(change("c", row(1), 8))
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        right = base64.b64encode(hmac.digest(key, f"1.{now}.".encode() + body, "sha256")).decode()
        assert httpx.post(address, content=body, headers=hopeful).status_code == 401
        assert (
            httpx.post(
                address, content=body, headers=hopeful | {"webhook-signature": f"v1,{right}"}
            ).status_code
            == 204
        )
    assert len(delivered(tmp_path)[0]) == 1


def test_the_index_holds_no_values(inbox: Inbox, tmp_path: Path, clock: Clock) -> None:
    inbox.append(written(change("c", row(123456789, city="sesame"), 8, at=clock.now)))
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("index.db*"))
    assert b"sesame" not in kept
    assert b"123456789" not in kept
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.rglob("*"))
    with closing(sqlite3.connect(tmp_path / "index.db")) as db:
        assert db.execute("SELECT count(*) FROM events").fetchone() == (1,)


def test_a_column_that_the_gauge_does_not_use_may_go(tmp_path: Path) -> None:
    reading = Reading("people", key="id", columns=COLUMNS)
    reading.select(["city"])
    with closing(Inbox(tmp_path, reading)) as inbox:
        inbox.append(written(change("c", {"id": 1, "city": "north"}, 8)))
        with pytest.raises(SourceError, match="lacks a column"):
            inbox.append(written(change("c", {"id": 1, "age": 1}, 16)))
    assert event(next(tmp_path.glob("*.jsonl")).read_bytes()) is not None

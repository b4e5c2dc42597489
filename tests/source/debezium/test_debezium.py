"""What only Debezium can do to a source."""

from __future__ import annotations

import base64
import gzip
import hmac
import json
import logging
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.source.debezium.harness import Broker, post
from tests.source.debezium.writer import NAME, Writer
from tests.source.life import COLUMNS, FIRST, LIFE, State, Table, applied, once, patient
from tests.source.life import Insert as Inserted
from tidegauge.errors import SourceError, SpecError, StoreLocked
from tidegauge.model.json import as_whole
from tidegauge.receive.gatekeeper import Gatekeeper
from tidegauge.source.debezium import source as module
from tidegauge.source.debezium.events import event
from tidegauge.source.debezium.inbox import Inbox
from tidegauge.source.debezium.kafka import Kafka
from tidegauge.source.debezium.log import Replays
from tidegauge.source.debezium.quarantine import count
from tidegauge.source.debezium.rows import Reading
from tidegauge.source.debezium.source import Debezium, Place

if TYPE_CHECKING:
    from tidegauge.model.json import Json
    from tidegauge.model.mutation import Source

END = 2**62


def said(
    kind: str, after: dict[str, Any] | None = None, before: dict[str, Any] | None = None, **source: Any
) -> str:
    origin = {"connector": "postgresql", "table": "t", "ts_ms": 1000} | source
    return json.dumps({"op": kind, "before": before, "after": after, "source": origin})


def read(source: Source, position: str | None = None) -> tuple[list[dict[str, Any]], str]:
    batches = list(source.read(position, END))
    return [row for batch in batches for row in batch.rows.to_pylist()], batches[-1].position


class TestEvents:
    @pytest.mark.parametrize(
        "line",
        [
            "null", "", '"default"', '{"schema": null, "payload": null}', '{"ts_ms": 5}',
            '{"status": "BEGIN", "id": "5:1", "ts_ms": 1}',
            '{"source": {}, "databaseName": "d", "ddl": "CREATE TABLE x"}',
            '{"op": "m", "source": {}, "message": {}}',
        ],
    )  # fmt: skip
    def test_what_is_no_change(self, line: str) -> None:
        assert event(line) is None

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("{", "is not JSON"),
            ("5", "is not a Debezium event"),
            (
                '{"id": 1, "status": null, "__deleted": "false"}'.replace("status", "state"),
                "take out transformations",
            ),
            ('{"op": "c", "after": {}}', "take out transformations"),
            ('{"op": "c", "after": {}, "source": {}}', "has no time"),
        ],
    )
    def test_what_cannot_be_read(self, line: str, message: str) -> None:
        with pytest.raises(SourceError, match=message):
            event(line)

    def test_the_finest_time_is_taken(self) -> None:
        times = [{"ts_ms": 5}, {"ts_ms": 5, "ts_us": 5001}, {"ts_ms": 5, "ts_ns": 5002999}]
        found = [event(json.dumps({"op": "c", "after": {}, "source": one})) for one in times]
        assert [one.time for one in found if one] == [5000, 5001, 5002]


class TestReplays:
    def seen(self, replays: Replays, line: str) -> bool:
        found = event(line)
        assert found is not None
        return replays.old(found, END)

    def test_postgresql_is_ordered_by_commit(self) -> None:
        replays = Replays()
        stream = [
            said("c", {"id": n}, sequence=json.dumps(s))
            for n, s in enumerate([[None, "9"], ["9", "3"], ["9", "5"], ["12", "4"]])
        ]
        assert [self.seen(replays, line) for line in stream] == [False] * 4
        assert [self.seen(replays, line) for line in stream] == [True] * 4
        assert not self.seen(replays, said("c", {"id": 9}, sequence='["12", "8"]'))

    def test_a_changed_key_is_two_events_at_one_place(self) -> None:
        replays = Replays()
        gone, come = (
            said("d", before={"id": 1}, sequence='["1","2"]'),
            said("c", {"id": 2}, sequence='["1","2"]'),
        )
        assert [self.seen(replays, line) for line in (gone, come, gone, come)] == [False, False, True, True]

    def test_other_databases(self) -> None:
        logs: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
            (
                {"connector": "mysql", "server_id": 1, "file": "bin.000009", "pos": 90, "row": 0},
                {"file": "bin.000010", "pos": 4},
            ),
            (
                {
                    "connector": "sqlserver",
                    "commit_lsn": "0001:0002:0003",
                    "change_lsn": "0001:0002:0002",
                    "event_serial_no": 1,
                },
                {"event_serial_no": 2},
            ),
        )
        for origin, later in logs:
            replays = Replays()
            first, second = said("c", {"id": 1}, **origin), said("c", {"id": 2}, **(origin | later))
            assert [self.seen(replays, line) for line in (first, second, first, second)] == [
                False,
                False,
                True,
                True,
            ]
        assert not self.seen(
            replays, said("c", {"id": 1}, connector="mysql", server_id=2, file="bin.000001", pos=4)
        ), "another log"
        assert [self.seen(replays, said("c", {"id": 1}, connector="oracle"))] * 2 == [False, False], (
            "cannot be told"
        )

    def test_one_odd_event_decides_nothing_about_others(self) -> None:
        """Neither its place nor its time; repetitions are recognised all the same,
        however far they go back."""

        def line(number: int, place: int | None = None, at: int | None = None) -> str:
            spot = str(number if place is None else place)
            return said(
                "c", {"id": number}, ts_us=number if at is None else at, sequence=json.dumps([spot, spot])
            )

        for odd in (
            line(50, 2**63),
            line(50, 2**63, END),
            line(50, 50, END),
            line(50, 1, 1),
            line(50, 50, -END),
        ):
            replays = Replays()
            stream = [*map(line, range(10, 50)), odd, *map(line, range(51, 90))]
            seen = [replays.old(found, 1000) for one in stream if (found := event(one))]
            assert not any(seen[:40] + seen[41:])
            back = [replays.old(found, 1000) for one in stream[60:] if (found := event(one))]
            assert all(back)
            assert not self.seen(replays, line(100))
            stored = json.loads(json.dumps(asdict(replays)))
            assert Replays.parse(stored, 0) == replays

    def test_a_stored_position_of_earlier_versions(self) -> None:
        stored: dict[str, Json] = {"log": "postgresql", "place": [20, 20], "seen": []}
        replays = Replays.parse(stored, 20_000)
        before, at, after = (
            said("c", {"id": n}, name="db", ts_ms=n, sequence=json.dumps([str(n), str(n)]))
            for n in (19, 20, 21)
        )
        assert [self.seen(replays, line) for line in (before, at, after, before, at, after)] == [
            True,
            False,
            False,
            True,
            True,
            True,
        ]

    def test_a_snapshot_is_never_old(self) -> None:
        replays = Replays()
        assert [self.seen(replays, said("r", {"id": 1}, sequence='["1","2"]')) for _ in range(2)] == [
            False,
            False,
        ]


class TestValues:
    FIELDS = (
        {"field": "id", "type": "int64"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "ms", "type": "int64", "name": "io.debezium.time.Timestamp"},
        {"field": "us", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        {"field": "ns", "type": "int64", "name": "io.debezium.time.NanoTimestamp"},
        {"field": "zoned", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        {"field": "clock", "type": "int64", "name": "io.debezium.time.MicroTime"},
        {"field": "exact", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
         "parameters": {"scale": "2", "connect.decimal.precision": "6"}},
        {"field": "any", "type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
        {"field": "flag", "type": "boolean"},
        {"field": "list", "type": "array"},
        {"field": "text", "type": "string"},
    )  # fmt: skip

    def test_values_mean_what_the_schema_says(self, tmp_path: Path) -> None:
        number = base64.b64encode((-12345).to_bytes(3, "big", signed=True)).decode()
        row = {"id": 7, "day": 1, "ms": 1500, "us": 1_500_000, "ns": 1_500_000_999,
               "zoned": "1970-01-01T00:00:01.5Z", "clock": 1_500_000,
               "exact": number, "any": {"scale": 3, "value": number},
               "flag": True, "list": [1, 2], "text": "é"}  # fmt: skip
        line = json.loads(said("c", row))
        schema = {"type": "struct", "fields": [{"field": "after", "fields": list(self.FIELDS)}]}
        (tmp_path / "a.jsonl").write_text(json.dumps({"schema": schema, "payload": line}))
        source = Debezium(tmp_path / "a.jsonl", "t", key="id")
        assert dict(source.columns) == {
            "id": "BIGINT", "day": "DATE", "ms": "TIMESTAMP", "us": "TIMESTAMP",
            "ns": "TIMESTAMP", "zoned": "TIMESTAMP", "clock": "TIME",
            "exact": "DECIMAL(6,2)", "any": "DECIMAL(38,9)",
            "flag": "BOOLEAN", "list": "VARCHAR", "text": "VARCHAR",
        }  # fmt: skip
        ((mutation,), _) = read(source)
        after = {name: str(value) for name, value in mutation["after"].items()}
        assert after == {
            "id": "7", "day": "1970-01-02", "ms": "1970-01-01 00:00:01.500000",
            "us": "1970-01-01 00:00:01.500000",
            "ns": "1970-01-01 00:00:01.500000", "zoned": "1970-01-01 00:00:01.500000",
            "clock": "00:00:01.500000", "exact": "-123.45",
            "any": "-12.345000000", "flag": "True", "list": "[1, 2]", "text": "é",
        }  # fmt: skip

    def test_without_a_schema_the_declaration_decides(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_text(said("c", {"id": 1, "at": 1500, "text": {"b": 1}, "money": "1.5"}))
        columns = {"at": "TIMESTAMP", "text": "VARCHAR", "money": "DECIMAL(6,2)"}
        for unit, wanted in (("ms", "1970-01-01 00:00:01.500000"), ("us", "1970-01-01 00:00:00.001500")):
            ((mutation,), _) = read(Debezium(path, "t", key="id", columns=columns, timestamps=unit))  # type: ignore[arg-type]
            assert [str(value) for value in mutation["after"].values()] == [wanted, '{"b": 1}', "1.50"]
        with pytest.raises(SpecError, match="declare the columns"):
            read(Debezium(path, "t", key="id"))
        with pytest.raises(SpecError, match="is not a type"):
            Debezium(path, "t", key="id", columns={"at": "TIEM"})
        with pytest.raises(SpecError, match="primary key"):
            Debezium(path, "t", key=[])

    def test_a_value_that_was_left_out(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        left_out = "__debezium_unavailable_value"
        path.write_text("\n".join([
            said("c", {"id": 1, "person": "ann", "status": "x" * 9, "age": 1}),
            said("u", {"id": 1, "person": left_out, "status": left_out, "age": 2}),
            said("u", {"id": 1, "person": "ann", "status": base64.b64encode(left_out.encode()).decode(),
                       "age": 3}),
        ]))  # fmt: skip
        source = Debezium(path, "t", key="id", unit="person", columns=COLUMNS)
        (first, second, third), _ = read(source)
        assert (first["kept"], second["kept"], third["kept"]) == (None, ["person", "status"], ["status"])
        assert (second["unit"], third["unit"]) == (None, "ann")
        state: State = {}
        for batch in source.read(None, END):
            state = applied(state, batch)
        assert state == {"1": ("ann", {"id": 1, "person": "ann", "status": "x" * 9, "age": 3})}
        source.select(["age"])
        assert read(source)[0][1]["kept"] == ["person"]

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (said("d", None, {"person": "a"}), "lacks a column that is used"),
            (said("c", {"id": 1, "person": "a", "status": "b"}), "lacks a column that is used"),
        ],
    )
    def test_a_row_that_cannot_be_used(self, tmp_path: Path, line: str, message: str) -> None:
        (tmp_path / "a.jsonl").write_text(line)
        with pytest.raises(SourceError, match=message):
            read(Debezium(tmp_path / "a.jsonl", "t", key="id", columns=COLUMNS))

    def test_a_value_that_is_not_as_its_schema_says(self, tmp_path: Path) -> None:
        schema = {
            "fields": [
                {
                    "field": "after",
                    "fields": [{"field": "id", "type": "int32", "name": "io.debezium.time.Date"}],
                }
            ]
        }
        (tmp_path / "a.jsonl").write_text(
            json.dumps({"schema": schema, "payload": json.loads(said("c", {"id": "sesame"}))})
        )
        with pytest.raises(SourceError, match="is not written as its schema says") as refusal:
            read(Debezium(tmp_path / "a.jsonl", "t", key="id"))
        assert "sesame" not in str(refusal.value)
        (tmp_path / "b.jsonl").write_text(said("c", {"id": 1, "day": "sesame"}))
        columns = {"id": "BIGINT", "day": "TIMESTAMP"}
        ((row,), _) = read(Debezium(tmp_path / "b.jsonl", "t", key="id", columns=columns))
        assert row["after"] == {"id": 1, "day": None}, (
            "a declared type decides about the value, not the event"
        )

    def test_a_key_that_an_update_changes(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_text(said("u", {"a": 2, "b": 1}, {"a": 1, "b": 1}))
        ((row,), _) = read(Debezium(tmp_path / "a.jsonl", "t", key=["a", "b"], columns={"a": "BIGINT"}))
        assert (row["previous"], row["entry"], row["informed"]) == ('["1","1"]', '["2","1"]', True)


class TestFiles:
    def lines(self, count: int, start: int = 0) -> str:
        return "".join(
            said("c", {"id": n}, ts_ms=n, sequence=json.dumps([str(n), str(n)])) + "\n"
            for n in range(start, start + count)
        )

    def source(self, path: Path, **options: Any) -> Debezium:
        return Debezium(path, "t", key="id", columns={"id": "BIGINT"}, **options)

    def test_files_in_the_order_of_their_names(self, tmp_path: Path) -> None:
        (tmp_path / "e1.jsonl").write_text(self.lines(3))
        with gzip.open(tmp_path / "e2.jsonl.gz", "wt") as file:
            file.write(self.lines(3, 3))
        (tmp_path / "other.txt").write_text("no events")
        rows, position = read(self.source(tmp_path))
        assert [row["entry"] for row in rows] == list("012345")
        (tmp_path / "e3.jsonl").write_text(self.lines(2, 6))
        assert [row["entry"] for row in read(self.source(tmp_path / "e*"), position)[0]] == ["6", "7"]

    def test_a_compressed_file_that_is_still_being_written(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl.gz"
        whole = gzip.compress(self.lines(2000).encode())
        path.write_bytes(whole[: len(whole) // 2])
        rows, position = read(self.source(path))
        assert 0 < len(rows) < 2000
        path.write_bytes(whole)
        assert len(read(self.source(path), position)[0]) == 2000 - len(rows)
        path.write_bytes(whole[:100] + b"sesame" * 100)
        with pytest.raises(SourceError, match="cannot be read to its end"):
            read(self.source(path))

    def test_a_line_that_is_still_being_written(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        whole = self.lines(2)
        path.write_text(whole[:-20])
        rows, position = read(self.source(path))
        assert len(rows) == 1
        path.write_text(whole[:-1])
        rows, position = read(self.source(path), position)
        assert [row["entry"] for row in rows] == ["1"], "a whole event needs no line's end"
        path.write_text(whole + "{broken}\n" + self.lines(1, 2))
        with pytest.raises(SourceError, match=r"a.jsonl: an event is not JSON"):
            read(self.source(path), position)
        rows, _ = read(self.source(path, quarantine=tmp_path / "aside"), position)
        assert [row["entry"] for row in rows] == ["2"]
        path.write_text("")
        with pytest.raises(SourceError, match="is shorter than what was read"):
            read(self.source(path), position)

    def test_time_and_batches(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_BATCH", 10)
        path = tmp_path / "a.jsonl"
        path.write_text(self.lines(25) + said("c", {"id": 99}, ts_ms=24, sequence='["24", "99"]') + "\n")
        source = self.source(path)
        batches = list(source.read(None, 24_000))
        assert [batch.rows.num_rows for batch in batches] == [10, 10, 6]
        assert [batch.upto for batch in batches] == [None, None, 24_000]
        for number, batch in enumerate(batches):
            rest = [
                row["entry"] for later in source.read(batch.position, END) for row in later.rows.to_pylist()
            ]
            assert len(rest) == 26 - sum(b.rows.num_rows for b in batches[: number + 1]), (
                "no event is lost between batches"
            )
        early = list(source.read(None, 4_999))
        assert sum(batch.rows.num_rows for batch in early) == 26, "a stamp after `until` holds nothing back"
        assert early[-1].upto == 4_999

    def test_times_are_each_events_own_and_the_target_is_fixed_at_the_call(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        stamps = [5000, 4_000_000, 10, 4_999, 7]
        path.write_text(
            "".join(
                said("c", {"id": n}, ts_us=stamp, sequence=json.dumps([str(n), str(n)])) + "\n"
                for n, stamp in enumerate(stamps)
            )
        )
        reading = self.source(path).read(None, 6000)
        with path.open("a") as file:
            file.write(self.lines(1, 90))
        (batch,) = reading
        assert batch.rows["time"].to_pylist() == stamps
        assert batch.rows["entry"].to_pylist() == list("01234"), "in the order of the file"
        ((later,), _) = read(self.source(path), batch.position)
        assert later["entry"] == "90"

    def test_another_table_and_schema(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_text(
            said("c", {"id": 1}, table="u")
            + "\n"
            + said("c", {"id": 2}, schema="x")
            + "\n"
            + said("c", {"id": 3}, schema="y")
        )
        assert [row["entry"] for row in read(self.source(path, schema="y"))[0]] == ["3"]

    def test_the_doctor(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        assert [check.ok for check in Debezium(path, "t", key="id").doctor()] == [False, False]
        path.write_text("{broken}\n")
        assert [check.ok for check in Debezium(path, "t", key="id").doctor()] == [True, False]
        assert [check.ok for check in self.source(path).doctor()] == [True, True]

    def test_positions_of_others(self) -> None:
        for position in ("{}", "[]", '{"lsn": 1}'):
            with pytest.raises(SourceError, match="not one of a Debezium source"):
                Place.parse(position)


class TestInbox:
    body = said("c", {"id": 1}, sequence='["1","1"]')
    reading = Reading("t", key="id", columns={"id": "BIGINT"})

    def test_what_was_acknowledged_is_there_after_a_crash(self, tmp_path: Path) -> None:
        inbox = Inbox(tmp_path / "in", self.reading)
        inbox.append(self.body.encode())
        inbox.append(b"")
        inbox.append(b"null")
        segment = next((tmp_path / "in").glob("*.jsonl"))
        assert segment.stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "in").stat().st_mode & 0o777 == 0o700
        with segment.open("a") as file:
            file.write('{"op": "c", "after"')  # the power goes in the middle of a line
        inbox.close()
        inbox = Inbox(tmp_path / "in", self.reading)
        inbox.append(said("c", {"id": 2}, sequence='["1","2"]').encode())
        source = Debezium(tmp_path / "in", "t", key="id", columns={"id": "BIGINT"}, inbox=True)
        rows, position = read(source)
        assert [row["entry"] for row in rows] == ["1", "2"]
        source.acknowledge(position)
        assert len(list((tmp_path / "in").glob("*.jsonl"))) == 1
        with pytest.raises(StoreLocked, match="another process"):
            Inbox(tmp_path / "in", self.reading)
        inbox.close()

    def test_a_full_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        inbox = Inbox(tmp_path / "in", self.reading)

        def full(file: int, data: bytes) -> None:
            os.write(file, data[:10])
            raise OSError(28, "no space")

        with monkeypatch.context() as patched:
            patched.setattr("tidegauge.source.debezium.inbox._write", full)
            answer = post(inbox, Gatekeeper(token="t"), self.body, {"authorization": "Bearer t"})
            assert answer.status_code == 507
        assert post(inbox, Gatekeeper(token="t"), self.body, {"authorization": "Bearer t"}).status_code == 204
        rows, _ = read(Debezium(tmp_path / "in", "t", key="id", columns={"id": "BIGINT"}, inbox=True))
        assert len(rows) == 1
        inbox.close()

    def test_strangers_and_nonsense(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        inbox = Inbox(tmp_path / "in", self.reading)
        gate = Gatekeeper(token="sesame")
        with caplog.at_level(logging.DEBUG):
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "sesame"}):
                assert post(inbox, gate, self.body, headers).status_code == 401
            right = {"authorization": "Bearer sesame"}
            for body in ("{", '{"a": 1}', said("c", {"id": 1})):
                answer = post(inbox, gate, body, right)
                assert answer.status_code == 422
                assert "sesame" not in answer.text
            assert post(inbox, gate, "x", right | {"content-length": str(1 << 30)}).status_code == 413
        assert "sesame" not in caplog.text
        assert all(path.stat().st_size == 0 for path in (tmp_path / "in").glob("*.jsonl"))
        inbox.close()

    def test_debeziums_own_signature(self) -> None:
        key = bytes(range(32))
        gate = Gatekeeper(signing_secret="whsec_" + base64.b64encode(key).decode())

        def headers(body: bytes, stamp: int) -> dict[str, str]:
            signature = base64.b64encode(
                hmac.digest(key, b"msg_1." + str(stamp).encode() + b"." + body, "sha256")
            ).decode()
            return {
                "webhook-id": "msg_1",
                "webhook-timestamp": str(stamp),
                "webhook-signature": f"v1,{signature}",
            }

        now = int(time.time())
        assert gate.admits(headers(b"body", now), b"body")
        assert not gate.admits(headers(b"body", now), b"other")
        assert not gate.admits(headers(b"body", now - 3600), b"body"), "an old request sent again"
        assert not gate.admits(headers(b"body", now) | {"webhook-signature": "v1,AAAA"}, b"body")
        assert not gate.admits({"authorization": "Bearer None"}, b"body")
        with pytest.raises(SpecError, match="needs a token or a signing secret"):
            Gatekeeper()
        with pytest.raises(SpecError, match="not base64"):
            Gatekeeper(signing_secret="whsec_*")


class TestKafka:
    def source(self, broker: Broker, monkeypatch: pytest.MonkeyPatch, **config: str) -> Kafka:
        monkeypatch.setitem(sys.modules, "confluent_kafka", broker.library())
        return Kafka(
            {"bootstrap.servers": "x"} | config, "topic", NAME, key="id", unit="person", columns=COLUMNS
        )

    def test_partitions_keep_the_order_of_each_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        broker, writer, table = Broker(3), Writer(with_schema=False), Table()
        state: State = {}
        position: str | None = None
        source = self.source(broker, monkeypatch)
        steps = [[once(*map(Inserted, FIRST))], *(step.transactions for step in LIFE[:9])]
        for transactions in steps:
            table.apply(transactions)
            for line in writer.live(transactions):
                if line in ("null", "default"):
                    continue
                found = event(line)
                assert found is not None
                key = as_whole((found.after or found.before or {"id": 0})["id"])
                broker.logs[key % 3].append(line.encode())
            (batch,) = source.read(position, END)
            state, position = applied(state, batch), batch.position
            source.acknowledge(position)
            assert state == table.state
        assert broker.committed == {n: len(log) for n, log in enumerate(broker.logs)}
        source.close()

    def test_what_lies_after_the_moment_asked_for_is_delivered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        broker = Broker(2)
        for number in range(6):
            broker.logs[number % 2].append(
                said("c", patient(number, "p", "s"), table=NAME, ts_ms=number).encode()
            )
        source = self.source(broker, monkeypatch)
        reading = source.read(None, 3000)
        broker.logs[0].append(said("c", patient(9, "p", "s"), table=NAME, ts_ms=1).encode())
        (first,) = reading
        assert first.rows["entry"].to_pylist() == ["0", "1", "2", "3", "4", "5"]
        assert first.rows["time"].to_pylist() == [0, 1000, 2000, 3000, 4000, 5000]
        assert first.upto == 3000
        (rest,) = source.read(first.position, END)
        assert rest.rows["entry"].to_pylist() == ["9"]
        broker.markers = 1  # the end of a transaction of Kafka's, which is no event
        (nothing,) = source.read(rest.position, END)
        assert nothing.rows.num_rows == 0

    def test_the_order_of_a_unit_does_not_depend_on_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two rows of one person in two partitions: however much others write, in the same order."""

        def line(number: int, at: int, person: str) -> bytes:
            return said("c", patient(number, person, "s"), table=NAME, ts_us=at).encode()

        orders = []
        for others in (0, 3, 40):
            broker = Broker(2)
            broker.logs[0] = [
                *(line(100 + n, 9, "other") for n in range(others)),
                line(1, 50, "ann"),
                line(1, 20, "ann"),
            ]
            broker.logs[1] = [line(2, 40, "ann"), line(2, 60, "ann")]
            (batch,) = self.source(broker, monkeypatch).read(None, END)
            orders.append([(r["entry"], r["time"]) for r in batch.rows.to_pylist() if r["unit"] == "ann"])
        assert orders == [[("2", 40), ("1", 50), ("1", 20), ("2", 60)]] * 3

    def test_batches_of_one_partition(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tidegauge.source.debezium.kafka._BATCH", 10)
        broker = Broker(1)
        broker.logs[0] = [said("c", patient(n, "p", "s"), table=NAME).encode() for n in range(25)]
        source = self.source(broker, monkeypatch)
        batches = list(source.read(None, END))
        assert [(batch.rows.num_rows, batch.upto) for batch in batches] == [(10, None), (10, None), (5, END)]
        (rest,) = source.read(batches[1].position, END)
        assert rest.rows["entry"].to_pylist() == [str(n) for n in range(20, 25)]

    def test_an_event_that_cannot_be_used(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        broker = Broker(1)
        good = said("c", patient(1, "p", "s"), table=NAME).encode()
        broker.logs[0] = [good, b"{", b"\xff", said("c", {"id": []}, table=NAME).encode(), good]
        monkeypatch.setitem(sys.modules, "confluent_kafka", broker.library())
        source = Kafka(
            {"bootstrap.servers": "x"}, "topic", NAME, key="id", columns=COLUMNS, quarantine=tmp_path / "q"
        )
        for _ in range(2):  # a read that was not committed sets nothing aside twice
            (batch,) = source.read(None, END)
            assert batch.rows.num_rows == 2
            assert count(tmp_path / "q") == 3
        (noted,) = (tmp_path / "q").iterdir()
        assert [json.loads(line).keys() for line in noted.read_text().splitlines()] == [
            {"place", "reason"}
        ] * 3
        assert [check.ok for check in source.doctor()] == [True, False]

    def test_a_restored_database(self, monkeypatch: pytest.MonkeyPatch) -> None:
        broker = Broker(1)
        broker.logs[0] = [
            said(
                "c", patient(n, "p", "s"), table=NAME, ts_ms=at, sequence=json.dumps([str(lsn), str(lsn)])
            ).encode()
            for n, at, lsn in [*((n, n, 100 + n) for n in range(20)), (3, 3, 103), (30, 30, 105)]
        ]
        with pytest.raises(SourceError, match="restored from a backup"):
            list(self.source(broker, monkeypatch).read(None, END))

    def test_a_topic_that_forgot(self, monkeypatch: pytest.MonkeyPatch) -> None:
        broker = Broker(1)
        broker.logs[0] = [None] * 10
        source = self.source(broker, monkeypatch)
        (batch,) = source.read(None, END)
        broker.logs[0] += [None] * 20
        broker.low[0] = 15
        for position in (batch.position, batch.position.replace("10", "99")):
            with pytest.raises(SourceError, match="no longer has what follows"):
                list(source.read(position, END))
        with pytest.raises(SourceError, match="not one of a Kafka source"):
            list(source.read("[]", END))

    def test_a_broker_that_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        broker = Broker(1)
        broker.logs[0] = [said("c", patient(1, "p", "s"), table=NAME).encode()]
        source = self.source(broker, monkeypatch)
        assert source.table == NAME
        consumer = source._opened(sys.modules["confluent_kafka"])
        broken = SimpleNamespace(partition=lambda: 0, error=lambda: "sesame")
        monkeypatch.setattr(consumer, "consume", lambda *_, **__: [broken])
        with pytest.raises(SourceError, match="the Kafka consumer failed") as refusal:
            list(source.read(None, END))
        assert "sesame" not in str(refusal.value)
        monkeypatch.setattr(consumer, "consume", lambda *_, **__: [])
        with pytest.raises(SourceError, match="the Kafka broker does not answer"):
            list(source.read(None, END))
        gone = SimpleNamespace(topics={"topic": SimpleNamespace(error="sesame", partitions={})})
        monkeypatch.setattr(consumer, "list_topics", lambda *_, **__: gone)
        with pytest.raises(SourceError, match="the Kafka topic cannot be read"):
            list(source.read(None, END))

    def test_without_the_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "confluent_kafka", None)
        with pytest.raises(SpecError, match=r"pip install '\.\[kafka\]'"):
            list(Kafka({}, "t", "t", key="id", columns={}).read(None, END))

    def test_secrets_come_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(SpecError, match="KAFKA_SECRET is not set"):
            list(self.source(Broker(1), monkeypatch, **{"sasl.password": "env:KAFKA_SECRET"}).read(None, END))

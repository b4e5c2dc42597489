"""Anything at all is sent to both endpoints through a real socket: no answer is a failure of ours."""

from __future__ import annotations

import json
import re
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.receive.door import RIGHT, SURVEY, TOKEN, change, delivered, listening, row
from tidegauge.local import Reporter, report_to_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Address = tuple[str, int]
FUZZ = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inbox")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[Address]:
    with listening(folder) as address:
        yield address


def spoken(address: Address, sent: bytes, *, whole: bool) -> list[int]:
    """The codes of the answers to these bytes.

    The server answers a whole request and closes the connection, as the request asks.  It waits for the rest
    of a partial request: then this function ends the connection, and there may be no answer.
    """
    heard = b""
    with (
        socket.create_connection(address, timeout=60) as connection,
        suppress(ConnectionResetError, BrokenPipeError),
    ):
        connection.sendall(sent)
        connection.settimeout(60 if whole else 0.01)
        try:
            while chunk := connection.recv(65536):
                heard += chunk
        except TimeoutError:
            assert not whole, "no answer"
            connection.settimeout(60)
            connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                heard += chunk
    assert b"Traceback" not in heard
    return [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d{3})", heard)]


def sound(address: Address, sent: bytes, *, whole: bool = True) -> list[int]:
    codes = spoken(address, sent, whole=whole)
    assert all(100 <= code < 500 for code in codes), (codes, sent[:200])
    assert codes or not whole
    return codes


def request(path: str, headers: dict[bytes, bytes], body: bytes, *, length: bytes | None = None) -> bytes:
    size = str(len(body)).encode() if length is None else length
    said = {b"host": b"here", b"connection": b"close", b"content-length": size} | headers
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in said.items())
    return b"POST " + path.encode() + b" HTTP/1.1\r\n" + lines + b"\r\n" + body


PATHS = ["/debezium", "/local/reports", "/local/survey", "/"]
RIGHTLY = {b"authorization": f"Bearer {TOKEN}".encode()}
SIGNED = {b"webhook-signature": b"v1," + b"A" * 43 + b"=", b"webhook-id": b"1"}
values = st.binary(max_size=40).filter(lambda b: not set(b) & {0, 10, 13})


@FUZZ
@given(st.binary(max_size=400))
def test_raw_bytes(address: Address, sent: bytes) -> None:
    sound(address, sent, whole=False)


@FUZZ
@given(
    st.sampled_from(PATHS),
    st.sampled_from(
        [
            b"webhook-timestamp",
            b"webhook-id",
            b"webhook-signature",
            b"authorization",
            b"content-type",
            b"content-length",
            b"transfer-encoding",
            b"expect",
            b"accept-encoding",
        ]
    ),
    values,
    st.booleans(),
)
@example("/debezium", b"webhook-timestamp", b"\xb2", True)
@example("/debezium", b"webhook-timestamp", b"9" * 400, True)
@example("/debezium", b"webhook-timestamp", b"1e5", True)
@example("/debezium", b"webhook-signature", b"v1,\xb2", True)
@example("/debezium", b"authorization", b"Bearer \xff", False)
@example("/debezium", b"content-length", b"\xb2", False)
@example("/debezium", b"content-length", b"9" * 400, False)
@example("/debezium", b"content-length", b"-1", True)
@example("/local/reports", b"content-length", b"9" * 18, False)
@example("/local/reports", b"content-type", b"application/json;\xb2", False)
def test_headers(address: Address, path: str, name: bytes, value: bytes, signed: bool) -> None:
    sent = request(path, (SIGNED if signed else RIGHTLY) | {name: value}, b"[1]")
    sound(address, sent, whole=name not in (b"content-length", b"transfer-encoding"))


@FUZZ
@given(
    st.sampled_from(PATHS[:2]),
    st.binary(max_size=300),
    st.sampled_from([b"application/json", b"application/octet-stream", b""]),
)
@example("/local/reports", b"[" * 100_000, b"application/json")
@example("/local/reports", b"[" * 980 + b"]" * 980, b"application/json")
@example("/local/reports", b"[" + b'{"a":' * 900 + b"1" + b"}" * 900 + b"]", b"application/json")
@example("/local/reports", b'[{"first": true, "idle": 1, "survey": "\\ud800"}]', b"application/json")
@example("/local/reports", b"[" + b"9" * 5000 + b"]", b"application/json")
@example("/local/reports", b"[1" + b",1" * 10_000 + b"]", b"application/json")
def test_bodies(address: Address, path: str, body: bytes, kind: bytes) -> None:
    sound(address, request(path, RIGHTLY | {b"content-type": kind}, body))


@FUZZ
@given(st.binary(max_size=200), st.integers(0, 300))
def test_bodies_that_are_shorter_or_longer_than_announced(address: Address, body: bytes, length: int) -> None:
    for path in PATHS[:2]:
        sent = request(path, RIGHTLY, body, length=str(length).encode())
        sound(address, sent, whole=length <= len(body))


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20)
anything = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = ["op", "source", "before", "after", "schema", "payload"]
SOURCES = [
    "connector",
    "name",
    "ts_us",
    "ts_ms",
    "ts_ns",
    "schema",
    "table",
    "sequence",
    "file",
    "pos",
    "row",
    "server_id",
    "commit_lsn",
    "change_lsn",
    "event_serial_no",
    "db",
]
CONNECTORS: list[dict[str, Any]] = [
    {},
    {"connector": "mysql", "file": "b.1", "pos": 4},
    {"connector": "sqlserver", "commit_lsn": "1:2:3", "change_lsn": "1:2:3"},
]


def mutated(data: st.DataObject) -> dict[str, Any]:
    """An event in which something is anything."""
    number = data.draw(st.integers(1, 10**6))
    said = change("c", row(number), number, **data.draw(st.sampled_from(CONNECTORS)))
    fields: list[dict[str, Any]] = [
        {"field": "id", "type": "int64"},
        {"field": "paid", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    ]
    schema: dict[str, Any] = {"fields": [{"field": "after", "fields": fields}]}
    where = data.draw(
        st.sampled_from(
            [
                *((said, name) for name in NAMES[:4]),
                *((said["source"], name) for name in SOURCES),
                *((said["after"], name) for name in row(1)),
                *((one, name) for one in fields for name in ("field", "type", "name", "parameters")),
                (schema, "fields"),
                (schema["fields"][0], "fields"),
                (fields[1]["parameters"], "scale"),
            ]
        )
    )
    where[0][where[1]] = data.draw(anything)
    return said if data.draw(st.booleans()) else {"schema": schema, "payload": said}


@FUZZ
@given(st.data())
def test_events_in_which_something_is_anything(address: Address, folder: Path, data: st.DataObject) -> None:
    """What is acknowledged can be read by a gauge; what cannot be is refused."""
    body = json.dumps(mutated(data)).encode()
    answer = httpx.post("http://{}:{}/debezium".format(*address), content=body, headers=RIGHT, timeout=30)
    assert answer.status_code in (204, 409, 422), (answer.status_code, body)
    if answer.status_code == 204:
        delivered(folder)
        assert not (folder / "quarantine").exists(), body


@FUZZ
@given(st.data())
def test_reports_in_which_something_is_anything(address: Address, data: st.DataObject) -> None:
    report = json.loads(report_to_json(Reporter(SURVEY, {}).report(0, "a")))
    report[data.draw(st.sampled_from(sorted(report)))] = data.draw(anything)
    body = json.dumps([report, data.draw(anything)]).encode()
    headers = {"content-type": "application/json"}
    answer = httpx.post(
        "http://{}:{}/local/reports".format(*address), content=body, headers=headers, timeout=30
    )
    assert answer.status_code == 200
    assert sum(answer.json().values()) == 2


def test_too_much_is_refused_before_it_is_read(address: Address) -> None:
    for path, most in (("/debezium", 16 << 20), ("/local/reports", 4 << 20)):
        announced = request(path, RIGHTLY, b"", length=str(most + 1).encode())
        assert sound(address, announced) == [413], path
        chunked = {**RIGHTLY, b"transfer-encoding": b"chunked"}
        head = request(path, chunked, b"").replace(b"content-length: 0\r\n", b"")
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        codes = sound(address, head + chunk * ((most >> 20) + 2), whole=False)
        assert codes in ([413], []), path
    signed = SIGNED | {b"webhook-timestamp": b"1"}
    assert sound(address, request("/debezium", signed, b"", length=str(1 << 23).encode())) == [401], "stale"


def test_schemathesis(address: Address) -> None:
    """The two endpoints as OpenAPI describes them, attacked by a tool that we did not write."""
    schemathesis = pytest.importorskip("schemathesis")
    described = {
        "openapi": "3.1.0",
        "info": {"title": "Tidegauge", "version": "1"},
        "servers": [{"url": "http://{}:{}".format(*address)}],
        "paths": {
            "/debezium": {
                "post": {
                    "parameters": [
                        {"in": "header", "name": name, "schema": {"type": "string"}}
                        for name in ("webhook-id", "webhook-timestamp", "webhook-signature")
                    ],
                    "requestBody": {"content": {"application/json": {"schema": {}}}},
                    "responses": {"204": {"description": ""}},
                }
            },
            "/local/reports": {
                "post": {
                    "requestBody": {
                        "content": {
                            "application/json": {"schema": {"type": "array"}},
                            "application/octet-stream": {"schema": {}},
                        }
                    },
                    "responses": {"200": {"description": ""}},
                }
            },
            "/local/survey": {"get": {"responses": {"200": {"description": ""}}}},
        },
    }
    schema = schemathesis.openapi.from_dict(described)
    tried = 0
    for operation in schema.get_all_operations():

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.ok().as_strategy())
        def attack(case: Any) -> None:
            nonlocal tried
            tried += 1
            case.headers = {**(case.headers or {}), **({} if tried % 2 else RIGHT)}
            response = case.call(base_url="http://{}:{}".format(*address))
            assert response.status_code < 500, case.as_curl_command()

        attack()
    assert tried > 60

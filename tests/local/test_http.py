"""The collection endpoint: batches, limits, and what it does not keep."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tidegauge.errors import StoreError
from tidegauge.local import Collector, Reporter, Survey, report_to_json
from tidegauge.receive.app import create_app
from tidegauge.receive.reports import RateLimit, collection_router

SURVEY = Survey(answers=["a", "b"], windows=4, changes=2, epsilon=2)
BYTES = {"content-type": "application/octet-stream"}


class Client:
    """A client without a network."""

    def __init__(self, app: FastAPI, **how: Any) -> None:
        self._app, self._how = app, how

    def __call__(self, method: str, path: str, **what: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app, client=("203.0.113.77", 5))
            async with httpx.AsyncClient(transport=transport, base_url="http://here", **self._how) as client:
                return await client.request(method, path, **what)

        return asyncio.run(send())

    def get(self, path: str, **what: Any) -> httpx.Response:
        return self("GET", path, **what)

    def post(self, path: str, **what: Any) -> httpx.Response:
        return self("POST", path, **what)

    def options(self, path: str, **what: Any) -> httpx.Response:
        return self("OPTIONS", path, **what)


def some(people: int) -> list[bytes]:
    reports = []
    for _ in range(people):
        reporter = Reporter(SURVEY, {})
        reports += [reporter.report(window, "a") for window in range(4)]
    return reports


def test_the_survey_is_served_byte_for_byte() -> None:
    answer = Client(create_app(collector=Collector(SURVEY))).get("/local/survey")
    assert answer.text == SURVEY.to_json()
    assert Survey.from_json(answer.text) == SURVEY


def test_batches_of_bytes_and_of_json() -> None:
    collector, sent = Collector(SURVEY), some(10)
    client = Client(create_app(collector=collector))
    answer = client.post("/local/reports", content=b"".join(sent), headers=BYTES)
    assert answer.json() == {"accepted": 40, "malformed": 0, "other_survey": 0, "late": 0, "duplicate": 0}
    again = client.post(
        "/local/reports", json=[*(json.loads(report_to_json(r)) for r in sent[:3] + some(1)), {}, 7]
    )
    assert again.json() == {"accepted": 4, "malformed": 2, "other_survey": 0, "late": 0, "duplicate": 3}
    assert collector.histogram().roster[-1] == 11


@pytest.mark.parametrize("body", [b"{", b"{}", b"7", b"[" * 100_000])
def test_json_that_is_no_list(body: bytes) -> None:
    client = Client(create_app(collector=Collector(SURVEY)))
    assert (
        client.post("/local/reports", content=body, headers={"content-type": "application/json"}).status_code
        == 400
    )


def test_a_batch_that_is_too_long_is_not_counted() -> None:
    app, collector = FastAPI(), Collector(SURVEY)
    app.include_router(collection_router(collector, most_bytes=1000))
    client = Client(app)
    assert client.post("/reports", content=b"".join(some(11)), headers=BYTES).status_code == 413
    assert not collector.tally.any()
    assert client.post("/reports", content=b"".join(some(2)), headers=BYTES).status_code == 200


def test_too_many_reports_at_once() -> None:
    now = [0.0]
    app, collector = FastAPI(), Collector(SURVEY)
    app.include_router(collection_router(collector, most_reports_per_second=40, clock=lambda: now[0]))
    client, batch = Client(app), b"".join(some(10))
    assert client.post("/reports", content=batch, headers=BYTES).status_code == 200
    refused = client.post("/reports", content=b"".join(some(5)), headers=BYTES)
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    now[0] += 0.5
    assert client.post("/reports", content=b"".join(some(5)), headers=BYTES).status_code == 200
    assert collector.histogram().roster[-1] == 15


def test_the_limit_comes_before_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What parsing a list may cost is taken first, and what was not needed is given back."""
    now = [0.0]
    app, collector = FastAPI(), Collector(SURVEY)
    app.include_router(collection_router(collector, most_reports_per_second=100, clock=lambda: now[0]))
    client, listed = Client(app), [json.loads(report_to_json(one)) for one in some(10)]
    as_json = {"content-type": "application/json"}
    assert client.post("/reports", json=listed).json()["accepted"] == 40
    assert client.post("/reports", content=b"".join(some(15)), headers=BYTES).status_code == 200
    monkeypatch.setattr("tidegauge.receive.reports._listed", lambda _: pytest.fail("parsed"))
    for body in (b"[1]", b"[" * 100_000, b"[" + b"1," * 1_000_000 + b"1]"):
        assert client.post("/reports", content=body, headers=as_json).status_code == 429


@pytest.mark.parametrize("depth", [100, 980, 5_000])
def test_json_that_is_nested_deeply(depth: int) -> None:
    client = Client(create_app(collector=Collector(SURVEY)))
    for element in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
        answer = client.post(
            "/local/reports", content=b"[" + element + b"]", headers={"content-type": "application/json"}
        )
        assert answer.status_code in (200, 400)
        assert answer.status_code == 400 or answer.json()["malformed"] == 1


def test_a_batch_larger_than_a_second_is_let_through_when_nothing_else_was() -> None:
    now = [0.0]
    limit = RateLimit(10, lambda: now[0])
    assert limit.wait(25) == 0
    assert limit.wait(1) == pytest.approx(1.6)
    now[0] += 1.6
    assert limit.wait(1) == 0


def test_what_cannot_be_written_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector(SURVEY)

    def fail(_: object) -> None:
        raise StoreError("disk full")

    monkeypatch.setattr(collector, "add", fail)
    answer = Client(create_app(collector=collector)).post("/local/reports", content=b"", headers=BYTES)
    assert answer.status_code == 503
    assert "disk" not in answer.text


def test_nothing_of_the_request_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    collector = Collector(SURVEY, path=tmp_path / "collector.db")
    client = Client(create_app(collector=collector), headers={"user-agent": "tell-tale"})
    client.post("/local/reports", content=b"".join(some(3)), headers=BYTES)
    collector.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"203.0.113.77" not in kept
    assert b"tell-tale" not in kept
    assert "203.0.113.77" not in "".join(
        record.getMessage() for record in caplog.records if record.name != "httpx"
    )
    with closing(sqlite3.connect(tmp_path / "collector.db")) as database:
        columns = [
            row[1]
            for table in ("collector", "tally", "tokens")
            for row in database.execute(f"PRAGMA table_info({table})")
        ]
    assert columns == ["one", "survey", "refused", "closed", "window", "counts", "window", "run"]


def test_pages_of_other_origins_may_send_if_they_are_named() -> None:
    client = Client(create_app(collector=Collector(SURVEY), origins=["https://survey.example"]))
    asked = {"origin": "https://survey.example", "access-control-request-method": "POST"}
    assert (
        client.options("/local/reports", headers=asked).headers["access-control-allow-origin"]
        == "https://survey.example"
    )
    other = client.options("/local/reports", headers=asked | {"origin": "https://other.example"})
    assert "access-control-allow-origin" not in other.headers

"""Both endpoints behind a real socket, in this process, and events to post."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from tidegauge.local import Collector, Survey
from tidegauge.receive.app import create_app
from tidegauge.receive.gatekeeper import Gatekeeper
from tidegauge.source.debezium.inbox import Inbox
from tidegauge.source.debezium.source import Debezium

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "open-sesame-4711"
SECRET = "whsec_c2VzYW1lc2VzYW1lc2VzYW1l"
RIGHT = {"authorization": f"Bearer {TOKEN}"}
COLUMNS = {"id": "BIGINT", "city": "VARCHAR", "age": "BIGINT", "paid": "DECIMAL(12,2)", "at": "TIME"}
SURVEY = Survey(answers=["a", "b"], windows=4, changes=2, epsilon=2)


def people(folder: Path) -> Debezium:
    return Debezium(folder, "people", schema="public", key="id", columns=COLUMNS, inbox=True)


def row(number: Any, **values: Any) -> dict[str, Any]:
    return {"id": number, "city": "north", "age": 1, "paid": "1.50", "at": 1} | values


def change(
    op: str,
    after: dict[str, Any] | None,
    place: int,
    *,
    before: dict[str, Any] | None = None,
    at: int | None = None,
    **source: Any,
) -> dict[str, Any]:
    """An event of Debezium's connector for PostgreSQL at a place of the log, stamped now or at an instant."""
    stamp = time.time_ns() // 1000 if at is None else at
    origin = {"connector": "postgresql", "name": "db", "ts_us": stamp, "schema": "public", "table": "people",
              "sequence": json.dumps([str(place), str(place)])}  # fmt: skip
    return {"op": op, "before": before, "after": after, "source": origin | source}


@contextmanager
def listening(folder: Path) -> Iterator[tuple[str, int]]:
    """Both endpoints at a port of this machine; ended at the end, whatever happens."""
    sock = socket.create_server(("127.0.0.1", 0))
    inbox = Inbox(folder, people(folder).reading)
    app = create_app(
        inbox=(inbox, Gatekeeper(token=TOKEN, signing_secret=SECRET)), collector=Collector(SURVEY)
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    with closing(sock), closing(inbox):
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield sock.getsockname()
        finally:
            server.should_exit = True
            thread.join()


def delivered(folder: Path, position: str | None = None) -> tuple[list[dict[str, Any]], str]:
    """What a gauge would read."""
    batches = list(people(folder).read(position, 2**62))
    return [one for batch in batches for one in batch.rows.to_pylist()], batches[-1].position

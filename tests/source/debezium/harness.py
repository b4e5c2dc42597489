"""The scripted life as Debezium would tell it: through files, through the inbox, through Kafka."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import httpx
from fastapi import FastAPI

from tests.source.debezium.writer import NAME, Writer
from tests.source.harness import now
from tests.source.life import COLUMNS
from tidegauge.receive.gatekeeper import Gatekeeper
from tidegauge.receive.inbox import inbox_router
from tidegauge.source.debezium.inbox import Inbox
from tidegauge.source.debezium.kafka import Kafka
from tidegauge.source.debezium.rows import Reading
from tidegauge.source.debezium.source import Debezium

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest

    from tests.source.life import Row, Transaction
    from tidegauge.model.mutation import Source


def post(inbox: Inbox, gatekeeper: Gatekeeper, body: str, headers: dict[str, str]) -> httpx.Response:
    """One request to the endpoint."""
    application = FastAPI()
    application.include_router(inbox_router(inbox, gatekeeper))

    async def answer() -> httpx.Response:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(application), base_url="http://inbox"
        ) as client:
            return await client.post("/debezium", content=body, headers=headers)

    return asyncio.run(answer())


LINK = "Debezium writes a changed key as a deletion and an insertion"


class DebeziumFile:
    """A file that grows, event by event."""

    gaps: ClassVar[dict[str, str]] = {"previous": LINK}
    columns: ClassVar[dict[str, str]] = COLUMNS

    def __init__(self, folder: Path, *, with_schema: bool, full: bool = False) -> None:
        self.path = folder / "events.jsonl"
        self.writer = Writer(with_schema=with_schema, full=full)
        self.with_schema = with_schema

    def begin(self, rows: Iterable[Row]) -> None:
        self.write(self.writer.snapshot(rows))

    def live(self, transactions: Iterable[Transaction]) -> None:
        self.write(self.writer.live(transactions))

    def write(self, events: list[str]) -> None:
        with self.path.open("a") as file:
            file.writelines(event + "\n" for event in events)

    def source(self) -> Source:
        return Debezium(
            self.path, NAME, key="id", unit="person", columns=None if self.with_schema else COLUMNS
        )

    def now(self) -> int:
        return now()

    def end(self) -> None:
        pass


class DebeziumInbox(DebeziumFile):
    """Posted to the endpoint, each batch of events twice, as after a lost answer."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, with_schema=False)
        self.folder = folder / "inbox"
        reading = Reading(NAME, key="id", unit="person", columns=COLUMNS)
        self.inbox = Inbox(self.folder, reading, segment=2000)
        self.gatekeeper = Gatekeeper(token="t")

    def write(self, events: list[str]) -> None:
        step = max(1, len(events) // 3)
        for start in range(0, len(events), step):
            body = "[" + ",".join(event for event in events[start : start + step] if event != "default") + "]"
            for _ in range(2):
                answer = post(self.inbox, self.gatekeeper, body, {"authorization": "Bearer t"})
                assert answer.status_code == 204, answer.text

    def source(self) -> Source:
        return Debezium(self.folder, NAME, key="id", unit="person", columns=COLUMNS, inbox=True)

    def end(self) -> None:
        self.inbox.close()


class Broker:
    """One topic of a Kafka broker, as far as the consumer sees it; no broker can run here."""

    def __init__(self, partitions: int) -> None:
        self.logs: list[list[bytes | None]] = [[] for _ in range(partitions)]
        self.low = [0] * partitions
        self.committed: dict[int, int] = {}
        self.markers = 0

    def library(self) -> ModuleType:
        broker = self

        class TopicPartition:
            def __init__(self, topic: str, partition: int, offset: int = -1001) -> None:
                self.topic, self.partition, self.offset = topic, partition, offset

        class Consumer:
            def __init__(self, config: dict[str, Any]) -> None:
                assert config["enable.auto.commit"] is False
                self.at: dict[int, int] = {}

            def list_topics(self, topic: str, timeout: float) -> Any:
                found = SimpleNamespace(error=None, partitions=dict.fromkeys(range(len(broker.logs))))
                return SimpleNamespace(topics={topic: found})

            def get_watermark_offsets(self, at: Any, timeout: float) -> tuple[int, int]:
                return broker.low[at.partition], len(broker.logs[at.partition]) + broker.markers

            def assign(self, places: list[Any]) -> None:
                self.at = {place.partition: place.offset for place in places}

            def consume(self, count: int, timeout: float) -> list[Any]:
                messages = []
                for number, start in self.at.items():
                    for offset in range(start, min(start + 5, len(broker.logs[number]))):
                        messages.append(message(number, offset, broker.logs[number][offset]))
                        self.at[number] = offset + 1
                return messages

            def position(self, asked: list[Any]) -> list[Any]:
                end = {
                    n: self.at[n] + (broker.markers if self.at[n] >= len(broker.logs[n]) else 0)
                    for n in self.at
                }
                return [TopicPartition("t", at.partition, end[at.partition]) for at in asked]

            def commit(self, offsets: list[Any], asynchronous: bool) -> None:
                broker.committed = {at.partition: at.offset for at in offsets}

            def close(self) -> None:
                pass

        def message(number: int, offset: int, value: bytes | None) -> Any:
            return SimpleNamespace(
                partition=lambda: number, offset=lambda: offset, value=lambda: value, error=lambda: None
            )

        class KafkaError:
            """What confluent-kafka gives as the first argument of an exception."""

        class KafkaException(Exception):
            pass

        module = ModuleType("confluent_kafka")
        module.__dict__.update(
            TopicPartition=TopicPartition,
            Consumer=Consumer,
            KafkaError=KafkaError,
            KafkaException=KafkaException,
        )
        return module


class DebeziumKafka(DebeziumFile):
    """A topic with one partition."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, with_schema=False)
        self.broker = Broker(1)
        monkeypatch.setitem(sys.modules, "confluent_kafka", self.broker.library())

    def write(self, events: list[str]) -> None:
        self.broker.logs[0] += [None if event in ("null", "default") else event.encode() for event in events]

    def source(self) -> Source:
        return Kafka({"bootstrap.servers": "x"}, "topic", NAME, key="id", unit="person", columns=COLUMNS)

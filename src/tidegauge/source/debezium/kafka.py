"""Debezium's change events from a Kafka topic."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.mutation import Batch
from tidegauge.model.source import Check, FollowedSource
from tidegauge.source.batch.names import secret
from tidegauge.source.batch.position import position_of
from tidegauge.source.debezium.events import event
from tidegauge.source.debezium.log import Replays
from tidegauge.source.debezium.quarantine import Quarantine, count
from tidegauge.source.debezium.rows import UNUSABLE, Gathered, Reading, reason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from tidegauge.source.debezium.events import Event, Unit

_AT_ONCE: Final = 5000
_BATCH: Final = 100_000
_BATCH_BYTES: Final = 64 << 20
_SILENCE: Final = 30.0


@dataclass
class Partition:
    """The point up to which one partition was read."""

    offset: int = 0
    replays: Replays = field(default_factory=Replays)


def _parse(position: str) -> dict[int, Partition]:
    with position_of("a Kafka source"):
        return {
            int(number): Partition(int(one["offset"]), Replays.parse(one["replays"], one.get("clock", 0)))
            for number, one in json.loads(position).items()
        }


def _text(places: dict[int, Partition]) -> str:
    return json.dumps({n: asdict(place) for n, place in places.items()}, separators=(",", ":"))


class _Order:
    """The order in which the changes of several partitions are delivered.

    The changes of a row stay in the order of their partition.  Rows are ordered by their own times, never by
    the time at which a message was fetched: that depends on how much other rows change.  The number of an
    event is the latest time of its row so far.  A truncation comes after all earlier events of its partition,
    and before all later ones.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._rows: dict[tuple[int, tuple[str, ...]], int] = {}
        self._floors: dict[int, int] = {}
        self._latest: dict[int, int] = {}

    def number(self, change: Event, partition: int) -> int:
        """The number of an event.  Raises one of UNUSABLE for a malformed event."""
        keys = [key for key in self._reading.keys(change) if key is not None]
        before = [self._rows.get((partition, key), change.time) for key in keys]
        number = max(change.time, self._floors.get(partition, change.time), *before, change.time)
        if change.kind == "t":
            number = self._floors[partition] = max(number, self._latest.get(partition, number))
            self._rows = {row: at for row, at in self._rows.items() if row[0] != partition}
        for key in keys:
            self._rows[partition, key] = number
        self._latest[partition] = max(number, self._latest.get(partition, number))
        return number


class Kafka(FollowedSource):
    """Follows one table through a topic.  The store keeps the offsets; they are also committed to Kafka.

    config:     settings of confluent-kafka ('bootstrap.servers', 'sasl.password' = 'env:NAME', ...).
    quarantine: the folder that lists the places of unusable events; without it, such an event stops the read.

    With several partitions, each read is one batch.
    """

    leaves_out = 0

    def __init__(
        self,
        config: Mapping[str, str],
        topic: str,
        table: str,
        *,
        key: str | Sequence[str] = (),
        entry: str | Sequence[str] = (),
        columns: Mapping[str, str],
        unit: str | None = None,
        schema: str | None = None,
        timestamps: Unit = "us",
        quarantine: Path | None = None,
    ) -> None:
        self._config = dict(config)
        self._aside = quarantine
        self._topic = topic
        self._reading = Reading(
            table, key=key or entry, unit=unit, schema=schema, columns=columns, timestamps=timestamps
        )
        self._consumer: Any = None

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        return self._reading.table

    @property
    def columns(self) -> Mapping[str, str]:
        """The declared columns."""
        return self._reading.columns

    def select(self, columns: Collection[str]) -> None:
        """Deliver these columns only."""
        self._reading.select(columns)

    def doctor(self, position: str | None = None) -> list[Check]:  # noqa: ARG002
        """Whether the broker answers and has the topic."""
        kafka = _library()
        try:
            parts = self._partitions(self._opened(kafka), kafka)
        except SourceError as refusal:
            return [Check("topic", ok=False, detail=str(refusal))]
        finally:
            self.close()
        number = f"{len(parts)} partition{'' if len(parts) == 1 else 's'}"
        checks = [Check("topic", ok=True, detail=f"the broker answers; the topic has {number}")]
        if self._aside is not None and count(self._aside):
            detail = f"events that could not be used were noted in {self._aside}"
            checks.append(Check("quarantine", ok=False, detail=detail))
        return checks

    def _partitions(self, consumer: Any, kafka: Any) -> list[int]:
        try:
            found = consumer.list_topics(self._topic, timeout=_SILENCE).topics[self._topic]
        except kafka.KafkaException as error:
            raise SourceError(
                f"the Kafka broker cannot be reached ({_reason(error)}). Nothing is lost: our offsets are in "
                "the store. Check that it runs and [source] kafka is right, then start again."
            ) from None
        if found.error is not None:
            raise SourceError(
                "the Kafka topic cannot be read: it is not there, or we may not. Nothing is lost: our "
                "offsets are in the store. Correct [source] topic, or give the gauge's user the right to "
                "read it."
            )
        return sorted(found.partitions)

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Every event that the topic has at the time of the call, whatever its time."""
        kafka = _library()
        consumer = self._opened(kafka)
        places = {} if position is None else _parse(position)
        with self._failing(kafka):
            ends = self._ends(consumer, kafka, places)
        return self._read(kafka, places, ends, until)

    def _read(
        self, kafka: Any, places: dict[int, Partition], ends: dict[int, int], until: int
    ) -> Iterator[Batch]:
        quarantine = Quarantine(self._aside)
        gathered = Gathered(self._reading, quarantine)
        order = _Order(self._reading) if len(places) > 1 else None
        messages = self._messages(kafka, places, ends)
        while True:
            with self._failing(kafka):
                message = next(messages, None)
            if message is None:
                break
            number = message.partition()
            self._take(message, places[number], gathered, quarantine, order=order, until=until)
            places[number].offset = message.offset() + 1
            if order is None and (gathered.count >= _BATCH or gathered.bytes >= _BATCH_BYTES):
                yield Batch(gathered.take(), None, _text(places))
        rows = gathered.take()
        if order is not None:
            numbers = np.array(gathered.orders, dtype=np.int64).reshape(-1, 2)
            rows = rows.take(np.lexsort((numbers[:, 1], numbers[:, 0])))
        yield Batch(rows, until, _text(places))

    def _take(
        self,
        message: Any,
        place: Partition,
        gathered: Gathered,
        quarantine: Quarantine,
        *,
        order: _Order | None,
        until: int,
    ) -> None:
        value, part = message.value(), f"{self._topic}-{message.partition()}"
        try:
            change = None if value is None else event(value)
            if change is None or not self._reading.concerns(change):
                return
            number = (0 if order is None else order.number(change, message.partition()), message.partition())
        except UNUSABLE as refusal:
            quarantine.put(part, message.offset(), reason(refusal), value)
            return
        if not place.replays.old(change, until):
            gathered.add(change, value, part, message.offset(), number)

    def _ends(self, consumer: Any, kafka: Any, places: dict[int, Partition]) -> dict[int, int]:
        """The end of each partition now.  Sets the consumer to our offsets."""
        ends = {}
        for number in self._partitions(consumer, kafka):
            low, high = consumer.get_watermark_offsets(
                kafka.TopicPartition(self._topic, number), timeout=_SILENCE
            )
            place = places.setdefault(number, Partition(offset=low))
            if not low <= place.offset <= high:
                raise SourceError(
                    "the Kafka topic no longer has what follows our position, or was created again. Nothing "
                    "was read. Keep its records for longer than the gauge may be down; start a new gauge."
                )
            ends[number] = high
        consumer.assign([kafka.TopicPartition(self._topic, n, place.offset) for n, place in places.items()])
        return ends

    def _messages(self, kafka: Any, places: dict[int, Partition], ends: dict[int, int]) -> Iterator[Any]:
        """The messages of each partition up to its end."""
        consumer, silent = self._consumer, 0
        open_ = {number for number, end in ends.items() if places[number].offset < end}
        while open_:
            messages = consumer.consume(_AT_ONCE, timeout=1.0)
            silent = 0 if messages else silent + 1
            if silent > _SILENCE:
                raise SourceError(
                    "the Kafka broker does not answer. Nothing is lost: our offsets are in the store. See "
                    "that it runs, then start again."
                )
            for message in messages:
                number = message.partition()
                if message.error() is not None:
                    raise SourceError(
                        "the Kafka consumer failed. Nothing is lost: our offsets are in the store. Check "
                        "that the broker runs, then start again."
                    )
                if number in open_ and message.offset() < ends[number]:
                    yield message
            # The rest up to the end may consist of markers of Kafka's transactions, without events.
            asked = [kafka.TopicPartition(self._topic, number) for number in sorted(open_)]
            for at in consumer.position(asked) if not messages and asked else ():
                place, end = places[at.partition], ends[at.partition]
                place.offset = max(place.offset, min(at.offset, end))  # events after the end were not taken
            open_ -= {number for number in open_ if places[number].offset >= ends[number]}

    @contextmanager
    def _failing(self, kafka: Any) -> Iterator[None]:
        try:
            yield
        except kafka.KafkaException as error:
            self.close()
            raise SourceError(
                f"the Kafka consumer failed ({_reason(error)}). Nothing is lost: our offsets are in the "
                "store. Check that the broker runs and [source] kafka is right, then start again."
            ) from None

    def acknowledge(self, position: str) -> None:
        """Commit our offsets to Kafka, for its operators; nothing depends on them."""
        if self._consumer is not None:
            kafka = _library()
            self._consumer.commit(
                offsets=[
                    kafka.TopicPartition(self._topic, n, place.offset)
                    for n, place in _parse(position).items()
                ],
                asynchronous=True,
            )

    def close(self) -> None:
        """Close the connection to the broker."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _opened(self, kafka: Any) -> Any:
        if self._consumer is None:
            fixed = {
                "log_level": 0,  # its own log names hosts
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "group.id": f"tidegauge-{self._topic}",
            }
            given = {name: secret(value, key=f"source.kafka.{name}") for name, value in self._config.items()}
            try:
                self._consumer = kafka.Consumer({"group.id": fixed.pop("group.id")} | given | fixed)
            except (kafka.KafkaException, ValueError, TypeError) as error:
                raise SpecError(
                    f"these are not settings that confluent-kafka takes ({_reason(error)}); its "
                    "documentation lists them",
                    key="source.kafka",
                ) from None
        return self._consumer


def _reason(error: Exception) -> str:
    """The error's name, without its text, which may contain settings."""
    cause = error.args[0] if error.args else None
    return str(cause.name()) if isinstance(cause, _library().KafkaError) else type(error).__name__


def _library() -> Any:
    try:
        import confluent_kafka  # noqa: PLC0415 -- an extra
    except ImportError:
        raise SpecError(
            "Kafka needs an extra: pip install '.[kafka]' in a clone of Tidegauge", key="source.topic"
        ) from None
    return confluent_kafka

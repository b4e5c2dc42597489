"""Debezium's change events from a Kafka topic."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.mutation import Batch, Live
from tidegauge.source.clock import Clock
from tidegauge.source.debezium_events import Replays, event
from tidegauge.source.debezium_rows import Gathered, Reading
from tidegauge.source.names import secret

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tidegauge.source.debezium_events import Unit

_AT_ONCE: Final = 5000
_SILENCE: Final = 30.0


@dataclass
class Partition:
    """How far one partition was read."""

    offset: int = 0
    clock: int = -(2**63)
    replays: Replays = field(default_factory=Replays)


def _parse(position: str) -> dict[int, Partition]:
    try:
        return {
            int(number): Partition(told["offset"], told["clock"], Replays(**told["replays"]))
            for number, told in json.loads(position).items()
        }
    except (TypeError, ValueError, KeyError, AttributeError):
        raise SourceError("the stored position is not one of a Kafka source") from None


class Kafka(Live):
    """Follows one table through a topic; offsets are kept in our store, Kafka's own are only told for its operators.

    `config` is what confluent-kafka takes ('bootstrap.servers', 'sasl.password' = 'env:NAME', ...).  Each read is one
    batch, because the partitions' times run side by side.
    """

    leaves_out = 0

    def __init__(
        self,
        config: Mapping[str, str],
        topic: str,
        table: str,
        *,
        entry: str | Sequence[str],
        columns: Mapping[str, str],
        unit: str | None = None,
        schema: str | None = None,
        timestamps: Unit = "us",
    ) -> None:
        self._config = dict(config)
        self._topic = topic
        self._reading = Reading(
            table, entry=entry, unit=unit, schema=schema, columns=columns, timestamps=timestamps
        )
        self._consumer: Any = None

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        return self._reading.table

    @property
    def columns(self) -> Mapping[str, str]:
        """As declared."""
        return self._reading.columns

    def select(self, columns: Collection[str]) -> None:
        """Deliver these columns only."""
        self._reading.select(columns)

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Everything that the topic holds now, up to `until`."""
        kafka = _library()
        consumer = self._opened(kafka)
        places = {} if position is None else _parse(position)
        found = consumer.list_topics(self._topic, timeout=_SILENCE).topics[self._topic]
        if found.error is not None:
            raise SourceError(
                "the Kafka topic cannot be read. Nothing is lost: its offsets are in the store."
            )
        ends = {}
        for number in found.partitions:
            low, high = consumer.get_watermark_offsets(
                kafka.TopicPartition(self._topic, number), timeout=_SILENCE
            )
            place = places.setdefault(number, Partition(offset=low))
            if not low <= place.offset <= high:
                raise SourceError(
                    "the Kafka topic no longer has what follows our position, or was made anew. Nothing was read. "
                    "Keep its records for longer than the gauge may be down; start a new gauge."
                )
            ends[number] = high
        consumer.assign([kafka.TopicPartition(self._topic, n, place.offset) for n, place in places.items()])
        gathered = Gathered(self._reading)
        self._gather(places, ends, gathered, until=until)
        rows = gathered.take()
        if len(places) > 1:
            rows = rows.take(pc.sort_indices(rows["time"]))
        yield Batch(
            rows, until, json.dumps({n: asdict(place) for n, place in places.items()}, separators=(",", ":"))
        )

    def _gather(
        self, places: dict[int, Partition], ends: dict[int, int], gathered: Gathered, *, until: int
    ) -> None:
        """Read each partition up to its end, or up to the first event after `until`."""
        kafka, consumer, silent = _library(), self._consumer, 0
        open_ = {number for number, end in ends.items() if places[number].offset < end}
        while open_:
            messages = consumer.consume(_AT_ONCE, timeout=1.0)
            silent = 0 if messages else silent + 1
            if silent > _SILENCE:
                raise SourceError(
                    "the Kafka broker does not answer. Nothing is lost: our offsets are in the store."
                )
            for message in messages:
                number = message.partition()
                if message.error() is not None:
                    raise SourceError(
                        "the Kafka consumer failed. Nothing is lost: its offsets are in the store."
                    )
                if number not in open_ or message.offset() >= ends[number]:
                    continue
                place = places[number]
                value = message.value()
                told = None if value is None else event(value)
                if told is not None and self._reading.concerns(told):
                    clock = Clock(place.clock)
                    time = clock.read(told.time)
                    if time > until:
                        open_.discard(number)
                        continue
                    if not place.replays.old(told):
                        gathered.add(told, time)
                        place.clock = time
                place.offset = message.offset() + 1
            # What is left up to the end may be no events at all, but marks of Kafka's transactions.
            asked = [kafka.TopicPartition(self._topic, number) for number in sorted(open_)]
            for at in consumer.position(asked) if not messages and asked else ():
                places[at.partition].offset = max(places[at.partition].offset, at.offset)
            open_ -= {number for number in open_ if places[number].offset >= ends[number]}

    def acknowledge(self, position: str) -> None:
        """Tell Kafka how far we are; nothing depends on it."""
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
        """Leave the broker."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _opened(self, kafka: Any) -> Any:
        if self._consumer is None:
            fixed = {
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "group.id": f"tidegauge-{self._topic}",
            }
            given = {name: secret(value, key="source.config") for name, value in self._config.items()}
            self._consumer = kafka.Consumer({"group.id": fixed.pop("group.id")} | given | fixed)
        return self._consumer


def _library() -> Any:
    try:
        import confluent_kafka  # noqa: PLC0415 -- an extra
    except ImportError:
        raise SpecError("needs confluent-kafka: pip install 'tidegauge[kafka]'", key="source.kind") from None
    return confluent_kafka

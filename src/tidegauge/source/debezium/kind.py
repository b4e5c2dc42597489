"""The kind `debezium`: change events in files, posted to an inbox, or in a topic of Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.model.source import Asked, Claim, Draft, Location, OpenSource, SourceKind
from tidegauge.source.batch.draft import head
from tidegauge.source.batch.names import secret
from tidegauge.source.debezium.spec import DebeziumSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from tidegauge.source.debezium.source import Debezium


def quarantine_of(where: Location) -> Path:
    """The folder for events that cannot be used."""
    return where.store.with_suffix(".quarantine")


def open_files(spec: DebeziumSpec, where: Location) -> Debezium:
    """Open the events of a declared path or inbox."""
    from tidegauge.source.debezium.source import Debezium  # noqa: PLC0415

    place = spec.inbox or spec.path
    assert place is not None
    return Debezium(
        where.base / place,
        spec.table,
        key=spec.key,
        unit=spec.unit,
        schema=spec.db_schema,
        columns=spec.columns,
        timestamps=spec.timestamps,
        consume=spec.consume,
        inbox=spec.inbox is not None,
        quarantine=quarantine_of(where),
    )


class DebeziumKind(SourceKind[DebeziumSpec]):
    """Follows a table through the events of a Debezium connector."""

    spec = DebeziumSpec

    def open(self, spec: DebeziumSpec, where: Location) -> OpenSource:
        """Open the source; files and brokers are opened when they are first needed."""
        if spec.topic is None:
            return open_files(spec, where)
        from tidegauge.source.debezium.kafka import Kafka  # noqa: PLC0415

        assert spec.kafka is not None
        return Kafka(
            {name: secret(value, key=f"source.kafka.{name}") for name, value in spec.kafka.items()},
            spec.topic,
            spec.table,
            key=spec.key,
            columns=spec.columns or {},
            unit=spec.unit,
            schema=spec.db_schema,
            timestamps=spec.timestamps,
            quarantine=quarantine_of(where),
        )

    def operator_counts(self, spec: DebeziumSpec, where: Location) -> Mapping[str, int]:
        """Events set aside, and requests that the inbox refused."""
        from tidegauge.source.debezium.index import refused  # noqa: PLC0415
        from tidegauge.source.debezium.quarantine import count  # noqa: PLC0415

        at_the_door = {} if spec.inbox is None else refused(where.base / spec.inbox)
        return {"quarantined": count(quarantine_of(where)), **at_the_door}

    def claim(self, asked: Asked) -> Claim:
        """A folder, or a file that begins with an event; other text, or nothing yet, if --kind names it."""
        if asked.server:
            return Claim.NONE
        if asked.what is None:
            return Claim.IF_NAMED
        from tidegauge.source.debezium.template import looks_like_events  # noqa: PLC0415

        path, begins = Path(asked.what), head(asked)
        if path.is_dir() or looks_like_events(path, begins):
            return Claim.OWN
        return Claim.NONE if b"\0" in begins else Claim.IF_NAMED

    def template(self, asked: Asked) -> Draft:
        """A declaration from the first events, or for events that will be received."""
        from tidegauge.source.debezium.template import template  # noqa: PLC0415

        return template(asked)


KIND: Final = DebeziumKind()

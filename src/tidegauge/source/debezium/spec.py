"""What a [source] of kind debezium says."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tidegauge.model.declared import Name, Secret, SourceSpec


class DebeziumSpec(SourceSpec):
    """A table's change events from Debezium: in JSON lines, posted to an inbox, or in a Kafka topic."""

    REACH = frozenset({"token", "signing_secret", "kafka", "consume"})

    kind: Literal["debezium"]
    path: Name | None = None
    inbox: Name | None = None
    topic: Name | None = None
    token: Secret | None = None
    signing_secret: Secret | None = None
    kafka: dict[str, str] | None = None
    db_schema: Annotated[Name | None, Field(alias="schema")] = None
    columns: dict[str, str] | None = None
    timestamps: Literal["ms", "us", "ns"] = "us"
    consume: bool = False

    @model_validator(mode="after")
    def _whole(self) -> DebeziumSpec:
        given = {"path": self.path, "inbox": self.inbox, "topic": self.topic}
        ways = [name for name, value in given.items() if value is not None]
        if len(ways) != 1:
            raise ValueError(
                "say where the events are, in one of: path (files of JSON lines), inbox (a folder that "
                "tidegauge serve receives into), topic (of Kafka)"
            )
        (way,) = ways
        if (way == "inbox") != (self.token is not None or self.signing_secret is not None):
            raise ValueError(
                "an inbox, and nothing else, needs token or signing_secret (or both): how a sender proves "
                "who it is"
            )
        if (way == "topic") != (self.kafka is not None):
            raise ValueError(
                'topic and kafka go together: kafka = { "bootstrap.servers" = "HOST:PORT" } and other '
                "settings of confluent-kafka"
            )
        if self.consume and way != "path":
            raise ValueError("consume: is for files in path; an inbox is always emptied, a topic never")
        if (way != "path" or self.consume) and not self.columns:
            raise ValueError(
                "columns: is missing; they cannot be taken from events that were removed: "
                'columns = { id = "BIGINT", status = "VARCHAR" }'
            )
        for name, value in (self.kafka or {}).items():
            if re.search(r"password|secret|key\.pem|jaas", name) and not value.startswith("env:"):
                raise ValueError(
                    f"kafka.{name}: secrets come from the environment, never from the file: write "
                    "env:NAME_OF_THE_VARIABLE"
                )
        if self.kafka is not None and not self.kafka.get("bootstrap.servers"):
            raise ValueError('kafka: bootstrap.servers is missing; add "bootstrap.servers" = "HOST:PORT"')
        return self

    @property
    def keeps(self) -> str | None:
        """The events that were received and not yet read."""
        return None if self.inbox is None else "an inbox keeps the events it received"

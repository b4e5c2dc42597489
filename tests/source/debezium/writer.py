"""What Debezium's PostgreSQL connector would say of a table's life."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.source.harness import now
from tests.source.life import Delete, Insert, Rename, Table, Truncate, Update

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.source.life import Operation, Row, Transaction

NAME = "pa\"ti'ents; --"
FIELDS = [{"field": "id", "type": "int32"}, {"field": "person", "type": "string"},
          {"field": "status", "type": "string"},
          {"field": "age", "type": "int32"}]  # fmt: skip
SCHEMA = {
    "type": "struct",
    "fields": [
        {"field": "before", "type": "struct", "fields": FIELDS},
        {"field": "after", "type": "struct", "fields": FIELDS},
        {"field": "op", "type": "string"},
    ],
}


class Writer:
    """Follows the table and writes events; with or without their schema, with or without the old row."""

    def __init__(self, *, with_schema: bool, full: bool = False) -> None:
        self.with_schema, self.full = with_schema, full
        self.table = Table()
        self.lsn = 100
        self.committed = 100

    def snapshot(self, rows: Iterable[Row]) -> list[str]:
        events = []
        for row in rows:
            self.table.rows[row["id"]] = row
            events.append(self._event("r", None, row, now()))
        return events

    def live(self, transactions: Iterable[Transaction]) -> list[str]:
        events: list[str] = []
        for transaction in transactions:
            if transaction.commits:
                at = now()
                for operation in transaction.operations:
                    events += self._operate(operation, at)
                self.lsn += 10
                self.committed = self.lsn
        return events

    def _operate(self, operation: Operation, at: int) -> list[str]:
        self.lsn += 10
        rows = self.table.rows
        match operation:
            case Insert(row):
                events = [self._event("c", None, row, at)]
            case Update(number, to):
                events = [self._event("u", rows[number] if self.full else None, rows[number] | to, at)]
            case Delete(number):
                events = [self._event("d", self._key(number), None, at), "null"]
            case Rename(number, to):
                events = [
                    self._event("d", self._key(number), None, at),
                    "default",
                    self._event("c", None, rows[number] | {"id": to}, at),
                ]
            case Truncate():
                events = [self._event("t", None, None, at)]
        self.table._apply(operation)
        return events

    def _key(self, number: int) -> Row:
        return (
            self.table.rows[number] if self.full else dict.fromkeys(self.table.rows[number]) | {"id": number}
        )

    def _event(self, kind: str, before: Row | None, after: Row | None, at: int) -> str:
        source = {"connector": "postgresql", "schema": "public", "table": NAME, "lsn": self.lsn,
                  "ts_ms": at // 1000, "ts_us": at,
                  "sequence": json.dumps([str(self.committed), str(self.lsn)])}  # fmt: skip
        payload: dict[str, Any] = {
            "before": before,
            "after": after,
            "source": source,
            "op": kind,
            "ts_ms": at // 1000,
        }
        return json.dumps({"schema": SCHEMA, "payload": payload} if self.with_schema else payload)

"""The scripted life as a changelog in a file, one row a change."""

from __future__ import annotations

import importlib
import importlib.util
import json
from typing import TYPE_CHECKING, Any, ClassVar

from tests.source.harness import now
from tests.source.life import COLUMNS, Table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.source.life import Row, Transaction
    from tidegauge.model.mutation import Source

PRESENT = importlib.util.find_spec("tidegauge.source.files.source") is not None


class ChangelogFile:
    """JSON lines that a job appends to after every transaction, in the new-value format."""

    gaps: ClassVar[dict[str, str]] = {
        "previous": "a changelog in files names a row by its key alone",
    }
    columns: ClassVar[dict[str, str]] = COLUMNS | {"id": "BIGINT", "age": "BIGINT"}

    def __init__(self, folder: Path) -> None:
        self.path = folder / "patients.jsonl"
        self.table = Table()
        self.kept: dict[int, Row] = {}

    def begin(self, rows: Iterable[Row]) -> None:
        self.table.rows = {row["id"]: row for row in rows}
        self.write()

    def live(self, transactions: Iterable[Transaction]) -> None:
        for transaction in transactions:
            self.table.apply([transaction])
            self.write()

    def write(self) -> None:
        at = now()
        with self.path.open("a") as file:
            for number in self.kept.keys() | self.table.rows.keys():
                old, new = self.kept.get(number), self.table.rows.get(number)
                if old != new:
                    row: dict[str, Any] = {
                        "at": at,
                        "id": number,
                        "op": "d" if new is None else "u" if old else "i",
                    }
                    row |= {f"after_{name}": new and new[name] for name in COLUMNS if name != "id"}
                    file.write(json.dumps(row) + "\n")
        self.kept = dict(self.table.rows)

    def source(self) -> Source:
        files = importlib.import_module("tidegauge.source.files.source").Files
        types = {"id": "integer", "person": "text", "status": "text", "age": "integer"}
        source: Source = files(str(self.path), time="at", key="id", unit="person", after="after_", op="op",
                               types=types,
                               time_unit="microseconds")  # fmt: skip
        return source

    def now(self) -> int:
        return now()

    def end(self) -> None:
        pass

"""Keys, text and statements as applications write them: files, PostgreSQL, change events, SQLite."""

from __future__ import annotations

import base64
import json
import sqlite3
import struct
from contextlib import closing
from datetime import date
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tidegauge.audit.findings import require
from tidegauge.audit.readers import wal
from tidegauge.model.kinds import SOURCES
from tidegauge.model.quantity import instant
from tidegauge.model.source import Location
from tidegauge.plan.spec.declaration import GaugeSpec
from tidegauge.scratch import ScratchFolder
from tidegauge.source.batch.rows import key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidegauge.model.source import OpenSource

_UNTIL: Final = 10**17


def _opened(folder: Path, declared: Mapping[str, object]) -> OpenSource:
    spec = GaugeSpec.parse(
        {
            "source": {"table": "t", **declared},
            "budget": {"rho": 1},
            "release": {"r": {"sql": "SELECT COUNT(*) FROM t", "every": "1 day"}},
        }
    ).source
    return SOURCES.named(spec.kind).open(spec, Location(folder, folder / "store.db"))


def _rows(source: OpenSource, position: str | None = None) -> tuple[list[dict[str, Any]], str]:
    """Every change after a position, and the position after it."""
    found: list[dict[str, Any]] = []
    for batch in source.read(position, _UNTIL):
        found += batch.rows.to_pylist()
        position = batch.position
    assert position is not None
    return found, position


def check_keys() -> None:
    """Two rows whose keys have several columns never have one name.  Raises Discrepancy."""
    texts = ("", "a", "b", ",", '"', "\\", '","', '\\"', 'a","b', '"]', "[")
    for width in (1, 2, 3):
        rows = list(product(texts[: 11 if width < 3 else 7], repeat=width))
        names = key([pa.array(column) for column in zip(*rows, strict=True)]).to_pylist()
        require(len(set(names)) == len(rows), "two rows with other keys have one name")
        some = [pa.array(["a"])] * (width - 1) + [pa.array([None], pa.string())]
        require(key(some).to_pylist() == [None], "a row without a part of its key has a name")


_LINES: Final = """when;id;amount;whole;day;yes
29.02.2024 14:05:00;k1;1.234,5;12;01.03.2024;true
29.02.2024 14:05:00 +0500;k2;-0,25;x;-;false
2024-02-29T14:05:00Z;k3;7;1,5;2024-03-02;-
2024-02-29;k4;1.23;-3;31.02.2024;1
"""
_FORMATS: Final = ["%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S %z", "%d.%m.%Y"]
_MEANT: Final = (
    ("2024-02-29T13:05:00Z", 1234.5, 12, date(2024, 3, 1), True),
    ("2024-02-29T09:05:00Z", -0.25, None, None, False),
    ("2024-02-29T14:05:00Z", 7.0, None, date(2024, 3, 2), None),
    ("2024-02-28T23:00:00Z", None, -3, None, True),
)
"""What the lines mean in Berlin, where a comma is the decimal sign, and a bar says that there is no value."""


def check_files() -> None:
    """Text in files means what its notation says: zones, offsets, decimal signs, no value.

    Raises Discrepancy.
    """
    with ScratchFolder() as name:
        folder = Path(name.name)
        (folder / "t.csv").write_text(_LINES, "utf-8")
        types = {"amount": "number", "whole": "integer", "day": "date", "yes": "boolean"}
        declared = {
            "kind": "files", "path": "t.csv", "time": "when", "key": "id", "types": types, "delimiter": ";",
            "decimal": ",", "thousands": ".", "date_format": _FORMATS, "time_zone": "Europe/Berlin",
            "nulls": ["-"],
        }  # fmt: skip
        source = _opened(folder, declared)
        rows, _ = _rows(source)
        source.close()
    found = {
        row["entry"]: (row["time"], *(row["after"][name] for name in types)) for row in rows if row["after"]
    }
    right = {f"k{n}": (instant(at), *values) for n, (at, *values) in enumerate(_MEANT, start=1)}
    require(found == right, "text in a file is read as another value than it means")


def check_padded() -> None:
    """A char(n) of PostgreSQL has no blanks at its end, and other text keeps them.  Raises Discrepancy."""
    from tidegauge.source.postgres.messages import Messages  # noqa: PLC0415
    from tidegauge.source.postgres.rows import Layout  # noqa: PLC0415

    columns = {"id": "VARCHAR", "c": "VARCHAR", "s": "VARCHAR"}
    values = [b"t" + struct.pack("!I", len(one)) + one for one in (b"k", b"ab   ", b"ab   ")]
    row = struct.pack("!H", len(values)) + b"".join(values)
    layout = Layout(columns, ("id",), None, frozenset({"c"}))
    messages = Messages.of([b"I" + struct.pack("!I", 7) + b"N" + row])
    found = [layout.changed(messages, np.array([5]), list(columns))["after"][0].as_py()]
    text = {name: pa.array([one]) for name, one in (("id", "k"), ("c", "ab   "), ("s", "ab   "))}
    found.append(layout.loaded(text, 5)["after"][0].as_py())
    for one in found:
        require(one == {"id": "k", "c": "ab", "s": "ab   "}, "padded text of PostgreSQL is another value")


def check_placeholders() -> None:
    """Values that Debezium leaves out are known as left out, texts and bytes alike.  Raises Discrepancy."""
    from tidegauge.source.debezium.events import UNAVAILABLE, event  # noqa: PLC0415
    from tidegauge.source.debezium.rows import Reading  # noqa: PLC0415

    columns = {"id": "VARCHAR", "s": "VARCHAR", "b": "VARCHAR", "x": "VARCHAR"}
    long = {"s": UNAVAILABLE, "b": base64.b64encode(UNAVAILABLE.encode()).decode(), "x": "text"}
    payload = {"op": "u", "source": {"table": "t", "ts_ms": 1}, "before": None, "after": {"id": "k", **long}}
    found = event(json.dumps(payload))
    assert found is not None
    (row,) = Reading("t", key="id", unit="b", columns=columns).rows([found]).to_pylist()
    require(sorted(row["kept"] or ()) == ["b", "s"], "a value that was left out is taken for a value")
    require(row["after"] == {"id": "k", "s": None, "b": None, "x": "text"}, "a value was not left out")
    require(row["unit"] is None, "a unit that was left out is taken for a unit")


_TABLE: Final = "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, u TEXT COLLATE NOCASE UNIQUE, x INTEGER)"
_STATEMENTS: Final = (
    "INSERT INTO t VALUES ('a', 'p', 1), ('b', 'q', 2), ('c', 'r', 3), ('d', NULL, 4)",
    "UPDATE OR REPLACE t SET id = 'b' WHERE id = 'a'",
    "INSERT OR REPLACE INTO t VALUES ('e', 'r', 5)",
    "REPLACE INTO t VALUES ('e', 's', 6)",
    "UPDATE OR REPLACE t SET u = 'p' WHERE id = 'd'",
    "UPDATE t SET x = x",
    "UPDATE t SET u = upper(u)",
    "REPLACE INTO t VALUES ('i', 'S', 10)",
    "INSERT INTO t VALUES ('e', 'z', 7) ON CONFLICT (id) DO UPDATE SET x = excluded.x, id = 'f'",
    "DELETE FROM t WHERE x = 4",
    "INSERT OR IGNORE INTO t VALUES ('f', 'y', 8), ('g', 'z', 9)",
)
"""Statements of an application, some of which throw out other rows."""


def check_replaced_rows() -> None:
    """SQLite's log follows a table through REPLACE, and stays until every gauge has read it.

    Raises Discrepancy.
    """
    with ScratchFolder() as name:
        folder = Path(name.name)
        with closing(sqlite3.connect(folder / "app.db", isolation_level=None)) as db:
            db.execute(_TABLE)
            first, second = (_opened(folder, {"kind": "sqlite", "path": "app.db"}) for _ in range(2))
            first.install()
            places = [_rows(one)[1] for one in (first, second)]
            for one, place in zip((first, second), places, strict=True):
                one.acknowledge(place)
            known: list[dict[str, dict[str, Any]]] = [{}, {}]
            for n, statement in enumerate(_STATEMENTS):
                db.execute(statement)
                right = {
                    row[0]: dict(zip(("id", "u", "x"), row, strict=True))
                    for row in db.execute("SELECT * FROM t")
                }
                for gauge, one in enumerate((first, second)):
                    if gauge and n % 4 != 3 and statement != _STATEMENTS[-1]:
                        continue  # the second gauge reads seldom
                    rows, places[gauge] = _rows(one, places[gauge])
                    for row in rows:
                        _follow(known[gauge], row)
                    require(known[gauge] == right, "the log of a table in SQLite leads to another table")
                    one.acknowledge(places[gauge])
        first.close()
        second.close()


def _follow(known: dict[str, dict[str, Any]], row: Mapping[str, Any]) -> None:
    """Carry one change out."""
    at, before = row["entry"], row["previous"]
    require(at is not None, "a table in SQLite was read whole, though its log was there")
    if before is not None:
        require(at not in known, "a row takes the key of another one that was not deleted")
        known[at] = known.pop(before)
    if row["after"] is None:
        require(at in known, "a row is deleted that is not there")
        del known[at]
    else:
        known[at] = row["after"]


def notation_checks() -> dict[str, Callable[[], None]]:
    """All of them, by name; some need the reader of PostgreSQL."""
    found: dict[str, Callable[[], None]] = {
        "keys of several columns": check_keys,
        "text in files": check_files,
        "values that events leave out": check_placeholders,
        "rows that SQLite replaces": check_replaced_rows,
    }
    return found | ({"padded text of PostgreSQL": check_padded} if wal.installed() else {})

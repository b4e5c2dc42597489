"""A SELECT means what it means in the source, or in the dialect that the declaration names."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tidegauge import Gauge

if TYPE_CHECKING:
    from pathlib import Path

FILES = 'kind = "files"\npath = "t.csv"\ntime = "at"\nkey = "id"\nafter = ""\ntypes.i = "integer"'
SQLITE = 'kind = "sqlite"\npath = "t.sqlite"\ntable = "t"\nkey = "id"'
REST = """
[constraint]
at_most = 1
[budget]
epsilon = 1e15
[release.halves]
sql = "SELECT COUNT(*) FROM t WHERE i / 2 = 1"
start = "2026-01-02"
every = "1 day"
for = "1 day"
"""


@pytest.mark.parametrize(
    ("source", "counted"),
    [
        (FILES, 1),
        (f'{FILES}\ndialect = "duckdb"', 1),
        (f'{FILES}\ndialect = "postgres"', 2),
        (f'{FILES}\ndialect = "sqlite"', 2),
        (SQLITE, 2),
        (f'{SQLITE}\ndialect = "duckdb"', 1),
    ],
)
def test_integers_are_divided_as_the_dialect_divides_them(tmp_path: Path, source: str, counted: int) -> None:
    """Of 0 to 5, two numbers have the whole half 1, and one has the half 1.0."""
    (tmp_path / "t.csv").write_text("at,id,i\n" + "".join(f"2026-01-01,{n},{n}\n" for n in range(6)))
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as db, db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, i INTEGER)")
        db.executemany("INSERT INTO t VALUES (?, ?)", [(n, n) for n in range(6)])
    (tmp_path / "tidegauge.toml").write_text(f"[source]\n{source}\n{REST}")
    gauge = Gauge.from_file(tmp_path / "tidegauge.toml")
    gauge.install()
    *_, last = gauge.run()
    assert last.value == pytest.approx(counted)

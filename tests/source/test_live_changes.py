"""Keys that change, tables that are emptied and long values that are left out,
through a whole gauge on live databases."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.people import await_reading, releases
from tidegauge.run.gauge import Gauge
from tidegauge.source.sqlite.triggers import install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers.postgres import Server

DECLARATION = """
[source]
kind = "{kind}"
{place}
table = "people"
entry = "id"
{unit}
"""
REMARKED = "SELECT SUM(age) FROM people WHERE note LIKE 'remarkable%'"
TRUTH = """SELECT count(*) FILTER (WHERE city = 'north'), count(*) FILTER (WHERE city = 'south'),
                  coalesce(sum(age) FILTER (WHERE note LIKE 'remarkable%%'), 0) FROM people"""


def declared(kind: str, place: str, unit: str = "", *, at_most: int) -> str:
    source = DECLARATION.format(kind=kind, place=place, unit=unit)
    return source + releases(at_most=at_most, other="remarked", sql=REMARKED)


def published(gauge: Gauge) -> tuple[float | None, ...]:
    await_reading()
    list(gauge.run())
    readings = gauge.published()
    newest = max(reading.time for reading in readings)
    return tuple(
        r.value
        for name in ("by_city", "remarked")
        for r in readings
        if r.release == name and r.time == newest
    )


@pytest.fixture(params=["default", "full", "owned"])
def people(
    request: pytest.FixtureRequest,
    postgres: Server,
    fresh: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Any, Callable[[int], Gauge]]]:
    monkeypatch.setenv("PEOPLE_DSN", postgres.dsn())
    with psycopg.connect(postgres.dsn(), autocommit=True) as admin:
        admin.execute(f"CREATE SCHEMA {fresh}")
        admin.execute(f"SET search_path = {fresh}")
        admin.execute("CREATE TABLE people (id int PRIMARY KEY, city text, age int, note text, person text)")
        admin.execute(
            "ALTER TABLE people ALTER COLUMN note SET STORAGE "
            "EXTERNAL, ALTER COLUMN person SET STORAGE EXTERNAL"
        )
        if request.param == "full":
            admin.execute("ALTER TABLE people REPLICA IDENTITY FULL")

        def gauge(at_most: int) -> Gauge:
            unit = 'unit = "person"\nmax_rows = 3' if request.param == "owned" else ""
            place = f'dsn = "env:PEOPLE_DSN"\nschema = "{fresh}"'
            path = tmp_path / "tidegauge.toml"
            path.write_text(declared("postgres", place, unit, at_most=at_most))
            return Gauge.from_file(path)

        yield admin, gauge
        for (slot,) in admin.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE NOT active"
        ).fetchall():
            admin.execute("SELECT pg_drop_replication_slot(%s)", (slot,))


FILL = """INSERT INTO people SELECT i, 'north', i % 80,
          repeat(CASE WHEN i % 2 = 0 THEN 'remarkable ' ELSE 'plain ' END, 900),
          repeat('p' || (i / 2), 2000) FROM generate_series(1, 60) i"""


def test_postgres_with_everything_a_log_can_say(people: tuple[Any, Callable[[int], Gauge]]) -> None:
    admin, declare = people
    admin.execute(FILL)
    gauge = declare(1000)
    list(gauge.run())
    steps = (
        "UPDATE people SET age = age + 1 WHERE id <= 30",  # the note is left out, and decides what counts
        "UPDATE people SET id = id + 1000 WHERE id % 3 = 0; UPDATE people SET city = 'south' WHERE id > 1000",
        "BEGIN; UPDATE people SET id = 5000 WHERE id = 1; UPDATE people SET id = 1, age = 99 WHERE id = 2; "
        "UPDATE people SET id = 2 WHERE id = 5000; COMMIT",
        "BEGIN; TRUNCATE people; INSERT INTO people VALUES (1, 'south', 7, 'remarkable', 'p0'); COMMIT",
        FILL.replace("generate_series(1, 60)", "generate_series(2, 40)"),
        "UPDATE people SET age = 3, id = id + 5000 WHERE id % 5 = 0",
        "TRUNCATE people",
    )
    for step in steps:
        admin.execute(step)
        assert published(gauge) == pytest.approx(admin.execute(TRUTH).fetchone(), abs=0.1), step
    assert gauge.verify().readings == len(gauge.published())
    assert gauge.status().operator_only.get("unknown_kept", 0) == 0


def test_a_row_takes_its_count_of_changes_along(people: tuple[Any, Callable[[int], Gauge]]) -> None:
    admin, declare = people
    admin.execute("INSERT INTO people VALUES (1, 'north', 1, '', 'a'), (2, 'north', 1, '', 'b')")
    gauge = declare(2)
    list(gauge.run())
    assert published(gauge) == pytest.approx((2, 0, 0), abs=0.1)
    admin.execute("UPDATE people SET id = 3, city = 'south' WHERE id = 1")
    assert published(gauge) == pytest.approx((1, 1, 0), abs=0.1)
    admin.execute("UPDATE people SET city = 'north' WHERE id = 3")  # one change too many: it is not followed
    assert published(gauge) == pytest.approx((1, 1, 0), abs=0.1)
    admin.execute(
        "INSERT INTO people VALUES (1, 'north', 1, '', 'c')"
    )  # the key is free: another row, another unit
    admin.execute("UPDATE people SET city = 'south' WHERE id = 1")
    assert published(gauge) == pytest.approx((1, 2, 0), abs=0.1)


def test_sqlite_keys_that_change(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as application:
        application.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, city TEXT, age INTEGER, note TEXT)")
        application.executemany(
            "INSERT INTO people VALUES (?, 'north', ?, 'remarkable')", [(i, i % 80) for i in range(1, 60)]
        )
        place = 'path = "app.db"'
        declaration = declared("sqlite", place, at_most=1000)
        (tmp_path / "tidegauge.toml").write_text(declaration)
        install(path, "people", key="id")
        gauge = Gauge.from_file(tmp_path / "tidegauge.toml")
        list(gauge.run())
        for step in (
            "UPDATE people SET id = -id, city = 'south' WHERE id % 2 = 0",
            "UPDATE people SET id = id + 1 WHERE id = 59",
            "UPDATE OR REPLACE people SET id = 1 WHERE id = 3",
            "REPLACE INTO people VALUES (5, 'south', 50, NULL)",
            "DELETE FROM people",
        ):
            application.execute(step)
            truth = application.execute(TRUTH.replace("%%", "%")).fetchone()
            assert published(gauge) == pytest.approx(truth, abs=0.1), step

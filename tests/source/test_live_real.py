"""A real changelog replayed into a live server, while a gauge follows:
it publishes what the server itself answers."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.real import needs_data, rows
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.postgres import Server

CHANGES = {
    "I": "INSERT INTO seats VALUES (%(entry)s, %(person)s, %(after_committee)s, %(after_party)s, "
    "nullif(%(after_rank)s, '')::int)",
    "U": "UPDATE seats SET committee = %(after_committee)s, party = %(after_party)s, rank = "
    "nullif(%(after_rank)s, '')::int WHERE entry = %(entry)s",
    "D": "DELETE FROM seats WHERE entry = %(entry)s",
}
TRUTH = """SELECT count(*) FILTER (WHERE party = 'majority'), count(*) FILTER (WHERE party = 'minority'),
                  coalesce(sum(least(rank::int, 40)), 0) FROM seats"""


@needs_data
@pytest.mark.parametrize("unit", [{}, {"unit": "person", "max_rows": 300}], ids=["row", "person"])
def test_seats_replayed(
    unit: dict[str, object], postgres: Server, fresh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEATS_DSN", postgres.dsn())
    every = {"every": "1 second"}
    gauge = Gauge(
        source={"kind": "postgres", "dsn": "env:SEATS_DSN", "schema": fresh, "table": "seats",
                "entry": "entry", **unit},
        constraint={"at_most": 100_000},
        budget={"epsilon": 10**15},
        releases={
            "parties": {"sql": "SELECT party, COUNT(*) FROM seats GROUP BY party",
                        "groups": {"party": ["majority", "minority"]}, **every},
            "ranks": {"sql": "SELECT SUM(rank) FROM seats", "bounds": {"rank": [0, 40]}, **every},
        },
        store=tmp_path / "store.db",
    )  # fmt: skip
    with psycopg.connect(postgres.dsn(), autocommit=True, options=f"-c search_path={fresh}") as admin:
        admin.execute(f"CREATE SCHEMA {fresh}")
        admin.execute(
            "CREATE TABLE seats (entry text PRIMARY KEY, person text, committee text, party text, rank int)"
        )
        log = list(islice(rows("congress_committees"), 16_000))
        for begin in range(0, len(log), 100):
            with admin.transaction(), admin.pipeline():
                for row in log[begin : begin + 100]:
                    admin.execute(CHANGES[row["op"]], row)
            if begin % 4_000 == 0:
                list(gauge.run())
        time.sleep(1.05)
        list(gauge.run())
        last = max(reading.time for reading in gauge.published())
        found = [
            reading.value
            for name in ("parties", "ranks")
            for reading in gauge.published(name)
            if reading.time == last
        ]
        assert found == pytest.approx(admin.execute(TRUTH).fetchone(), abs=0.1)
        assert gauge.verify().readings == len(gauge.published())
        gauge.uninstall()

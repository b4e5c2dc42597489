"""A backlog in PostgreSQL's log: the bare stream, the source, and a whole gauge, in one run.

    python -m bench.postgres [--changes 1000000] [--units 1000000]

Writes the changes, then reads them three times from slots that were made before.  `bare` counts messages and
looks at nothing else, so it is as fast as the server's sender.  `source` makes batches.  `gauge` makes ticks
as `tidegauge run --once` does, durable.  Seconds of the wall clock, processor seconds of this process (not of
the server), changes a second, and the ratio of the seconds to those of the bare stream.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.live import DECLARATION, WRITER, live
from tests.servers.postgres import Server, binaries
from tidegauge.run.gauge import Gauge
from tidegauge.source.postgres.access import Access
from tidegauge.source.postgres.source import Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

_FRAME: Final = 25
TABLE: Final = "CREATE TABLE accounts (id int PRIMARY KEY, region text, balance int, status text, note text)"
ROWS: Final = (
    "INSERT INTO accounts SELECT i, 'r' || i %% 5, i %% 1000, 'open', 'first' FROM generate_series(1, %s) i"
)
COLUMNS: Final = ("region", "status", "balance")


class Table:
    """Prints a line for each part; the first is what the others are compared with."""

    def __init__(self, changes: int) -> None:
        self.changes, self.first = changes, 0.0
        print(f"{'':8} {'seconds':>8} {'processor':>10} {'changes/s':>10} {'ratio':>6}")

    @contextmanager
    def line(self, name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.first = self.first or wall
        rate = self.changes / wall
        print(f"{name:8} {wall:8.2f} {cpu:10.2f} {rate:10,.0f} {wall / self.first:6.2f}", flush=True)


def bare(dsn: str, transactions: int) -> None:
    """Receive so many transactions."""
    with closing(Access(dsn).connect(replication=True)) as connection:
        connection.execute(
            "START_REPLICATION SLOT bare LOGICAL 0/0 (proto_version '1', publication_names 'bare')"
        )
        get, seen = connection.pgconn.get_copy_data, 0
        connection.pgconn.nonblocking = 0
        while seen < transactions:
            _, data = get(0)
            seen += data[0] == ord("w") and data[_FRAME] == ord("C")


def followed(source: Postgres, position: str) -> int:
    """Read everything after a position; returns how many changes there were."""
    return sum(batch.rows.num_rows for batch in source.read(position, time.time_ns() // 1000))


def measure(connection: psycopg.Connection[Any], dsn: str, folder: Path, units: int, changes: int) -> None:
    connection.execute(TABLE)
    connection.execute(ROWS.encode(), [units])
    connection.execute(WRITER.encode())
    connection.execute("CREATE PUBLICATION bare FOR TABLE accounts")
    (folder / "tidegauge.toml").write_text(DECLARATION.replace("10 seconds", "1 second"))
    gauge = Gauge.from_file(folder / "tidegauge.toml")
    for _ in gauge.run():
        pass
    source = Postgres(dsn, "accounts", entry="id", slot="source", publication="bare")
    source.select(COLUMNS)
    (loaded,) = source.read(None, time.time_ns() // 1000)
    source.acknowledge(loaded.position)
    connection.execute("SELECT pg_create_logical_replication_slot('bare', 'pgoutput')")
    live(connection, units, changes)
    table = Table(changes)
    with table.line("bare"):
        bare(dsn, changes // 50)
    with table.line("source"):
        found = followed(source, loaded.position)
    source.close()
    assert found == changes, found
    with table.line("gauge"):
        for _ in gauge.run():
            pass


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--units", type=int, default=1_000_000)
    given = parser.parse_args()
    server = Server(binaries()[0], max_wal_size="'8GB'", shared_buffers="'256MB'", autovacuum="off")
    os.environ["BENCH_DSN"] = server.dsn()
    try:
        with tempfile.TemporaryDirectory() as folder, server.connect() as connection:
            measure(connection, server.dsn(), Path(folder), given.units, given.changes)
    finally:
        server.stop()


if __name__ == "__main__":
    main()

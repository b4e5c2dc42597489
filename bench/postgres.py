"""A backlog in PostgreSQL's log: the bare stream, the source, and a whole gauge, in one run.

    python -m bench.postgres [--quick] [--json] [--changes 1000000] [--units 1000000]

Writes the changes, then reads them three times from slots that were made before.  `bare` counts messages and
looks at nothing else, so it is as fast as the server's sender.  `source` makes batches.  `gauge` makes ticks
as `tidegauge run --once` does, durable.  Seconds of the wall clock, processor seconds of this process (not of
the server), changes a second, and the ratio of the seconds to those of the bare stream.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.live import DECLARATION, WRITER, live
from bench.result import Ratio, Result, Table, not_here, options, say
from tests.servers.postgres import Server, binaries
from tidegauge.run.gauge import Gauge
from tidegauge.source.postgres.access import Access
from tidegauge.source.postgres.source import Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

_FRAME: Final = 25
ACCOUNTS: Final = (
    "CREATE TABLE accounts (id int PRIMARY KEY, region text, balance int, status text, note text)"
)
ROWS: Final = (
    "INSERT INTO accounts SELECT i, 'r' || i %% 5, i %% 1000, 'open', 'first' FROM generate_series(1, %s) i"
)
COLUMNS: Final = ("region", "status", "balance")


class Parts:
    """What each part took: seconds of the wall clock and of this process's processors."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[float, float]] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.found[name] = time.perf_counter() - wall, time.process_time() - cpu


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


def measure(connection: psycopg.Connection[Any], dsn: str, folder: Path, units: int, changes: int) -> Parts:
    connection.execute(ACCOUNTS)
    connection.execute(ROWS.encode(), [units])
    connection.execute(WRITER.encode())
    connection.execute("CREATE PUBLICATION bare FOR TABLE accounts")
    (folder / "tidegauge.toml").write_text(DECLARATION.replace("10 seconds", "1 second"))
    gauge = Gauge.from_file(folder / "tidegauge.toml")
    for _ in gauge.run():
        pass
    source = Postgres(dsn, "accounts", key="id", slot="source", publication="bare")
    source.select(COLUMNS)
    (loaded,) = source.read(None, time.time_ns() // 1000)
    source.acknowledge(loaded.position)
    connection.execute("SELECT pg_create_logical_replication_slot('bare', 'pgoutput')")
    live(connection, units, changes)
    parts = Parts()
    with parts.part("bare"):
        bare(dsn, changes // 50)
    with parts.part("source"):
        found = followed(source, loaded.position)
    source.close()
    assert found == changes, found
    with parts.part("gauge"):
        for _ in gauge.run():
            pass
    return parts


def result(parts: Parts, units: int, changes: int) -> Result:
    bare_seconds, _ = parts.found["bare"]
    rows = [
        [name, f"{wall:.2f} s", f"{cpu:.2f} s", f"{changes / wall:,.0f}", f"{1e6 * cpu / changes:.1f} µs"]
        for name, (wall, cpu) in parts.found.items()
    ]
    whole, _ = parts.found["gauge"]
    return Result(
        "A backlog of PostgreSQL",
        f"{changes:,} changes of {units:,} rows wait in the log of a server on the same machine. The bare "
        "stream counts messages and looks at nothing else; the source makes batches; the gauge makes ticks, "
        "durable. The processor time is that of this process, without the server's.",
        ratios=[
            Ratio("source", parts.found["source"][0], "the bare stream", bare_seconds, "s"),
            Ratio("gauge", whole, "the bare stream", bare_seconds, "s"),
            Ratio("gauge", changes / whole, "the aim", 100_000, "changes/s", 1.0, "higher"),
            Ratio("a burst of a million", whole * 1_000_000 / changes, "the aim", 12, "s", 1.0),
        ],
        tables=[
            Table("", ["part", "seconds", "processors", "changes a second", "processors a change"], rows)
        ],
    )


def main() -> int:
    parser = options(__doc__, quick="20,000 changes of as many rows")
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--units", type=int, default=1_000_000)
    given = parser.parse_args()
    if not binaries():
        return say(
            not_here("A backlog of PostgreSQL", "PostgreSQL", "It is not installed."), as_json=given.json
        )
    units, changes = (20_000, 20_000) if given.quick else (given.units, given.changes)
    server = Server(binaries()[0], max_wal_size="'8GB'", shared_buffers="'256MB'", autovacuum="off")
    os.environ["BENCH_DSN"] = server.dsn()
    try:
        with tempfile.TemporaryDirectory() as folder, server.connect() as connection:
            parts = measure(connection, server.dsn(), Path(folder), units, changes)
    finally:
        server.stop()
    return say(result(parts, units, changes), as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())

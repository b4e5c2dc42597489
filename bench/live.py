"""A whole gauge on a live PostgreSQL: changes per second, memory, and the time to catch up after a burst.

    python -m bench.live            ten million changes on a million rows
    python -m bench.live --quick    three hundred thousand on a hundred thousand

Starts a private server, runs `tidegauge run` in a process of its own, and compares its readings with the
answers of the database.  Server, writer and gauge share the machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from bench.result import Ratio, Result, Table, not_here, options, say
from tests.servers.postgres import Server, binaries
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

DECLARATION = """
[source]
kind = "postgres"
dsn = "env:BENCH_DSN"
table = "accounts"
entry = "id"

[constraint]
at_most = 1000000

[budget]
epsilon = 1e15

[release.by_region]
sql = "SELECT region, COUNT(*) FROM accounts WHERE status = 'open' GROUP BY region"
groups.region = ["r0", "r1", "r2", "r3", "r4"]
every = "10 seconds"

[release.balances]
sql = "SELECT SUM(balance) FROM accounts"
bounds.balance = [0, 1000]
every = "10 seconds"
"""
TRUTH = (
    "SELECT sum(balance), count(*) FILTER (WHERE status = 'open' AND region = 'r0'), "
    "count(*) FILTER (WHERE status = 'open' AND region = 'r1'), count(*) FILTER (WHERE status = 'open' AND "
    "region = 'r2'), "
    "count(*) FILTER (WHERE status = 'open' AND region = 'r3'), count(*) FILTER (WHERE status = 'open' AND "
    "region = 'r4') "
    "FROM accounts"
)
WRITER = """
CREATE PROCEDURE live(units int, changes int, a_transaction int) LANGUAGE plpgsql AS $$
DECLARE done int := 0; turn int := 0; low int;
BEGIN
  WHILE done < changes LOOP
    low := 1 + floor(random() * (units - a_transaction))::int;
    turn := turn + 1;
    IF turn % 10 = 0 THEN
      DELETE FROM accounts WHERE id BETWEEN low AND low + a_transaction / 2 - 1;
      INSERT INTO accounts SELECT i, 'r' || i % 5, (random() * 1000)::int, 'open', 'again'
        FROM generate_series(low, low + a_transaction / 2 - 1) i;
    ELSE
      UPDATE accounts SET balance = (balance + 7) % 1000,
        status = CASE WHEN random() < 0.1 THEN 'closed' ELSE 'open' END
      WHERE id BETWEEN low AND low + a_transaction - 1;
    END IF;
    IF turn % 20 = 7 THEN ROLLBACK; ELSE COMMIT; done := done + a_transaction; END IF;
  END LOOP;
END $$
"""
CHILD = """
import json, os, sys, time
from tidegauge.run.tick import Ticker
tick, out = Ticker.tick, open("ticks.jsonl", "a", buffering=1)
def timed(self, batch, **more):
    wall, cpu = time.perf_counter(), time.process_time()
    done = tick(self, batch, **more)
    seconds = time.perf_counter() - wall, time.process_time() - cpu
    out.write(json.dumps([batch.rows.num_rows, *seconds]) + chr(10))
    return done
Ticker.tick = timed
from tidegauge.cli import main
main()
"""


class Gauged:
    """The gauge in its process."""

    def __init__(self, folder: Path, connection: psycopg.Connection[Any]) -> None:
        self.folder, self.connection = folder, connection
        (folder / "tidegauge.toml").write_text(DECLARATION)
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, "run"], cwd=folder, stderr=(folder / "stderr").open("wb")
        )

    def rss(self) -> float:
        """Megabytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def cpu(self) -> float:
        """Seconds, of all its threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def behind(self, lsn: str) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError((self.folder / "stderr").read_text())
        row = self.connection.execute(
            (
                "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name NOT LIKE "
                "'%%loading'"
            ),
            [lsn],
        ).fetchone()
        return row is None or not row[0]

    def caught_up(self) -> float:
        """Wait until everything written by now is committed in the store; the seconds it took."""
        begin = time.perf_counter()
        row = self.connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        while self.behind(row[0]):
            time.sleep(0.05)
        return time.perf_counter() - begin

    def ticks(self) -> list[tuple[int, float, float]]:
        file = self.folder / "ticks.jsonl"
        return [tuple(json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


@contextmanager
def watched(gauged: Gauged, every: float) -> Iterator[list[tuple[float, float]]]:
    """(seconds, megabytes), now and then."""
    seen: list[tuple[float, float]] = []
    begin, end = time.perf_counter(), threading.Event()

    def look() -> None:
        while not end.is_set():
            seen.append((time.perf_counter() - begin, gauged.rss()))
            end.wait(every)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        end.set()
        thread.join()


def live(connection: psycopg.Connection[Any], units: int, changes: int) -> float:
    begin = time.perf_counter()
    connection.execute("CALL live(%s, %s, 50)", [units, changes])
    return time.perf_counter() - begin


def measure(units: int, changes: int, burst: int) -> dict[str, Any]:
    server = Server(binaries()[0], max_wal_size="'8GB'", shared_buffers="'256MB'", autovacuum="off")
    os.environ["BENCH_DSN"] = server.dsn()
    found: dict[str, Any] = {"units": units}
    try:
        with tempfile.TemporaryDirectory() as folder, server.connect() as connection:
            connection.execute(
                "CREATE TABLE accounts (id int PRIMARY KEY, region text, balance int, status text, note text)"
            )
            connection.execute(
                (
                    "INSERT INTO accounts SELECT i, 'r' || i %% 5, i %% 1000, 'open', 'first' FROM "
                    "generate_series(1, %s) i"
                ),
                [units],
            )
            connection.execute(WRITER.encode())
            gauged = Gauged(Path(folder), connection)
            found["first load s"] = gauged.caught_up()
            loaded = len(gauged.ticks())
            for _ in range(5):
                live(connection, units, 10_000)
                gauged.caught_up()
            small = [wall for rows, wall, _ in gauged.ticks()[loaded:] if rows >= 5_000]
            found["tick of 10,000 s"] = statistics.median(small) if small else None
            cpu, begin = gauged.cpu(), time.perf_counter()
            with watched(gauged, max(1.0, changes / 500_000)) as memory:
                found["writing s"] = live(connection, units, changes)
                found["then behind s"] = gauged.caught_up()
            wall = time.perf_counter() - begin
            found["changes"] = changes
            found["changes/s"] = changes / wall
            found["cpu us/change"] = (gauged.cpu() - cpu) / changes * 1e6
            found["rss MB over time"] = [round(mb) for _, mb in memory]
            found["burst"] = burst
            found["burst writing s"] = live(connection, units, burst)
            found["burst gone after s"] = gauged.caught_up()
            ticks = [tick for tick in gauged.ticks() if tick[0]]
            rows = sum(tick[0] for tick in ticks)
            found["ticks us/change"] = sum(tick[1] for tick in ticks) / rows * 1e6
            truth = connection.execute(TRUTH).fetchone()
            time.sleep(12)
            gauged.stop()
            gauge = Gauge.from_file(Path(folder) / "tidegauge.toml")
            readings = gauge.published()
            newest = max(reading.time for reading in readings)
            values = [reading.value for reading in readings if reading.time == newest]
            found["exact"] = truth is not None and all(
                a is not None and abs(a - b) < 0.5 for a, b in zip(values, truth, strict=True)
            )
    finally:
        server.stop()
    return found


def result(units: int, changes: int, burst: int) -> Result:
    """What `measure` found, beside the time that the database took to write."""
    found = measure(units, changes, burst)
    wrote, behind = found["writing s"], found["then behind s"]
    rows = [[name, str(round(one, 3) if isinstance(one, float) else one)] for name, one in found.items()]
    return Result(
        "A live PostgreSQL",
        f"A whole gauge follows {changes:,} changes of {units:,} rows while the database writes them; "
        "server, writer and gauge share the machine. Its readings, without noise, must equal the answers "
        "of the database.",
        ratios=[
            Ratio("changes written and followed", wrote + behind, "changes written", wrote, "s"),
            Ratio("a burst, until it is followed", found["burst writing s"] + found["burst gone after s"],
                  "the burst written", found["burst writing s"], "s"),
            Ratio("changes followed", found["changes/s"], "wanted", 100_000, "a second", 1, "higher"),
            Ratio("a burst followed", burst / found["burst gone after s"], "wanted", 1_000_000 / 12,
                  "a second",
                  1 if burst >= 1_000_000 else None, "higher"),
        ],
        tables=[Table("", ["what", "value"], rows)],
    )  # fmt: skip


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--changes", type=int)
    parser.add_argument("--units", type=int)
    given = parser.parse_args()
    if not binaries():
        reason = "It is not installed (Debian: apt-get install postgresql)."
        return say(not_here("A live PostgreSQL", "PostgreSQL", reason), as_json=given.json)
    changes = given.changes or (300_000 if given.quick else 10_000_000)
    units = given.units or (100_000 if given.quick else 1_000_000)
    found = result(units, changes, 100_000 if given.quick else 1_000_000)
    return say(found, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())

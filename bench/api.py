"""What the web process and the publishers manage: a public file of 50 releases,
20 groups and two years of days.

    python -m bench.api              the numbers to reach, each with its limit; fails if one is missed
    python -m bench.api --quick      a tenth of the readings, for a look

The same load is put on a server that only sends the same bytes (bare.py).  Needs wrk (Debian: apt-get install
wrk) and the extra 'serve'.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.result import Chart, Ratio, Result, Table, not_here, options, say
from tests.publish.ward import Ward
from tidegauge.model.quantity import DAY, instant
from tidegauge.model.tick import Seal
from tidegauge.publish.batch import Batch
from tidegauge.publish.folder import FolderPublisher
from tidegauge.publish.public.values import (
    About,
    Document,
    Guarantee,
    LedgerEntry,
    PublicReading,
    ReleaseInfo,
)
from tidegauge.publish.public.writer import write

START = instant("2024-01-01")
RELEASES, GROUPS, DAYS = 50, 20, 731


def release(name: str) -> ReleaseInfo:
    """An invented release by region."""
    regions = tuple(f"region {n:02}" for n in range(GROUPS))
    return ReleaseInfo(
        name=name, of=None, sql="SELECT region, COUNT(*) FROM patients GROUP BY region", aggregate="count",
        what="running value", unit="rows", groups=(("region", regions),),
        cells=tuple({"region": one} for one in regions), start=START, every="1 day", window=None, count=DAYS,
        level=True, never_negative=True, strategy="toeplitz", parameters={}, noise="discrete Gaussian",
        noise_scale=3.0, folds=None, loss=0.01, half_width_worst=12.0, half_width_mean=10.0, adaptive=True,
        promise="zero-concentrated (rho)",
    )  # fmt: skip


def document(releases: int = RELEASES) -> Document:
    """An invented plan of these releases."""
    guarantee = Guarantee(
        plan="0" * 64, epsilon=2.0, delta=1e-6, rho=None, measure="rho", total=0.07, reserved=0.07,
        epsilon_at=2.0, delta_at=1e-6, table="patients", unit=None, max_rows=None,
        constraint={"at_most": 4}, protects="one row", sentence="Everything published together ...",
    )  # fmt: skip
    entry = LedgerEntry(1, "2024-01-01T00:00:00Z", "commit", {"reserved": "1", "releases": {}}, "0", "1" * 64)
    return Document(
        About(title="Patients"),
        guarantee,
        tuple(release(f"release_{n:02}") for n in range(releases)),
        (entry,),
    )


def readings(doc: Document, days: range) -> tuple[PublicReading, ...]:
    """Invented readings of all releases on these days."""
    return tuple(
        PublicReading(
            one.name, day, cell, START + day * DAY, group, value,
            5.25, value - 10.3, value + 10.3, value - 3.5,
            value + 3.5,
        )
        for day in days
        for one in doc.releases
        for cell, group in enumerate(one.cells)
        for value in (100.0 + 13 * cell + (day * 7919 + cell * 104729) % 41,)
    )  # fmt: skip


def seals(days: range) -> tuple[Seal, ...]:
    return tuple(Seal(day + 1, START + day * DAY, f"{day:064x}") for day in days)


def make(path: Path, days: int) -> float:
    """Write the public file; returns the seconds that its last day took."""
    doc = document()
    step = 100
    for first in range(0, days - 1, step):
        part = range(first, min(days - 1, first + step))
        write(path, Batch(str(first), readings(doc, part), doc, seals(part)))
    last = range(days - 1, days)
    batch = Batch("last", readings(doc, last), doc, seals(last))
    began = time.perf_counter()
    write(path, batch)
    return time.perf_counter() - began


@contextmanager
def server(path: Path, workers: int) -> Iterator[str]:
    """`tidegauge serve` as a process."""
    words = [
        sys.executable, "-m", "tidegauge", "serve", str(path),
        "--listen", "127.0.0.1:0", "--workers", str(workers),
    ]  # fmt: skip
    with running(subprocess.Popen(words, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = next(word for word in line.split() if word.startswith("http://"))
        await_answer(f"{address}api/v1/ready", ready=200)
        yield address


@contextmanager
def bare(body: Path, workers: int) -> Iterator[str]:
    """A server of the same kind that sends these bytes and does nothing else."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        sys.executable, "-m", "uvicorn", "bench.bare:app", "--port", str(port), "--workers", str(workers),
        "--log-level", "error", "--no-access-log", "--loop", "uvloop", "--http", "httptools",
    ]  # fmt: skip
    address = f"http://127.0.0.1:{port}/"
    environment = {**os.environ, "BENCH_BODY": str(body)}
    with running(subprocess.Popen(words, env=environment, cwd=Path(__file__).parents[1])):
        await_answer(address)
        yield address


@contextmanager
def running(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    """The process, which is stopped at the end."""
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def await_answer(address: str, *, ready: int | None = None) -> None:
    """Wait until the server answers, with this status if one is given, and all its workers have started."""
    for _ in range(600):
        try:
            if httpx.get(address).status_code == ready or ready is None:
                break
        except httpx.TransportError:
            time.sleep(0.05)
    time.sleep(1.0)


def wrk(address: str, *more: str, seconds: int = 8) -> float:
    """Requests per second; fails where an answer was an error."""
    words = ["wrk", "-t1", "-c32", f"-d{seconds}s", *more, address]
    done = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in done and "304" not in " ".join(more):
        raise SystemExit(done)
    return float(re.findall(r"Requests/sec:\s+([\d.]+)", done)[0])


def pages_in_turn(folder: Path, names: int, days: int) -> Path:
    """A script for wrk: another query each time, so that no answer was given before."""
    script = folder / "turn.lua"
    script.write_text(
        f"local n = 0\nrequest = function()\n  n = n + 1\n  local r, p = n % {names}, math.floor(n / "
        f"{names}) % {days * GROUPS // 100} + 1\n  local at = "
        "string.format('/api/v1/releases/release_%02d/readings?page=%d&from=2024-01-01T00:00:00.%06dZ', r, "
        "p, n % 1000000)\n  return wrk.format('GET', at)\nend\n"
    )
    return script


def timed(address: str, times: int = 5) -> tuple[float, float, int]:
    """Milliseconds of the first answer and of the best later one, and its size."""
    took = []
    with httpx.Client() as client:
        for _ in range(times):
            began = time.perf_counter()
            size = len(client.get(address).raise_for_status().content)
            took.append((time.perf_counter() - began) * 1000)
    return took[0], min(took[1:]), size


def tick_under_load(folder: Path) -> tuple[float, float]:
    """Milliseconds of a tick of a small gauge, without readers and with as many as there can be."""

    def run(home: Path, first: int) -> float:
        home.mkdir(exist_ok=True)
        ward = Ward(home, {"page": {"kind": "public"}})
        took = []
        for day in range(first, first + 12):
            began = time.perf_counter()
            ward.run(day)
            took.append(time.perf_counter() - began)
        return sorted(took)[len(took) // 2] * 1000

    run(folder / "gauge", 0)
    alone = run(folder / "gauge", 12)
    with server(folder / "gauge" / "public.db", 1) as address:
        load = threading.Thread(
            target=wrk, args=(f"{address}api/v1/releases/by_ward/readings", "-c4"), kwargs={"seconds": 20}
        )
        load.start()
        busy = run(folder / "gauge", 24)
        load.join()
    return alone, busy


def result(days: int, seconds: int) -> Result:
    """Requests a second beside a bare server, and times and sizes beside their limits."""
    rates: list[Ratio] = []
    limits: list[Ratio] = []

    def within(what: str, value: float, unit: str, limit: float, better: str = "lower") -> None:
        limits.append(Ratio(what, value, "the limit", limit, unit, 1.0, better))

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path = folder / "public.db"
        last = make(path, days)
        size = path.stat().st_size / 1e6
        within("adding one day to the public file", last * 1000, "ms", 2000)
        doc = document(1)
        batch = Batch("k", readings(doc, range(500)), doc, ())
        began = time.perf_counter()
        FolderPublisher(folder / "out", "csv").deliver(batch)
        within("10,000 readings to a folder", (time.perf_counter() - began) * 1000, "ms", 2000)
        with server(path, 2) as address:
            one = f"{address}api/v1/releases/release_07/readings"
            answer = httpx.get(one)
            script = pages_in_turn(folder, RELEASES, days)
            fresh = wrk(address, "-s", str(script), seconds=seconds)
            same = wrk(one, seconds=seconds)
            tag = answer.headers["etag"]
            known = wrk(one, "-H", f"If-None-Match: {tag}", "-H", "x-expect: 304", seconds=seconds)
        (folder / "body").write_bytes(answer.content)
        with bare(folder / "body", 2) as address:
            most = wrk(address, seconds=seconds)
        for what, rate, limit in (
            ("readings, another query each time", fresh, 1000),
            ("readings, the same query", same, 1000),
            ("readings, the ETag matches", known, 5000),
        ):
            rates.append(Ratio(what, rate, "a bare server", most, "requests/s", better="higher"))
            within(what, rate, "requests/s", limit, "higher")
        with server(path, 1) as address:
            cold, warm, weight = timed(address)
            within("overview, first answer", cold, "ms", 1000)
            within("overview, later", warm, "ms", 150)
            within("overview, size", weight / 1000, "kB", 300)
            _, _, weight = timed(f"{address}releases/release_07")
            within("page of a release, size", weight / 1000, "kB", 150)
        alone, busy = tick_under_load(folder)
    ticks = Ratio("a run with one tick while wrk reads", busy, "the same without readers", alone, "ms")
    return Result(
        "API",
        f"A public file of {RELEASES} releases, {GROUPS} groups and {days} days ({size:,.0f} MB), served by "
        "two processes to wrk with 32 connections on the same machine. A bare server sends the same "
        f"{len(answer.content) / 1000:.0f} kB and does nothing else, so it is the limit of this kind of "
        "server.",
        ratios=[*rates, ticks, *limits],
        tables=[Table("", ["what", "value"], [["load before the last part", f"{os.getloadavg()[0]:.1f}"]])],
        charts=[Chart("Requests a second", "over those of a server that only sends the same bytes",
                      bars=[(rate.what, rate.value) for rate in rates])],
    )  # fmt: skip


def main() -> int:
    """Measure, print, and fail where a limit is missed."""
    parser = options(__doc__)
    asked = parser.parse_args()
    if shutil.which("wrk") is None:
        reason = "It is not installed (Debian: apt-get install wrk)."
        return say(not_here("API", "wrk", reason), as_json=asked.json)
    found = result(DAYS // 10, 2) if asked.quick else result(DAYS, 8)
    return say(found, as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())

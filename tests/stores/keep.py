"""Write the stores that are kept: python -m tests.stores.keep NAME ...

A kept store is evidence of what an older version wrote, so one that is there is never written again: a new
world gets a new name.  Each archive holds two folders, `real` (noise of a real gauge) and `simulated` (noise
that a seed repeats).  Beside it stands what the store had published, and what it publishes when it runs on
without noise.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.golden.compare import plain
from tests.golden.dump import Exact, Seeded
from tests.stores.worlds import DAY, DAYS, DAYS_BEFORE, KEY, START, WORLDS, write_files, write_table
from tidegauge import open as open_gauge

if TYPE_CHECKING:
    from tidegauge import Gauge

FOLDER: Final = Path(__file__).parent
FLAVOURS: Final = ("real", "simulated")


def opened(folder: Path, day: int, sampler: object = None) -> Gauge:
    """The gauge in a folder, an hour after a day's reading is due."""
    options: dict[str, Any] = {} if sampler is None else {"sampler": sampler}
    os.environ["TIDEGAUGE_KEPT_KEY"] = KEY
    return open_gauge(folder / "tidegauge.toml", now=lambda: START + day * DAY + DAY // 24, **options)


def later(name: str, folder: Path) -> None:
    """What comes into the source after the store was written."""
    (write_table if WORLDS[name].live else write_files)(folder, range(DAYS_BEFORE, DAYS))


def published(gauge: Gauge) -> list[Any]:
    """Every reading, digit for digit."""
    return [reading.as_json() for reading in gauge.published()]


def run_on(name: str, folder: Path, *, simulated: bool) -> Gauge:
    """Let the gauge run to its end in two runs."""
    for day in (DAYS_BEFORE + 3, DAYS - 1):
        if day != DAYS - 1:
            later(name, folder)
        gauge = opened(folder, day, Exact() if simulated else None)
        list(gauge.run())
    return gauge


def ended(gauge: Gauge) -> dict[str, Any]:
    """What a gauge shows at its end, but for its noise, on which the standard error of a mean depends too."""
    status = gauge.status().as_json()
    del status["plan"], status["whole_error"]
    timetable = [
        [row["release"], row["time"], row["group"], None if row["release"] == "mean_age" else row["stderr"]]
        for row in published(gauge)
    ]
    found: dict[str, Any] = plain(
        {"status": status, "timetable": timetable, "verified": gauge.verify().as_json()}
    )
    return found


def _write(name: str, folder: Path, *, simulated: bool) -> Gauge:
    """A gauge that has run for some days."""
    world = WORLDS[name]
    folder.mkdir()
    (folder / "tidegauge.toml").write_text(world.toml, "utf-8")
    (write_table if world.live else write_files)(folder, range(DAYS_BEFORE))
    if world.live:
        opened(folder, 0).install()
    for day in (2, DAYS_BEFORE - 1):
        gauge = opened(folder, day, Seeded(day) if simulated else None)
        list(gauge.run())
    gauge.verify()
    return gauge


def _pack(folder: Path) -> bytes:
    """An archive that is the same whenever it is made of the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.endswith((".lock", ".matrices", "-shm")):
                entry = tarfile.TarInfo(str(path.relative_to(folder)))
                entry.size, entry.mode = path.stat().st_size, 0o600
                with path.open("rb") as file:
                    archive.addfile(entry, file)
    return gzip.compress(buffer.getvalue(), mtime=0)


def unpack(name: str, folder: Path) -> None:
    """The kept store, its declaration, its witness and its source's data."""
    with tarfile.open(FOLDER / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")


def keep(name: str) -> None:
    """Write one world's stores and what is expected of them."""
    archive = FOLDER / f"{name}.tar.gz"
    if archive.exists():
        raise SystemExit(f"{archive.name} is kept already, and a kept store is never written again.")
    expected: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for flavour in FLAVOURS:
            gauge = _write(name, folder / flavour, simulated=flavour == "simulated")
            expected[flavour] = {"published": published(gauge), "hash": gauge.plan().hash}
        packed = _pack(folder)
        for flavour in FLAVOURS:
            gauge = run_on(name, folder / flavour, simulated=flavour == "simulated")
            expected[flavour] |= ended(gauge)
        expected["simulated"]["values"] = [row["value"] for row in published(gauge)]
    archive.write_bytes(packed)
    text = json.dumps(expected, separators=(",", ":"), ensure_ascii=False)
    (FOLDER / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    for one in sys.argv[1:] or WORLDS:
        keep(one)

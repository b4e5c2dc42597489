"""Gauges whose stores an earlier version wrote half of; this one opens them, upgrades them and goes on.

The stores in the folder `format_2` were written by the last version that wrote format 2.  To write them
again, check that version out beside this one and let it run this module:

    PYTHONPATH=OLD/src:. python -m tests.store.worlds FOLDER
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script

KEY = "7e" * 32
HALF = "1970-01-01T00:00:00.000015Z"
COLUMNS = {"ward": "VARCHAR", "note": "VARCHAR", "age": "BIGINT", "weight": "DOUBLE"}
EVERY = {"start": "1970-01-01T00:00:00.000005Z", "every": "5 microseconds", "for": "25 microseconds"}
EXACT = {"epsilon": 10**9}
STORES = Path(__file__).parent / "format_2"


def _row(n: int, note: str = "new") -> dict[str, Any]:
    return {"ward": "ab"[n % 2], "note": note, "age": 20 + n, "weight": None if n % 3 == 0 else n + 0.5}


def _life() -> list[tuple[Any, ...]]:
    """Twelve rows; in the second half all are delivered unchanged,
    then four change, then all are as they are already."""
    log: list[tuple[Any, ...]] = [(n + 1, f"p{n}", _row(n), f"u{n % 7}") for n in range(12)]
    log += [(18, f"p{n}", _row(n), f"u{n % 7}") for n in range(12)]
    log += [(22, f"p{n}", _row(n, "other"), f"u{n % 7}") for n in range(4)]
    log += [(27, f"p{n}", _row(n, "other" if n < 4 else "new"), f"u{n % 7}") for n in range(12)]
    return [*log, (28, "p11", None, "u4"), (29, "p12", _row(12), "u5")]


def _gauge(folder: Path, **changes: Any) -> Gauge:
    declared: dict[str, Any] = {
        "source": Script(COLUMNS, _life(), size=4),
        "constraint": {"at_most": 9},
        "budget": EXACT,
        "store": folder / "store.db",
        "now": Clock(1000),
    }
    return Gauge(**(declared | changes))


def flow(folder: Path) -> Gauge:
    """Changes of rows, which are recognised by digests."""
    moves = {"sql": "SELECT COUNT(*) FROM changes(t) WHERE before.ward = after.ward", **EVERY}
    by_ward = {
        "sql": "SELECT after.ward, COUNT(*) FROM changes(t) GROUP BY after.ward",
        "groups": {"ward": ["a", "b"]},
        **EVERY,
    }
    present = {"sql": "SELECT COUNT(*) FROM t", **EVERY}
    return _gauge(folder, releases={"moves": moves, "by_ward": by_ward, "present": present})


def encrypted(folder: Path) -> Gauge:
    """Units with several rows that retire, clips and sums, in an encrypted store."""
    moved = {"sql": "SELECT COUNT(*) FROM changes(t) WHERE before.note <> after.note", "clip": 2, **EVERY}
    ages = {"sql": "SELECT SUM(age) FROM t", "bounds": {"age": [0, 100]}, **EVERY}
    return _gauge(
        folder, releases={"moved": moved, "ages": ages}, unit="unit", max_rows=2, key="env:TIDEGAUGE_KEY",
        constraint={"at_most": 9, "within": "20 microseconds", "on_excess": "retire"},
    )  # fmt: skip


def sparse(folder: Path) -> Gauge:
    """As little as can be declared: everything else is a default."""
    return _gauge(folder, releases={"n": {"sql": "SELECT COUNT(*) FROM t", **EVERY}}, budget={"rho": 1000})


def buffered(folder: Path) -> Gauge:
    """A stream, whose state must go on where it was; the noise is real."""
    own = {"name": "buffered", "bins": 6, "buffers": "0.3:1 0.4:0.5 0.2:0.07 0.1:0", "offset": 0.2}
    level = {
        "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward",
        "groups": {"ward": ["a", "b"]},
        "strategy": own,
        **EVERY,
    }
    return _gauge(folder, releases={"level": level}, budget={"rho": 1})


def shared(folder: Path) -> Gauge:
    """Shared noise, which must never be drawn again; the noise is real."""
    return _gauge(
        folder, constraint={"at_most": 2}, budget={"epsilon": 1},
        releases={"level": {"sql": "SELECT COUNT(*) FROM t", "strategy": "autoregressive", **EVERY}},
    )  # fmt: skip


WORLDS = {one.__name__: one for one in (flow, encrypted, sparse, buffered, shared)}


def restore(name: str, folder: Path) -> Gauge:
    """A gauge with the store that format 2 left, half way."""
    (folder / "store.db").write_bytes(gzip.decompress((STORES / f"{name}.db.gz").read_bytes()))
    shutil.copy(STORES / f"{name}.witness", folder / "store.db.witness")
    return WORLDS[name](folder)


def main() -> None:
    """Write the stores with whatever version is imported."""
    goal = Path(sys.argv[1])
    os.environ["TIDEGAUGE_KEY"] = KEY
    for name, world in WORLDS.items():
        with tempfile.TemporaryDirectory() as folder:
            list(world(Path(folder)).run(HALF))
            (goal / f"{name}.db.gz").write_bytes(
                gzip.compress((Path(folder) / "store.db").read_bytes(), mtime=0)
            )
            shutil.copy(Path(folder) / "store.db.witness", goal / f"{name}.witness")


if __name__ == "__main__":
    main()

"""What plan --json prints for every example and the demo."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.golden.compare import plain
from tests.golden.dump import planned
from tidegauge import open as open_gauge

if TYPE_CHECKING:
    from tests.servers.postgres import Server

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
NOW: Final = 1_790_000_000_000_000
"""The time of planning, from which schedules without a start begin."""
PLANS: Final = ("debezium", "demo", "hospital", "local_survey", "sqlite_app")
"""Those that need no server."""
SCHEMAS: Final = {"docker": "clinic.sql", "postgres": "schema.sql"}
"""Those that need a server, and the statements that make its table."""


def of_plan(name: str, folder: Path) -> dict[str, Any]:
    """The plan of an example, or of the demo, with the declaration in its folder."""
    here = folder / name
    if name == "local_survey":
        return _survey(folder)
    if name == "demo":
        here.mkdir()
        (here / "tidegauge.toml").write_bytes((files("tidegauge") / "demo" / "tidegauge.toml").read_bytes())
        sides = ",".join(
            f"{side}_{one}" for side in ("before", "after") for one in ("care", "infected", "age")
        )
        changes = f"time,person,{sides}\n2025-01-01T00:00:01,p1,,,,therapy,no,50\n"
        (here / "care.csv.gz").write_bytes(gzip.compress(changes.encode()))
    else:
        shutil.copytree(EXAMPLES / name, here)
    if name == "sqlite_app":
        subprocess.run([sys.executable, "app.py", "0"], cwd=here, check=True, capture_output=True)
    return planned(open_gauge(here / "tidegauge.toml", now=lambda: NOW))


def of_postgres(server: Server, name: str, folder: Path) -> dict[str, Any]:
    """The plan of an example that needs a server."""
    dsn = server.database(f"golden_{name}")
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute((EXAMPLES / name / SCHEMAS[name]).read_bytes())
    os.environ["DATABASE_URL"] = dsn
    try:
        return of_plan(name, folder)
    finally:
        del os.environ["DATABASE_URL"]


def _survey(folder: Path) -> dict[str, Any]:
    """The survey of examples/local_survey, as the verb plans it."""
    declared = [
        "--answers",
        "well,ill",
        "--windows",
        "8",
        "--changes",
        "2",
        "--epsilon",
        "4",
        "--seed",
        "golden",
    ]
    out = folder / "survey.json"
    shown = subprocess.run(
        [sys.executable, "-c", "from tidegauge.cli import main; main()", "local", "plan", *declared,
         "--out", str(out), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )  # fmt: skip
    found: dict[str, Any] = plain(
        {"plan": json.loads(shown.stdout), "survey": json.loads(out.read_text("utf-8"))}
    )
    return found

"""Large libraries are imported only by the code that needs them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import tidegauge

if TYPE_CHECKING:
    from pathlib import Path

TOML = """
[source]
kind = "files"
path = "t.csv"
time = "time"
entry = "id"
after = ""

[constraint]
at_most = 4

[budget]
epsilon = 2
delta = 1e-6

[release.all]
sql = "SELECT COUNT(*) FROM t"
start = "2026-01-01"
every = "1 day"
for = "1 day"
"""
HEAVY = ("dp_accounting", "duckdb", "numpy", "opendp", "pyarrow", "pydantic", "scipy", "sqlglot")


READINGS_STILL_LOADS = {"duckdb", "numpy", "pyarrow", "pydantic", "scipy", "sqlglot"}
"""Libraries that `tidegauge readings` loads today: `run.gauge` imports engine, planner and sources at its top.
Entries may only be removed; numpy and pydantic (decoding, the declaration) are needed."""


def loaded(code: str, folder: Path | None = None) -> set[str]:
    """The heavy libraries that a new interpreter has loaded after running this code in `folder`."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{code}\nimport sys\nprint(*(name for name in {HEAVY} if name in sys.modules))",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    [
        "import tidegauge",
        "import tidegauge\ndir(tidegauge)",
        "import tidegauge\ntidegauge.AtMost(3), tidegauge.TidegaugeError, tidegauge.Budget",
    ],
)
def test_the_package_loads_nothing_heavy(code: str) -> None:
    assert loaded(code) == set()


def verb(*words: str) -> str:
    """Code that runs a verb to its end, as the `tidegauge` program does."""
    return f"""
import sys
from tidegauge.cli import main
sys.argv = ["tidegauge", *{words}]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


@pytest.mark.parametrize(
    "words", [("--help",), ("--version",), ("run", "--help"), ("init", "--help"), ("local", "plan", "--help")]
)
def test_help_and_version_load_nothing_heavy(words: tuple[str, ...]) -> None:
    assert loaded(verb(*words)) <= {"pydantic"}  # which typer imports to read the annotations of a verb


def test_readings_load_no_more_than_they_did(tmp_path: Path) -> None:
    (tmp_path / "tidegauge.toml").write_text(TOML)
    (tmp_path / "t.csv").write_text("time,id,ward\n2026-01-01,1,a\n")
    assert len(list(tidegauge.open(tmp_path / "tidegauge.toml").run())) == 2
    assert loaded(verb("readings"), tmp_path) <= READINGS_STILL_LOADS


def test_what_is_used_is_loaded() -> None:
    assert {"duckdb", "numpy", "pyarrow", "pydantic"} <= loaded("import tidegauge\ntidegauge.Gauge")


def test_a_public_name_is_the_thing_itself() -> None:
    from tidegauge.run.gauge import Gauge

    assert tidegauge.Gauge is Gauge
    assert set(tidegauge.__all__) <= set(dir(tidegauge))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = tidegauge.nothing

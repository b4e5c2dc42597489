"""Heavy libraries are loaded when something that needs them is first used (bench/startup.py measures the
cost)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tidegauge

HEAVY = ("dp_accounting", "duckdb", "numpy", "opendp", "pyarrow", "pydantic", "scipy", "sqlglot")

TOML = """
source = { kind = "files", path = "t.csv", time = "time", entry = "id", after = "" }
constraint.at_most = 4
budget = { epsilon = 2, delta = 1e-6 }

[release.all]
sql = "SELECT COUNT(*) FROM t"
start = "2026-01-01"
every = "1 day"
for = "10 days"
"""


def loaded(code: str) -> set[str]:
    """The heavy libraries that a new interpreter has loaded after it has run this code."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{code}\nimport sys\nprint(*(name for name in {HEAVY} if name in sys.modules))",
        ],
        capture_output=True,
        text=True,
        check=True,
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


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The declaration of a gauge that has published eleven readings."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "tidegauge.toml").write_text(TOML, "utf-8")
    rows = ["time,id", *(f"2026-01-{day:02}T00:00:00Z,{day}" for day in range(1, 12))]
    (folder / "t.csv").write_text("\n".join(rows) + "\n", "utf-8")
    assert len(list(tidegauge.open(folder / "tidegauge.toml").run())) == 11
    return folder / "tidegauge.toml"


@pytest.mark.parametrize(
    "asked", ["published()", "published(smoothed=True)", "status()", "ledger()", "verify()"]
)
def test_published_values_are_read_without_the_engine(asked: str, small: Path) -> None:
    found = loaded(f"import tidegauge\nassert tidegauge.open({str(small)!r}).{asked}")
    reads_state = asked in {"status()", "verify()"}  # units that were dropped; every block's checksum
    also = {"pyarrow"} if reads_state else set()
    assert found == {"numpy", "pydantic"} | also


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


def test_the_verb_that_prints_readings_loads_no_engine(small: Path) -> None:
    assert loaded(verb("readings", "-f", str(small))) == {"pydantic"}


def test_planning_loads_what_it_needs(small: Path) -> None:
    code = (
        f"import tidegauge\ntidegauge.open({str(small)!r}, store={str(small.with_name('other.db'))!r}).plan()"
    )
    assert {"duckdb", "numpy", "pyarrow", "pydantic", "sqlglot"} <= loaded(code)


def test_a_public_name_is_the_thing_itself() -> None:
    from tidegauge.run.gauge import Gauge

    assert tidegauge.Gauge is Gauge
    assert set(tidegauge.__all__) <= set(dir(tidegauge))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = tidegauge.nothing

"""What is not needed is not loaded: the heavy libraries come in when something that uses them is first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("dp_accounting", "duckdb", "numpy", "opendp", "pyarrow", "pydantic", "scipy", "sqlglot")


def loaded(code: str) -> set[str]:
    """The heavy libraries that a fresh interpreter has loaded after this code."""
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


def test_what_is_used_is_loaded() -> None:
    assert {"duckdb", "numpy", "pyarrow", "pydantic"} <= loaded("import tidegauge\ntidegauge.Gauge")


def test_a_public_name_is_the_thing_itself() -> None:
    import tidegauge
    from tidegauge.run.gauge import Gauge

    assert tidegauge.Gauge is Gauge
    assert set(tidegauge.__all__) <= set(dir(tidegauge))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = tidegauge.nothing

"""A user without PySpark or Java, and what a session that Tidegauge starts leaves behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[3]
DECLARED = """
source = { kind = "spark", path = "log.FORMAT", table = "log", time = "at", key = "id" }
engine.kind = "spark"
constraint.at_most = 2
budget.epsilon = 1
[release.now]
sql = "SELECT COUNT(*) FROM log WHERE s = 'in'"
start = "2026-01-02"
every = "1 day"
for = "3 days"
"""
SECRET = "Zanzibar"


def run(folder: Path, environment: dict[str, str], before: str = "") -> subprocess.CompletedProcess[str]:
    command = f"{before}\nfrom tidegauge.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", command, "run", "--once", "--yes"],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def written(folder: Path, kind: str, lines: list[str]) -> None:
    (folder / "tidegauge.toml").write_text(DECLARED.replace("FORMAT", kind), "utf-8")
    (folder / f"log.{kind}").write_text("\n".join(lines) + "\n", "utf-8")


def plain_environment(**more: str) -> dict[str, str]:
    spark = ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "SPARK_REMOTE")
    return {name: value for name, value in os.environ.items() if name not in spark} | more


def test_without_java_there_is_one_clear_message(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    written(tmp_path, "csv", ["at,id,s", "2026-01-01,1,in"])
    environment = {name: value for name, value in plain_environment(PATH="").items() if name != "JAVA_HOME"}
    found = run(tmp_path, environment)
    assert found.returncode == 2
    assert "Spark needs Java 17 or later" in found.stderr
    assert "Traceback" not in found.stderr


def test_without_pyspark_there_is_one_clear_message(tmp_path: Path) -> None:
    written(tmp_path, "csv", ["at,id,s", "2026-01-01,1,in"])
    found = run(tmp_path, plain_environment(), "import sys; sys.modules['pyspark'] = None")
    assert found.returncode == 2
    assert "extra 'spark'" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_output_and_temporary_files_have_no_values_of_rows(tmp_path: Path, broken: bool) -> None:
    """Also for a line that cannot be read, of which Spark's own message has the text."""
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed")
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    lines = [f"2026-01-01 00:00:{n:02d},{SECRET}{n},in" for n in range(60)]
    written(
        home, "csv", ["at,id,s", *lines, *([f"2026-01-01,{SECRET},in,{SECRET},{SECRET}"] if broken else [])]
    )
    found = run(home, plain_environment(TMPDIR=str(temporary)))
    assert (found.returncode == 0) is not broken, found.stderr
    assert SECRET not in found.stdout + found.stderr
    assert "Traceback" not in found.stderr
    if broken:
        assert "does not have the form of the others" in found.stderr
    left = [path for path in temporary.rglob("*") if path.is_file()]
    assert not [path for path in left if SECRET.encode() in path.read_bytes()]
    assert not [path for path in temporary.iterdir() if path.name.startswith(("blockmgr", "spark-"))]


def test_the_twin_that_must_fail(tmp_path: Path) -> None:
    """The search finds a value that is there."""
    pq.write_table(pa.table({"unit": [SECRET]}), tmp_path / "left.parquet")
    assert SECRET.encode() in (tmp_path / "left.parquet").read_bytes()

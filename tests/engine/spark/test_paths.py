"""Folders and files may have any name, and columns may be in the names of folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.engine.spark.test_gauge import changes, gauge, read, written
from tidegauge.engine.spark.files import beside

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
ODD = "my {store} [1] 100%41 #ü?*"
KINDS = {"duckdb": "files", "spark": "spark"}


@pytest.mark.usefixtures("spark")
def test_the_folder_of_the_gauge_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / ODD
    folder.mkdir()
    for one in (tmp_path, folder):
        written(changes(50, 80), one / "log.parquet")
    found = []
    for until in ("2026-01-05", "2026-01-20"):
        embedded = read(gauge(tmp_path, {"kind": "files", "path": "log.parquet"}, "duckdb", until))
        found = read(gauge(folder, {"kind": "spark", "path": "log.parquet"}, "spark", until))
        assert found == embedded
    assert len(found) > 20


@pytest.mark.parametrize("name", ["a+b", "a[1]", "100%41 b"])
@pytest.mark.usefixtures("spark")
def test_a_file_of_any_name_is_read_once(name: str, tmp_path: Path) -> None:
    """The second file has late changes: a change of the first that were read again would undo them."""
    rows, found = changes(51, 120), {}
    (tmp_path / "log").mkdir()
    for n, until in enumerate(("2026-01-10", "2026-01-20")):
        written(rows[n * 60 : n * 60 + 60], tmp_path / "log" / f"{name}{n}.parquet")
        for engine, kind in KINDS.items():
            found[engine] = read(gauge(tmp_path, {"kind": kind, "path": "log/*.parquet"}, engine, until))
    assert found["spark"] == found["duckdb"]


@pytest.mark.usefixtures("spark")
def test_a_column_in_the_names_of_folders_is_read(tmp_path: Path) -> None:
    written(changes(52, 80), tmp_path / "all.parquet")
    table = pq.read_table(tmp_path / "all.parquet")
    for status in ("in", "out"):
        part = tmp_path / "log" / f"status={status}"
        part.mkdir(parents=True)
        rows = table.filter(pc.equal(table["status"], status)).drop_columns(["status"])
        pq.write_table(rows, part / "0.parquet")
    embedded = read(gauge(tmp_path, {"kind": "files", "path": "all.parquet"}, "duckdb"))
    found = read(gauge(tmp_path, {"kind": "spark", "path": "log", "format": "parquet"}, "spark"))
    assert found == embedded


def test_every_store_has_a_folder_of_its_own(tmp_path: Path) -> None:
    names = ["hospital.db", "patients.v1", "patients.v2", "patients", "patients.v1.db2"]
    folders = [beside(tmp_path / name, "spark").name for name in names]
    assert folders[:2] == ["hospital.spark", "patients.v1.spark"]
    assert len(set(folders)) == len(names)

"""Real changelogs, which are not part of the repository: TIDEGAUGE_DATA names the folder that holds them."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("TIDEGAUGE_DATA") or "TIDEGAUGE_DATA-is-not-set")
needs_data = pytest.mark.skipif(
    not os.environ.get("TIDEGAUGE_DATA"), reason="TIDEGAUGE_DATA names no folder of real changelogs"
)
"""Skips a test where the variable is not set.  A folder that is named and does not exist fails the test."""


def rows(name: str) -> list[dict[str, str]]:
    """The rows of one changelog, read with the standard library alone."""
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))

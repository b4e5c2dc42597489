"""The list of tests that run with few cases names tests that are there."""

from __future__ import annotations

from pathlib import Path

from tests.quick import KEPT


def test_every_test_is_there() -> None:
    for name in KEPT:
        file, _, test = name.partition("::")
        assert f"def {test}(" in (Path(__file__).parent / file).read_text("utf-8"), name

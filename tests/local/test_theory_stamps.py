"""A proof names the function it is of, and goes stale when that changes."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
from pathlib import Path

import pytest

THEORY = Path(__file__).parents[2] / "docs" / "theory"


@pytest.mark.parametrize("name", ["T11", "T12"])
def test_the_stamp_is_of_the_function_as_it_is(name: str) -> None:
    head = (THEORY / f"{name}.md").read_text().splitlines()[0]
    found = re.fullmatch(r"proves: (tidegauge\.local\.\w+)\.(\w+)  stamp: ([0-9a-f]{12})", head)
    assert found
    function = getattr(importlib.import_module(found[1]), found[2])
    assert hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:12] == found[3]
    assert f"[{name}]" in (function.__doc__ or "")

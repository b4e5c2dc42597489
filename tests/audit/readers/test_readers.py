"""Which checks and bugs run without the reader of a source."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from tidegauge.audit.audit import seedable
from tidegauge.audit.controls.bugs import BUGS
from tidegauge.audit.installed.checks import checks
from tidegauge.audit.readers import wal

if TYPE_CHECKING:
    import pytest


def test_bugs_whose_reader_is_not_installed_are_not_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {bug.name for bug in BUGS if "PostgreSQL" in bug.name} <= {bug.name for bug in seedable()}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(wal, "find_spec", lambda name: None)
    known = checks(1e-6)
    assert not any("PostgreSQL" in name for name in known)
    assert "values of change events" in known

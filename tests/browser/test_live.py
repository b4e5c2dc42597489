"""Pages from `serve` in a real browser: behind its policy, and new readings appear without reloading."""

from __future__ import annotations

import time
from pathlib import Path

from tests.browser.chromium import PATIENCE, Tab
from tests.publish.ward import Ward
from tests.serve.served import serving
from tidegauge.serve.app import create_app

PUBLIC = {"page": {"kind": "public", "path": "public.db", "title": "Two wards"}}


def wait(tab: Tab, script: str) -> None:
    """Until the expression is true."""
    until = time.monotonic() + PATIENCE
    while not tab.run(script):
        assert time.monotonic() < until, script
        time.sleep(0.05)


def test_new_readings_appear_and_choices_stay(tab: Tab, tmp_path: Path) -> None:
    ward = Ward(tmp_path, PUBLIC)
    ward.run(40)
    tab.look()
    tab.problems.clear()
    with serving(create_app(tmp_path / "public.db", every=0.05)) as client:
        tab.go(f"{client.base_url}/releases/by_ward")
        assert tab.problems == []
        tab.run("window.same = true; document.getElementById('range-0').click(); null")
        tab.run("document.querySelector('details').open = true; null")
        before = tab.run("document.querySelector('details tbody th').textContent")
        ward.run(41)
        wait(tab, f"document.querySelector('details tbody th').textContent !== {before!r}")
        assert tab.run("document.querySelector('details tbody th').textContent") == "11 Feb 2026"
        assert tab.run("window.same") is True  # not reloaded
        assert tab.run("document.getElementById('range-0').checked") is True
        assert tab.run("document.querySelector('details').open") is True
        assert tab.run("document.querySelectorAll('.wide[role=group]').length") == 2
        tab.go("about:blank")
    assert tab.problems == []

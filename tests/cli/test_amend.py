"""tidegauge amend, as it is typed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from tests.recovery.test_growing import BOTH, FIRST, world
from tidegauge.cli import app

if TYPE_CHECKING:
    from pathlib import Path


def call(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    world(tmp_path / "gauge", FIRST)
    monkeypatch.chdir(tmp_path / "gauge")
    call("run", "--once")
    return tmp_path / "gauge"


def test_show_commit_and_publish(folder: Path) -> None:
    (folder / "tidegauge.toml").write_text(BOTH)
    shown = json.loads(call("amend", "--show", "--json"))
    assert shown["committed"] is False
    assert shown["reserve"]["after"] == 0
    assert list(shown["releases"]) == ["total"]
    assert "0.3 of the budget is held back; this takes 0.3 and leaves 0." in call("amend", "--show")
    assert len(json.loads(call("ledger", "--json"))) == 1
    assert call("amend").endswith("Committed. To publish, go on with: tidegauge run\n")
    said = call("ledger")
    assert "Left: epsilon = 0 of 1000000000" in said
    assert "held back for releases that are added: 0" in said
    call("run", "--once")
    assert {one["release"] for one in json.loads(call("readings", "--json"))} == {"level", "total"}
    assert json.loads(call("verify", "--json"))["ledger_entries"] == 2
    assert set(json.loads(call("status", "--json"))["releases"]) == {"level", "total"}
    assert list(json.loads(call("plan", "--json"))["releases"]) == ["level", "total"]

"""The whole audit and its reports."""

from __future__ import annotations

import hashlib
import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tests.audit.gauges import COUNT, subject
from tidegauge.audit.audit import ALPHA, Report, audit
from tidegauge.audit.controls.bugs import BUGS
from tidegauge.audit.local.local import LocalResult
from tidegauge.audit.replay.replay import Replayed
from tidegauge.audit.report.page import as_html
from tidegauge.audit.report.text import as_text
from tidegauge.cli import app

if TYPE_CHECKING:
    from pathlib import Path

TOML = """
[source]
kind = "files"
path = "log.csv"
time = "at"
key = "id"
after = "after_"
[constraint]
at_most = 2
[budget]
epsilon = 2
delta = 1e-6
[release.count]
sql = "SELECT COUNT(*) FROM log"
start = "2024-01-01"
every = "1 day"
for = "4 days"
"""


def report(**more: Any) -> Report:
    made: dict[str, Any] = {
        "plan": "0" * 64, "committed": True, "protects": "one row <b>", "measure": "rho",
        "claimed": {"rho": 0.5, "mu": 1.0}, "cells": 500, "seed": 1,
        "replayed": Replayed(pairs=3, worst_ratio=1.0, releases={"r": 1.0}, tight=["r"], bins=4),
        "controls": {bug.name: (True, "found") for bug in BUGS},
        "checks": {"one": []},
        "local": [LocalResult("tilted", "python", 10, 1.5, 1.5, 1.0)],
    }  # fmt: skip
    return Report(**made | more)


def test_a_report_passes_only_if_nothing_failed_and_every_bug_was_caught() -> None:
    assert report().passed
    assert not report(found=["replay: x"]).passed
    assert not report(controls={}).passed
    missed = {bug.name: (True, "") for bug in BUGS} | {BUGS[0].name: (False, "not found")}
    assert not report(controls=missed).passed
    assert BUGS[0].name in "".join(report(controls=missed).failures)


@pytest.mark.parametrize("failed", [False, True])
def test_the_text_fits_a_terminal(failed: bool) -> None:
    text = as_text(report(found=["canaries in 'r': " + "long " * 40] if failed else [], notes=["note"]))
    assert max(map(len, text.splitlines())) <= 80
    assert ("FAILED" in text) is failed
    assert ("Passed" in text) is not failed


def test_the_claim_of_a_constraint_that_renews_is_for_one_term() -> None:
    assert "Claimed for the gauge's whole lifetime: rho" in as_text(report())
    assert "Claimed for one unit in one term: rho" in as_text(report(renews=True))


def test_the_json_has_the_keys_of_the_design() -> None:
    found = json.loads(json.dumps(report().as_json()))
    assert found["passed"] is True
    assert found["claimed"] == {"rho": 0.5, "mu": 1.0}
    assert {"pairs", "worst_ratio"} <= found["replay"].keys()
    assert {"cells", "mu_lower", "epsilon_lower"} <= found["canaries"].keys()
    assert found["controls"]["seeded"] == found["controls"]["caught"] == len(BUGS) >= 30


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.outside += [value or "" for name, value in attrs if name in {"href", "src"}]


def test_the_page_needs_nothing_else_and_escapes_names(tmp_path: Path) -> None:
    found = audit(subject(tmp_path, r=COUNT), committed=False, cells=60, seed=2, only=["canaries"])
    assert found.found == []
    page = as_html(report(canaries=found.canaries, found=["<script>"]))
    links = Links()
    links.feed(page)
    assert links.outside == []
    assert "<script>" not in page
    assert "one row &lt;b&gt;" in page
    assert "<svg" in page


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_a_report_is_written_to_html_or_json_only(tmp_path: Path) -> None:
    (tmp_path / "tidegauge.toml").write_text(TOML)
    done = CliRunner().invoke(
        app, ["audit", "-f", str(tmp_path / "tidegauge.toml"), "--output", str(tmp_path / "report.pdf")]
    )
    assert done.exit_code != 0
    assert not (tmp_path / "report.pdf").exists()


@pytest.mark.slow
def test_a_committed_plan_is_audited_without_its_source(tmp_path: Path) -> None:
    """Nothing in the folder changes, the report says the same in all forms, and the exit code is 0."""
    (tmp_path / "tidegauge.toml").write_text(TOML)
    log = tmp_path / "log.csv"
    log.write_text("at,id,after_s\n2024-01-01T00:00:00Z,k,a\n")
    declared = ["-f", str(tmp_path / "tidegauge.toml")]
    assert CliRunner().invoke(app, ["run", "--once", *declared]).exit_code == 0
    log.unlink()
    before = digests(tmp_path)
    done = CliRunner().invoke(
        app, ["audit", *declared, "--json", "--output", str(tmp_path.parent / "report.html")]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["passed"]
    assert found["committed"]
    assert found["alpha"] == ALPHA <= 1e-6
    assert found["controls"]["seeded"] == found["controls"]["caught"] >= 30
    assert found["replay"]["worst_ratio"] <= 1 + 1e-9
    assert found["canaries"]["cells"] == 500
    after = digests(tmp_path)
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() <= {
        "tidegauge.db-shm",
        "tidegauge.db-wal",
    }  # any reader of SQLite makes these
    assert not (wal := tmp_path / "tidegauge.db-wal").exists() or not wal.stat().st_size
    assert "passed" in (tmp_path.parent / "report.html").read_text()

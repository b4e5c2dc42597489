"""Every declaration of the docs, whole or a part of one, runs on three rows and publishes readings."""

from __future__ import annotations

import re
import shlex
import threading
import tomllib
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from typer.main import get_command

from tests.docs import worlds
from tests.docs.blocks import PAGES, Block, commands, of
from tidegauge.cli import app
from tidegauge.errors import SpecError
from tidegauge.plan.spec.declaration import GaugeSpec
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.postgres import Server

SPARK: Final = "docs/sources/spark.md"
"""Runs in tests/engine/spark/test_docs.py, where there is a session."""


def merged(text: str, heading: str) -> dict[str, Any]:
    """A whole declaration around a part of one."""
    part = tomllib.loads(text, parse_float=Decimal)
    table = re.search(r"\[(\w+)(\.NAME)?\]", heading)
    if table and not any(
        isinstance(one, dict) and key in GaugeSpec.model_fields for key, one in part.items()
    ):
        part = {table[1]: {"name": part} if table[2] else part}
    elif "sql" in part:
        part = {"release": {"name": part}}
    releases = part.pop("release", {})
    source = {"key": "id"} | part.pop("source", {})
    named = re.search(r"FROM (?:changes\()?(\w+)", " ".join(one.get("sql", "") for one in releases.values()))
    source.setdefault("table", named[1] if named else "patients")
    if "kind" not in source:
        source = {
            "kind": "files",
            "path": "changes.csv",
            "time": "time",
            "types": {"age": "integer"},
        } | source
    count = {"sql": f"SELECT COUNT(*) FROM {source['table']}"}
    for other in [one.get("of") or one.get("parts_of") for one in list(releases.values())]:
        if other and other not in releases:
            groups = {
                "sql": f"SELECT ward, COUNT(*) FROM {source['table']} GROUP BY ward",
                "groups": {"ward": ["a"]},
            }
            releases[other] = groups if other == "in_ward" else dict(count)
    if not releases:
        releases["base"] = dict(count)
    for one in releases.values():
        if "sql" in one:
            one.setdefault("every", "1 day")
            one.setdefault("start", worlds.start(source))
    return {
        "source": source,
        "constraint": {"at_most": 4},
        "budget": {"epsilon": 1},
        "release": releases,
    } | part


class Hook(BaseHTTPRequestHandler):
    """Takes every delivery."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def hook() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook"
    server.shutdown()
    thread.join()
    server.server_close()


def moved(declared: dict[str, Any], folder: Path, hook: str) -> None:
    """Places outside of the folder, and addresses, become ones of the test."""
    if "witness" in declared.get("store", {}):
        (folder / "witness").mkdir()
        declared["store"]["witness"] = str(folder / "witness" / "patients")
    for one in declared.get("publish", {}).values():
        if "url" in one and one["kind"] == "webhook":
            one["url"] = hook
        if "command" in one:
            script = folder / one["command"][0]
            script.write_text("#!/bin/sh\ncat > delivered.jsonl\n")
            script.chmod(0o755)


@pytest.mark.parametrize(("page", "block"), [one for one in of("toml") if SPARK not in str(one.id)])
def test_a_declaration_runs(
    page: str, block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    declared = merged(block.text, block.heading)
    source, folder = declared["source"], tmp_path / "gauge"
    folder.mkdir()
    monkeypatch.chdir(folder)
    publish = declared.get("publish", {})
    dsn = ""
    if worlds.needs_server(source) or any(one["kind"] == "postgres" for one in publish.values()):
        server: Server = request.getfixturevalue("database")
        dsn = server.database("docs_" + re.sub(r"\W", "_", f"{page}_{block.line}"))
    for name in ("DATABASE_URL", "WAREHOUSE_URL"):
        monkeypatch.setenv(name, dsn)
    monkeypatch.setenv("TIDEGAUGE_KEY", "5f" * 32)
    monkeypatch.setenv("HOOK_SECRET", "a secret of the test")
    monkeypatch.setenv("UPLOAD_TOKEN", "another secret")
    moved(declared, folder, request.getfixturevalue("hook") if publish else "")
    worlds.WRITERS[source["kind"]](source, folder, dsn)
    if "ledger" in declared:
        make = next(line for one in PAGES[page] if one.language == "console" for line in commands(one.text))
        words = shlex.split(make.replace(" patients.ledger", f" {folder / declared['ledger']['path']}"))
        get_command(app).main(words[1:], standalone_mode=False)
    gauge = Gauge(GaugeSpec.parse(declared), store="tidegauge.db", base=folder, now=worlds.clock(source))
    if source["kind"] in {"sqlite", "postgres"}:
        gauge.install()
    assert [check for check in gauge.doctor() if not check.ok] == []
    due = [name for name, one in declared["release"].items() if "sql" in one]
    assert {reading.release for reading in gauge.run()} >= set(due)
    assert gauge.undelivered == []
    assert gauge.verify().readings > 0


def test_a_declaration_with_a_wrong_key_is_found() -> None:
    with pytest.raises(SpecError, match="at_mots"):
        GaugeSpec.parse(merged("at_mots = 4", "## [constraint]: how much"))

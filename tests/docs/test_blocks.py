"""Every code block of the docs and of README.md is run, or checked in another way that is named here.

Declarations run in test_declarations.py, commands in test_commands.py (which compares JSON with what is
printed), programs here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.docs.blocks import ALL, PAGES, ROOT, Block, of
from tidegauge import local

if TYPE_CHECKING:
    from pathlib import Path

ELSEWHERE: Final = {
    "docs/local/guide.md": "tests/local/test_docs_local.py",
    "docs/local/memoized.md": "tests/local/test_docs_local.py",
    "docs/sources/spark.md": "tests/engine/spark/test_docs.py",
}
"""Pages whose programs run in another test, one after the other."""
CHECKED: Final = {
    ("README.md", "text"): "what `make demo` prints; compared in test_commands.py",
    ("docs/architecture.md", "text"): "a diagram; its links are checked in test_links.py",
    ("docs/cli.md", "text"): "what --help prints; compared in test_cli_docs.py",
    ("docs/local/guide.md", "javascript"): "runs in node, below",
    ("docs/reference/python.md", "text"): "docstrings; compared in tests/tools/docs/test_reference.py",
    ("docs/sources/debezium.md", "text"): "settings of Debezium Server; compared with our inbox below",
    ("docs/sources/files.md", "text"): "messages; compared in tests/source/files",
    ("docs/stamp.md", "sql"): "runs in tests/engine/test_stamps.py",
}
"""Blocks that are no declaration, command or program: page, language, and how they are checked."""

GAUGE: Final = """
source = { kind = "files", path = "patients.csv", table = "patients", time = "time", key = "id" }
constraint.at_most = 1
budget.epsilon = 1
[release.infected_now]
sql = "SELECT COUNT(*) FROM patients"
start = "2026-01-01"
every = "1 day"
for = "1 day"
strategy = "disjoint"
"""


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    """Formulas in docs/theory need no reason.  The list names no block that is not there."""
    run = {"toml", "console", "json", "python"}
    left = {
        (page, block.language)
        for page, block in ALL
        if block.language not in run and not page.startswith("docs/theory/")
    }
    assert left == set(CHECKED)
    for page, test in ELSEWHERE.items():
        assert any(block.language == "python" for block in PAGES[page])
        assert page.rpartition("/")[2] in (ROOT / test).read_text("utf-8")


@pytest.mark.parametrize(
    ("page", "block"), [one for one in of("python") if str(one.id).partition(":")[0] not in ELSEWHERE]
)
def test_a_program_runs(
    page: str,
    block: Block,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a folder with a small gauge and an export;
    a server that a program names is not asked for anything."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAREHOUSE_URL", "postgresql://127.0.0.1:1/none")
    (tmp_path / "tidegauge.toml").write_text(GAUGE, "utf-8")
    (tmp_path / "patients.csv").write_text("time,id\n2026-01-01,1\n", "utf-8")
    (tmp_path / "exports").mkdir()
    parquet.write_table(pa.table({"id": [1], "person_id": [1]}), tmp_path / "exports" / "patients.parquet")
    exec(compile(block.text, f"{page}:{block.line}", "exec"), {})
    assert "Error" not in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_reporter_of_a_web_page(tmp_path: Path) -> None:
    """The block runs in node, with the storage and the `fetch` of a browser written here."""
    (block,) = (one for one in PAGES["docs/local/guide.md"] if one.language == "javascript")
    node = shutil.which("node")
    assert node is not None
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version[1:].partition(".")[0]) < 20:
        pytest.skip("needs node 20 for WebCrypto as a global")
    survey = local.Survey(answers=["well", "ill"], windows=16, changes=3, epsilon=4)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (source,) = (ROOT / "src").rglob("reporter.js")
    (tmp_path / "reporter.js").write_text(source.read_text("utf-8"))
    first, *rest = block.text.splitlines()
    (tmp_path / "page.js").write_text("\n".join([
        first,
        "const kept = new Map();",
        ("globalThis.localStorage = "
         "{ getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => kept.set(k, v) };"),
        ("const fetch = async (where, what) => console.log(where, what.method, "
         "Buffer.from(what.body).toString('hex'));"),
        f"const surveyText = {json.dumps(survey.to_json())}, window = 0, answer = 'well';",
        *rest,
    ]))  # fmt: skip
    ran = subprocess.run([node, "page.js"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    where, method, report = ran.stdout.split()
    assert (where, method) == ("/local/reports", "POST")
    assert local.Collector(survey).add([bytes.fromhex(report)]).accepted == 1


def test_settings_of_debezium_server_are_those_of_the_inbox() -> None:
    (block,) = (one for one in PAGES["docs/sources/debezium.md"] if one.language == "text")
    settings = dict(line.split(" = ") for line in block.text.splitlines())
    assert settings["debezium.sink.type"] == "http"
    inbox = [ROOT / "src/tidegauge" / one for one in ("receive/gatekeeper.py", "receive/inbox.py")]
    sources = "\n".join(path.read_text("utf-8") for path in inbox)
    assert f'"/{settings["debezium.sink.http.url"].rpartition("/")[2]}"' in sources
    assert settings["debezium.sink.http.authentication.type"] == "standard-webhooks"
    assert "webhook-signature" in sources
    assert settings["debezium.sink.http.authentication.webhook.secret"][:6] in sources

"""The browser's reporter, in a real browser against the Python collector; and in node, where there is one."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import uvicorn
from fastapi import Request
from fastapi.responses import HTMLResponse, Response

import tidegauge.local
from tests.browser.chromium import MISSING
from tests.browser.chromium import PROGRAM as CHROMIUM
from tidegauge.local import Collector, Receipt, Survey
from tidegauge.receive.app import create_app

if TYPE_CHECKING:
    from fastapi import FastAPI

HERE = Path(__file__).parent
MODULE = Path(tidegauge.local.__file__).parent / "browser" / "reporter.js"
NODE = shutil.which("node")
PEOPLE, LIFE = 150, ["a", "a", "b", None]

PAGE = """<!doctype html><meta charset="utf-8"><script type="module">
const done = (result) => fetch("/done", { method: "POST", body: JSON.stringify(result) });
try {
  const module = await import("/reporter.js");
  const { replay, speak, misuse } = await import("/check.mjs");
  const vectors = await (await fetch("/vectors.json")).json();
  const survey = await (await fetch("/local/survey")).text();
  const wrong = await replay(module, vectors);
  const failures = await misuse(module, survey, localStorage);
  const body = await speak(module, survey, %d, %s);
  const receipt = await (await fetch("/local/reports", { method: "POST", body })).json();
  await done({ cases: vectors.cases.length, wrong, failures, receipt });
} catch (problem) {
  await done({ problem: String(problem) });
}
</script>"""


def make() -> Survey:
    return Survey(answers=["a", "b", "c"], windows=len(LIFE), changes=3, epsilon=4)


def pages(app: FastAPI, done: queue.Queue[Any]) -> None:
    def script(path: Path) -> Response:
        return Response(path.read_text(), media_type="text/javascript")

    async def finished(request: Request) -> None:
        done.put(await request.json())

    app.get("/")(lambda: HTMLResponse(PAGE % (PEOPLE, json.dumps(LIFE))))
    app.get("/reporter.js")(lambda: script(MODULE))
    app.get("/check.mjs")(lambda: script(HERE / "vectors" / "check.mjs"))
    app.get("/vectors.json")(lambda: Response((HERE / "vectors" / "reports.json").read_text()))
    app.post("/done")(finished)


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
def test_in_a_browser(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    collector, done = Collector(make()), queue.Queue[Any]()
    app = create_app(collector=collector)
    pages(app, done)
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", ws="none", lifespan="off")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--user-data-dir={tmp_path / 'profile'}"]  # fmt: skip
    with (tmp_path / "chromium.log").open("w") as log:
        browser = subprocess.Popen([CHROMIUM, *flags, f"http://127.0.0.1:{port}/"], stdout=log, stderr=log)
        try:
            result = done.get(timeout=600)
        finally:
            browser.terminate()
            browser.wait(timeout=600)
            server.should_exit = True
            thread.join(timeout=30)
    check(result, collector)


def check(result: dict[str, Any], collector: Collector) -> None:
    assert result.get("problem") is None
    assert result["cases"] > 100
    assert result["wrong"] == []
    assert result["failures"] == []
    assert Receipt(**result["receipt"]) == Receipt(accepted=PEOPLE * len(LIFE))
    found = collector.histogram()
    truth = PEOPLE * np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]])
    assert (found.roster == PEOPLE).all()
    assert (np.abs(found.value - truth) < 7 * found.stderr + 7 * PEOPLE**0.5).all()


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_in_node(tmp_path: Path) -> None:
    assert NODE is not None
    major = int(
        subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True)
        .stdout[1:]
        .split(".")[0]
    )
    if major < 20:
        pytest.skip("needs node 20 for WebCrypto as a global")
    (tmp_path / "reporter.mjs").write_text(MODULE.read_text())
    (tmp_path / "check.mjs").write_text((HERE / "vectors" / "check.mjs").read_text())
    (tmp_path / "vectors.json").write_text((HERE / "vectors" / "reports.json").read_text())
    (tmp_path / "survey.json").write_text(make().to_json())
    (tmp_path / "run.mjs").write_text(f"""
        import {{ readFileSync, writeFileSync }} from "node:fs";
        import * as module from "./reporter.mjs";
        import {{ replay, speak, misuse }} from "./check.mjs";
        const vectors = JSON.parse(readFileSync("vectors.json", "utf8"));
        const survey = readFileSync("survey.json", "utf8");
        const map = new Map();
        const store = {{
            getItem: (name) => map.get(name) ?? null, setItem: (name, value) => map.set(name, value)
        }};
        const wrong = await replay(module, vectors);
        const failures = await misuse(module, survey, store);
        writeFileSync("reports.bin", await speak(module, survey, {PEOPLE}, {json.dumps(LIFE)}));
        console.log(JSON.stringify({{ cases: vectors.cases.length, wrong, failures }}));
    """)
    ran = subprocess.run([NODE, "run.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True)
    collector = Collector(make())
    receipt = vars(collector.add((tmp_path / "reports.bin").read_bytes()))
    check(json.loads(ran.stdout) | {"receipt": receipt}, collector)

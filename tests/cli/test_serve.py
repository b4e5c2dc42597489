"""`publish`, `serve` and `run --serve` as processes: what they get, what they print, and that they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serve.test_operator import TOKEN
from tidegauge.publish.public.reader import PublicFile

TOML = """
source = { kind = "files", path = "t.csv", time = "time", entry = "id", after = "" }
constraint.at_most = 4
budget = { epsilon = 2, delta = 1e-6 }

[release.all]
sql = "SELECT COUNT(*) FROM t"
start = "2026-01-01"
every = "1 day"
for = "10 days"
"""
LIVE = TOML.replace('start = "2026-01-01"\n', "").replace("1 day", "1 second").replace("10 days", "1 hour")
PUBLIC = '\n[publish.page]\nkind = "public"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = ["time,id", *(f"2026-01-{day:02}T00:00:00Z,{day}" for day in range(1, 12))]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n", "utf-8")
    (tmp_path / "tidegauge.toml").write_text(TOML + PUBLIC, "utf-8")
    return tmp_path


def verb(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidegauge", *words],
        cwd=folder,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@contextmanager
def started(folder: Path, *words: str, **env: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process, and the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tidegauge", *words],
        cwd=folder,
        env=os.environ | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "http://" in line, line
    yield process, next(word for word in line.split() if word.startswith("http://"))


def answer(address: str, **headers: str) -> httpx.Response:
    """The first answer of a server that may still be starting."""
    for _ in range(600):
        try:
            found = httpx.get(address, headers=headers, timeout=30)
        except httpx.TransportError:
            time.sleep(0.1)
            continue
        if found.status_code != 503:
            return found
        time.sleep(0.1)
    raise AssertionError(address)


def ended(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX"


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(one) for path in tasks for one in path.read_text().split()]


def test_publish_once_empties_the_outbox(folder: Path) -> None:
    (folder / "tidegauge.toml").write_text(TOML)
    assert verb(folder, "run", "--once").returncode == 0
    (folder / "tidegauge.toml").write_text(
        TOML + PUBLIC + '[publish.x]\nkind = "command"\ncommand = ["false"]\n'
    )
    done = verb(folder, "publish", "--once")
    assert (done.returncode, done.stdout) == (2, "11 readings delivered.\n")
    assert done.stderr.startswith("Publisher 'x' failed: false ended with exit code 1.")
    with PublicFile(folder / "public.db") as public:
        assert public.count("all") == 11
    again = verb(folder, "publish", "page", "--json")
    assert json.loads(again.stdout) == {"delivered": 0, "failed": {}}
    run = verb(folder, "run", "--once")
    assert run.returncode == 0
    assert "Publisher 'x' failed" in run.stderr
    assert "tidegauge status" in run.stdout


def test_serve_needs_something_to_serve(folder: Path) -> None:
    (folder / "tidegauge.toml").write_text(TOML)
    done = verb(folder, "serve")
    assert done.returncode == 2
    assert "declare a publisher of kind public" in done.stderr
    assert verb(folder, "serve", "--inbox").returncode == 2
    assert "inbox" in verb(folder, "serve", "--inbox").stderr
    done = verb(folder, "run", "--once", "--serve")
    assert (done.returncode, "--serve: serves a public file" in done.stderr) == (2, True)
    (folder / "it.db").write_bytes(b"no")
    done = verb(folder, "serve", "it.db")
    assert (done.returncode, "is not a public file" in done.stderr) == (2, True)
    done = verb(folder, "run", "--once", "--operator", "127.0.0.1:0", TIDEGAUGE_OPERATOR_TOKEN="")
    assert (done.returncode, "TIDEGAUGE_OPERATOR_TOKEN" in done.stderr) == (2, True)


def test_serve_reads_the_public_file_alone(folder: Path) -> None:
    """Also elsewhere, without declaration and store."""
    assert verb(folder, "run", "--once").returncode == 0
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "copy.db").write_bytes((folder / "public.db").read_bytes())
    with started(elsewhere, "serve", "copy.db", "--listen", "127.0.0.1:0", "--workers", "2") as (process, at):
        assert answer(f"{at}api/v1/releases/all/readings").json()["count"] == 11
        assert len(children(process.pid)) == 2
        process.terminate()
        assert process.wait(60) == 0
    assert sorted(path.name for path in elsewhere.iterdir()) == ["copy.db"]


def test_run_serves_through_a_process_that_knows_no_secret(folder: Path) -> None:
    (folder / "tidegauge.toml").write_text(LIVE + PUBLIC)
    words = ("run", "--serve", "--listen", "127.0.0.1:0")
    with started(folder, *words, DATABASE_URL="postgres://secret") as (process, at):
        found = answer(f"{at}api/v1/releases/all")
        assert found.json()["name"] == "all"
        (child,) = children(process.pid)
        environment = Path(f"/proc/{child}/environ").read_bytes()
        assert b"DATABASE_URL" not in environment
        opened = [str(path.readlink()) for path in Path(f"/proc/{child}/fd").iterdir() if path.exists()]
        assert not [name for name in opened if "tidegauge.db" in name or "t.csv" in name]
        os.kill(process.pid, signal.SIGKILL)
        for _ in range(600):
            if ended(child):
                break
            time.sleep(0.05)
        else:
            pytest.fail("the web process outlived the gauge")


def test_a_run_that_has_published_everything_ends_with_its_web_process(folder: Path) -> None:
    done = verb(folder, "run", "--serve", "--listen", "127.0.0.1:0", "--yes")
    assert done.returncode == 0, done.stderr
    assert "SIGTERM" not in done.stderr
    assert "Error" not in done.stderr


@pytest.mark.slow
def test_the_operator_sees_exact_counts_on_a_port_of_its_own(folder: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "tidegauge.toml").write_text(LIVE + PUBLIC)
    words = ("run", "--serve", "--listen", "127.0.0.1:0", "--operator", f"127.0.0.1:{port}")
    with started(folder, *words, TIDEGAUGE_OPERATOR_TOKEN=TOKEN) as (process, at):
        operator = f"http://127.0.0.1:{port}/operator"
        assert answer(f"{operator}/status").status_code == 401
        right = {"authorization": f"Bearer {TOKEN}"}
        shown: dict[str, Any] = answer(f"{operator}/status", **right).json()
        assert "operator_only" in shown
        metrics = answer(f"{operator}/metrics", **right)
        assert metrics.text.endswith("# EOF\n")
        assert "tidegauge_running 1" in metrics.text
        assert answer(f"{at}operator/status", **right).status_code == 404
        process.terminate()
        assert process.wait(60) == 0


def test_the_web_process_imports_nothing_of_the_secret_side() -> None:
    code = (
        "import sys\nfrom tidegauge.cli.web import answer_as_child\n"
        "from tidegauge.serve.app import create_app\n"
        "print([name for name in sys.modules if name.startswith(('tidegauge.store', 'tidegauge.engine', "
        "'tidegauge.run', 'tidegauge.plan', 'tidegauge.source.batch', 'duckdb', 'opendp', 'psycopg'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

"""The suite itself: the same examples every time, and processes that end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).parents[1]


def test_make_test_draws_the_same_examples_every_time() -> None:
    assert settings.get_profile("fixed").derandomize
    assert not settings.get_profile("random").derandomize
    assert settings.get_profile("fixed").deadline is settings.get_profile("random").deadline is None
    drawn = settings(max_examples=7)  # as a test says it
    assert drawn.derandomize == (os.environ.get("HYPOTHESIS_PROFILE", "fixed") == "fixed")
    assert drawn.deadline is None
    profiles = re.findall(r"HYPOTHESIS_PROFILE=(\w+) .*pytest", (ROOT / "Makefile").read_text())
    assert profiles == ["fixed", "random"]


def test_what_a_test_starts_ends_with_it(tmp_path: Path) -> None:
    """A test that fails leaves a process and its child behind; both must be gone afterwards."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(
        "import subprocess, sys, time\n"
        "from pathlib import Path\n"
        "CHILD = 'import signal, time; signal.signal(2, 1); signal.signal(15, 1); "
        "print(1, flush=True); time.sleep(9999)'\n"
        'PARENT = f\'import subprocess, sys; p = subprocess.Popen([sys.executable, "-c", {CHILD!r}]); '
        "print(p.pid, flush=True); p.wait()'\n"
        "def test_it() -> None:\n"
        "    process = subprocess.Popen([sys.executable, '-c', PARENT], stdout=subprocess.PIPE, text=True)\n"
        "    found = {process.stdout.readline(), process.stdout.readline()} - {'1\\n'}\n"
        "    Path('pids').write_text(f'{process.pid} {found.pop()}')\n"
        "    assert False\n"
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert "1 failed" in done.stdout, done.stdout
    for pid in (tmp_path / "pids").read_text().split():
        state = Path(f"/proc/{pid}/stat")
        assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX"

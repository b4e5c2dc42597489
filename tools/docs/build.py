"""Stage, build and check the site."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.docs.check import check
from tools.docs.stage import stage


def build(root: Path, target: Path) -> list[str]:
    """Build the site into this folder, which is replaced; returns what is wrong with it."""
    with tempfile.TemporaryDirectory(prefix="tidegauge-site-") as name:
        work = Path(name)
        stage(root, work / "docs")
        shutil.copyfile(root / "mkdocs.yml", work / "mkdocs.yml")
        done = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
            cwd=work,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            return (done.stdout + done.stderr).splitlines()
        problems = check(work / "site")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(work / "site", target)
    return problems

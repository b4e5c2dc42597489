"""Every relative link in the docs leads to a file or folder, and the decisions are numbered without a gap."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def missing(page: Path, text: str) -> list[str]:
    """The targets of relative links in this text that do not exist beside the page."""
    targets = [target.partition("#")[0] for target in LINK.findall(text) if "://" not in target]
    return [target for target in targets if target and not (page.parent / target).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert missing(page, page.read_text("utf-8")) == []


def test_a_broken_link_is_found() -> None:
    assert missing(ROOT / "README.md", "[a](docs) [b](docs/nothing.md#x) [c](https://example.org)") == [
        "docs/nothing.md"
    ]


def test_the_architecture_page_links_its_stations() -> None:
    linked = set(LINK.findall((ROOT / "docs" / "architecture.md").read_text("utf-8")))
    assert len({target for target in linked if target.endswith(".py")}) >= 20
    folders = {
        path.name for path in (ROOT / "src" / "tidegauge").iterdir() if (path / "__init__.py").exists()
    }
    assert folders - {target.removeprefix("../src/tidegauge/") for target in linked} <= {"demo"}


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_both_pages_link_every_registry_and_every_contract(page: str) -> None:
    linked = {
        (ROOT / page).parent.joinpath(target.partition("#")[0]).resolve()
        for target in LINK.findall((ROOT / page).read_text("utf-8"))
        if "://" not in target
    }
    source = ROOT / "src" / "tidegauge"
    registries = {*source.rglob("registry.py"), source / "mechanism" / "aggregates" / "__init__.py"}
    contracts = ("model/source.py", "model/engine.py", "mechanism/strategy.py", "mechanism/aggregate.py")
    assert len(registries) == 7
    assert {*registries, *(source / name for name in contracts), source / "model/publisher.py"} <= linked


def test_every_decision_has_a_number_of_its_own() -> None:
    """A gap is allowed: numbers are given out before decisions are written."""
    names = [path.name for path in (ROOT / "docs" / "decisions").glob("*.md")]
    assert all(re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", name) for name in names)
    assert len({name[:4] for name in names}) == len(names)

"""The documentation site: every page is in its navigation,
every link resolves, and it needs no other server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.browser.chromium import MISSING, PROGRAM, Tab, browser
from tools.docs.build import build
from tools.docs.check import check
from tools.docs.stage import decisions, stage

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


def listed(nav: Any) -> list[str]:
    """Every page that a navigation names."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [name for part in parts for name in listed(part)]


def navigation() -> list[str]:
    return listed(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])


def test_every_page_is_in_the_navigation_once() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    found = [name for name in navigation() if not name.startswith("code/")]
    decided = {name for name in pages if name.startswith("decisions/")}
    assert sorted(found) == sorted(pages - decided | {"decisions/README.md"})


def named(nav: Any) -> list[tuple[str, str]]:
    """Every page that a navigation gives a name."""
    if isinstance(nav, str):
        return []
    if isinstance(nav, list):
        return [pair for part in nav for pair in named(part)]
    return [
        pair
        for name, part in nav.items()
        for pair in ([(name, part)] if isinstance(part, str) else named(part))
    ]


def test_a_page_with_a_name_is_not_taken_for_that_of_its_section() -> None:
    """A README in a section becomes the page of the section, and its own name is then nowhere to be seen."""
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    lost = [name for name, page in named(nav) if page.endswith("README.md")]
    assert lost == ["Home"]


def test_every_decision_is_in_the_list_of_decisions() -> None:
    names = {path.name for path in (DOCS / "decisions").glob("*.md")}
    assert set(re.findall(r"\]\(([^)]+)\)", decisions(DOCS / "decisions"))) == names


def test_every_link_of_the_copy_leads_to_a_page_of_the_copy(tmp_path: Path) -> None:
    """So that the site is whole even where a link leads out of docs/."""
    stage(ROOT, tmp_path / "docs")
    wrong = []
    for page in (tmp_path / "docs").rglob("*.md"):
        if page.is_relative_to(tmp_path / "docs" / "code" / "src"):
            continue
        text = re.sub(r"^(```+).*?^\1$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^    .*$", "", text, flags=re.MULTILINE)):
            path = target.partition("#")[0]
            if path and "://" not in path and not (page.parent / path).is_file():
                wrong.append(f"{page.relative_to(tmp_path)}: {target}")
    assert wrong == []
    assert all((tmp_path / "docs" / name).is_file() for name in navigation())


def small(root: Path, pages: dict[str, str]) -> Path:
    """A repository with these pages, staged."""
    for name, text in {"CONTRIBUTING.md": "# C\n", "CHANGELOG.md": "# C\n", **pages}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    (root / "docs" / "decisions").mkdir(exist_ok=True)
    stage(root, root / "copy")
    return root / "copy"


def test_links_to_code_and_folders_become_pages(tmp_path: Path) -> None:
    copy = small(
        tmp_path,
        {
            "docs/a.md": "# A\n[m](../src/m.py) [s](../src) [d](inner) [h](#a) [e](https://example.org)\n",
            "docs/inner/README.md": "# Inner\n",
            "src/m.py": '"""What m does."""\nTEXT = """\n```\n"""\n',
        },
    )
    text = (copy / "a.md").read_text("utf-8")
    assert "[m](code/src/m.py.md) [s](code/src/README.md) [d](inner/README.md) [h](#a)" in text
    assert "````python\n" in (copy / "code/src/m.py.md").read_text("utf-8")
    assert "[`m.py`](m.py.md)" in (copy / "code/src/README.md").read_text("utf-8")


def test_a_proof_names_its_functions_and_has_indices(tmp_path: Path) -> None:
    copy = small(
        tmp_path,
        {
            "docs/theory/T.md": "proves: m.f  stamp: 0123456789ab\n"
            "\n# T\n\nc^{j-1} t_i `a_b` max_rows x_(i+1)\n",
            "src/m.py": '"""M."""\n',
        },
    )
    text = (copy / "theory/T.md").read_text("utf-8")
    assert text.startswith("# T\n\n*Proves [`m.f`](../code/src/m.py.md).*\n")
    assert "c<sup>j-1</sup> t<sub>i</sub> `a_b` max_rows x<sub>i+1</sub>" in text


def test_lists_are_apart_and_code_is_left_alone(tmp_path: Path) -> None:
    page = "# A\nThis:\n- one\n  more\n- two\n\n    - code [x](y.md)\n\n```\na:\n- code [x](y.md)\n```\n"
    text = (small(tmp_path, {"docs/a.md": page}) / "a.md").read_text("utf-8")
    assert text == page.replace("This:\n", "This:\n\n")


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="b.html">', "no file b.html"),
        ('<a href="#x">', "no anchor #x"),
        ('<img src="x.svg">', "no file x.svg"),
        ('<script src="https://example.org/x.js">', "loads https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "loads //example.org/x.css"),
        ('<p id="x"><a href="#x"><a href="https://example.org"><a href="a.html">', None),
    ],
)
def test_the_check_finds_what_is_wrong(tmp_path: Path, html: str, problem: str | None) -> None:
    (tmp_path / "a.html").write_text(html, "utf-8")
    assert check(tmp_path) == ([] if problem is None else [f"a.html: {problem}"])


FOUND = """(() => {
  const host = [...document.querySelectorAll("body *")].find((one) => one.shadowRoot);
  return host ? [...host.shadowRoot.querySelectorAll("a")].map((one) => one.href) : [];
})()"""
FOCUS = """(() => {
  const host = [...document.querySelectorAll("body *")].find((one) => one.shadowRoot);
  const field = host && host.shadowRoot.querySelector("input");
  if (field) field.focus();
  return Boolean(field);
})()"""


def waited(tab: Tab, script: str) -> Any:
    """The first value of this expression that is not empty; only a search that fails needs all tries."""
    for _ in range(3000):
        if found := tab.run(script):
            return found
        tab.run("new Promise((done) => setTimeout(done, 50))")
    return []


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_searched_from_the_disk(tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert build(ROOT, site) == []
    if PROGRAM is None:
        pytest.skip(MISSING)
    (tmp_path / "profile").mkdir()
    with browser(tmp_path / "profile") as tab:
        tab.look()
        tab.go((site / "index.html").as_uri())
        tab.run("document.querySelector('.md-search__button').click()")
        assert waited(tab, FOCUS)
        tab.ask("Input.insertText", text="witness")
        assert any("0009-witness.html" in address for address in waited(tab, FOUND))
        assert tab.problems == []

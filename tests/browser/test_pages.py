"""The pages in a real browser: with and without scripts, by keyboard,
for screen readers, on a phone, in print."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import Tab
from tests.publish.invented import Invented
from tidegauge.publish.pages.alone import standalone_html
from tidegauge.publish.pages.build import release_site

PAGES = (
    "index.html", "guarantee.html", "ledger.html", "404.html", "releases/in_ward.html",
    "releases/infected_now.html", "releases/infected_change.html", "releases/mean_age.html",
    "releases/not_yet.html",
)  # fmt: skip


@pytest.fixture(autouse=True)
def as_usual(tab: Tab) -> None:
    tab.look()
    tab.problems.clear()


@pytest.mark.parametrize("page", PAGES)
def test_the_policy_blocks_nothing_and_no_script_fails(tab: Tab, site: str, page: str) -> None:
    tab.go(f"{site}/{page}")
    assert tab.problems == []
    assert tab.run("document.styleSheets.length") == 1
    assert tab.run("getComputedStyle(document.querySelector('main')).maxWidth") == "1152px"


def test_the_policy_is_enforced(tab: Tab, site: str) -> None:
    """The twin that must fail: an inline style and script are blocked, and the browser says so."""
    tab.go(f"{site}/index.html")
    tab.run("document.body.insertAdjacentHTML('beforeend', '<p style=\"color:red\" id=twin>x</p>')")
    assert tab.run("getComputedStyle(document.getElementById('twin')).color") != "rgb(255, 0, 0)"
    assert tab.problems


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_no_page_is_wider_than_its_screen(tab: Tab, site: str, page: str, width: int) -> None:
    tab.look(width=width)
    tab.go(f"{site}/{page}")
    assert tab.run("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("look", [{}, {"width": 390, "dark": True}, {"dark": True}], ids=str)
def test_axe_finds_nothing(tab: Tab, site: str, axe: str, page: str, look: dict[str, Any]) -> None:
    tab.look(**look)
    tab.go(f"{site}/{page}")
    tab.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    tab.run(axe + "; null")
    found: Any = tab.run(
        "axe.run(document, {runOnly: ['wcag2a','wcag2aa','wcag21aa','wcag22aa','best-practice']})"
        ".then((all) => all.violations.map((one) => [one.id, one.nodes[0].html, "
        "one.nodes[0].failureSummary]))"
    )
    assert found == []


def test_axe_finds_what_is_wrong(tab: Tab, site: str, axe: str) -> None:
    """The twin that must fail."""
    tab.go(f"{site}/index.html")
    tab.run("document.querySelector('main').append(document.createElement('img')); null")
    tab.run(axe + "; null")
    assert tab.run("axe.run().then((all) => all.violations.map((one) => one.id))") == ["image-alt"]


# -- without scripts -----------------------------------------------------------------------------------------


def shown(tab: Tab, selector: str) -> Any:
    """Which elements are seen; asked through the DOM, as no script runs on the page."""
    return tab.run(
        f"[...document.querySelectorAll({json.dumps(selector)})]"
        ".filter((one) => one.getClientRects().length).length"
    )


def test_everything_works_without_scripts(tab: Tab, site: str) -> None:
    tab.look(script=False)
    tab.go(f"{site}/releases/in_ward.html")
    assert not tab.run("document.querySelector('[role=group]')")  # the script did not run
    assert shown(tab, "figure.range svg") == 1
    assert shown(tab, "figure.f2") == 1
    assert shown(tab, ".f2 .wide .series") == 5
    tab.run("document.getElementById('range-0').focus()")
    tab.press(" ")
    assert shown(tab, "figure.f0") == 1
    assert shown(tab, "figure.f2") == 0
    tab.run("document.getElementById('line-1').focus()")
    tab.press(" ")
    assert shown(tab, ".f0 .wide .series") == 4
    tab.run("document.querySelector('summary').focus()")
    tab.press("Enter")
    assert shown(tab, "details[open] tbody tr") == 31


def test_a_phone_has_its_own_chart(tab: Tab, site: str) -> None:
    tab.look(width=390)
    tab.go(f"{site}/releases/infected_now.html")
    assert shown(tab, ".plot.tall svg") == 1
    assert shown(tab, ".plot.wide svg") == 0
    sizes = tab.run(
        "[...document.querySelectorAll('.tall svg text')].filter((one) => one.getClientRects().length)"
        ".map((one) => one.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 10  # labels that can be read


# -- pointer, keyboard, screen reader ------------------------------------------------------------------------


def test_a_pointer_shows_the_value_that_the_table_has(tab: Tab, site: str) -> None:
    tab.go(f"{site}/releases/infected_now.html")
    box = tab.run("(() => { const b = document.querySelector('.range.f2 .wide svg').getBoundingClientRect();"
                  "return [b.left, b.top, b.width, b.height] })()")  # fmt: skip
    tab.point(box[0] + box[2] * 0.99, box[1] + box[3] / 2)
    words = tab.run("document.querySelector('.tip').textContent")
    first = tab.run("[...document.querySelectorAll('details tbody tr')][0].innerText || "
                    "[...document.querySelectorAll('details tbody tr')][0].textContent")  # fmt: skip
    value = re.search(r"2025\s*(\S+?)48", first)
    assert words.startswith("31 Dec 2025")
    assert value is not None
    assert f"{value[1]} ± 48" in words
    tab.point(5, 5)
    assert tab.run("document.querySelector('.tip')") is None
    assert tab.problems == []


def test_arrow_keys_read_the_values_aloud(tab: Tab, site: str) -> None:
    tab.go(f"{site}/releases/in_ward.html")
    tab.run("document.querySelector('.range.f2 .wide').focus()")
    tab.press("End")
    said = tab.run("document.getElementById('voice').textContent")
    assert said.startswith("31 Dec 2025, emergency ")
    assert "intensive care too small to tell (2" in said
    tab.press("ArrowLeft")
    assert tab.run("document.getElementById('voice').textContent") != said
    tab.press("Escape")
    assert tab.run("document.querySelector('.tip')") is None


def test_a_keyboard_reaches_everything_in_order(tab: Tab, site: str) -> None:
    tab.go(f"{site}/index.html")
    tab.press("Tab")
    assert tab.run("document.activeElement.className") == "skip"
    assert (
        tab.run("document.activeElement.getBoundingClientRect().top") >= 0
    )  # it is seen when it has the focus
    seen = []
    for _ in range(30):
        tab.press("Tab")
        here = tab.run("document.activeElement.getAttribute('href')")
        if here is None:
            break
        seen.append(here)
    links = tab.run("[...document.querySelectorAll('body a[href]')].map((one) => one.getAttribute('href'))")
    assert seen == links[1:]


def test_a_screen_reader_hears_charts_and_values(tab: Tab, site: str) -> None:
    tab.go(f"{site}/releases/infected_now.html")
    tree = tab.tree()
    assert ("heading", "Infected now") in tree
    assert ("image", "Infected now: running value, every day") in tree
    roles = {role for role, _ in tree}
    assert {"banner", "navigation", "main", "contentinfo", "radio"} <= roles
    tab.go(f"{site}/index.html")
    words = " ".join(name for _, name in tab.tree())
    assert "too small to tell" in words


def test_dark_mode_is_dark(tab: Tab, site: str) -> None:
    light = "getComputedStyle(document.documentElement).backgroundColor"
    tab.look(dark=True)
    tab.go(f"{site}/index.html")
    assert sum(map(int, re.findall(r"\d+", tab.run(light)))) < 120
    tab.look(dark=True, media="print")
    assert tab.run(light) == "rgb(255, 255, 255)"


def test_print_leaves_out_what_paper_cannot_do(tab: Tab, site: str) -> None:
    tab.go(f"{site}/releases/in_ward.html")
    tab.look(media="print")
    assert shown(tab, "nav, .buttons, .pick + label") == 0
    assert shown(tab, "figure.range svg") == 1
    tab.run("dispatchEvent(new Event('beforeprint'))")
    assert shown(tab, "details:not([open])") == 0


def test_a_file_opened_without_a_server_is_whole(tab: Tab, folder: Path) -> None:
    tab.go((folder / "index.html").as_uri())
    assert tab.run("getComputedStyle(document.querySelector('main')).maxWidth") == "1152px"
    tab.run("document.querySelector('.card a').click()")
    tab.go((folder / "releases" / "in_ward.html").as_uri())
    assert tab.run("document.querySelector('[role=group]') !== null")
    assert tab.problems == []


def test_one_file_with_everything_obeys_its_own_policy(tab: Tab, tmp_path: Path) -> None:
    found = release_site(Invented(), "in_ward")
    assert found is not None
    (tmp_path / "chart.html").write_text(standalone_html(found[1]), "utf-8")
    tab.go((tmp_path / "chart.html").as_uri())
    assert tab.problems == []
    assert tab.run("getComputedStyle(document.querySelector('main')).maxWidth") == "1152px"
    assert tab.run("document.querySelectorAll('.wide[role=group]').length") == 3
    twin = (tmp_path / "chart.html").read_text("utf-8").replace("--surface: #f5f8f9", "--surface: #f5f8f8")
    (tmp_path / "twin.html").write_text(twin, "utf-8")
    tab.go((tmp_path / "twin.html").as_uri())
    assert tab.problems  # a style that was altered is blocked


# -- pictures for review -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_pictures_of_every_page(tab: Tab, site: str, tmp_path: Path) -> None:
    """Written to the folder that TIDEGAUGE_PICTURES names, else to the test's own."""
    folder = Path(os.environ.get("TIDEGAUGE_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        seen = set()
        for width in (1280, 390):
            for dark in (False, True):
                tab.look(width=width, dark=dark)
                tab.go(f"{site}/{page}")
                picture = tab.picture()
                name = page.replace("/", "-").removesuffix(".html")
                (folder / f"{name}-{width}-{'dark' if dark else 'light'}.png").write_bytes(picture)
                seen.add(picture)
        assert len(seen) == 4, page

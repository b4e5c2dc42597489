"""Pages: well-formed, small, without anything that the policy blocks, and right about what was published."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from math import exp
from urllib.parse import unquote, urlsplit

import pytest

from tests.printed import printed
from tests.publish.invented import GUARANTEE, INFO, RELEASES, Invented, grouped
from tidegauge.model.json import as_object
from tidegauge.model.reading import COVERS
from tidegauge.plan.spec.declaration import ConstraintSpec
from tidegauge.publish import pages
from tidegauge.publish.pages.guarantee import best_guess, detection
from tidegauge.publish.pages.links import Links, file_name, served, static
from tidegauge.publish.pages.words import constraint_sentences, singular, unit_word
from tidegauge.publish.public.values import ModelReading
from tidegauge.publish.view import Progress, Status

VOID = {"br", "hr", "img", "input", "link", "meta"}
HOSTILE = "<img src=x onerror=alert(1)>\"' & ünïcode \u202e"


class Checked(HTMLParser):
    """Fails on elements that are not closed, on ids that occur twice, and on anything inline."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.named: list[str] = []
        self.links: list[str] = []
        self.heads: list[str] = []
        self.labels: set[str] = set()
        self.inputs: set[str] = set()
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []
        assert set(self.named) <= self.ids
        assert self.inputs == self.labels

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        assert len(values) == len(attrs)
        assert "style" not in values
        assert not any(name.startswith("on") for name in values)
        assert tag != "style"
        if tag == "script":
            assert "src" in values or values["type"] == "application/ld+json"
        if (name := values.get("id")) is not None:
            assert name not in self.ids, name
            self.ids.add(name)
        for reference in ("aria-labelledby", "aria-describedby", "for"):
            self.named += (values.get(reference) or "").split()
        if tag == "label":
            self.labels.add(str(values["for"]))
        if tag == "input":
            self.inputs.add(str(values["id"]))
        self.links += [str(values[key]) for key in ("href", "src") if key in values]
        if re.fullmatch(r"h\d", tag):
            self.heads.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"path", "rect", "circle", "line"}
        assert "style" not in dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def all_pages(public: Invented, links: Links | None = None) -> dict[str, str]:
    top = links or static()
    down = links or static(1)
    site = pages.whole_site(public)
    found = {
        "index.html": pages.overview(site, top),
        "guarantee.html": pages.guarantee(site, top),
        "ledger.html": pages.ledger(site, top),
        "404.html": pages.not_found(site, top),
    }
    for info in public.releases:
        one = pages.release_site(public, info.name)
        assert one is not None
        found[f"releases/{file_name(info.name)}.html"] = pages.release(*one, down)
    return found


@pytest.fixture(scope="module")
def invented() -> dict[str, str]:
    return all_pages(Invented())


def test_every_page_is_well_formed(invented: dict[str, str]) -> None:
    for name, text in invented.items():
        page = Checked(text)
        assert page.heads.count("h1") == 1, name
        assert page.heads[0] == "h1", name
        assert text.startswith('<!doctype html>\n<html lang="en">')


def test_no_page_asks_another_server(invented: dict[str, str]) -> None:
    for text in invented.values():
        for link in Checked(text).links:
            host = urlsplit(link).netloc
            assert not host or host == "creativecommons.org"  # the licence, which a reader may follow
        assert "url(" not in text
    assert "url(" not in pages.ASSETS["page.css"].content.decode()
    assert "http" not in pages.ASSETS["page.js"].content.decode().replace("http://www.w3.org/2000/svg", "")


def test_links_of_the_static_site_lead_to_its_files(invented: dict[str, str]) -> None:
    here = {*invented, *(f"assets/{name}" for name in pages.ASSETS), "feed.xml", "dataset.jsonld"}
    here |= {f"data/{file_name(one.name)}.{form}" for one in RELEASES for form in ("csv", "json", "parquet")}
    here |= {f"charts/{file_name(one.name)}.svg" for one in RELEASES}
    for name, text in invented.items():
        folder = name.rpartition("/")[0]
        for link in Checked(text).links:
            if link.startswith(("#", "https:", "mailto:")):
                continue
            target = unquote(link.partition("#")[0])
            assert target.startswith("../") == bool(folder)
            assert target.removeprefix("../") in here, (name, link)


def test_links_of_serve_are_below_its_prefix() -> None:
    for text in all_pages(Invented(), served("/gauge/")).values():
        for link in Checked(text).links:
            assert link.startswith(("/gauge/", "#", "https:", "mailto:"))
        assert 'data-events="/gauge/api/v1/events"' in text


def test_a_static_page_waits_for_no_events(invented: dict[str, str]) -> None:
    assert not any("data-events" in text for text in invented.values())


def test_hostile_names_are_text() -> None:
    about = replace(Invented().about, title=HOSTILE, description=HOSTILE, contact="javascript:alert(1)",
                    license="javascript:alert(1)", creator=HOSTILE)  # fmt: skip
    releases = (
        grouped(HOSTILE, "ward", (HOSTILE, "b")),
        replace(INFO, sql=f"SELECT {HOSTILE}", name="../../etc/passwd"),
    )
    public = Invented(releases=releases, days=40, about=about, guarantee=replace(GUARANTEE, table=HOSTILE))
    for text in all_pages(public).values():
        page = Checked(text)
        assert "<img" not in text
        assert not [link for link in page.links if link.startswith("javascript")]
    assert file_name("../../etc/passwd") == "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd"
    assert file_name(".") != file_name("..")


def test_the_overview_shows_values_with_their_noise(invented: dict[str, str]) -> None:
    words = Checked(invented["index.html"]).words
    assert "Infected now" in words
    assert "± 48" in words
    assert "too small to tell" in words  # 21 ± 48 in intensive care
    assert "95 % noise interval" in words
    assert "confidence" not in words
    assert "The first reading is due 1 Jan 2027, 00:00 UTC." in words


@pytest.mark.parametrize("name", ["index.html", "releases/in_ward.html", "releases/infected_change.html"])
def test_a_page_says_what_its_intervals_cover(invented: dict[str, str], name: str) -> None:
    words = Checked(invented[name]).words
    assert "noise interval" in words
    assert COVERS in words


def test_the_guarantee_says_what_its_intervals_cover(invented: dict[str, str]) -> None:
    words = Checked(invented["guarantee.html"]).words
    assert "95 % noise interval, ± worst" in words
    assert "The noise interval covers the noise, and neither errors in the data nor changes beyond" in words


def test_a_value_that_noise_hides_is_not_shown_as_a_value(invented: dict[str, str]) -> None:
    page = invented["releases/infected_change.html"]
    now = page[page.index('class="now large"') :]
    assert now.index("too small to tell") < now.index("±")
    assert 'class="value"' not in now[: now.index("</p>")]


def test_a_release_page_has_everything(invented: dict[str, str]) -> None:
    page = Checked(invented["releases/in_ward.html"])
    assert {f"line-{index}" for index in range(5)} <= page.inputs
    assert {f"range-{index}" for index in range(3)} <= page.inputs
    assert {"panel-4-t", "chart-2-t"} <= page.ids
    assert "Table: the 31 newest of 365 readings" in page.words
    assert [link for link in page.links if link.startswith("../data/")] == [
        f"../data/in_ward.{form}" for form in ("csv", "json", "parquet")
    ]
    single = Checked(invented["releases/infected_now.html"])
    assert "infected_change" in "".join(single.links)
    assert "SELECT COUNT(*)" in single.words


def test_the_table_has_the_numbers_of_the_chart(invented: dict[str, str]) -> None:
    page = invented["releases/infected_now.html"]
    (newest,) = Invented().latest("infected_now")
    assert newest.value is not None
    row = page[page.index("<tbody>") : page.index("</tr>", page.index("<tbody>"))]
    cells = re.findall(r"<td>([^<]*)</td>", row)
    assert cells == [f"{newest.value:,.0f}", "48", f"{newest.low:,.0f} to {newest.high:,.0f}"]
    chart = re.search(r'data-values="([^"]*)"', page)
    assert chart is not None
    assert int(chart[1].split()[-1]) == round(newest.value)


def test_pages_are_small() -> None:
    """50 releases, 20 groups, two years of days: as large as a page gets."""
    names = tuple(f"region {number}" for number in range(20))
    many = tuple(grouped(f"release_{number}", "region", names) for number in range(50))
    public = Invented(releases=many, days=730)
    assert len(pages.overview(pages.whole_site(public), static()).encode()) < 300_000
    one = pages.release_site(public, "release_0")
    assert one is not None
    assert len(pages.release(*one, static(1)).encode()) < 150_000
    assert sum(len(asset.content) for asset in pages.ASSETS.values()) < 30_000


def test_a_long_release_is_made_from_some_of_its_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegauge.publish.pages.build.MOST", 300)
    public = Invented()
    found = pages.release_site(public, "in_ward")
    assert found is not None
    series = found[1]
    assert series.step == 7  # 365 readings of 5 groups
    assert {len(line.points) for line in series.lines} == {53}
    newest = public.latest("in_ward")
    assert [line.points[-1].value for line in series.lines] == [one.value for one in newest]
    words = Checked(pages.release(*found, static(1))).words
    assert "The chart shows every 7th reading; the downloads have all." in words
    assert "Table: 31 of 365 readings" in words


def test_every_chart_says_what_it_leaves_out(invented: dict[str, str]) -> None:
    """Each range, and each of the two widths, is thinned by itself."""
    page = invented["releases/in_ward.html"]
    plots = re.findall(r'<div class="plot (wide|tall)">(.*?)</div>', page, re.S)
    assert len(plots) == 6
    for _, plot in plots:
        values = re.search(r'data-values="([^"]*)"', plot)
        assert values is not None
        shown, said = len(values[1].split()), re.search(r"every (\w+) reading", plot)
        word = said[1] if said else "1"
        every = {"second": 2, "third": 3}.get(word) or int(re.sub(r"\D", "", word))
        assert any(-(-count // every) == shown for count in (32, 93, 365)), (shown, every)
    assert len({bool(re.search("every", plot)) for _, plot in plots}) == 2  # some do, some do not


def test_groups_that_are_left_out_are_named() -> None:
    names = tuple(f"region {number}" for number in range(30))
    public = Invented(releases=(grouped("many", "region", names),), days=40)
    found = pages.release_site(public, "many")
    assert found is not None
    words = Checked(pages.release(*found, static(1))).words
    assert "The 6 largest of 30 groups; the 24 largest have a panel below." in words
    assert "The 6 smaller groups are in the downloads." in words
    assert "The first 24 of 30 groups; the downloads have all." in words


@pytest.mark.parametrize("count", [3, 9])
def test_a_color_is_one_group_on_both_charts(count: int) -> None:
    """Whatever the model makes of the groups, its chart has them in the order of the other chart."""

    class Modelled(Invented):
        def denoised(self, release: str) -> tuple[ModelReading, ...]:
            return tuple(
                ModelReading(
                    release, one.number, one.cell, one.time, one.group,
                    float(one.cell % 2), 1.0, 0.0, 9999.0,
                )
                for one in self.readings(release)
            )  # fmt: skip

    names = tuple(f"region {number}" for number in range(count))
    found = pages.release_site(Modelled(releases=(grouped("many", "region", names),), days=40), "many")
    assert found is not None
    first, second = pages.release(*found, static(1)).split("Denoised by a model")
    legends = [
        re.findall(r'<span class="swatch (?:line )?s(\d)"></span>([^<]+)<', part) for part in (first, second)
    ]
    assert len(legends[0]) == min(count, 6)
    assert legends[0] == legends[1][: len(legends[0])]


def test_an_unknown_release_has_no_page() -> None:
    assert pages.release_site(Invented(), "nothing") is None


# -- the guarantee -------------------------------------------------------------------------------------------


def test_the_guarantee_says_what_is_and_is_not_promised(invented: dict[str, str]) -> None:
    words = Checked(invented["guarantee.html"]).words
    assert "What could someone learn about one patient?" in words
    assert "at most 88 of 100" in words
    assert "What is not promised" in words
    assert "For Mean age the promise holds for data that do not react" in words
    assert "At most 8 changes of one patient count" in words
    assert "1 in 1,000,000" in words


def test_simulated_noise_is_said_on_every_page() -> None:
    for text in all_pages(Invented(guarantee=replace(GUARANTEE, simulated=True))).values():
        assert "They are not private" in text


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 2.0, 8.0, 50.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1])
def test_bounds_of_tests_are_those_of_the_worst_mechanism(epsilon: float, delta: float) -> None:
    """Four outcomes: revealed with probability delta, else randomized response.
    No mechanism reveals more."""
    keep = 1 / (1 + exp(-epsilon))
    present = [delta, (1 - delta) * keep, (1 - delta) * (1 - keep), 0.0]
    absent = [0.0, (1 - delta) * (1 - keep), (1 - delta) * keep, delta]
    best = sum(max(pair) for pair in zip(present, absent, strict=True)) / 2
    assert best_guess(epsilon, delta) == pytest.approx(best, abs=1e-12)
    for alarms in (0.001, 0.01, 0.1, 0.5):
        power, left = 0.0, alarms
        for p, q in zip(present, absent, strict=True):  # by likelihood ratio, the last one in part
            used = min(q, left)
            power += p if q == 0 else p * used / q
            left -= used
        assert detection(alarms, epsilon, delta) == pytest.approx(power, abs=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "word"), [(0.5, "Very little"), (3, "Little"), (8, "not small"), (20, "Possibly a lot")]
)
def test_the_answer_depends_on_epsilon(epsilon: float, word: str) -> None:
    public = Invented(guarantee=replace(GUARANTEE, epsilon=epsilon, epsilon_at=epsilon))
    page = all_pages(public)["guarantee.html"]
    assert word in page
    assert "large enough to hide" not in page  # at epsilon = 8 a bet is won 99.97 times of 100


def test_words_for_units() -> None:
    assert unit_word(GUARANTEE) == "patient"
    assert unit_word(replace(GUARANTEE, unit="person_id")) == "person"
    assert unit_word(replace(GUARANTEE, table="public.companies")) == "company"
    assert unit_word(replace(GUARANTEE, table="patient")) == "patient"
    assert unit_word(replace(GUARANTEE, table="care")) == "row"
    assert singular("addresses") == "address"
    assert singular("status") == "status"
    declared = ConstraintSpec.model_validate({"within": "30 days", "at_most": 3, "renews": "1 year"})
    canonical = as_object(printed(declared.model_dump(exclude_none=True)))
    assert constraint_sentences({**canonical, "on_excess": "retire"}, "patient") == [
        "At most 3 changes of one patient count in every 1 year, the first one included.",
        "Changes of one patient count for 30 days after the first.",
        "After that the patient leaves the numbers.",
    ]


def test_the_operators_page_is_labelled() -> None:
    found = Status(
        "abc",
        "2026-01-01T00:00:00Z",
        simulated=False,
        series=(Progress("in_ward", 3, None, None),),
        secret=(("dropped", "167"),),
        checks=(("loop", False, "late"),),
    )
    page = Checked(pages.status(found, served()))
    assert "Never publish this page" in page.words
    assert "167" in page.words
    assert 'content="noindex"' in pages.status(found, served())

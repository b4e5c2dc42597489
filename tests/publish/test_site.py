"""The static site: complete, written file by file, only what changed, and continued where writing ended."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.printed import printed
from tests.publish.pages.test_pages import Checked
from tests.publish.ward import Ward
from tidegauge.errors import PublishError
from tidegauge.publish import atomic
from tidegauge.publish import site as site_module
from tidegauge.publish.metadata import FORMATS
from tidegauge.publish.public.reader import PublicFile

SITE = {"site": {"kind": "site", "path": "out", "title": "Two wards"}}


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_a_site_is_complete_and_its_links_hold(tmp_path: Path) -> None:
    Ward(tmp_path, SITE).run(20)
    found = files(tmp_path / "out")
    names = ("by_ward", "week", "weekly")
    assert set(found) == {
        ".made",
        "index.html",
        "guarantee.html",
        "ledger.html",
        "data/public.db",
        "feed.xml",
        *(one.file for one in FORMATS.values()),
        *(f"assets/{name}" for name in ("page.css", "page.js", "icon.svg")),
        *(f"data/{name}.{form}" for name in names for form in ("csv", "json", "parquet")),
        *(f"charts/{name}.svg" for name in names),
        *(f"releases/{name}.html" for name in names),
    }
    for name, content in found.items():
        if name.endswith(".html"):
            folder = Path(name).parent
            for link in Checked(content.decode()).links:
                target = unquote(link.partition("#")[0])
                if target and "://" not in target and not target.startswith("mailto:"):
                    place = (tmp_path / "out" / folder / target).resolve()
                    assert place.is_file(), (name, link)
    assert "Two wards" in found["index.html"].decode()


def test_denoised_series_have_a_chart_of_their_own(tmp_path: Path) -> None:
    ward = Ward(tmp_path, {"site": SITE["site"] | {"denoised": True}})
    ward.run(20)
    page = (tmp_path / "out/releases/by_ward.html").read_text("utf-8")
    assert "Denoised by a model" in page
    assert "95 % model interval" in page
    assert "By ward, denoised" in page
    (tmp_path / "plain").mkdir()
    Ward(tmp_path / "plain", SITE).run(20)
    assert "model" not in (tmp_path / "plain/out/releases/by_ward.html").read_text("utf-8")


def test_what_describes_the_site_names_its_files(tmp_path: Path) -> None:
    Ward(tmp_path, SITE).run(20)
    out = tmp_path / "out"
    paths = [one["path"] for one in json.loads((out / "datapackage.json").read_text())["resources"]]
    named = [path for one in paths for path in ([one] if isinstance(one, str) else one)]
    assert named
    assert all((out / unquote(path)).is_file() for path in named), named
    page = (out / "index.html").read_text()
    block = (
        page[page.index('<script type="application/ld+json">') :].partition(">")[2].partition("</script>")[0]
    )
    assert json.loads(block) == json.loads((out / "dataset.jsonld").read_text())
    assert "releases/by_ward.html" in (out / "feed.xml").read_text()


def test_data_are_those_that_were_published(tmp_path: Path) -> None:
    gauge = Ward(tmp_path, SITE).run(20)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "data" / "by_ward.csv").read_text())))
    own = [printed(reading.as_json()) for reading in gauge.published("by_ward")]
    assert [(row["time"], row["ward"], float(row["value"])) for row in rows] == [
        (one["time"], one["group"]["ward"], one["value"]) for one in own
    ]
    assert json.loads((tmp_path / "out" / "data" / "by_ward.json").read_text()) == own


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    ward = Ward(tmp_path, SITE)
    ward.run(20)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()}
    ward.run(21)  # by_ward and week, and not weekly
    changed = {
        path.relative_to(tmp_path / "out").as_posix()
        for path, at in before.items()
        if path.stat().st_mtime_ns != at
    }
    assert {"index.html", "releases/by_ward.html", "data/by_ward.csv", "releases/week.html"} <= changed
    assert not {name for name in changed if "weekly" in name or name.startswith("assets/")}
    again = files(tmp_path / "out")
    ward.run(21)
    assert files(tmp_path / "out") == again


def test_another_title_changes_every_page(tmp_path: Path) -> None:
    Ward(tmp_path, SITE).run(10)
    Ward(tmp_path, {"site": SITE["site"] | {"title": "Other"}}).run(11)
    for name, content in files(tmp_path / "out").items():
        if name.endswith(".html"):
            assert b"Two wards" not in content, name


@pytest.mark.parametrize("after", [0, 6])
def test_a_site_is_continued_where_writing_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    one, other = Ward(whole, SITE), Ward(broken, SITE)
    for ward in (one, other):
        ward.run(5)
    one.run(9)
    count, put = 0, atomic.put

    def dying(path: Path, content: bytes) -> bool:
        nonlocal count
        if count == after:
            raise PublishError("the disk is full")
        count += 1
        return put(path, content)

    monkeypatch.setattr(site_module, "put", dying)
    assert other.run(9).undelivered
    monkeypatch.undo()
    assert not other.run(9).undelivered
    left, right = files(whole / "out"), files(broken / "out")
    del left["data/public.db"], right["data/public.db"]
    ledger = {
        "ledger.html",
        ".made",
    }  # the hashes of the two plans' commits are the same, their times may not be
    assert {name: left[name] for name in left if name not in ledger} == {
        name: right[name] for name in right if name not in ledger
    }


def test_a_site_that_was_removed_is_written_again(tmp_path: Path) -> None:
    ward = Ward(tmp_path, SITE)
    ward.run(9)
    before = files(tmp_path / "out")
    for path in sorted((tmp_path / "out").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    ward.run(10)
    after = files(tmp_path / "out")
    assert set(after) == set(before)
    with PublicFile(tmp_path / "out" / "data" / "public.db") as public:
        assert len(public.readings("by_ward")) == 22


def test_nothing_secret_is_in_the_site(tmp_path: Path) -> None:
    """No key of a row, no exact count, no name of a column that is not published."""
    changes: Any = [(at, f"secretkey{key}", row) for at, key, row in Ward(tmp_path, SITE).changes]
    Ward(tmp_path, SITE, changes=changes).run(20)
    for name, content in files(tmp_path / "out").items():
        assert b"secretkey" not in content, name
        assert str(tmp_path).encode() not in content, name

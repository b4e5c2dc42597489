"""Metadata, SDMX-CSV and the feed over HTTP."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from tests.publish.test_metadata import ABOUT
from tests.publish.ward import RELEASES, Ward, people
from tests.serve.served import serving
from tidegauge.model.reading import COVERS
from tidegauge.publish.metadata import FORMATS
from tidegauge.serve.app import create_app

ATOM = "{http://www.w3.org/2005/Atom}"


def test_metadata_point_to_what_is_served(tmp_path: Path) -> None:
    Ward(tmp_path, {"page": ABOUT}).run(5)
    with serving(create_app(tmp_path / "public.db")) as client:
        listed = client.get("/api/v1/metadata").json()
        assert list(listed) == list(FORMATS)
        for name, at in listed.items():
            answer = client.get(at)
            assert answer.status_code == 200
            assert answer.headers["content-type"] == FORMATS[name].media_type
            assert answer.json()
            assert client.get(at, headers={"if-none-match": answer.headers["etag"]}).status_code == 304
        files = client.get(listed["schema.org"]).json()["distribution"]
        assert len(files) == 9
        for one in files:
            path = one["contentUrl"].removeprefix("https://example.org/gauge")
            assert path != one["contentUrl"]
            served = client.get(path)
            assert served.status_code == 200
            assert served.headers["content-type"].startswith(one["encodingFormat"])
        sdmx = client.get("/api/v1/releases/by_ward/readings.sdmx.csv?group.ward=a")
        assert sdmx.headers["content-type"] == "application/vnd.sdmx.data+csv;version=2.0.0"
        assert len(sdmx.text.splitlines()) == 1 + 6


def test_the_api_says_what_its_intervals_cover(tmp_path: Path) -> None:
    Ward(tmp_path, {"page": ABOUT}).run(1)
    with serving(create_app(tmp_path / "public.db")) as client:
        fields = client.get("/api/v1/openapi.json").json()["components"]["schemas"]["Reading"]["properties"]
    for name in ("low", "high"):
        assert "95 % noise interval" in fields[name]["description"]
        assert COVERS in fields[name]["description"]
    assert fields["stderr"]["description"] == "standard error of the noise alone"


def test_the_feed_says_what_noise_hides(tmp_path: Path) -> None:
    Ward(tmp_path, {"page": ABOUT}, changes=people(400)).run(12)
    with serving(create_app(tmp_path / "public.db")) as client:
        found = ET.fromstring(client.get("/feed.xml").content).findall(f"{ATOM}entry")
        readings = client.get("/api/v1/releases/by_ward/readings?page_size=1000").json()["results"]
    hidden = {(one["time"], one["group"]["ward"]) for one in readings if one["low"] <= 0}
    said = set()
    for entry in found:
        name, _, time = (entry.findtext(f"{ATOM}title") or "").partition(", ")
        parts = (entry.findtext(f"{ATOM}content") or "").split("; ")
        if name == "by_ward":
            said |= {(time, one.partition(": ")[0]) for one in parts if "too small to tell (" in one}
    assert said == hidden
    assert 0 < len(hidden) < len(readings)


def test_the_feed_lists_the_newest_first(tmp_path: Path) -> None:
    ward = Ward(tmp_path, {"page": ABOUT | {"title": "Wards & <more> \x07"}})
    ward.more["releases"] = {"a<b>&": RELEASES["by_ward"], "w": RELEASES["weekly"]}
    ward.run(-1)
    with serving(create_app(tmp_path / "public.db")) as client:
        assert ET.fromstring(client.get("/feed.xml").content).findall(f"{ATOM}entry") == []
        ward.run(58)
        found = ET.fromstring(client.get("/feed.xml").content)
        times = [one.findtext(f"{ATOM}updated") for one in found.findall(f"{ATOM}entry")]
        assert len(times) == 50
        assert times == sorted(times, key=str, reverse=True)
        assert times[0] == found.findtext(f"{ATOM}updated") == "2026-02-28T00:00:00Z"
        assert len({one.findtext(f"{ATOM}id") for one in found.findall(f"{ATOM}entry")}) == 50
        assert found.findtext(f"{ATOM}title") == "Wards & <more> "
        first = found.find(f"{ATOM}entry")
        assert first is not None
        content = first.findtext(f"{ATOM}content") or ""
        assert content.count("95 % noise interval") == 2
        link = first.find(f"{ATOM}link")
        assert link is not None
        assert link.attrib["href"] == "https://example.org/gauge/releases/a%3Cb%3E%26"

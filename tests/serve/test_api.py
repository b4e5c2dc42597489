"""The HTTP API over a public file."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.publish.ward import Ward
from tests.serve.served import serving
from tidegauge.publish.formats import to_csv
from tidegauge.publish.public.reader import PublicFile
from tidegauge.serve.app import create_app
from tidegauge.serve.front import Front, matches

API = "/api/v1"
PUBLIC = {"page": {"kind": "public", "title": "Wards", "denoised": True}}


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Ward:
    ward = Ward(tmp_path_factory.mktemp("served"), PUBLIC)
    ward.run(40)
    return ward


@pytest.fixture(scope="module")
def client(ward: Ward) -> Iterator[httpx.Client]:
    with serving(create_app(ward.folder / "public.db")) as client:
        yield client


def results(client: httpx.Client, address: str) -> list[dict[str, Any]]:
    """All pages of a list."""
    found, at = [], address
    while at:
        page = client.get(at).raise_for_status().json()
        found += page["results"]
        at = page["next"]
    assert len(found) == page["count"]
    return found


def test_every_reading_of_every_release(ward: Ward, client: httpx.Client) -> None:
    names = [one["name"] for one in results(client, f"{API}/releases")]
    assert names == ["by_ward", "week", "weekly"]
    for name in names:
        want = [one.as_json() for one in ward.gauge().published(name)]
        assert results(client, f"{API}/releases/{name}/readings?page_size=7") == want
        shown = client.get(f"{API}/releases/{name}").json()
        assert shown["readings"] == len(want)
        latest = client.get(f"{API}/releases/{name}/latest").json()
        assert latest["results"] == shown["latest"] == [one for one in want if one["time"] == latest["time"]]


def test_what_a_model_makes_of_the_readings(ward: Ward, client: httpx.Client) -> None:
    for name in ("by_ward", "week"):
        readings = [one.model.value for one in ward.gauge().published(name, denoised="all") if one.model]
        found = results(client, f"{API}/releases/{name}/denoised?page_size=9")
        assert [one["value"] for one in found] == readings
    asked = {"from": "2026-01-03", "to": "2026-01-05", "group.ward": "b"}
    found = client.get(f"{API}/releases/by_ward/denoised", params=asked).json()["results"]
    assert [(one["time"][:10], one["group"]) for one in found] == [
        (f"2026-01-0{day}", {"ward": "b"}) for day in (3, 4, 5)
    ]
    assert client.get(f"{API}/releases/nothing/denoised").status_code == 404


def test_times_and_groups(client: httpx.Client) -> None:
    at = f"{API}/releases/by_ward/readings"
    every = results(client, at)
    asked = {"from": "2026-01-03", "to": "2026-01-10T00:00:00+00:00", "group.ward": "b"}
    found = client.get(at, params=asked).json()
    assert found["results"] == [
        one
        for one in every
        if "2026-01-03" <= one["time"] < "2026-01-10T01" and one["group"] == {"ward": "b"}
    ]
    assert found["count"] == 8
    plus = client.get(f"{at}?to=2026-01-02T02:00:00+02:00").json()  # a plus sign that is not quoted
    assert plus["count"] == 4
    both = client.get(f"{at}?group.ward=a&group.ward=b&page_size=1").json()
    assert both["count"] == len(every)
    assert both["next"] == f"{at}?group.ward=a&group.ward=b&page_size=1&page=2"
    assert client.get(f"{at}?group.ward=nowhere").json()["results"] == []
    beyond = client.get(f"{at}?page=999").json()
    assert (beyond["results"], beyond["next"], beyond["previous"]) == ([], None, f"{at}?page=1")


def test_files_hold_all_readings_unless_a_page_is_asked_for(ward: Ward, client: httpx.Client) -> None:
    at = f"{API}/releases/by_ward/readings"
    readings = ward.gauge().published("by_ward")
    answer = client.get(f"{at}.csv")
    assert answer.content == to_csv(readings)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''by_ward.csv"
    table = ward.gauge().readings("by_ward")
    assert pq.read_table(io.BytesIO(client.get(f"{at}.parquet").content)).equals(table)
    assert pa.ipc.open_stream(client.get(f"{at}.arrow").content).read_all().equals(table)
    assert client.get(f"{at}.json").json() == client.get(at).json()
    assert len(client.get(f"{at}.csv?page=2&page_size=10").text.splitlines()) == 11


def test_plan_guarantee_ledger_and_seals(ward: Ward, client: httpx.Client) -> None:
    found = client.get(f"{API}/plan").json()
    assert found["plan"] == ward.gauge().plan().as_json()
    assert (found["guarantee"]["epsilon"], found["guarantee"]["delta"]) == (2, 1e-6)
    assert found["guarantee"]["sentence"]
    assert results(client, f"{API}/ledger") == [one.as_json() for one in ward.gauge().ledger()]
    seals = results(client, f"{API}/seals?page_size=3")
    with PublicFile(ward.folder / "public.db") as public:
        assert [one["seal"] for one in seals] == [one.hash for one in public.seals()]


def test_the_etag_is_the_seal_of_the_last_tick(ward: Ward, client: httpx.Client) -> None:
    with PublicFile(ward.folder / "public.db") as public:
        seal = public.last_seal.hash
    for at in ("by_ward/readings", "by_ward/readings.csv", "week/latest", "by_ward/readings?page=2"):
        address = f"{API}/releases/{at}"
        answer = client.get(address)
        assert answer.headers["etag"] == f'"{seal}"'
        for tag in (f'"{seal}"', f'W/"{seal}"', f'"x", "{seal}"', "*"):
            again = client.get(address, headers={"if-none-match": tag})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == f'"{seal}"'
        assert client.get(address, headers={"if-none-match": '"x"'}).content == answer.content
        head = client.head(address)
        assert (head.content, head.headers["content-length"]) == (b"", str(len(answer.content)))
    nothing = client.get(f"{API}/releases/x/readings", headers={"if-none-match": f'"{seal}"'})
    assert nothing.status_code == 404
    assert not matches(b'"ab"', b'"abc"')


def test_a_new_tick_is_served_and_the_old_etag_is_over(tmp_path: Path) -> None:
    ward = Ward(tmp_path, PUBLIC)
    ward.run(3)
    with serving(create_app(tmp_path / "public.db")) as client:
        at = f"{API}/releases/by_ward/readings"
        before = client.get(at)
        ward.run(4)
        after = client.get(at, headers={"if-none-match": before.headers["etag"]})
        assert after.status_code == 200
        assert (before.json()["count"], after.json()["count"]) == (8, 10)
        ward.publish = {"page": {"kind": "public", "title": "Other"}}
        ward.run(4)
        assert client.get(f"{API}/openapi.json").json()["info"]["title"] == "Other"
        (tmp_path / "torn").write_bytes(b"torn")
        (tmp_path / "torn").replace(tmp_path / "public.db")  # what was served is served on
        assert client.get(f"{at}?page=1").json() == after.json()


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/releases/nope", 404),
        ("/releases/nope/readings", 404),
        ("/releases/by_ward/nope", 404),
        ("/nope", 404),
        ("/releases/by_ward/readings?from=yesterday", 422),
        ("/releases/by_ward/readings?to=2026-13-01", 422),
        ("/releases/by_ward/readings?page=0", 422),
        ("/releases/by_ward/readings?page=99999999999999999999", 422),
        ("/releases/by_ward/readings?page=%D9%A1", 422),
        ("/releases/by_ward/readings?page_size=1001", 422),
        ("/releases/by_ward/readings?group.bed=1", 422),
        ("/releases/by_ward/readings?limit=1", 422),
        ("/releases/by_ward/latest?x=1", 422),
        ("/plan?x=1", 422),
        ("/releases/by_ward/readings?from=0001-01-01T00:00:00%2B14:00", 200),
        ("/releases/by_ward/readings?to=9999-12-31T23:59:59.999999-14:00", 200),
        ("/releases/..%2F..%2Fstore.db", 404),
    ],
)
def test_a_request_that_is_wrong(client: httpx.Client, address: str, status: int) -> None:
    answer = client.get(API + address)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert set(answer.json()) == {"detail"}
    assert client.post(API + address).status_code in (404, 405)


def test_every_answer_has_the_security_headers(client: httpx.Client) -> None:
    for at in (f"{API}/plan", f"{API}/nope", f"{API}/health", "/", f"{API}/releases/by_ward/readings.csv"):
        headers = client.get(at).headers
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
        assert headers.get("access-control-allow-origin") == ("*" if at.startswith(API) else None)


def test_before_there_is_a_file(tmp_path: Path) -> None:
    with serving(create_app(tmp_path / "public.db")) as client:
        assert client.get(f"{API}/health").json() == {"status": "ok"}
        for at in ("ready", "plan", "releases", "releases/x/readings"):
            answer = client.get(f"{API}/{at}")
            assert answer.status_code == 503
            assert str(tmp_path) not in answer.text
        Ward(tmp_path, PUBLIC).run(2)
        assert client.get(f"{API}/ready").json() == {"status": "ok", "last_tick": "2026-01-03T00:00:00Z"}
        assert client.get(f"{API}/releases/by_ward/readings").status_code == 200


def test_events_announce_a_tick(tmp_path: Path) -> None:
    ward = Ward(tmp_path, PUBLIC)
    ward.run(3)
    app = create_app(tmp_path / "public.db", every=0.01)
    got = asyncio.run(listened(app, lambda: ward.run(4)))
    first, second = (json.loads(one.partition("data: ")[2]) for one in got)
    assert (first["time"], second["time"]) == ("2026-01-04T00:00:00Z", "2026-01-05T00:00:00Z")
    assert first["seal"] != second["seal"]


async def listened(app: Front, act: Any) -> list[str]:
    """The first event, and the next one after something was done."""
    got: list[str] = []
    ended = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        text = message.get("body", b"").decode()
        if "event: tick" in text:
            got.append(text)
            if len(got) == 1:
                act()
            else:
                ended.set()

    scope = {
        "type": "http", "method": "GET", "path": f"{API}/events", "query_string": b"", "headers": [],
        "root_path": "", "scheme": "http", "server": ("x", 80), "http_version": "1.1",
    }  # fmt: skip
    await asyncio.wait_for(app(scope, receive, send), 60)
    return got


def test_names_with_slashes_and_other_signs(tmp_path: Path) -> None:
    name = "a/b/readings?ä%"
    ward = Ward(tmp_path, PUBLIC)
    ward.more["releases"] = {name: ward.more["releases"]["by_ward"]}
    ward.run(3)
    with serving(create_app(tmp_path / "public.db")) as client:
        (one,) = results(client, f"{API}/releases")
        assert one["name"] == name
        assert client.get(one["links"]["self"]).json()["name"] == name
        assert len(results(client, one["links"]["readings"] + "?page_size=3")) == 8
        assert client.get(one["links"]["readings"] + ".csv").status_code == 200

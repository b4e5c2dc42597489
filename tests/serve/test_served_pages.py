"""The pages over HTTP: complete, behind the policy, cached by the seal,
and without a trace of the secret side."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from tests.publish.pages.test_pages import Checked
from tests.publish.ward import Ward
from tests.serve.served import serving
from tidegauge.model.status import ReleaseStatus, Status
from tidegauge.serve.app import create_app
from tidegauge.serve.operator import Watch, operator_app

PUBLIC = {"page": {"kind": "public", "path": "public.db", "title": "Two wards"}}
PAGES = ("/", "/guarantee", "/ledger", "/releases/by_ward", "/releases/week", "/releases/weekly")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("ward")
    Ward(folder, PUBLIC).run(40)
    with serving(create_app(folder / "public.db")) as found:
        yield found


@pytest.mark.parametrize("page", PAGES)
def test_every_page_and_all_that_it_links_to(client: httpx.Client, page: str) -> None:
    answer = client.get(page)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")
    for link in Checked(answer.text).links:
        target = urljoin(page, link)
        if not urlsplit(target).netloc and not target.startswith("mailto:"):
            assert client.get(target).status_code == 200, target


def test_an_unknown_address_has_a_page(client: httpx.Client) -> None:
    for address in ("/nothing", "/releases/nothing", "/releases/..%2F..%2Fstore.db", "/assets/none.js"):
        answer = client.get(address)
        assert answer.status_code == 404
        assert "This page does not exist" in answer.text
        assert answer.headers["content-security-policy"]
    assert client.get("/charts/nothing.svg").status_code == 404
    assert client.get("/api/nothing").json() == {"detail": "there is no such address"}


def test_a_page_is_not_sent_twice(client: httpx.Client) -> None:
    first = client.get("/")
    again = client.get("/", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_named_version_of_the_style_is_kept_by_browsers(client: httpx.Client) -> None:
    (link,) = [one for one in Checked(client.get("/").text).links if "page.css" in one]
    assert "immutable" in client.get(link).headers["cache-control"]
    assert client.get("/assets/page.css").headers["cache-control"] == "no-cache"
    assert client.get("/assets/page.js").headers["content-type"] == "text/javascript; charset=utf-8"


def test_a_chart_is_an_svg_file(client: httpx.Client) -> None:
    answer = client.get("/charts/by_ward.svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.text.startswith("<svg ")


def test_without_a_public_file_there_is_nothing_to_see(tmp_path: Path) -> None:
    with serving(create_app(tmp_path / "none.db")) as client:
        assert client.get("/").status_code == 503


# -- the operator's page -------------------------------------------------------------------------------------

TOKEN = "sesame-open-4711-sesame"
STATUS = Status(
    plan="abc",
    releases={"in_ward": ReleaseStatus(readings=3, readings_total=None, next=1767225600_000000)},
    publishers={"page": 5},
    operator_only={"dropped": 4711},
)


def login(password: str) -> dict[str, str]:
    word = base64.b64encode(f"operator:{password}".encode()).decode()
    return {"accept": "text/html", "authorization": f"Basic {word}"}


def test_a_browser_shows_the_status_after_a_login() -> None:
    with serving(operator_app(Watch(lambda: STATUS, str), TOKEN)) as client:
        refused = client.get("/operator/status", headers={"accept": "text/html"})
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic ")
        for wrong in ("", TOKEN[:-1], f"{TOKEN}x"):
            assert client.get("/operator/status", headers=login(wrong)).status_code == 401
        broken = {"accept": "text/html", "authorization": "Basic ###"}
        assert client.get("/operator/status", headers=broken).status_code == 401
        page = client.get("/operator/status", headers=login(TOKEN))
        words = Checked(page.text).words
        assert "4,711" in words
        assert "Never publish this page" in words
        assert "5 readings are not delivered yet" in words
        assert page.headers["cache-control"] == "no-store"
        for link in Checked(page.text).links:
            assert client.get(link).status_code == 200


def test_the_web_process_has_no_operators_page(client: httpx.Client) -> None:
    assert client.get("/operator/status", headers=login(TOKEN)).status_code == 404

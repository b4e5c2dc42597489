"""A browser, a static site of an invented hospital behind the policy of `serve`,
and axe where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.browser.chromium import MISSING, PROGRAM, Tab, browser
from tests.publish.invented import Invented
from tests.publish.pages.test_pages import all_pages
from tidegauge.publish import pages

if TYPE_CHECKING:
    from collections.abc import Iterator

POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
)


class Handler(SimpleHTTPRequestHandler):
    """A plain file server that sends the policy."""

    def end_headers(self) -> None:
        self.send_header("content-security-policy", POLICY)
        self.send_header("cache-control", "no-store")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    if PROGRAM is None:
        pytest.skip(MISSING)
    with browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as files."""
    top = tmp_path_factory.mktemp("site")
    found = {name: text.encode() for name, text in all_pages(Invented()).items()}
    found |= {f"assets/{name}": asset.content for name, asset in pages.ASSETS.items()}
    for name, content in found.items():
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_bytes(content)
    return top


@pytest.fixture(scope="session")
def site(folder: Path) -> Iterator[str]:
    """The address of the site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def axe() -> str:
    """The text of axe-core, which is used in tests alone and never part of the project."""
    named = os.environ.get("TIDEGAUGE_AXE")
    places = [Path(named)] if named else []
    if not named and (npm := shutil.which("npm")):
        folder = subprocess.run([npm, "root", "--global"], capture_output=True, text=True, check=False).stdout
        places = [Path(folder.strip()) / "axe-core" / "axe.min.js"]
    for place in places:
        if place.is_file():
            return place.read_text("utf-8")
    pytest.skip("no axe-core: npm install --global axe-core, or set TIDEGAUGE_AXE to its axe.min.js")

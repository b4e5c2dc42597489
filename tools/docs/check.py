"""Check a built site: every link and every anchor resolves, and no page asks another server for anything."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

LOADS: Final = {
    "img": "src",
    "script": "src",
    "iframe": "src",
    "source": "src",
    "link": "href",
    "object": "data",
}
"""Elements that a browser loads without being asked, and the attribute that says what."""
QUIET: Final = {"canonical", "prev", "next", "edit"}
"""Relations of a <link> that a browser does not load."""


class Page(HTMLParser):
    """What a page loads, where it links to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the addresses and the names of one element."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag in LOADS and LOADS[tag] in found and found.get("rel") not in QUIET:
            self.loads.append(found[LOADS[tag]])


def check(site: Path) -> list[str]:
    """One line for each link that leads nowhere and each thing that is loaded from elsewhere."""
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    problems = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links are absolute: it is shown at any address
            continue
        name = path.relative_to(site).as_posix()
        problems += [f"{name}: loads {target}" for target in page.loads if urlsplit(target).netloc]
        for target in [*page.links, *page.loads]:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            goal = goal / "index.html" if goal.is_dir() else goal
            if not goal.is_file():
                problems.append(f"{name}: no file {target}")
            elif parts.fragment and goal in pages and unquote(parts.fragment) not in pages[goal].anchors:
                problems.append(f"{name}: no anchor {target}")
    return problems

"""A release as one HTML file that needs no other: style and script are in it, and nothing is fetched."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from tidegauge.publish.markup import Markup, page, tag
from tidegauge.publish.pages.assets import ASSETS
from tidegauge.publish.pages.release import numbers
from tidegauge.publish.view import every_text

if TYPE_CHECKING:
    from tidegauge.publish.view import Series


def standalone_html(series: Series) -> str:
    """The file.  Its own policy allows the style and the script in it, by their hashes, and no more."""
    style, script = (ASSETS[name].content.decode() for name in ("page.css", "page.js"))
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    what = f"{series.what}, {every_text(series.every)}, in {series.unit}"
    return page(
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", series.title),
            Markup(f"<style>{style}</style>"),
        ),
        tag(
            "body",
            tag(
                "main",
                tag("div", tag("h1", series.title), tag("p", what, class_="lead"), class_="intro"),
                numbers(series, None),
                id="content",
            ),
            Markup(f"<script>{script}</script>"),
        ),
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

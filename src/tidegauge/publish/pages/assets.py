"""The files that pages need: our own style sheet, script and icon."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegauge.publish.chart.look import LIGHT, chart_css, palette_css

_HERE: Final = Path(__file__).with_name("static")


@dataclass(frozen=True)
class Asset:
    """A file, its type, and a version that changes with its content."""

    content: bytes
    media_type: str

    @property
    def version(self) -> str:
        """Twelve digits of its hash."""
        return hashlib.sha256(self.content).hexdigest()[:12]


_ICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    f'<rect width="32" height="32" rx="7" fill="{LIGHT["s0"]}"/>'
    '<path d="M5 19c3.7-6 7.300-6 11 0s7.300 6 11 0" fill="none" stroke="#fff" stroke-width="3" '
    'stroke-linecap="round"/><path d="M16 5v22" stroke="#fff" stroke-opacity=".55" stroke-width="2" '
    'stroke-linecap="round" stroke-dasharray="1 5"/></svg>\n'
)


def style_sheet() -> str:
    """The style of pages and of the charts in them."""
    return f"{palette_css()}{chart_css()}{(_HERE / 'page.css').read_text('utf-8')}"


ASSETS: Final = {
    "page.css": Asset(style_sheet().encode(), "text/css; charset=utf-8"),
    "page.js": Asset((_HERE / "page.js").read_bytes(), "text/javascript; charset=utf-8"),
    "icon.svg": Asset(_ICON.encode(), "image/svg+xml"),
}

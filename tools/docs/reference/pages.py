"""The pages of docs/reference/ and the functions that write them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.docs.reference import declaration, http, json_forms, python

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER: Final = Path(__file__).parents[3] / "docs" / "reference"
PAGES: Final[dict[str, Callable[[], str]]] = {
    "declaration.md": declaration.page,
    "python.md": python.page,
    "http.md": http.page,
    "json.md": json_forms.page,
}

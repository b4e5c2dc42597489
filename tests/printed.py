"""JSON as whoever reads it gets it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegauge.model.json import Json


def printed(value: Json) -> Any:
    """The value written as JSON and read again: tests take it apart without saying the type of each part."""
    return json.loads(json.dumps(value))

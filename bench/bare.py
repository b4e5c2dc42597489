"""A server that does nothing but send the same bytes: the limit for any server of its kind (see api.py)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

BODY = Path(os.environ["BENCH_BODY"]).read_bytes() if "BENCH_BODY" in os.environ else b"{}"
HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]


async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001
    """Answer any request."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": BODY})

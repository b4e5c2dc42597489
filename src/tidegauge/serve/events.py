"""Server-sent events: an event `tick` whenever something was published."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tidegauge.errors import StoreError
from tidegauge.model.quantity import rfc3339
from tidegauge.serve.asked import nothing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from tidegauge.serve.files import Files

EVERY: Final = 1.0
"""Seconds between two looks at the file."""
ALIVE: Final = 20
"""Looks after which a connection without events gets a comment, so that proxies keep it open."""
MOST: Final = 1_000
"""Connections at a time."""


class Events:
    """All open connections; each looks at what the last look of any found."""

    def __init__(self, files: Files, *, every: float = EVERY, most: int = MOST) -> None:
        self._files, self._every, self._most, self._open = files, every, most, 0

    @property
    def route(self) -> Route:
        """GET /api/v1/events."""
        return Route("/api/v1/events", self._answer)

    async def _answer(self, request: Request) -> StreamingResponse:
        nothing(request)
        if self._open >= self._most:
            raise HTTPException(503, "too many connections; try again later")
        return StreamingResponse(self._stream(request), media_type="text/event-stream")

    async def _stream(self, request: Request) -> AsyncIterator[bytes]:
        self._open += 1
        try:
            seen, quiet = request.headers.get("last-event-id", ""), 0
            yield b"retry: 5000\n\n"
            while not await request.is_disconnected():
                tag, event = self._now()
                if tag != seen:
                    seen, quiet = tag, 0
                    yield event
                elif (quiet := quiet + 1) % ALIVE == 0:
                    yield b": still here\n\n"
                await asyncio.sleep(self._every)
        finally:
            self._open -= 1

    def _now(self) -> tuple[str, bytes]:
        """What identifies the file, and the event that announces it."""
        try:
            public = self._files.current()
        except StoreError:
            return "", b""
        last, tag = public.last_tick, self._files.page_tag
        body = {"seal": public.last_seal.hash, "time": None if last is None else rfc3339(last)}
        return tag, f"event: tick\nid: {tag}\ndata: {json.dumps(body)}\n\n".encode()

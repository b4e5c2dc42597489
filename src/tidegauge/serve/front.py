"""What every answer passes: security headers, ETags, and answers that are kept until the file is replaced.

A request whose ETag still holds, and one that was answered before, cost no routing and no query.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegauge.errors import StoreError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from tidegauge.serve.files import Files

    Headers = list[tuple[bytes, bytes]]

log = logging.getLogger("tidegauge")

API: Final = "/api/v1"
UNTAGGED: Final = frozenset({f"{API}/events", f"{API}/health", f"{API}/ready"})
"""Answers that change without the file."""
SECURITY: Final[Headers] = [
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]
_OPEN: Final = (b"access-control-allow-origin", b"*")
_FRESH: Final = (b"cache-control", b"no-cache")
LARGEST: Final = 4 << 20
"""Bytes of an answer that is kept, at most."""
ROOM: Final = 64 << 20
"""Bytes of all answers that are kept."""


@dataclass(frozen=True)
class Kept:
    """An answer with status 200."""

    headers: Headers
    body: bytes
    etag: bytes


class Front:
    """Wraps the application of routes."""

    def __init__(self, app: ASGIApp, files: Files) -> None:
        self._app, self._files = app, files
        self._kept: OrderedDict[tuple[str, bytes], Kept] = OrderedDict()
        self._size, self._tag = 0, ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD") or path in UNTAGGED:
            await self._app(scope, receive, _guarded(send, path))
            return
        try:
            self._files.current()
        except StoreError:
            await _send(send, 503, _error_headers(path), _UNAVAILABLE)
            return
        if self._tag != self._files.page_tag:
            self._kept.clear()
            self._size, self._tag = 0, self._files.page_tag
        key = (path, scope["query_string"])
        found = self._kept.get(key)
        if found is None:
            found = await self._ask(scope, receive, send, key)
            if found is None:
                return
        else:
            self._kept.move_to_end(key)
        await _answer(scope, send, found)

    async def _ask(self, scope: Scope, receive: Receive, send: Send, key: tuple[str, bytes]) -> Kept | None:
        """The routes' answer, kept where it is not large; None where it was sent already."""
        status, headers, parts = 0, [], []

        async def collect(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], list(message["headers"])
            else:
                parts.append(message.get("body", b""))

        tag = self._files.page_tag
        etag = self._etag(key[0])
        inner = dict(scope, method="GET")
        await self._app(inner, receive, collect)
        body = b"".join(parts)
        if status != 200:
            await _send(
                send, status, [*headers, *_common(key[0])], b"" if scope["method"] == "HEAD" else body
            )
            return None
        named = {name for name, _ in headers}
        more = [(b"etag", etag), *_common(key[0])]
        kept = Kept([*headers, *(one for one in more if one[0] not in named)], body, etag)
        if len(body) <= LARGEST and tag == self._files.page_tag == self._tag:
            self._kept[key] = kept
            self._size += len(body)
            while self._size > ROOM:
                _, old = self._kept.popitem(last=False)
                self._size -= len(old.body)
        return kept

    def _etag(self, path: str) -> bytes:
        """The seal of the last tick for readings; pages and documents also change with the plan."""
        readings = path.startswith(f"{API}/releases/") and (
            "/readings" in path or path.endswith(("/latest", "/denoised"))
        )
        return f'"{self._files.tag if readings else self._files.page_tag}"'.encode()


def _common(path: str) -> Headers:
    return [*SECURITY, _FRESH, *([_OPEN] if path.startswith("/api/") else [])]


def _error_headers(path: str) -> Headers:
    return [(b"content-type", b"application/json"), (b"retry-after", b"10"), *_common(path)]


_UNAVAILABLE: Final = b'{"detail":"there is nothing to serve yet; try again later"}'


def _guarded(send: Send, path: str) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *_common(path)]
        await send(message)

    return guarded


async def _answer(scope: Scope, send: Send, kept: Kept) -> None:
    for name, value in scope["headers"]:
        if name == b"if-none-match" and matches(value, kept.etag):
            bare = [one for one in kept.headers if one[0] not in (b"content-length", b"content-type")]
            await _send(send, 304, bare, b"")
            return
    if scope["method"] == "HEAD":
        await send({"type": "http.response.start", "status": 200, "headers": kept.headers})
        await send({"type": "http.response.body", "body": b""})
        return
    await _send(send, 200, kept.headers, kept.body)


def matches(asked: bytes, etag: bytes) -> bool:
    """Whether If-None-Match names this ETag; weak ones compare equal."""
    return asked == etag or any(one.strip().removeprefix(b"W/") in (etag, b"*") for one in asked.split(b","))


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    length = [(b"content-length", str(len(body)).encode())] if status != 304 else []
    bare = [one for one in headers if one[0] != b"content-length"]
    await send({"type": "http.response.start", "status": status, "headers": [*bare, *length]})
    await send({"type": "http.response.body", "body": body})

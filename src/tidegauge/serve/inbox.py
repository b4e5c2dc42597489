"""The endpoint that Debezium Server's HTTP sink posts to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from tidegauge.errors import SourceError

if TYPE_CHECKING:
    from tidegauge.source.debezium_inbox import Gatekeeper, Inbox

LARGEST: Final = 16 << 20
"""Bytes of a request."""


def inbox_router(inbox: Inbox, gatekeeper: Gatekeeper, *, largest: int = LARGEST) -> APIRouter:
    """POST /debezium: 204 once the events are durable, 401 for strangers, 413 for too much, 400 for what is no event, 507 when full."""
    router = APIRouter()

    @router.post("/debezium", status_code=204)
    async def receive(request: Request) -> Response:
        if gatekeeper.hopeless(request.headers):
            return Response(status_code=401)
        body = await _body(request, largest)
        if body is None:
            return Response(
                f"a request has at most {largest} bytes; nothing of it was kept",
                status_code=413,
                headers={"connection": "close"},
            )
        if not gatekeeper.admits(request.headers, body):
            return Response(status_code=401)
        try:
            await run_in_threadpool(inbox.append, body)
        except SourceError as refusal:
            return Response(str(refusal), status_code=400)
        except OSError:
            return Response("the inbox cannot be written; nothing was kept", status_code=507)
        return Response(status_code=204)

    return router


async def _body(request: Request, largest: int) -> bytes | None:
    """The body; None as soon as it is known to be too long."""
    if int(request.headers.get("content-length") or 0) > largest:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > largest:
            return None
    return bytes(body)

"""The endpoint that Debezium Server's HTTP sink posts to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from tidegauge.errors import SourceError

if TYPE_CHECKING:
    from tidegauge.source.debezium_inbox import Gatekeeper, Inbox

_LARGEST: Final = 64 << 20


def inbox_router(inbox: Inbox, gatekeeper: Gatekeeper) -> APIRouter:
    """POST /debezium: 204 once the events are durable, 401 for strangers, 400 for what is no event, 507 when full."""
    router = APIRouter()

    @router.post("/debezium", status_code=204)
    async def receive(request: Request) -> Response:
        if int(request.headers.get("content-length") or 0) > _LARGEST:
            return Response(status_code=413)
        body = await request.body()
        if not gatekeeper.admits(request.headers, body):
            return Response(status_code=401)
        try:
            await run_in_threadpool(inbox.append, body)
        except SourceError as refusal:
            return Response(str(refusal), status_code=400)
        except OSError:
            return Response("the inbox cannot be written", status_code=507)
        return Response(status_code=204)

    return router

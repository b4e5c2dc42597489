"""The endpoint that Debezium Server's HTTP sink posts to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool

from tidegauge.errors import SourceError
from tidegauge.receive.body import CLOSE, body_of
from tidegauge.source.debezium.events import LARGEST
from tidegauge.source.debezium.index import OutOfOrder
from tidegauge.source.debezium.log import Restored

if TYPE_CHECKING:
    from tidegauge.receive.gatekeeper import Gatekeeper
    from tidegauge.source.debezium.inbox import Inbox

LARGEST_SIGNED: Final = 1 << 20
"""Most bytes of a signed request: the body must be read into memory before the signature can be checked."""


def inbox_router(
    inbox: Inbox, gatekeeper: Gatekeeper, *, largest: int = LARGEST, largest_signed: int = LARGEST_SIGNED
) -> APIRouter:
    """POST /debezium: 204 once the events are durable and will count.

    401 without the token or signature, 408 and 413 for a body that is too slow or too large, 409 for events
    out of order or from a restored database, 422 for unusable events, 507 when the disk is full.
    """
    router = APIRouter()

    @router.post("/debezium", status_code=204)
    async def receive(request: Request) -> Response:
        if gatekeeper.hopeless(request.headers):
            raise HTTPException(401, "the token or the signature is not right", CLOSE)
        body = await body_of(request, largest if gatekeeper.knows(request.headers) else largest_signed)
        if not gatekeeper.admits(request.headers, body):
            raise HTTPException(401, "the token or the signature is not right")
        try:
            await run_in_threadpool(inbox.append, body)
        except (OutOfOrder, Restored) as refusal:
            raise HTTPException(409, f"{refusal}. Nothing of the request was kept.") from None
        except SourceError as refusal:
            raise HTTPException(422, str(refusal)) from None
        except OSError:
            raise HTTPException(507, "the inbox cannot be written; nothing was kept") from None
        return Response(status_code=204)

    return router

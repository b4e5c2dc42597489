"""Reading the body of a request, with a limit on its size and on the time it takes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from fastapi import HTTPException
from starlette.requests import ClientDisconnect

if TYPE_CHECKING:
    from fastapi import Request

PATIENCE: Final = 60.0
"""Seconds within which the whole body must arrive."""
CLOSE: Final = {"connection": "close"}
"""Closes the connection after a refusal, because the rest of the body is unread."""


async def body_of(request: Request, largest: int, *, patience: float = PATIENCE) -> bytes:
    """The body of a request.

    Raises HTTPException: 413 if it is larger than `largest` bytes, as announced or as read; 408 if it takes
    longer than `patience` seconds; 400 if its length is not a number or the sender stops early.
    """
    announced = request.headers.get("content-length", "0")
    if not announced.isascii() or not announced.isdigit():
        raise HTTPException(400, "the content-length is not a number; nothing was kept", CLOSE)
    if len(announced) > len(str(largest)) or int(announced) > largest:
        raise _too_large(largest)
    body = bytearray()
    try:
        async with asyncio.timeout(patience):
            async for chunk in request.stream():
                if len(body) + len(chunk) > largest:
                    raise _too_large(largest)
                body += chunk
    except TimeoutError:
        raise HTTPException(408, "the request took too long; nothing of it was kept", CLOSE) from None
    except ClientDisconnect:
        raise HTTPException(400, "the request was not sent to its end; nothing of it was kept") from None
    return bytes(body)


def _too_large(largest: int) -> HTTPException:
    return HTTPException(413, f"a request has at most {largest} bytes here; nothing of it was kept", CLOSE)

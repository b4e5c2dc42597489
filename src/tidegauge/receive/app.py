"""The HTTP application of the secret side: an inbox of change events, a collector of reports, or both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from tidegauge.receive.inbox import inbox_router
from tidegauge.receive.reports import collection_router

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.local import Collector
    from tidegauge.receive.gatekeeper import Gatekeeper
    from tidegauge.source.debezium.inbox import Inbox


def create_app(
    *,
    collector: Collector | None = None,
    origins: Sequence[str] = (),
    inbox: tuple[Inbox, Gatekeeper] | None = None,
) -> FastAPI:
    """The application: reports of a survey are received under /local, change events at /debezium.

    collector: the collector of a survey; None: no endpoint under /local.
    origins:   web origins whose pages may send reports.
    inbox:     where change events are written, and what decides who may send them; None: no such endpoint.
    """
    app = FastAPI(title="Tidegauge", docs_url=None, redoc_url=None, openapi_url=None)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["content-type"],
        )
    if collector is not None:
        app.include_router(collection_router(collector), prefix="/local")
    if inbox is not None:
        app.include_router(inbox_router(*inbox))
    return app

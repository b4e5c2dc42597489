"""The HTTP application: what is given to it is served, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from tidegauge.receive.inbox import inbox_router
from tidegauge.receive.reports import collection_router

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.local import Collector
    from tidegauge.source.debezium.inbox import Gatekeeper, Inbox


def create_app(
    *,
    collector: Collector | None = None,
    origins: Sequence[str] = (),
    inbox: tuple[Inbox, Gatekeeper] | None = None,
) -> FastAPI:
    """Collect a survey's reports under /local (web pages of these origins may send theirs), change events under /debezium."""
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

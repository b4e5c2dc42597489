"""The HTTP application: what is given to it is served, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from tidegauge.serve.collect import collection_router

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.local import Collector


def create_app(*, collector: Collector, origins: Sequence[str] = ()) -> FastAPI:
    """Collect a survey's reports under /local; web pages of these origins may send theirs from the browser."""
    app = FastAPI(title="Tidegauge", docs_url=None, redoc_url=None, openapi_url=None)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["content-type"],
        )
    app.include_router(collection_router(collector), prefix="/local")
    return app

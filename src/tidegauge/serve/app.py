"""The application of the web process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tidegauge.errors import StoreError
from tidegauge.serve.api import api_routes, json_response
from tidegauge.serve.catalogue import catalogue_routes
from tidegauge.serve.events import Events
from tidegauge.serve.files import Files
from tidegauge.serve.front import Front
from tidegauge.serve.pages import page_routes

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request


def create_app(public: Path, *, every: float = 1.0) -> Front:
    """The application over a public file, which need not exist yet.

    every: seconds between two looks at the file for server-sent events.
    """
    files = Files(public)
    routes = [
        Events(files, every=every).route,
        *catalogue_routes(files),
        *api_routes(files),
        *page_routes(files),
    ]
    handlers = {HTTPException: _refused, StoreError: _gone, Exception: _broken}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Front(app, files)


async def _refused(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException)
    answer = json_response({"detail": error.detail}, error.status_code)
    answer.headers.update(error.headers or {})
    return answer


async def _gone(request: Request, error: Exception) -> Response:
    """The file cannot be read: it is damaged, or is just being exchanged."""
    del request, error
    answer = json_response({"detail": "the published data cannot be read now; try again later"}, 503)
    answer.headers["retry-after"] = "10"
    return answer


async def _broken(request: Request, error: Exception) -> Response:
    """An internal error; its text stays in the log of the server."""
    del request, error
    return json_response({"detail": "internal error"}, 500)

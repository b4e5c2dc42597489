"""Metadata, SDMX-CSV and the feed over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from tidegauge.publish.feed import feed
from tidegauge.publish.metadata import FORMATS, dataset
from tidegauge.publish.metadata.tabular import sdmx_csv
from tidegauge.serve.api import API, json_response, select
from tidegauge.serve.asked import nothing, selection

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from tidegauge.publish.metadata import MetadataFormat
    from tidegauge.serve.files import Files

MOST: int = 200_000
"""Readings of one SDMX message; more are asked for in parts."""


def address(base: str) -> Callable[[str, str], str]:
    """Where the readings of a release are served, below a base address."""
    return lambda name, form: f"{base}{API}/releases/{quote(name, safe='')}/readings.{form}"


def catalogue_routes(files: Files) -> list[Route]:
    """The routes: /api/v1/metadata, /api/v1/metadata/FILE, readings.sdmx.csv and /feed.xml."""

    async def index(request: Request) -> Response:
        nothing(request)
        return json_response({name: f"{API}/metadata/{one.file}" for name, one in FORMATS.items()})

    def written(form: MetadataFormat) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            nothing(request)
            public = files.current()
            text = form.text(dataset(public, address(public.about.url)))
            return Response(text, media_type=form.media_type)

        return answer

    async def sdmx(request: Request) -> Response:
        public = files.current()
        asked = selection(request, public)
        count = public.count(asked.release, since=asked.since, until=asked.until, cells=asked.cells)
        if count > MOST:
            raise HTTPException(413, f"more than {MOST:,} readings at once; ask for less by from and to")
        info = public.release(asked.release)
        assert info is not None
        content = sdmx_csv(info, select(public, asked))
        return Response(content, headers={"content-type": "application/vnd.sdmx.data+csv;version=2.0.0"})

    async def atom(request: Request) -> Response:
        nothing(request)
        public = files.current()
        base = public.about.url
        content = feed(public, lambda name: f"{base}/releases/{quote(name, safe='')}", f"{base}/feed.xml")
        return Response(content, media_type="application/atom+xml")

    return [
        Route(f"{API}/metadata", index),
        *(Route(f"{API}/metadata/{one.file}", written(one)) for one in FORMATS.values()),
        Route(f"{API}/releases/{{name:path}}/readings.sdmx.csv", sdmx),
        Route("/feed.xml", atom),
    ]

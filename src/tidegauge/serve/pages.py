"""The pages of the web process: the same as those of a static site, made when they are first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tidegauge.publish import pages
from tidegauge.publish.metadata import FORMATS, dataset
from tidegauge.publish.public.reader import PublicFile
from tidegauge.serve.catalogue import address

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from tidegauge.serve.files import Files


def page_routes(files: Files) -> list[Route]:
    """The routes of the pages over one public file; the last one answers every address that is unknown.

    Pages are made in another thread, which opens the file by itself, so that no other request waits.
    """
    links = pages.served()

    def made(page: Callable[[PublicFile], Response]) -> Response:
        with PublicFile(files.path) as public:
            return page(public)

    def front_page(public: PublicFile) -> Response:
        described = FORMATS["schema.org"].text(dataset(public, address(public.about.url)))
        return HTMLResponse(pages.overview(pages.whole_site(public, described), links))

    async def overview(request: Request) -> Response:
        del request
        return await run_in_threadpool(made, front_page)

    async def guarantee(request: Request) -> Response:
        del request
        return await run_in_threadpool(
            made, lambda public: HTMLResponse(pages.guarantee(pages.bare_site(public), links))
        )

    async def ledger(request: Request) -> Response:
        del request
        return await run_in_threadpool(
            made, lambda public: HTMLResponse(pages.ledger(pages.bare_site(public), links))
        )

    def of_release(public: PublicFile, name: str) -> Response:
        found = pages.release_site(public, name)
        if found is None:
            return HTMLResponse(pages.not_found(pages.bare_site(public), links), 404)
        return HTMLResponse(pages.release(*found, links))

    async def release(request: Request) -> Response:
        name = request.path_params["name"]
        return await run_in_threadpool(made, lambda public: of_release(public, name))

    def drawn(public: PublicFile, name: str) -> Response:
        found = pages.release_site(public, name)
        if found is None:
            raise HTTPException(404, "there is no such release")
        return Response(pages.release_chart(found[1]), media_type="image/svg+xml")

    async def chart(request: Request) -> Response:
        name = request.path_params["name"]
        return await run_in_threadpool(made, lambda public: drawn(public, name))

    async def missing(request: Request) -> Response:
        if request.url.path.startswith("/api/"):
            raise HTTPException(404, "there is no such address")
        return await run_in_threadpool(
            made, lambda public: HTMLResponse(pages.not_found(pages.bare_site(public), links), 404)
        )

    return [
        Route("/", overview),
        Route("/guarantee", guarantee),
        Route("/ledger", ledger),
        Route("/releases/{name:path}", release),
        Route("/charts/{name:path}.svg", chart),
        *asset_routes(),
        Route("/{path:path}", missing),
    ]


def asset_routes() -> list[Route]:
    """Style sheet, script and icon."""

    def route(name: str, asset: pages.Asset) -> Route:
        async def answer(request: Request) -> Response:
            newest = request.query_params.get("v") == asset.version
            kept = {"cache-control": "public, max-age=31536000, immutable"} if newest else {}
            return Response(asset.content, headers={"content-type": asset.media_type, **kept})

        return Route(f"/assets/{name}", answer)

    return [route(name, asset) for name, asset in pages.ASSETS.items()]

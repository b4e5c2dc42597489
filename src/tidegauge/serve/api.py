"""The HTTP API, /api/v1: releases, readings, plan, ledger, seals, health and readiness."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from tidegauge.errors import StoreError
from tidegauge.model.quantity import rfc3339
from tidegauge.publish.formats import as_table, to_csv, to_parquet
from tidegauge.publish.public.reader import PublicFile
from tidegauge.serve.asked import Asked, nothing, only_paging, paged, selection
from tidegauge.serve.openapi import document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request

    from tidegauge.model.json import Json
    from tidegauge.publish.public.values import PublicReading, ReleaseInfo
    from tidegauge.serve.files import Files

API: Final = "/api/v1"
_MANY: Final = 2_000
"""Readings from which on an answer is written in another thread."""
MOST: Final = 2_000_000
"""Readings of one download; more are asked for in parts (from, to)."""


def json_response(content: Json, status: int = 200) -> Response:
    """An answer in JSON."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return Response(text, status, media_type="application/json")


def to_arrow(readings: Sequence[PublicReading]) -> bytes:
    """An Arrow IPC stream."""
    import pyarrow as pa  # noqa: PLC0415  (slow to load)

    table, sink = as_table(readings), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


FILES: Final[dict[str, tuple[str, Callable[[Sequence[PublicReading]], bytes]]]] = {
    "csv": ("text/csv; charset=utf-8", to_csv),
    "parquet": ("application/vnd.apache.parquet", to_parquet),
    "arrow": ("application/vnd.apache.arrow.stream", to_arrow),
}
"""Formats of a download: media type and writer."""


def api_routes(files: Files) -> list[Route]:
    """The routes of the API over one public file."""
    return [*_document_routes(files), *_release_routes(files)]


def _document_routes(files: Files) -> list[Route]:
    """Everything but releases and their readings."""

    async def index(request: Request) -> Response:
        nothing(request)
        return json_response({"releases": f"{API}/releases", "openapi": f"{API}/openapi.json"})

    async def openapi(request: Request) -> Response:
        nothing(request)
        return json_response(document(files.current()))

    async def plan(request: Request) -> Response:
        nothing(request)
        found = files.current().document
        return json_response({"guarantee": asdict(found.guarantee), "plan": found.plan})

    async def ledger(request: Request) -> Response:
        (page, size), entries = only_paging(request), files.current().ledger
        shown = entries[(page - 1) * size : page * size]
        results = [one.as_json() for one in shown]
        return json_response({**paged(request, len(entries), page, size), "results": results})

    async def seals(request: Request) -> Response:
        (page, size), public = only_paging(request), files.current()
        count = public.last_seal.seq
        results = [
            {"seq": one.seq, "time": None if one.time is None else rfc3339(one.time), "seal": one.hash}
            for one in public.seals_between((page - 1) * size, page * size)
        ]
        return json_response({**paged(request, count, page, size), "results": results})

    async def health(request: Request) -> Response:
        nothing(request)
        return json_response({"status": "ok"})

    async def ready(request: Request) -> Response:
        nothing(request)
        try:
            public = files.current()
        except StoreError:
            return json_response({"status": "there is no public file yet"}, 503)
        last = public.last_tick
        return json_response({"status": "ok", "last_tick": None if last is None else rfc3339(last)})

    return [
        Route(f"{API}", index),
        Route(f"{API}/openapi.json", openapi),
        Route(f"{API}/plan", plan),
        Route(f"{API}/ledger", ledger),
        Route(f"{API}/seals", seals),
        Route(f"{API}/health", health),
        Route(f"{API}/ready", ready),
    ]


def _release_routes(files: Files) -> list[Route]:
    """Releases and their readings."""

    async def releases(request: Request) -> Response:
        (page, size), public = only_paging(request), files.current()
        shown = public.releases[(page - 1) * size : page * size]
        results = [summary(public, one) for one in shown]
        return json_response({**paged(request, len(public.releases), page, size), "results": results})

    async def release(request: Request) -> Response:
        nothing(request)
        public = files.current()
        info = _known(public, request)
        return json_response(
            summary(public, info) | {"latest": [one.as_json() for one in public.latest(info.name)]}
        )

    async def latest(request: Request) -> Response:
        nothing(request)
        public = files.current()
        found = public.latest(_known(public, request).name)
        time = rfc3339(found[0].time) if found else None
        return json_response({"time": time, "results": [one.as_json() for one in found]})

    async def readings(request: Request) -> Response:
        public = files.current()
        asked = selection(request, public)
        count = public.count(asked.release, since=asked.since, until=asked.until, cells=asked.cells)
        head = json.dumps(paged(request, count, asked.page, asked.size), ensure_ascii=False)
        text = f'{head[:-1]}, "results": [{_results(public, asked)}]}}'
        return Response(text, media_type="application/json")

    async def denoised(request: Request) -> Response:
        public = files.current()
        asked = selection(request, public)
        found = public.denoised(asked.release, since=asked.since, until=asked.until, cells=asked.cells)
        shown = found[(asked.page - 1) * asked.size : asked.page * asked.size]
        head = paged(request, len(found), asked.page, asked.size)
        return json_response({**head, "results": [one.as_json() for one in shown]})

    def download(form: str) -> Callable[[Request], Any]:
        media_type, write = FILES[form]

        async def answer(request: Request) -> Response:
            public = files.current()
            asked = selection(request, public)
            count = public.count(asked.release, since=asked.since, until=asked.until, cells=asked.cells)
            offset, limit = ((asked.page - 1) * asked.size, asked.size) if asked.paged else (0, None)
            if limit is None and count > MOST:
                raise HTTPException(
                    413, f"more than {MOST:,} readings at once; ask for less by from, to, or page"
                )
            if min(count, limit or count) <= _MANY:
                content = write(select(public, asked, offset=offset, limit=limit))
            else:
                content = await run_in_threadpool(_written, files, asked, write)
            name = quote(f"{asked.release}.{form}", safe="")
            headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
            return Response(content, media_type=media_type, headers=headers)

        return answer

    one = f"{API}/releases/{{name:path}}"
    return [
        Route(f"{API}/releases", releases),
        Route(f"{one}/readings", readings),
        Route(f"{one}/readings.json", readings),
        *(Route(f"{one}/readings.{form}", download(form)) for form in FILES),
        Route(f"{one}/denoised", denoised),
        Route(f"{one}/latest", latest),
        Route(one, release),
    ]


def _known(public: PublicFile, request: Request) -> ReleaseInfo:
    info = public.release(request.path_params["name"])
    if info is None:
        raise HTTPException(404, "there is no such release")
    return info


def summary(public: PublicFile, info: ReleaseInfo) -> dict[str, Json]:
    """A release as the API describes it."""
    fields = info.as_json()
    del fields["cells"], fields["zone"]
    numbers, due = public.span(info.name), public.next_due(info.name)
    address = f"{API}/releases/{quote(info.name, safe='')}"
    return fields | {
        "groups": {name: list(values) for name, values in info.groups},
        "start": rfc3339(info.start),
        "time_zone": None if info.zone is None else info.zone.name,
        "readings": len(numbers) * len(info.cells),
        "first": rfc3339(info.time_of(numbers[0])) if numbers else None,
        "last": rfc3339(info.time_of(numbers[-1])) if numbers else None,
        "next": None if due is None else rfc3339(due),
        "links": {"self": address, "readings": f"{address}/readings", "latest": f"{address}/latest"},
    }


def select(
    public: PublicFile, asked: Asked, *, offset: int = 0, limit: int | None = None
) -> tuple[PublicReading, ...]:
    """The readings that a request asks for."""
    return public.readings(
        asked.release, since=asked.since, until=asked.until, cells=asked.cells, offset=offset, limit=limit
    )


def _results(public: PublicFile, asked: Asked) -> str:
    """The readings of a page as JSON, written by hand: this is most of the work of most requests."""
    info = public.release(asked.release)
    assert info is not None
    rows = public.rows(
        asked.release,
        since=asked.since,
        until=asked.until,
        cells=asked.cells,
        offset=(asked.page - 1) * asked.size,
        limit=asked.size,
    )
    name = json.dumps(asked.release, ensure_ascii=False)
    heads: dict[int, str] = {}
    groups: dict[int, str] = {}
    found = []
    for _, cell, time, value, stderr, low, high, _, _ in rows:
        head = heads.get(time)
        if head is None:
            head = heads[time] = f'{{"release": {name}, "time": "{rfc3339(time)}", "group": '
        group = groups.get(cell)
        if group is None:
            group = groups[cell] = json.dumps(info.cells[cell], ensure_ascii=False)
        numbers = f'"value": {_number(value)}, "stderr": {_number(stderr)}'
        found.append(f'{head}{group}, {numbers}, "low": {_number(low)}, "high": {_number(high)}}}')
    return ", ".join(found)


def _number(value: float | None) -> str:
    """A number as JSON has it."""
    return "null" if value is None else repr(value)


def _written(files: Files, asked: Asked, write: Callable[[Sequence[PublicReading]], bytes]) -> bytes:
    """A large download, read through a connection of its own."""
    with PublicFile(files.path) as public:
        return write(select(public, asked))

"""Routes for the operator of a gauge: status with exact counts, and metrics.  Never for the public.

Without a token they do not exist.  A request needs it as `Authorization: Bearer TOKEN`, or, from a browser,
as the password that it asks for (any name will do).  The token is compared in constant time, and a wrong one
is answered as slowly and in the same words as none.
"""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tidegauge.errors import SpecError
from tidegauge.publish import pages
from tidegauge.serve.api import json_response
from tidegauge.serve.front import SECURITY
from tidegauge.serve.pages import asset_routes

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from tidegauge.model.status import Status

SHORTEST: Final = 16
"""Characters of a token, at least."""
METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass(frozen=True)
class Watch:
    """What the operator's routes ask the running gauge; each is called in another thread."""

    status: Callable[[], Status]
    """How far the gauge has come."""
    metrics: Callable[[], str]
    """The metrics in the text form of OpenMetrics."""


@dataclass(frozen=True)
class Exit:
    """How the run before the present one ended."""

    at: float
    """Seconds since 1970; of a run that was killed: when it began."""
    code: int
    """Its exit code."""


def require_token(token: str) -> None:
    """Raise SpecError for a token that can be guessed, or that no header can carry."""
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise SpecError(
            f"a token has at least {SHORTEST} characters of ASCII, without spaces; make one with: "
            "python -c 'import secrets; print(secrets.token_urlsafe(32))'",
            key="TIDEGAUGE_OPERATOR_TOKEN",
        )


def operator_app(watch: Watch, token: str) -> Starlette:
    """The application for the operator.  Raises SpecError for a token that is too short."""
    require_token(token)
    right = token.encode()

    def require(request: Request) -> None:
        if not hmac.compare_digest(_token(request), right):
            way = 'Basic realm="operator", charset="UTF-8"' if _page(request) else "Bearer"
            raise HTTPException(401, "these routes need the operator's token", {"www-authenticate": way})

    async def status(request: Request) -> Response:
        require(request)
        report = await run_in_threadpool(watch.status)
        if _page(request):
            return HTMLResponse(pages.status(pages.status_view(report), pages.served()))
        return json_response(report.as_json())

    async def metrics(request: Request) -> Response:
        require(request)
        return Response(await run_in_threadpool(watch.metrics), headers={"content-type": METRICS})

    async def refused(request: Request, error: Exception) -> Response:
        del request
        assert isinstance(error, HTTPException)
        answer = json_response({"detail": error.detail}, error.status_code)
        answer.headers.update(error.headers or {})
        return _guarded(answer)

    async def broken(request: Request, error: Exception) -> Response:
        del request, error
        return _guarded(json_response({"detail": "internal error"}, 500))

    return Starlette(
        routes=[
            Route("/operator/status", _headed(status)),
            Route("/operator/metrics", _headed(metrics)),
            *asset_routes(),
        ],
        exception_handlers={HTTPException: refused, Exception: broken},
    )


def _page(request: Request) -> bool:
    """Whether a browser asks, which wants a page."""
    return "text/html" in request.headers.get("accept", "")


def _token(request: Request) -> bytes:
    """The token of a request, as a bearer token or as a password; empty where there is none."""
    way, _, given = request.headers.get("authorization", "").partition(" ")
    if way == "Basic":
        try:
            return base64.b64decode(given, validate=True).partition(b":")[2]
        except ValueError:
            return b""
    return given.encode("utf-8", "surrogateescape") if way == "Bearer" else b""


def _headed(endpoint: Any) -> Any:
    async def answer(request: Request) -> Response:
        return _guarded(await endpoint(request))

    return answer


def _guarded(answer: Response) -> Response:
    for name, value in (*SECURITY, (b"cache-control", b"no-store")):
        answer.headers[name.decode()] = value.decode()
    return answer


def open_metrics(status: Status, *, now: int, last: Exit | None = None) -> str:
    """Metrics of a running gauge as OpenMetrics text.

    now: microseconds.
    last: how the run before this one ended; None: there was none.
    """
    releases, reached = status.releases, status.processed_to
    late = {
        name: 0.0 if one.next is None else max(0.0, (now - one.next) / 1e6) for name, one in releases.items()
    }
    lines = [
        *_family("running", "gauge", "1: this process runs the loop."),
        "tidegauge_running 1",
        *_family("last_exit_code", "gauge", "The exit code of the run before this one; 137: it was killed."),
        *([] if last is None else [f"tidegauge_last_exit_code {last.code}"]),
        *_family(
            "last_exit_timestamp_seconds", "gauge", "When that run ended, or began if it was killed.",
            unit="seconds",
        ),
        *([] if last is None else [f"tidegauge_last_exit_timestamp_seconds {last.at:.6f}"]),
        *_family(
            "last_tick_timestamp_seconds", "gauge", "The end of the last measured window.", unit="seconds"
        ),
        *([] if reached is None else [f"tidegauge_last_tick_timestamp_seconds {reached / 1e6:.6f}"]),
        *_family(
            "lag_seconds", "gauge", "How long the next reading of a release is overdue; 0 if it is not.",
            unit="seconds",
        ),
        *(f"tidegauge_lag_seconds{{release={_quoted(name)}}} {one:.6f}" for name, one in late.items()),
        *_family("readings", "counter", "Readings of a release, by time."),
        *(
            f"tidegauge_readings_total{{release={_quoted(name)}}} {one.readings}"
            for name, one in releases.items()
        ),
        *_family("outbox_readings", "gauge", "Readings that a publisher still has to deliver."),
        *(
            f"tidegauge_outbox_readings{{publisher={_quoted(name)}}} {waiting}"
            for name, waiting in status.publishers.items()
        ),
        *_family("operator_only", "gauge", "Exact counts for the operator alone."),
        *(
            f"tidegauge_operator_only{{count={_quoted(name)}}} {value}"
            for name, value in status.operator_only.items()
        ),
    ]  # fmt: skip
    return "\n".join([*lines, "# EOF", ""])


def _family(name: str, kind: str, meaning: str, *, unit: str = "") -> list[str]:
    """The head of a metric."""
    full = f"tidegauge_{name}"
    of = [f"# UNIT {full} {unit}"] if unit else []
    return [f"# TYPE {full} {kind}", *of, f"# HELP {full} {meaning}"]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

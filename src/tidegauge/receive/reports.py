"""The endpoints of a local survey: GET the survey, POST batches of reports.

No address, header or time of a request is logged or stored: only the tally and the tokens of a batch remain.
A batch is on the disk before it is acknowledged, and sending it again counts nothing twice.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool

from tidegauge.errors import StoreError
from tidegauge.local import ReporterError, report_from_json
from tidegauge.receive.body import body_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.local import Collector, Receipt

MOST_BYTES = 4 << 20
MOST_REPORTS_PER_SECOND = 100_000


@dataclass
class RateLimit:
    """A token bucket for all senders together; it holds at most one second's worth of reports."""

    per_second: float
    clock: Callable[[], float] = time.monotonic
    _left: float = field(init=False)
    _at: float = field(init=False)
    _lock: Lock = field(init=False, default_factory=Lock)

    def __post_init__(self) -> None:
        self._left, self._at = self.per_second, self.clock()

    def wait(self, reports: int) -> float:
        """Take this many and return 0; if there are too few, take none and return the seconds to wait."""
        with self._lock:
            now = self.clock()
            self._left = min(self.per_second, self._left + (now - self._at) * self.per_second)
            self._at = now
            if reports <= self._left or self._left >= self.per_second:
                self._left -= reports
                return 0.0
            return (min(reports, self.per_second) - self._left) / self.per_second

    def give_back(self, reports: int) -> None:
        """Return reports that were taken and turned out not to exist."""
        with self._lock:
            self._left = min(self.per_second, self._left + reports)


def collection_router(
    collector: Collector,
    *,
    most_bytes: int = MOST_BYTES,
    most_reports_per_second: float = MOST_REPORTS_PER_SECOND,
    clock: Callable[[], float] = time.monotonic,
) -> APIRouter:
    """GET /survey and POST /reports for one collector."""
    router = APIRouter(tags=["local"])
    limit, one_at_a_time = RateLimit(most_reports_per_second, clock), Lock()
    size = collector.report_size

    def add(reports: bytes | list[bytes]) -> Receipt:
        with one_at_a_time:
            return collector.add(reports)

    @router.get("/survey")
    async def survey() -> Response:
        """The survey's JSON: exactly the bytes from which its hash is computed."""
        return Response(collector.survey.to_json(), media_type="application/json")

    @router.post("/reports")
    async def reports(request: Request) -> dict[str, int]:
        """Concatenated reports as application/octet-stream, or a JSON list of reports."""
        body = await body_of(request, most_bytes)
        is_json = request.headers.get("content-type", "").split(";")[0].strip() == "application/json"
        # A list has at most one element more than commas, so the limit applies before the list is parsed.
        taken = body.count(b",") + 1 if is_json else -(-len(body) // size)
        if wait := limit.wait(taken):
            raise HTTPException(
                429, "too many reports at once; send them again later", {"Retry-After": str(int(wait) + 1)}
            )
        batch = await run_in_threadpool(_listed, body) if is_json else body
        if isinstance(batch, list):
            limit.give_back(taken - len(batch))
        try:
            receipt = await run_in_threadpool(add, batch)
        except StoreError:
            raise HTTPException(503, "the reports were not counted; send them again later") from None
        return asdict(receipt)

    return router


def _listed(body: bytes) -> list[bytes]:
    """The reports of a JSON list; an element that is no report becomes empty, and so counts as malformed."""
    try:
        listed: Any = json.loads(body)
    except (ValueError, RecursionError):
        listed = None
    if not isinstance(listed, list):
        raise HTTPException(400, "this is not a JSON list of reports; nothing was counted")
    reports = []
    for each in listed:
        try:
            reports.append(report_from_json(json.dumps(each)) if isinstance(each, dict) else b"")
        except (ReporterError, RecursionError):
            reports.append(b"")
    return reports

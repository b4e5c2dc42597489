"""What a request asks for: times, groups and pages, checked before anything is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from starlette.exceptions import HTTPException

from tidegauge.errors import SpecError
from tidegauge.model.quantity import instant

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from starlette.requests import Request

    from tidegauge.model.json import Json
    from tidegauge.publish.public.reader import PublicFile

PAGE: Final = 100
LARGEST_PAGE: Final = 1000
_LAST: Final = 10**9
_FIXED: Final = ("from", "to", "page", "page_size")
_ZONE_AFTER_SPACE: Final = re.compile(r"(T.*) (\d\d:?\d\d)$")
"""A plus sign in a query string is a space."""


@dataclass(frozen=True)
class Asked:
    """A selection of the readings of one release."""

    release: str
    since: int | None
    until: int | None
    cells: tuple[int, ...] | None
    page: int
    size: int
    paged: bool
    """Whether a page was asked for by number."""


def bad(detail: str) -> HTTPException:
    """The answer to a request that cannot be understood."""
    return HTTPException(422, detail)


def selection(request: Request, public: PublicFile) -> Asked:
    """What a request for readings asks for.  Raises HTTPException: 404 or 422."""
    name = request.path_params["name"]
    info = public.release(name)
    if info is None:
        raise HTTPException(404, "there is no such release")
    given: dict[str, list[str]] = {}
    for key, value in request.query_params.multi_items():
        given.setdefault(key, []).append(value)
    groups = {key.removeprefix("group."): values for key, values in given.items() if key.startswith("group.")}
    _require_known(given, {*_FIXED, *(f"group.{name}" for name in groups)})
    _require_groups(groups, dict(info.groups))
    page, size = paging(request)
    return Asked(
        release=name,
        since=_time(given, "from"),
        until=_time(given, "to"),
        cells=public.cells(name, groups) if groups else None,
        page=page,
        size=size,
        paged="page" in given or "page_size" in given,
    )


def paging(request: Request) -> tuple[int, int]:
    """The page that is asked for, and its size."""
    return (
        _whole(request, "page", default=1, most=_LAST),
        _whole(request, "page_size", default=PAGE, most=LARGEST_PAGE),
    )


def only_paging(request: Request) -> tuple[int, int]:
    """The page and its size, of a request that may say nothing else."""
    _require_known(request.query_params, {"page", "page_size"})
    return paging(request)


def nothing(request: Request) -> None:
    """Refuse a request with a query."""
    _require_known(request.query_params, set())


def paged(request: Request, count: int, page: int, size: int) -> dict[str, Json]:
    """The head of a page: how many results there are, and where the next and the previous page are."""
    last = max(1, -(-count // size))
    return {
        "count": count,
        "next": _link(request, page + 1) if page < last else None,
        "previous": _link(request, min(page - 1, last)) if page > 1 else None,
    }


def _link(request: Request, page: int) -> str:
    """The address of another page, without a host: a proxy may have another name than this process."""
    others = [(key, value) for key, value in request.query_params.multi_items() if key != "page"]
    return f"{request.url.path}?{urlencode([*others, ('page', page)])}"


def _require_known(given: Collection[str], known: Collection[str]) -> None:
    if unknown := sorted(set(given) - set(known)):
        allowed = ", ".join(sorted(known)) or "none"
        raise bad(f"there is no parameter '{unknown[0][:60]}'; there is: {allowed}")


def _require_groups(asked: Mapping[str, list[str]], known: Collection[str]) -> None:
    if unknown := sorted(set(asked) - set(known)):
        raise bad(f"there is no group '{unknown[0][:60]}'; there is: {', '.join(known) or 'none'}")


def _time(given: Mapping[str, list[str]], key: str) -> int | None:
    if key not in given:
        return None
    try:
        return instant(_ZONE_AFTER_SPACE.sub(r"\1+\2", given[key][-1]))
    except (SpecError, OverflowError, ValueError):
        raise bad(f"{key}: write a date or a time (2026-01-31 or 2026-01-31T12:00:00Z)") from None


def _whole(request: Request, key: str, *, default: int, most: int) -> int:
    text = request.query_params.get(key)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,10}", text) or not 1 <= int(text) <= most:
        raise bad(f"{key}: write a whole number from 1 to {most:,}")
    return int(text)

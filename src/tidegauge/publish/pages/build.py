"""From a public file to what the pages show.  Only as many readings are read as are drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from tidegauge.publish.pages.overview import ROWS
from tidegauge.publish.series import lines_of, model_point, point_of, series_of
from tidegauge.publish.view import Line, Series, Site, group_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidegauge.model.tick import Seal
    from tidegauge.publish.public.values import Document, ModelReading, PublicReading, ReleaseInfo

RECENT: Final = 60
"""Readings that the overview draws."""
MOST: Final = 60_000
"""Readings that a page is made from; a longer release is shown by every n-th of them."""


EMBEDDED: Final = 16_000
"""Characters of metadata that are put into the overview; longer ones are only linked to."""


class Published(Protocol):
    """What pages need of a public file."""

    @property
    def document(self) -> Document:
        """Everything but readings and seals."""
        ...

    @property
    def last_seal(self) -> Seal:
        """The seal of the last tick."""
        ...

    def span(self, release: str, /) -> range:
        """The numbers of its readings."""
        ...

    def latest(self, release: str, /) -> Sequence[PublicReading]:
        """The newest reading of every cell."""
        ...

    def next_due(self, release: str, /) -> int | None:
        """When the next reading is due."""
        ...

    def readings(
        self,
        release: str,
        /,
        *,
        since: int | None = None,
        until: int | None = None,
        cells: Sequence[int] | None = None,
    ) -> Sequence[PublicReading]:
        """Readings by time and cell."""
        ...

    def denoised(self, release: str, /) -> Sequence[ModelReading]:
        """What a model makes of them; empty where that is not published."""
        ...


def bare_site(public: Published) -> Site:
    """The site without any readings, for pages that show none."""
    return Site(public.document, (), public.last_seal.hash)


def whole_site(public: Published, metadata: str = "") -> Site:
    """The site with the recent readings of every series: what the overview shows.

    `metadata`: the JSON-LD of the whole gauge.
    """
    document = public.document
    series = tuple(_recent(public, info) for info in document.releases)
    embedded = {"": metadata} if metadata and len(metadata) <= EMBEDDED else {}
    return Site(document, series, public.last_seal.hash, embedded)


def release_site(public: Published, name: str) -> tuple[Site, Series] | None:
    """The site, and the series of this name with all of its readings; None where there is none."""
    document = public.document
    info = document.release(name)
    if info is None:
        return None
    labels = [group_label(cell) for cell in info.cells]
    step = -(-len(public.span(name)) * len(labels) // MOST)
    lines = lines_of(labels, ((one.cell, point_of(one)) for one in _every(public, info, step)))
    series = _series(public, info, lines, step=max(1, step))
    estimates = public.denoised(name)
    if estimates:
        model = lines_of(labels, ((one.cell, model_point(one)) for one in estimates))
        series = replace(series, model=model)
    return bare_site(public), series


def _every(public: Published, info: ReleaseInfo, step: int) -> Iterable[PublicReading]:
    """Every so-many-th reading, the newest always among them."""
    if step <= 1:
        return public.readings(info.name)
    numbers = public.span(info.name)
    times = (info.time_of(number) for number in numbers[(len(numbers) - 1) % step :: step])
    return (one for at in times for one in public.readings(info.name, since=at, until=at))


def _recent(public: Published, info: ReleaseInfo) -> Series:
    numbers = public.span(info.name)
    if not numbers:
        return _series(public, info, ())
    newest = public.latest(info.name)
    cells = [one.cell for one in newest]
    if len(cells) > ROWS:
        largest = sorted(newest, key=lambda one: one.value or 0.0, reverse=True)[:ROWS]
        cells = [one.cell for one in largest]
    since = info.time_of(numbers[max(0, len(numbers) - RECENT)])
    found = public.readings(info.name, since=since, cells=cells)
    order = {cell: place for place, cell in enumerate(cells)}
    labels = [group_label(info.cells[cell]) for cell in cells]
    lines = lines_of(labels, ((order[one.cell], point_of(one)) for one in found))
    return _series(public, info, lines, hidden_groups=len(info.cells) - len(cells))


def _series(
    public: Published, info: ReleaseInfo, lines: Sequence[Line], *, hidden_groups: int = 0, step: int = 1
) -> Series:
    document = public.document
    root = info.of or info.name
    siblings = [
        one.name for one in document.releases if (one.of or one.name) == root and one.name != info.name
    ]
    return series_of(
        info,
        lines,
        table=document.guarantee.table,
        count=len(public.span(info.name)),
        upcoming=public.next_due(info.name),
        siblings=siblings,
        hidden_groups=hidden_groups,
        step=step,
    )

"""An Atom feed of new readings: one entry for each time of a release, the newest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape, quoteattr

from tidegauge.model.quantity import rfc3339
from tidegauge.model.reading import TOO_SMALL, noise_hides
from tidegauge.publish.series import zero_is_nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.publish.public.reader import PublicFile
    from tidegauge.publish.public.values import PublicReading, ReleaseInfo

ENTRIES: Final = 50
EACH: Final = 10
"""Groups that an entry lists."""


def feed(public: PublicFile, page: Callable[[str], str], own: str) -> bytes:
    """The feed.

    page: the address of the page of a release.  own: the address of the feed itself.
    """
    about, ledger = public.about, public.ledger
    began = ledger[0].time if ledger else "1970-01-01T00:00:00Z"
    last = public.last_tick
    found = sorted(_moments(public), key=lambda one: (-one.time, one.info.name))[:ENTRIES]
    identity = about.url or f"urn:sha256:{public.guarantee.plan}"
    author = about.creator or about.title
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"<title>{_text(about.title)}</title>",
        f"<id>{_text(identity)}</id>",
        f"<updated>{began if last is None else rfc3339(last)}</updated>",
        f"<author><name>{_text(author)}</name></author>",
        f'<link rel="self" type="application/atom+xml" href={quoteattr(own)}/>',
        f"<subtitle>{_text(public.guarantee.sentence)}</subtitle>",
        *(_entry(public, one, page(one.info.name)) for one in found),
        "</feed>",
        "",
    ]
    return "\n".join(lines).encode()


@dataclass(frozen=True)
class _Moment:
    """One time of a release: one entry of the feed."""

    info: ReleaseInfo
    time: int


def _moments(public: PublicFile) -> list[_Moment]:
    """The last times of every release."""
    return [
        _Moment(info, info.time_of(number))
        for info in public.releases
        for number in public.span(info.name)[-ENTRIES:]
    ]


def _entry(public: PublicFile, one: _Moment, address: str) -> str:
    info, time, at = one.info, one.time, rfc3339(one.time)
    readings = public.readings(info.name, since=time, until=time, cells=range(min(EACH, len(info.cells))))
    more = len(info.cells) - len(readings)
    said = [_said(reading, info) for reading in readings] + ([f"and {more} more groups"] if more > 0 else [])
    identity = f"urn:sha256:{public.guarantee.plan}:{info.name}:{at}"
    return (
        f"<entry><title>{_text(info.name)}, {at}</title><id>{_text(identity)}</id><updated>{at}</updated>"
        f"<link href={quoteattr(address)}/>"
        f'<content type="text">{_text("; ".join(said))}</content></entry>'
    )


def _said(reading: PublicReading, info: ReleaseInfo) -> str:
    group = ", ".join(str(value) for value in (reading.group or {}).values())
    small = noise_hides(
        reading.value,
        reading.low,
        reading.high,
        zero_is_nothing=zero_is_nothing(info),
        never_negative=info.never_negative,
    )
    value = TOO_SMALL if small or reading.value is None else f"{reading.value:,.6g}"
    interval = f"{reading.low:,.6g} to {reading.high:,.6g}"
    return f"{f'{group}: ' if group else ''}{value} (95 % noise interval {interval})"


def _text(value: str) -> str:
    """Text as XML may hold it: signs that no XML can have are left out."""
    return escape("".join(sign for sign in value if sign >= " " or sign in "\t\n"))

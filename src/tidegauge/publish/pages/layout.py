"""What all pages share: head, navigation and foot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.model.reading import TOO_SMALL
from tidegauge.publish.markup import Markup, data, join, page, tag
from tidegauge.publish.pages.assets import ASSETS
from tidegauge.publish.pages.words import unit_word
from tidegauge.publish.view import NOISE_INTERVAL, half_text, interval_text, value_text

if TYPE_CHECKING:
    from tidegauge.publish.markup import Child
    from tidegauge.publish.pages.links import Links
    from tidegauge.publish.view import Point, Series, Site

_MARK: Final = join(
    tag(
        "svg",
        tag("path", d="M2 15c4-7 8-7 12 0s8 7 12 0", class_="wave"),
        tag("path", d="M14 2v3M14 9v3M14 17v3M14 24v2", class_="staff"),
        class_="logo",
        viewBox="0 0 28 28",
        aria_hidden="true",
    )
)


def frame(
    site: Site, links: Links, *body: Child, title: str, here: str, about: str = "", metadata: str = ""
) -> str:
    """A whole page.  `here`: the entry of the navigation that it belongs to."""
    name = site.document.about.title
    whole = name if title == name else f"{title} – {name}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", whole),
        tag("meta", name="description", content=about) if about else None,
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", type="image/svg+xml", href=_asset(links, "icon.svg")),
        tag("link", rel="stylesheet", href=_asset(links, "page.css")),
        tag("link", rel="alternate", type="application/atom+xml", title=name, href=links.feed),
        tag("link", rel="describedby", type="application/ld+json", href=links.metadata),
        tag("script", src=_asset(links, "page.js"), defer=True),
        data(metadata, "application/ld+json") if metadata else None,
    )
    return page(
        head,
        tag(
            "body",
            tag("a", "Skip to the content", class_="skip", href="#content"),
            _header(site, links, here),
            _simulated() if site.document.guarantee.simulated else None,
            tag("main", *body, id="content", tabindex="-1"),
            _footer(site, links),
            data_events=links.events,
            data_seal=site.seal or None,
        ),
    )


def _asset(links: Links, name: str) -> str:
    return links.asset(name, ASSETS[name].version)


def _header(site: Site, links: Links, here: str) -> Markup:
    places = (("Overview", links.home), ("Guarantee", links.guarantee), ("Ledger", links.ledger))
    return tag(
        "header",
        tag("a", _MARK, tag("span", site.document.about.title), class_="brand", href=links.home),
        tag(
            "nav",
            tag(
                "ul",
                (
                    tag("li", tag("a", name, href=href, aria_current="page" if name == here else None))
                    for name, href in places
                ),
            ),
            aria_label="Pages",
        ),
        class_="top",
    )


def _simulated() -> Markup:
    return tag(
        "p",
        tag("strong", "Simulated noise."),
        " These numbers were made for a trial. They are not private.",
        class_="alarm",
    )


def _footer(site: Site, links: Links) -> Markup:
    about, guarantee = site.document.about, site.document.guarantee
    contact = about.contact
    if contact and "://" not in contact:
        contact = f"mailto:{contact}"
    safe = contact.startswith(("mailto:", "https://", "http://"))
    licence = about.license
    return tag(
        "footer",
        tag(
            "p",
            f"{about.creator}. " if about.creator else None,
            tag("a", "Contact", href=contact) if contact and safe else None,
            " " if contact and safe else None,
            (
                tag("a", "Licence", href=licence, rel="license")
                if licence.startswith(("https://", "http://"))
                else f"Licence: {licence}"
            )
            if licence
            else None,
            " ",
            tag("a", "Feed", href=links.feed),
            " ",
            tag("a", "Metadata", href=links.metadata),
        ),
        tag(
            "p",
            f"Every number contains random noise that protects each {unit_word(guarantee)}. ",
            tag("a", "What that means", href=links.guarantee),
            class_="muted",
        ),
        tag(
            "p",
            "Plan ",
            tag("code", guarantee.plan[:12]),
            join(" · seal ", tag("code", site.seal[:12])) if site.seal else None,
            " · published with Tidegauge",
            class_="muted small",
        ),
    )


def value(series: Series, point: Point, *, small: bool = False) -> Markup:
    """A value with its noise: '394 ± 48 patients', or 'too small to tell' with the number beside it."""
    if point.value is None:
        return tag("span", TOO_SMALL, class_="too-small")
    margin = tag("span", f"± {half_text(point.half)}", class_="margin") if point.half > 0 else None
    words = tag("span", f" {series.unit}", class_="unit") if series.unit and not small else None
    if series.hides(point):
        return join(
            tag("span", TOO_SMALL, class_="too-small"),
            " ",
            tag("span", value_text(point), " ", margin, words, class_="aside"),
        )
    return join(tag("span", value_text(point), class_="value"), " ", margin, words)


def interval(point: Point) -> Markup | None:
    """'95 % noise interval 346 to 442'."""
    if point.half <= 0:
        return None
    return tag("span", f"95 % {NOISE_INTERVAL} {interval_text(point)}", class_="interval")


def not_found(site: Site, links: Links) -> str:
    """The page for an address that does not exist."""
    return frame(
        site,
        links,
        tag("h1", "This page does not exist"),
        tag("p", "The address may be misspelled. ", tag("a", "All releases", href=links.home)),
        title="Not found",
        here="",
    )

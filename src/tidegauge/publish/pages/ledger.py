"""The page of the ledger: what was committed, and what it reserved of the budget."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from tidegauge.model.json import as_object
from tidegauge.publish.markup import Markup, tag
from tidegauge.publish.pages.layout import frame
from tidegauge.publish.view import titled

if TYPE_CHECKING:
    from tidegauge.publish.pages.links import Links
    from tidegauge.publish.public.values import LedgerEntry
    from tidegauge.publish.view import Site


def ledger(site: Site, links: Links) -> str:
    """The page."""
    entries = site.document.ledger
    return frame(
        site,
        links,
        tag(
            "div",
            tag("h1", "Ledger"),
            tag(
                "p",
                "The whole privacy loss of a plan is reserved here before its first measurement. Entries are "
                "only added, never changed: each is sealed with the hash of all entries before it.",
                class_="lead",
            ),
            class_="intro",
        ),
        tag("ol", (_entry(one, site) for one in entries), class_="entries")
        if entries
        else tag("p", "Nothing has been committed yet.", class_="empty"),
        tag("h2", "Check it"),
        tag(
            "p",
            "The operator proves ledger, measurements and readings with ",
            tag("code", "tidegauge verify"),
            ". A reader who keeps an old seal can see whether the ledger was altered since: the seal must "
            "still be in the list.",
        ),
        title="Ledger",
        here="Ledger",
        about="What was committed, and what it reserved of the privacy budget.",
    )


def _entry(entry: LedgerEntry, site: Site) -> Markup:
    body = entry.body
    measure = str(body.get("measure", ""))
    losses = as_object(body.get("releases", {}))
    reserved, budget = _fraction(body.get("reserved")), _fraction(body.get("budget"))
    share = f" ({float(reserved / budget):.0%} of it)" if reserved is not None and budget else ""
    return tag(
        "li",
        tag("h2", f"{titled(entry.kind)} ", tag("time", entry.time, datetime=entry.time)),
        tag(
            "dl",
            _pair("Plan", tag("code", str(body.get("plan", ""))[:12])),
            _pair(f"Budget ({measure})", _number(body.get("budget"))),
            _pair("Reserved", f"{_number(body.get('reserved'))}{share}"),
            _pair("Seal", tag("code", entry.hash, class_="hash")),
            _pair("Seal before", tag("code", entry.previous, class_="hash")),
        ),
        tag(
            "table",
            tag("caption", "What each release may use"),
            tag(
                "thead",
                tag("tr", tag("th", "Release", scope="col"), tag("th", measure or "loss", scope="col")),
            ),
            tag(
                "tbody",
                (
                    tag("tr", tag("th", titled(str(name)), scope="row"), tag("td", _number(loss)))
                    for name, loss in losses.items()
                ),
            ),
            class_="plain",
        )
        if losses
        else None,
        class_="entry" if site.document.ledger[-1] != entry else "entry newest",
    )


def _pair(name: str, value: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", value))


def _fraction(value: object) -> Fraction | None:
    try:
        return Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        return None


def _number(value: object) -> str:
    """An exact number where it is short, else six digits."""
    found = _fraction(value)
    if found is None:
        return str(value)
    return str(found) if found.denominator < 1000 else f"{float(found):.6g}"

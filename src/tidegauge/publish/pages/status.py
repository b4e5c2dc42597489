"""The operator's page: how far the gauge is, and exact counts that are never published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.quantity import rfc3339
from tidegauge.publish.markup import Markup, page, tag
from tidegauge.publish.pages.assets import ASSETS
from tidegauge.publish.view import Progress, Status, titled

if TYPE_CHECKING:
    from tidegauge.model import status as status_model
    from tidegauge.publish.pages.links import Links


def status(found: Status, links: Links) -> str:
    """The page.  Serve it to operators alone: it shows secret counts."""
    return page(
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="robots", content="noindex"),
            tag("title", "Status – Tidegauge"),
            tag(
                "link",
                rel="icon",
                type="image/svg+xml",
                href=links.asset("icon.svg", ASSETS["icon.svg"].version),
            ),
            tag("link", rel="stylesheet", href=links.asset("page.css", ASSETS["page.css"].version)),
        ),
        tag(
            "body",
            tag(
                "main",
                tag("h1", "Status"),
                tag(
                    "p",
                    tag("strong", "For the operator only."),
                    " The counts below are exact and not private. Never publish this page.",
                    class_="alarm",
                ),
                tag(
                    "dl",
                    _pair("Plan", found.plan or "not committed yet"),
                    _pair("Processed up to", found.processed_to or "nothing yet"),
                    _pair("Noise", "SIMULATED: not private" if found.simulated else "real"),
                    class_="facts",
                ),
                _checks(found),
                _series(found),
                _secret(found),
                id="content",
            ),
            class_="operator",
        ),
    )


def status_view(report: status_model.Status) -> Status:
    """How far a gauge has come, as the page shows it."""
    return Status(
        plan=report.plan,
        processed_to=_time(report.processed_to),
        simulated=report.simulated,
        series=tuple(
            Progress(name, one.readings, one.readings_total, _time(one.next))
            for name, one in report.releases.items()
        ),
        secret=tuple((name, f"{count:,}") for name, count in report.operator_only.items()),
        checks=tuple(
            (f"publisher {name}", not waiting, f"{waiting:,} readings are not delivered yet")
            for name, waiting in report.publishers.items()
        ),
    )


def _time(at: int | None) -> str | None:
    return None if at is None else rfc3339(at)


def _pair(name: str, value: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", value))


def _table(caption: str, columns: tuple[str, ...], rows: list[Markup]) -> Markup:
    return tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", (tag("th", name, scope="col") for name in columns))),
        tag("tbody", rows),
        class_="plain",
    )


def _checks(found: Status) -> Markup | None:
    if not found.checks:
        return None
    rows = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag("td", "good" if good else "behind", class_="good" if good else "bad"),
            tag("td", detail),
        )
        for name, good, detail in found.checks
    ]
    return _table("Health", ("Check", "State", "Detail"), rows)


def _series(found: Status) -> Markup | None:
    if not found.series:
        return None
    return _table(
        "Releases", ("Release", "Readings", "Planned", "Next"), [_progress(one) for one in found.series]
    )


def _progress(one: Progress) -> Markup:
    return tag(
        "tr",
        tag("th", titled(one.name), scope="row"),
        tag("td", f"{one.readings:,}", class_="number"),
        tag("td", "without end" if one.planned is None else f"{one.planned:,}", class_="number"),
        tag("td", one.upcoming or "finished"),
    )


def _secret(found: Status) -> Markup:
    if not found.secret:
        return tag("p", "No change was dropped.", class_="muted")
    rows = [
        tag("tr", tag("th", titled(name), scope="row"), tag("td", count, class_="number"))
        for name, count in found.secret
    ]
    return _table("Secret counts", ("What", "How many"), rows)

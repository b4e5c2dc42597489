"""The first page: every release with its newest value, its noise interval and a small chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import rfc3339
from tidegauge.model.reading import COVERS
from tidegauge.publish.chart import spark, svg
from tidegauge.publish.markup import Markup, join, tag
from tidegauge.publish.pages.layout import frame, interval, value
from tidegauge.publish.pages.words import unit_word
from tidegauge.publish.view import day_text, every_text, time_text

if TYPE_CHECKING:
    from tidegauge.publish.pages.links import Links
    from tidegauge.publish.view import Line, Series, Site

ROWS: Final = 5
"""Groups of a release that the overview shows."""


def overview(site: Site, links: Links) -> str:
    """The page."""
    about, guarantee = site.document.about, site.document.guarantee
    count, unit = len(site.series), unit_word(guarantee)
    return frame(
        site,
        links,
        tag(
            "div",
            tag("h1", about.title),
            tag("p", about.description, class_="lead") if about.description else None,
            tag(
                "p",
                f"{count} statistic{'' if count == 1 else 's'}",
                f", up to {day_text(site.updated)}" if site.updated is not None else ", none published yet",
                ". Each value contains random noise. ± is half of its 95 % noise interval: the noise is "
                f"smaller in 95 of 100 readings. {COVERS}",
                class_="muted",
            ),
            tag("p", tag("a", f"What could someone learn about one {unit}?", href=links.guarantee)),
            class_="intro",
        ),
        tag("div", (_card(one, links, number) for number, one in enumerate(site.series)), class_="cards")
        if site.series
        else tag("p", "There is nothing here yet.", class_="empty"),
        title=about.title,
        here="Overview",
        about=about.description or guarantee.sentence,
        metadata=site.metadata.get("", ""),
    )


def _card(series: Series, links: Links, number: int) -> Markup:
    what = f"{series.what}, {every_text(series.every)}"
    groups = len(series.lines) + series.hidden_groups
    lines = [line for line in series.lines if line.points]
    if not lines:
        body = tag("p", _waiting(series), class_="empty")
    elif groups == 1:
        body = _single(series, lines[0], number)
    else:
        body = _groups(series, lines[:ROWS], number, more=groups - min(ROWS, len(lines)))
    return tag(
        "article",
        tag("h2", tag("a", series.title, href=links.release(series.name))),
        tag("p", what, class_="what"),
        body,
        class_="card",
    )


def _waiting(series: Series) -> str:
    if series.upcoming is None:
        return "Nothing has been published yet."
    return f"The first reading is due {time_text(series.upcoming)}."


def _single(series: Series, line: Line, number: int) -> Markup:
    point = line.points[-1]
    return join(
        tag("p", value(series, point), class_="now"),
        svg(spark(series, line), f"c{number}", class_="chart spark", spoken=False),
        tag(
            "p", interval(point), " · " if point.half > 0 else None, _when(series, point.time), class_="foot"
        ),
    )


def _groups(series: Series, lines: list[Line], number: int, *, more: int) -> Markup:
    newest = max(line.points[-1].time for line in lines)
    rows = (
        tag(
            "tr",
            tag("th", line.label, scope="row"),
            tag(
                "td",
                svg(
                    spark(series, line, width=92, height=26),
                    f"c{number}-{index}",
                    class_="chart spark",
                    spoken=False,
                ),
                class_="trend",
            ),
            tag(
                "td",
                value(series, line.points[-1], small=True),
                class_="number",
            ),
        )
        for index, line in enumerate(lines)
    )
    rest = f"and {more} more group{'' if more == 1 else 's'}, " if more > 0 else None
    return join(
        tag(
            "table",
            tag("caption", f"Newest values in {series.unit}", class_="hide"),
            tag(
                "thead",
                tag(
                    "tr",
                    tag("th", "Group", scope="col"),
                    tag("th", "Trend", scope="col"),
                    tag("th", f"{series.unit} ± noise", scope="col"),
                ),
                class_="hide",
            ),
            tag("tbody", rows),
            class_="groups",
        ),
        tag("p", rest, f"in {series.unit}, ", _when(series, newest), class_="foot"),
    )


def _when(series: Series, at: int) -> Markup:
    return tag("time", time_text(at, daily=series.daily), datetime=rfc3339(at))

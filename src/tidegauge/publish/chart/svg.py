"""A drawing as SVG: inside of a page, where the stylesheet paints it, or as a file of its own."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from tidegauge.publish.chart.look import FONT, LIGHT, LOOKS, chart_css, colour, palette_css
from tidegauge.publish.chart.shapes import Area, Dot, Mark, Stroke, Words
from tidegauge.publish.markup import Markup, join, tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.publish.chart.shapes import XY, Drawing, Shape


def svg(
    drawing: Drawing, name: str, *, class_: str = "chart", spoken: bool = True, said: bool = False
) -> Markup:
    """The drawing as an element of a page.  `name` is unique on the page.

    `spoken`: with title and description for screen readers; a chart whose numbers are beside it is left out.
    `said`: another chart of this name on the page has the words.
    """
    words: list[Markup] = []
    if spoken and not said:
        words = [
            tag("title", drawing.title, id=f"{name}-t"),
            tag("desc", drawing.description, id=f"{name}-d"),
        ]
    return tag(
        "svg",
        words,
        (_shape(shape, 0, painted=False) for shape in drawing.shapes),
        class_=class_,
        viewBox=f"0 0 {_short(drawing.width)} {_short(drawing.height)}",
        role="img" if spoken else None,
        aria_hidden=None if spoken else "true",
        aria_labelledby=f"{name}-t" if spoken else None,
        aria_describedby=f"{name}-d" if spoken and drawing.description else None,
        **{f"data_{key}": value for key, value in drawing.data} if spoken else {},
    )


def standalone_svg(drawing: Drawing) -> str:
    """The drawing as a file.

    It has the colours of light mode in itself; a browser that may read its style sheet follows dark mode.
    """
    style = f"{palette_css()}{chart_css()}.paper{{fill:var(--paper)}}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
        f'width="{_short(drawing.width + 24)}" height="{_short(drawing.height + 24)}" '
        f'viewBox="-12 -12 {_short(drawing.width + 24)} {_short(drawing.height + 24)}" '
        f'font-family="{FONT.replace(chr(39), "")}">'
    )
    paper = tag("rect", class_="paper", x=-12, y=-12, width="100%", height="100%", fill=LIGHT["paper"])
    body = join(
        tag("title", drawing.title),
        tag("desc", drawing.description),
        Markup(f"<style>{style}</style>"),
        paper,
        [_shape(shape, 0, painted=True) for shape in drawing.shapes],
    )
    return f"{head}{body}</svg>\n"


def _shape(shape: Shape, index: int, *, painted: bool) -> Markup:
    if isinstance(shape, Mark):
        return tag(
            "g",
            (_shape(one, shape.index, painted=painted) for one in shape.shapes),
            class_=f"series s{shape.index % 8}",
            data_label=None if painted or not shape.values else shape.label or None,
            data_values=None if painted else shape.values or None,
            data_halves=None if painted else shape.halves or None,
            data_small=None if painted else shape.small or None,
        )
    paint = _paint(shape.kind, index) if painted else {}
    if isinstance(shape, Words):
        x, y = shape.at
        known = not painted and LOOKS[shape.kind].anchor == shape.anchor
        anchor = None if shape.anchor == "start" or known else shape.anchor
        return tag(
            "text", shape.text, class_=shape.kind, x=_short(x), y=_short(y), text_anchor=anchor, **paint
        )
    if isinstance(shape, Dot):
        x, y = shape.at
        return tag("circle", class_=shape.kind, cx=_short(x), cy=_short(y), r=_short(shape.radius), **paint)
    assert isinstance(shape, Stroke | Area)
    return tag("path", class_=shape.kind, d=path(shape.points, closed=isinstance(shape, Area)), **paint)


def _paint(kind: str, index: int) -> dict[str, str]:
    """The look as attributes, for programs that read no style sheet."""
    look = LOOKS[kind]
    found = {"fill": colour(look.fill, index, LIGHT)}
    if look.opacity < 1:
        found["fill_opacity"] = str(look.opacity)
    if look.stroke != "none":
        found |= {"stroke": colour(look.stroke, index, LIGHT), "stroke_width": str(look.width)}
    if look.size:
        found["font_size"] = str(look.size)
    if look.bold:
        found["font_weight"] = "600"
    return found


def path(points: Sequence[XY], *, closed: bool = False) -> str:
    """The d attribute: tenths of a pixel, each point relative to the last, with no character to spare."""
    tenths = [(round(10 * x), round(10 * y)) for x, y in points]
    x, y = tenths[0]
    out = [_tenths(x), _next(y), "l"]
    for to_x, to_y in tenths[1:]:
        out += (_next(to_x - x), _next(to_y - y))
        x, y = to_x, to_y
    if len(tenths) > 1:
        out[3] = out[3].lstrip()
    return f"M{''.join(out)}{'z' if closed else ''}"


@lru_cache(maxsize=1 << 16)
def _tenths(value: int) -> str:
    whole, part = divmod(abs(value), 10)
    text = f"{whole or ''}.{part}" if part else str(whole)
    return f"-{text}" if value < 0 else text


@lru_cache(maxsize=1 << 16)
def _next(value: int) -> str:
    """A number after another one: a sign separates them."""
    return _tenths(value) if value < 0 else f" {_tenths(value)}"


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")

"""A drawing as PNG, painted by Pillow with its own font, so that it looks the same on every machine."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

from tidegauge.errors import SpecError
from tidegauge.publish.chart.look import LIGHT, LOOKS, colour
from tidegauge.publish.chart.shapes import Area, Dot, Mark, Stroke, Words

if TYPE_CHECKING:
    from tidegauge.publish.chart.shapes import Drawing, Shape

_MARGIN: Final = 12
_FINER: Final = 2
"""Painted so many times as large and then made smaller, which makes edges smooth."""


def png(drawing: Drawing, *, scale: float = 2) -> bytes:
    """The file; `scale` is pixels for each unit of the drawing.  Raises SpecError without Pillow."""
    try:
        from PIL import Image, ImageDraw  # noqa: PLC0415  (an extra)
    except ImportError:
        raise SpecError("a PNG needs the extra 'plot': pip install '.[plot]'", key="--output") from None
    zoom = scale * _FINER
    width, height = (round((side + 2 * _MARGIN) * scale) for side in (drawing.width, drawing.height))
    image = Image.new("RGB", (width * _FINER, height * _FINER), LIGHT["paper"])
    brush = _Brush(ImageDraw.Draw(image, "RGBA"), zoom)
    for shape in drawing.shapes:
        brush.paint(shape, 0)
    small = image.resize((width, height), Image.Resampling.LANCZOS)
    found = io.BytesIO()
    few = small.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(found, "PNG", optimize=True)
    return found.getvalue()


class _Brush:
    def __init__(self, draw: Any, zoom: float) -> None:
        self._draw, self._zoom = draw, zoom
        self._fonts: dict[float, Any] = {}

    def paint(self, shape: Shape, index: int) -> None:
        """Paint a shape; `index` is the colour of the series that it belongs to."""
        if isinstance(shape, Mark):
            for one in shape.shapes:
                self.paint(one, shape.index)
            return
        look = LOOKS[shape.kind]
        fill = _rgba(colour(look.fill, index, LIGHT), look.opacity)
        stroke = _rgba(colour(look.stroke, index, LIGHT), 1)
        if isinstance(shape, Words):
            self._words(shape, look.size, fill, bold=look.bold)
        elif isinstance(shape, Dot):
            (x, y), r = self._at(shape.at), shape.radius * self._zoom
            self._draw.ellipse((x - r, y - r, x + r, y + r), fill=fill)
        elif isinstance(shape, Area):
            self._draw.polygon([self._at(point) for point in shape.points], fill=fill)
        else:
            assert isinstance(shape, Stroke)
            corners = [self._at(point) for point in shape.points]
            self._draw.line(corners, fill=stroke, width=max(1, round(look.width * self._zoom)), joint="curve")

    def _at(self, point: tuple[float, float]) -> tuple[float, float]:
        return (point[0] + _MARGIN) * self._zoom, (point[1] + _MARGIN) * self._zoom

    def _words(self, shape: Words, size: float, fill: tuple[int, ...] | None, *, bold: bool) -> None:
        from PIL import ImageFont  # noqa: PLC0415

        font = self._fonts.get(size)
        if font is None:
            font = self._fonts[size] = ImageFont.load_default(size * self._zoom)
        anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
        width = round(self._zoom * 0.3) if bold else 0
        text = shape.text.replace("\N{MINUS SIGN}", "-")  # which the font does not have
        self._draw.text(self._at(shape.at), text, fill, font, anchor, stroke_width=width)


def _rgba(name: str, opacity: float) -> tuple[int, ...] | None:
    if name == "none":
        return None
    return (*(int(name[at : at + 2], 16) for at in (1, 3, 5)), round(255 * opacity))

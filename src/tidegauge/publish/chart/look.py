"""How shapes are painted: one table for the stylesheet of pages, for SVG files and for PNG files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Look:
    """Colours are names in the palette, or 'series' for the colour of the line that a shape belongs to."""

    fill: str = "none"
    opacity: float = 1.0
    stroke: str = "none"
    width: float = 0.0
    size: float = 0.0
    bold: bool = False
    anchor: str = ""
    """Where text is put: at its start unless said otherwise."""


LOOKS: Final = {
    "grid": Look(stroke="grid", width=1),
    "axis": Look(stroke="axis", width=1),
    "zero": Look(stroke="axis", width=1.25),
    "tick": Look(fill="muted", size=12, anchor="end"),
    "day": Look(fill="muted", size=12, anchor="middle"),
    "label": Look(fill="muted", size=12),
    "head": Look(fill="ink", size=16, bold=True),
    "panel": Look(fill="ink", size=13, bold=True),
    "note": Look(fill="muted", size=12),
    "band95": Look(fill="series", opacity=0.16),
    "band50": Look(fill="series", opacity=0.26),
    "line": Look(stroke="series", width=2),
    "thin": Look(stroke="series", width=1.5),
    "truth": Look(stroke="ink", width=1.25),
    "dot": Look(fill="series"),
}

LIGHT: Final = {
    "paper": "#ffffff", "ink": "#14232e", "muted": "#51626e", "grid": "#e3e9ed", "axis": "#8c9ba6",
    "s0": "#0b6e8f", "s1": "#c2410c", "s2": "#5b7f0d", "s3": "#7c3aed", "s4": "#a16207", "s5": "#be185d",
    "s6": "#475569", "s7": "#0f766e",
}  # fmt: skip
DARK: Final = {
    "paper": "#0f1a22", "ink": "#e8f0f4", "muted": "#a3b4bf", "grid": "#22323d", "axis": "#607280",
    "s0": "#5cc4e4", "s1": "#fb9a66", "s2": "#a9cf57", "s3": "#b69cf8", "s4": "#e5b84c", "s5": "#f48cb8",
    "s6": "#a9b8c6", "s7": "#5cd0c3",
}  # fmt: skip
SERIES: Final = 8
"""Colours for lines; a ninth line gets the first colour again."""
FONT: Final = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"


def colour(name: str, index: int, palette: dict[str, str]) -> str:
    """The colour that a name of a look means."""
    if name == "none":
        return name
    return palette[f"s{index % SERIES}" if name == "series" else name]


def chart_css() -> str:
    """The rules for charts.  The colours are custom properties, so that dark mode changes them at once."""
    rules = [".chart text{font-family:var(--font)}"]
    for kind, look in LOOKS.items():
        rule = "".join(
            [
                f"fill:{_variable(look.fill)};" if look.fill != "none" else "fill:none;",
                f"fill-opacity:{look.opacity};" if look.opacity < 1 else "",
                f"stroke:{_variable(look.stroke)};stroke-width:{look.width}px;"
                if look.stroke != "none"
                else "",
                f"font-size:{look.size}px;" if look.size else "",
                "font-weight:600;" if look.bold else "",
                f"text-anchor:{look.anchor};" if look.anchor else "",
                "stroke-linejoin:round;stroke-linecap:round;" if kind in {"line", "thin"} else "",
            ]
        )
        rules.append(f".chart .{kind}{{{rule.rstrip(';')}}}")
    rules += [f".s{index}{{--series:var(--s{index})}}" for index in range(SERIES)]
    return "\n".join(rules) + "\n"


def palette_css() -> str:
    """The palettes as custom properties."""
    light = "".join(f"--{name}:{value};" for name, value in LIGHT.items())
    dark = "".join(f"--{name}:{value};" for name, value in DARK.items())
    return (
        f":root{{color-scheme:light dark;--font:{FONT};{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    )


def _variable(name: str) -> str:
    return f"var(--{name})"

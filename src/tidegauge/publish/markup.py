"""HTML and SVG elements as text.  Everything is escaped; only what was made here is markup already.

A page must pass the Content-Security-Policy default-src 'self', so inline styles, inline scripts and event
attributes are refused when they are written, not when a browser blocks them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})
_CLOSED: Final = frozenset({"circle", "line", "path", "rect", "use"})
"""SVG elements without content: written as <path/>."""
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9:-]*")
_BAD: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""Characters that neither HTML nor XML may contain."""
_DATA: Final = frozenset({"application/json", "application/ld+json"})


class Markup(str):
    """Text that is markup; any other text is escaped before it is put into an element."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"


def escape(text: str) -> Markup:
    """The text as content of an element or of an attribute in double quotes."""
    if isinstance(text, Markup):
        return text
    text = _BAD.sub("\N{REPLACEMENT CHARACTER}", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return Markup(text.replace('"', "&quot;").replace("'", "&#39;"))


def join(*children: Child) -> Markup:
    """The children one after another."""
    return Markup("".join(_flat(children)))


def _flat(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            yield escape(child)
        else:
            yield from _flat(child)


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """An element.  `class_` is the attribute class, `data_x` is data-x; None and False leave one out."""
    head = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{head}>")
    inner = join(*children)
    if name in _CLOSED and not inner:
        return Markup(f"<{name}{head}/>")
    if name in {"style", "script"} and inner:
        raise ValueError(f"an inline {name} is blocked by the Content-Security-Policy")
    return Markup(f"<{name}{head}>{inner}</{name}>")


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if name == "style" or name.startswith("on") or not _NAME.fullmatch(name):
        raise ValueError(f"the attribute {name} is blocked by the Content-Security-Policy")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def data(text: str, kind: str, /, **attributes: str) -> Markup:
    """A block of JSON in a page: data that a browser never runs, so the policy allows it."""
    if kind not in _DATA:
        raise ValueError("only JSON may be put into a page")
    safe = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    head = "".join(_attribute(key, value) for key, value in attributes.items())
    return Markup(f'<script type="{kind}"{head}>{safe}</script>')


def page(*children: Child, lang: str = "en", **attributes: str | None) -> str:
    """A whole HTML document."""
    return f"<!doctype html>\n{tag('html', *children, lang=lang, **attributes)}\n"

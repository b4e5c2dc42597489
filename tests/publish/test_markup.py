"""Everything is escaped, and nothing can be written that the Content-Security-Policy blocks."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.publish.markup import Markup, data, escape, join, page, tag


class Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


CONTROL = [chr(code) for code in (*range(32), 127, 0xFFFE, 0xFFFF)]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters=CONTROL)))
def test_text_comes_back_as_it_was(text: str) -> None:
    found = Texts()
    found.feed(tag("p", text, title=text))
    found.close()
    assert found.text == text
    assert found.tags == [("p", {"title": text})]


def test_what_no_document_may_contain_is_replaced() -> None:
    assert escape("a\x00b\x1b") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"


def test_children_are_escaped_once() -> None:
    assert tag("b", tag("i", "<"), [" &", None, ["'"]]) == "<b><i>&lt;</i> &amp;&#39;</b>"
    assert join("<", Markup("<br>")) == "&lt;<br>"


def test_attributes() -> None:
    assert tag("input", type="radio", checked=True, disabled=False, id=None) == '<input type="radio" checked>'
    assert tag("label", "x", for_="a", data_x='"') == '<label for="a" data-x="&quot;">x</label>'
    assert tag("path", d="M0 0") == '<path d="M0 0"/>'


@pytest.mark.parametrize("attribute", ["style", "onclick", "on_load", "a b", "x=y"])
def test_what_the_policy_blocks_is_refused(attribute: str) -> None:
    with pytest.raises(ValueError, match="Content-Security-Policy"):
        tag("p", **{attribute: "x"})


@pytest.mark.parametrize("name", ["script", "style"])
def test_nothing_is_inline(name: str) -> None:
    with pytest.raises(ValueError, match="inline"):
        tag(name, "x")


def test_data_cannot_end_its_block() -> None:
    block = data('{"a": "</script><script>alert(1)</script>"}', "application/ld+json")
    assert block.count("<") == 2
    with pytest.raises(ValueError, match="JSON"):
        data("alert(1)", "text/javascript")


def test_a_page_has_a_language() -> None:
    assert page(tag("body")) == '<!doctype html>\n<html lang="en"><body></body></html>\n'

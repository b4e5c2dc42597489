"""Every refusal is on a reviewed list, and the texts obey a few rules."""

from __future__ import annotations

import re

import pytest

from tests.messages.collect import EXPECTED, messages

LONGEST = 520
AWKWARD = re.compile(r"SQLSTATE none|\bnobody\b|\bpip install '?tidegauge\b|init --install|Traceback")


def test_every_refusal_is_on_the_list() -> None:
    """A new or changed text is read by a person: python -m tests.messages.update,
    then look at the difference."""
    found = messages()
    kept = {path.stem: path.read_text("utf-8").splitlines() for path in EXPECTED.glob("*.txt")}
    assert found == kept, "python -m tests.messages.update"


@pytest.mark.parametrize("folder", sorted(messages()))
def test_no_text_is_awkward_or_endless(folder: str) -> None:
    for line in messages()[folder]:
        assert not AWKWARD.search(line), line
        assert len(line) <= LONGEST, line


def test_placeholders_are_kept(tmp_path: object) -> None:
    """The list is made from the syntax tree: a text in pieces is one text, a value is its expression."""
    lines = messages()["plan"]
    assert "plan/spec/values.py _exact: ValueError: must be a number" in lines
    assert any("there is no release '{name}'" in line for line in lines)

"""A registry has each name once, loads what is named by its module, and is as it was after every test."""

from __future__ import annotations

import pytest

from tests import conftest
from tidegauge.errors import SpecError
from tidegauge.model.kinds import SOURCES
from tidegauge.model.registry import Registry


def test_a_name_is_registered_once() -> None:
    toys: Registry[object] = Registry("a toy")
    toys.register("ball", 1)
    with pytest.raises(
        SpecError, match="a toy called 'ball' is registered already: give this one another name"
    ):
        toys.register("ball", 2)
    assert [toys.named("ball"), toys.find("kite"), *toys] == [1, None, 1]
    with pytest.raises(SpecError, match="there is no toy called 'kite'; there are: ball"):
        toys.named("kite")
    toys.unregister("ball")
    assert toys.names() == ()


def test_a_module_is_loaded_when_its_plug_in_is_first_used() -> None:
    toys: Registry[object] = Registry("a toy")
    toys.register("files", "tidegauge.source.files.kind")
    assert toys.named("files") is toys.named("files") is SOURCES.named("files")


def test_the_twin_that_must_be_found() -> None:
    before = conftest.registered()
    SOURCES.register("left over", "nowhere")
    assert conftest.registered() != before
    SOURCES.unregister("left over")
    assert conftest.registered() == before
    assert {"a kind of source", "a kind of publisher"} <= set(before)

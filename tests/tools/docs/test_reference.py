"""The pages of docs/reference/ are those that the code gives;
`python -m tools.docs.reference` writes them again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from tidegauge.model.declared import Table
from tools.docs.reference import declaration
from tools.docs.reference.json_forms import shape
from tools.docs.reference.meanings import MeaningProblem, Meanings
from tools.docs.reference.pages import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == PAGES[name](), "run python -m tools.docs.reference"


def test_the_folder_has_no_other_page() -> None:
    assert {path.name for path in Path(FOLDER).iterdir()} == set(PAGES)


def test_a_key_without_a_meaning_is_found() -> None:
    class Grown(Table):
        epsilon: Annotated[int, Field(ge=1)] | None = None
        invented: Literal["a", "b"] = "a"

    with pytest.raises(MeaningProblem, match="budget: write what 'invented' means"):
        declaration.rows(Grown, Meanings("budget"))


def test_a_meaning_without_a_key_is_found() -> None:
    class Shrunk(Table):
        epsilon: int = 1

    with pytest.raises(MeaningProblem, match="there is no key delta, reserve, reserve_columns, rho"):
        declaration.rows(Shrunk, Meanings("budget"))


def test_types_are_named_in_words() -> None:
    assert declaration.value(dict[str, list[bool | int]]) == "table: list of true or false or whole number"
    with pytest.raises(TypeError, match="no words"):
        declaration.value(bytes)


def test_the_shape_of_json_is_independent_of_names_and_length() -> None:
    kinds: dict[str, set[str]] = {}
    found: Any = {"releases": {"NAME": [{"a": 1}, {"a": None}], "MEAN": [{"a": 2.5}]}}
    shape(found, "", kinds)
    assert kinds["releases.NAME[].a"] == {"whole number", "null", "number"}

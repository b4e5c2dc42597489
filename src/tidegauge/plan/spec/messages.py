"""What is wrong with a declaration, in words of the file: the key, the mistake, and what to write."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from types import GenericAlias
from typing import Any

from pydantic import BaseModel, create_model

from tidegauge.model.kinds import PUBLISHERS, SOURCES
from tidegauge.plan.spec.publish import publisher_spec
from tidegauge.plan.spec.source import spec_of


@dataclass(frozen=True)
class Forms:
    """The models of a whole file, of a release that is measured, and of one that is derived."""

    whole: type[BaseModel]
    measured: type[BaseModel]
    derived: type[BaseModel]


def explain(forms: Forms, problem: Any) -> str:
    """One line for one mistake: the key, what is wrong, and the nearest key that exists."""
    model, place = forms.whole, [str(part) for part in problem["loc"]]
    if place[:1] == ["source"]:
        model = _source_of(*place[1:2]) or model
        place[1:2] = []  # the kind, by which the table's keys were chosen
    if place[:1] == ["publish"] and len(place) > 2:
        model = _publisher_of(*place[2:3]) or model
        place[2:3] = []
    derived = place[:1] == ["release"] and place[2:3] == ["derived"]
    if place[:1] == ["release"] and place[2:3] in (["derived"], ["measured"]):
        place[2:3] = []
    key = ".".join(place)
    match problem["type"]:
        case "extra_forbidden" if derived and place[-1] in _keys_at(forms.measured, []):
            return (
                f"{key}: does not go with 'of': what is derived is decoded from what another release "
                "measures, and takes 'of', 'window' and 'every' alone"
            )
        case "extra_forbidden":
            if derived:
                releases: Any = GenericAlias(dict, (str, forms.derived))
                model = create_model("One", release=(releases, ...))
            known = _keys_at(model, place[:-1]) + (
                ["of"] if place[0] == "release" and len(place) == 3 else []
            )
            near = difflib.get_close_matches(place[-1], known, n=1)
            return f"{key}: is not a key here" + (f"; did you mean '{near[0]}'?" if near else "")
        case "missing":
            return (
                f"{key}: is missing; add it to [{'.'.join(place[:-1])}]"
                if place[1:]
                else f"[{key}] is missing"
            )
        case "union_tag_not_found":
            return kinds_there_are(None, *place[:2])
        case "union_tag_invalid":
            return kinds_there_are(problem["ctx"]["tag"], *place[:2])
        case "too_short" if key == "release":
            return "release: declare at least one [release.NAME]"
        case "value_error":
            message = str(problem["ctx"]["error"])
            if not key or message.startswith(key):
                return message
            inside = message.partition(": ")[0] in _keys_at(model, place)
            return f"{key}{'.' if inside else ': '}{message}"
        case _:
            return f"{key}: {_plain(problem)}"


def _plain(problem: Any) -> str:
    """What pydantic found, in the words of tidegauge.toml."""
    limits = problem.get("ctx", {})
    match problem["type"]:
        case "greater_than_equal":
            return f"must be {limits['ge']} or more"
        case "int_type" | "int_parsing" | "int_from_float":
            return "must be a whole number, without quotes"
        case "string_type":
            return "must be a text in quotes"
        case "bool_type" | "bool_parsing":
            return "must be true or false"
        case "list_type" | "tuple_type":
            return 'must be a list in brackets, for example ["north", "south"]'
        case "too_long" | "too_short":
            return f"must have {limits.get('max_length', limits.get('min_length'))} values"
        case "dict_type" | "model_type" | "model_attributes_type":
            return "must be a table of keys, not a single value"
        case "literal_error":
            return f"must be {limits['expected']}"
        case _:
            return f"{problem['msg'][0].lower()}{problem['msg'][1:]}"


def kinds_there_are(found: str | None, *place: str) -> str:
    """The kinds of source or, in a [publish] table, of publisher, and the nearest to what was written."""
    names = (PUBLISHERS if place[:1] == ("publish",) else SOURCES).names()
    wrong = "is missing" if found is None else "there is no such kind"
    known = f"{'.'.join(place or ('source',))}.kind: {wrong}; one of {', '.join(names)}"
    near = difflib.get_close_matches(found or "", names, n=1)
    return known + (f"; did you mean '{near[0]}'?" if near else "")


def _publisher_of(kind: str = "") -> type[BaseModel] | None:
    """The model of one kind of publisher, wrapped in a whole file's place for it."""
    found = publisher_spec(kind)
    if found is None:
        return None
    tables: Any = GenericAlias(dict, (str, found))
    return create_model("One", publish=(tables, ...))


def _source_of(kind: str = "") -> type[BaseModel] | None:
    """The model of one kind of source, wrapped in a whole file's place for it."""
    found = spec_of(kind)
    return None if found is None else create_model("One", source=(found, ...))


def _keys_at(model: type[BaseModel], place: list[str]) -> list[str]:
    """The keys that this table may have."""
    table: Any = model
    for part in place:
        fields = getattr(table, "model_fields", {})
        table = next(
            (_model_in(field.annotation) for name, field in fields.items() if part in (name, field.alias)),
            table,
        )
    return [field.alias or name for name, field in getattr(table, "model_fields", {}).items()]


def _model_in(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(
        (found for part in getattr(annotation, "__args__", ()) if (found := _model_in(part)) is not None),
        None,
    )

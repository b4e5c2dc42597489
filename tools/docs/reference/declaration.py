"""docs/reference/declaration.md: every key of a tidegauge.toml."""

from __future__ import annotations

import types
import typing
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from pydantic import AliasChoices, BaseModel

import tidegauge  # noqa: F401  (makes the kinds of source and publisher known by name)
from tidegauge.model.declared import SourceSpec
from tidegauge.model.kinds import PUBLISHERS, SOURCES
from tidegauge.model.quantity import Span
from tidegauge.plan.spec.declaration import AllowanceSpec, ConstraintSpec, DerivedSpec, GaugeSpec, ReleaseSpec
from tools.docs.reference.meanings import Meanings, table

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

TIMES: Final = {"start", "renews_from"}
"""Keys whose value is a time; in the code they are integers, like counts."""
COMMON: Final = list(SourceSpec.model_fields)
HEAD: Final = ("key", "value", "default", "meaning")
PLAIN: Final = {
    str: "text", int: "whole number", float: "number",
    bool: "true or false", Fraction: "number", Span: "duration",
}  # fmt: skip


def value(annotation: Any) -> str:
    """What a key accepts, in words."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in PLAIN:
        return PLAIN[annotation]
    if origin is typing.Annotated:
        return value(parts[0])
    if origin is typing.Literal:
        return " or ".join(f'`"{one}"`' for one in parts)
    if origin in {typing.Union, types.UnionType}:
        found = dict.fromkeys(value(part) for part in parts if part is not type(None))
        return " or ".join(found)
    if origin in {list, tuple}:
        return f"list of {value(parts[0])}"
    if origin is dict:
        return f"table: {value(parts[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    raise TypeError(f"tools/docs/reference/declaration.py has no words for {annotation}")


def written(name: str, field: FieldInfo) -> str:
    """The key as the file has it."""
    if isinstance(field.validation_alias, AliasChoices):
        return str(field.validation_alias.choices[0])
    return field.alias or name


def default(field: FieldInfo) -> str:
    """The default, if it says something."""
    if field.is_required():
        return "required"
    found = field.default
    if isinstance(found, bool):
        return f"`{str(found).lower()}`"
    if isinstance(found, int | float | Fraction):
        return f"`{float(found):g}`"
    return f'`"{found}"`' if isinstance(found, str) and found else ""


def rows(
    model: type[BaseModel], meanings: Meanings, *, without: tuple[str, ...] = ()
) -> list[tuple[str, ...]]:
    """One row for each key of a table."""
    found: list[tuple[str, ...]] = []
    for name, field in model.model_fields.items():
        if name in without:
            continue
        key = written(name, field)
        words = "time" if name in TIMES else value(field.annotation)
        found.append((f"`{key}`", words, default(field), meanings.take(key)))
    meanings.close()
    return found


def _section(title: str, about: str, found: list[tuple[str, ...]]) -> str:
    return f"{title}\n{about}\n\n" + table(HEAD, found)


def page() -> str:
    """The whole page."""
    parts = [
        "# Keys of tidegauge.toml\n\n"
        "This page is written from the code by `python -m tools.docs.reference`.\n"
        "[The declaration explained](../guide.md) says how the keys work together.\n\n"
        'A *duration* is written `"30 days"`, `"1 month"` or `"6 hours"`. A *time* is a date or a time in '
        "ISO 8601.\nNumbers are taken exactly as written. Keys that are not listed here are refused.\n",
        _section(
            "## [source]", "These keys belong to every kind.", rows(SourceSpec, Meanings("source", "any"))
        ),
    ]
    for kind in SOURCES.names():
        spec = SOURCES.named(kind).spec
        found = rows(spec, Meanings("source", kind), without=tuple(COMMON))
        parts.append(_section(f'### kind = "{kind}"', (spec.__doc__ or "").partition("\n")[0], found))
    auto = ("auto",)  # written as at_most = "auto"
    parts.append(
        _section(
            "## [constraint]",
            "What bounds one unit.",
            rows(ConstraintSpec, Meanings("constraint"), without=auto),
        )
    )
    assert set(AllowanceSpec.model_fields) <= set(ConstraintSpec.model_fields)
    release = "A release with `sql` is measured; a release with `of` is derived from a measured one."
    parts.append(_section("## [release.NAME]", release, rows(ReleaseSpec, Meanings("release", "measured"))))
    parts.append(
        _section("### With of", "At no privacy loss.", rows(DerivedSpec, Meanings("release", "derived")))
    )
    done = {"source", "constraint", "release", "publish"}
    for name, field in GaugeSpec.model_fields.items():
        if name not in done:
            model = _model(field.annotation)
            parts.append(
                _section(
                    f"## [{name}]", (model.__doc__ or "").partition("\n")[0], rows(model, Meanings(name))
                )
            )
    parts.append("## [publish.NAME]\nWhere readings are handed on to ([publishing](../publish.md)).\n")
    about = Meanings("publish", "any")
    about.take("kind")
    about.close()
    for kind in PUBLISHERS.names():
        found = rows(PUBLISHERS.named(kind).spec, Meanings("publish", kind), without=("kind",))
        parts.append(f'### kind = "{kind}" of a publisher\n\n' + table(HEAD, found))
    return "\n".join(parts)


def _model(annotation: Any) -> type[BaseModel]:
    """The class of a table, also of an optional one."""
    options = [annotation, *typing.get_args(annotation)]
    return next(one for one in options if isinstance(one, type) and issubclass(one, BaseModel))

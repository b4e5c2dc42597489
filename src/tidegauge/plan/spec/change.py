"""What a declaration changes of the one that was committed.

A key that the committed declaration does not have, and that now has its default, is no change: it may be
newer than the store.  Defaults therefore never change (docs/decisions/0028-defaults-never-change.md).
Neither spacing, comments nor the letter case of keywords in a SELECT are changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tidegauge.model.json import as_object
from tidegauge.model.quantity import Span, rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegauge.model.json import Json, JsonObject
    from tidegauge.plan.spec.declaration import GaugeSpec

_SHORT: Final = 40
"""Characters of a value that a message shows."""


def changed(committed: JsonObject, spec: GaugeSpec) -> list[str]:
    """Every key that differs between the committed declaration and this one, with how it differs."""
    return list(
        _differences(committed, spec.canonical(), spec.canonical(defaults=False), (), spec.source.speaks)
    )


def added(committed: JsonObject, spec: GaugeSpec) -> list[str]:
    """The releases that the committed declaration does not have, in the order in which they are written."""
    known = as_object(committed["release"])
    return [name for name in spec.release if name not in known]


def _differences(old: Json, new: Json, written: Json, place: tuple[str, ...], dialect: str) -> Iterator[str]:
    """`written` is `new` without the keys that have their defaults."""
    if _is_duration(old) and _is_duration(new):
        old, new = str(Span.from_json(as_object(old))), str(Span.from_json(as_object(new)))
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        besides = written if isinstance(written, Mapping) else {}
        for name in sorted(old.keys() | new.keys()):
            own = (*place, name)
            if name not in new:
                yield f"{'.'.join(own)}: was removed"
            elif name in old:
                yield from _differences(old[name], new[name], besides.get(name), own, dialect)
            elif name in besides:
                yield f"{'.'.join(own)}: was added"
    elif old != new and not (_is_select(place) and _same_select(str(old), str(new), dialect)):
        yield f"{'.'.join(place)}: was changed{_from_to(place, old, new)}"


def _from_to(place: tuple[str, ...], old: Json, new: Json) -> str:
    """Both values, where they are short."""
    if place[-1] == "start" and isinstance(old, int) and isinstance(new, int):
        old, new = rfc3339(old), rfc3339(new)
    words = [str(one) for one in (old, new)]
    return f" from {words[0]} to {words[1]}" if max(map(len, words)) <= _SHORT else ""


def _is_duration(value: Json) -> bool:
    return isinstance(value, Mapping) and value.keys() == {"months", "micros"}


def _is_select(place: tuple[str, ...]) -> bool:
    return len(place) == 3 and (place[0], place[2]) == ("release", "sql")


def _same_select(old: str, new: str, dialect: str) -> bool:
    from tidegauge.plan.sql.parse import canonical  # noqa: PLC0415  (slow to load, and rarely needed)
    from tidegauge.plan.sql.refusals import Refused  # noqa: PLC0415

    try:
        return canonical(old, dialect) == canonical(new, dialect)
    except Refused:  # one of them is no SQL
        return False

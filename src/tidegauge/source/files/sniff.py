"""What a file's columns seem to be: a first draft of a declaration, for its owner to correct.

It looks at the data and shows some of it, so it is for the operator's eyes alone; nothing of it enters a gauge unless
the operator writes it down.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.source.batch.draft import UNITS
from tidegauge.source.batch.workbench import TYPES, scratch
from tidegauge.source.files.layout import OPERATIONS
from tidegauge.source.files.tabular import numbered, tabular

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidegauge.source.files.tabular import Tabular

_SAMPLE_ROWS: Final = 10_000
_FEW: Final = 20
_PREFIXES: Final = (("before_", "after_"), ("old_", "new_"), ("before.", "after."), ("old.", "new."))
_TIMES: Final = (
    "time",
    "ts",
    "timestamp",
    "at",
    "changed_at",
    "updated_at",
    "event_time",
    "datetime",
    "date",
)
_ENTRIES: Final = ("entry", "id", "key", "pk", "uuid", "row_id", "entry_id", "record_id")
_OPS: Final = ("op", "operation", "action", "change", "event", "kind", "type")
_GUESSES: Final = ("integer", "number", "date", "timestamp", "boolean")
"""Tried in this order: 0 is an integer before it is a boolean, and a day is a date before it is a timestamp."""


@dataclass(frozen=True)
class Suggestion:
    """The keys of a source of kind files, as far as they can be guessed."""

    time: str | None
    entry: str | None
    unit: str | None
    op: str | None
    before: str | None
    after: str | None
    types: Mapping[str, str]
    """Column, its prefix taken off -> the type of all its text in the sample; parquet has types of its own."""
    values: Mapping[str, tuple[str, ...]]
    """Text column -> its values in the sample, where they are few."""


@dataclass(frozen=True)
class _Seen:
    """A column in the sample: its distinct values, and the types that fit all of them."""

    values: tuple[str, ...]
    fits: frozenset[str]


def sniff(path: str | Path) -> Suggestion:
    """Guess from the names of the columns and the first rows."""
    file = tabular(Path(path), str(path))
    seen = _look(file)
    old, new = next(
        (pair for pair in _PREFIXES if all(_with_prefix(seen, prefix) for prefix in pair)),
        (None, next((new for _, new in _PREFIXES if _with_prefix(seen, new)), None)),
    )
    prefixed = {column for prefix in (old, new) if prefix for column in _with_prefix(seen, prefix)}
    plain = [column for column in seen if column not in prefixed]
    instants = [column for column in plain if "timestamp" in seen[column].fits]
    time = _choose(_TIMES, instants, otherwise=instants[:1])
    op = _choose(_OPS, [column for column in plain if _says_operations(seen[column])])
    keys = [column for column in plain if column not in (time, op)]
    entry = _choose(_ENTRIES, keys, otherwise=keys[:1])
    table = {
        column.removeprefix(new or "") if column in prefixed else column: column
        for column in seen
        if column not in (time, entry, op) and not (old and column.startswith(old))
    }
    text = {name: seen[column] for name, column in table.items() if file.schema[column] == "VARCHAR"}
    types = {
        name: next((guess for guess in _GUESSES if guess in look.fits), "text") for name, look in text.items()
    }
    few = {
        name: look.values for name, look in text.items() if types[name] == "text" and len(look.values) <= _FEW
    }
    return Suggestion(time, entry, _choose(UNITS, table), op, old, new, types, few)


def _look(file: Tabular) -> dict[str, _Seen]:
    columns = list(file.schema)
    block = next(numbered(file), None)
    if block is None:
        return dict.fromkeys(columns, _Seen((), frozenset()))
    with scratch() as engine:
        engine.register("block", block.slice(0, _SAMPLE_ROWS))
        looks = ", ".join(
            _look_at(f"CAST(c{place} AS VARCHAR)", f"c{place}") for place in range(len(columns))
        )
        found = engine.sql(f"SELECT {looks} FROM ({file.select(columns)})").to_arrow_table().to_pylist()[0]
    return {
        column: _Seen(
            tuple(found[f"c{place}"]["values"] or ()),
            frozenset(guess for guess in _GUESSES if found[f"c{place}"][guess]),
        )
        for place, column in enumerate(columns)
    }


def _look_at(text: str, name: str) -> str:
    fits = {
        guess: f"count_if({text} IS NOT NULL AND {TYPES[guess][1].format(text)} IS NULL) = 0"
        for guess in _GUESSES
    }
    for guess in ("integer", "number"):
        fits[guess] += f" AND count_if(regexp_matches({text}, '^[+-]?0[0-9]')) = 0"  # 007 is a name
    fits["boolean"] += f" AND count_if(lower({text}) NOT IN ('true', 'false')) = 0"
    fits["date"] += f" AND max(length(trim({text}))) = 10"
    guesses = ", ".join(f"{guess} := count({text}) > 0 AND {fits[guess]}" for guess in _GUESSES)
    return f'struct_pack("values" := list_sort(list(DISTINCT {text}) FILTER ({text} IS NOT NULL)), {guesses}) AS {name}'


def _with_prefix(columns: Iterable[str], prefix: str) -> list[str]:
    return [column for column in columns if column.startswith(prefix) and column != prefix]


def _choose(names: Iterable[str], columns: Iterable[str], otherwise: Iterable[str] = ()) -> str | None:
    there = list(columns)
    return next((name for name in (*names, *otherwise) if name in there), None)


def _says_operations(seen: _Seen) -> bool:
    return bool(seen.values) and {value.strip().lower() for value in seen.values} <= {*OPERATIONS}

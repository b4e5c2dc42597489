"""What a file seems to contain: a first draft of a declaration, for its owner to correct.

The draft is made from the data and shows some of them, so it is for the operator alone.  Nothing of it enters
a gauge unless the operator keeps it in the declaration.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.model.person import person_columns
from tidegauge.source.batch.guess import (
    CURRENT,
    DELETED,
    KEYS,
    OPS,
    PICTURES,
    TIMES,
    by_name,
    ends_unknown,
    like_key,
    like_time,
    of_birth,
    says_whether,
    validity,
    version_begin,
    weak_validity,
)
from tidegauge.source.batch.refusal import refusal
from tidegauge.source.files.affix import Affix, affixes, lone_suffixes
from tidegauge.source.files.layout import OPERATIONS, TIME_UNITS
from tidegauge.source.files.notation import Notation
from tidegauge.source.files.pictures import rhythm
from tidegauge.source.files.sample import FEW, GUESSES, Sample, sample
from tidegauge.source.files.source import matching
from tidegauge.source.files.suggestion import Shape, Suggestion
from tidegauge.source.files.tabular import tabular
from tidegauge.source.files.times import all_times
from tidegauge.source.files.versions import follow
from tidegauge.source.files.writing import Findings, delimiter_of, has_dates, look, zone_in

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tidegauge.source.files.tabular import Tabular

_CHANGES: Final = (4, 8, 16, 32)
_ZONED: Final = re.compile(r":9(\.[9TYN])?( ?a|[+-](9:9|Y|9))$")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}[./]\d{1,2}[./]\d{2}")
_NUMBER: Final = re.compile(r"[+-]?\d+([.,]\d+)?")
_ROWS_OF_ONE: Final = (1, 2, 3, 5, 10, 20, 50, 100)
_SINCE_1970: Final = (
    (10**8, 10**10, "seconds"),
    (10**11, 10**13, "milliseconds"),
    (10**14, 10**16, "microseconds"),
)


def sniff(path: str | Path, base: Path | None = None, *, changes_only: bool = False) -> Suggestion:
    """Guess from names and first rows.  Raises SourceError if a file cannot be read.

    `changes_only`: each row is a change, whatever it looks like.
    """
    folder = base or Path()
    names = matching(str(path), folder)
    found = _of_first_rows(folder / names[0], names[0], changes_only=changes_only)
    files = [tabular(folder / name, name, found.notation) for name in names]
    return _with_times(replace(found, file=files[0]), files)


def shape_of(path: str | Path) -> Shape:
    """What a row of the file is, by its first rows alone.  Raises SourceError if the file cannot be read."""
    name = matching(str(path), Path())[0]
    return _of_first_rows(Path(name), name, changes_only=False).shape


def _of_first_rows(path: Path, name: str, *, changes_only: bool) -> Suggestion:
    delimiter = delimiter_of(path, name)
    file = tabular(path, name, Notation(delimiter=delimiter))
    _require_header(file)
    with sample(file) as first:
        return _Sniffed(first, delimiter).suggestion(changes_only=changes_only)


def _with_times(found: Suggestion, files: Sequence[Tabular]) -> Suggestion:
    """The suggestion with the first and the last time of all files."""
    column = found.valid_from or found.time
    if column is None or any(column not in file.schema for file in files):
        return found
    times = all_times(files, column, found.notation, found.time_unit)
    if found.shape is not Shape.PICTURES:
        return replace(found, times=times)
    every, unsure = rhythm(times.instants)
    return replace(found, times=times, every=every, unsure=(*found.unsure, *unsure))


class _Sniffed:
    """The decisions about one file, each from those before it."""

    def __init__(self, first: Sample, delimiter: str | None) -> None:
        self.first, self.file = first, first.file
        self.seen = first.seen()
        self.found: Findings = look(first, self.seen, delimiter)
        self.unsure = self.found.unsure
        columns = list(self.seen)
        self.fits = first.fits(self.found.notation, columns)
        self.old, self.new = affixes(columns)
        marks = [Affix(one) for one in (self.old, self.new) if one]
        self.affixed = {column for mark in marks for column in mark.among(columns).values()}
        self.unsure += lone_suffixes(marks, columns)
        if not first.rows:
            self.unsure.append("the file has no rows yet: the columns were guessed by their names")
        self.plain = [column for column in columns if column not in self.affixed]

    def suggestion(self, *, changes_only: bool) -> Suggestion:
        """All of them together."""
        notation = self._zoned()
        base = Suggestion(file=self.file, shape=Shape.TABLE, notation=notation)
        if not changes_only and (span := self._versions()) is not None:
            marks = [self._current(), by_name(DELETED, self.plain)]
            key = self._key({*span, *marks})
            base = replace(base, shape=Shape.VERSIONS, valid_from=span[0], valid_to=span[1], key=key)
            base = replace(base, current=marks[0], deleted=marks[1])
            if span[1] is None:
                self.unsure.append(ends_unknown(span[0], str(marks[0])))
            else:
                base = replace(base, inclusive=self._inclusive((span[0], span[1]), key))
            return self._finished(base, {*span, *marks, key})
        picture = by_name(PICTURES, [column for column in self.plain if "timestamp" in self.fits[column]])
        time, unit = (picture, None) if picture else self._time()
        if time is None:
            self._refuse_bad_times()
            key = self._key(())
            return self._finished(replace(base, key=key), {key})
        op = self._op()
        key = self._key({time, op})
        several = not changes_only and (picture is not None or self._dense(time, key, op))
        shape = Shape.PICTURES if several else Shape.CHANGES
        base = replace(
            base, shape=shape, time=time, time_unit=unit, key=key, op=op, before=self.old, after=self.new
        )
        return self._finished(base, {time, op, key})

    def _zoned(self) -> Notation:
        zone = zone_in(self.plain)
        return self.found.notation if zone is None else replace(self.found.notation, time_zone=zone)

    def _versions(self) -> tuple[str, str | None] | None:
        span = validity(self.plain)
        if self.affixed:
            return None
        if span is None:
            begins = version_begin(self.plain)
            known = begins is not None and "timestamp" in self.fits[begins] and self._current() is not None
            return (begins, None) if begins is not None and known else self._touching()
        begins, ends = span
        if "timestamp" not in self.fits[begins] or not (
            "timestamp" in self.fits[ends] or not self.seen[ends].count
        ):
            return None
        if weak_validity(span):
            self.unsure.append(
                f"'{begins}' and '{ends}': read as the time from and to which a row is there. If they mean "
                "something else, run init again with --kind files"
            )
        return span

    def _touching(self) -> tuple[str, str] | None:
        """Two times of which the second is the first of the key's next row: those of versions."""
        times = [
            column
            for column in self.plain
            if "timestamp" in self.fits[column] and self.seen[column].count and not of_birth(column)
        ]
        if self._op() is not None:
            return None
        for begins, ends in permutations(times, 2):
            said = len(self.unsure)
            key = self._key({begins, ends})
            del self.unsure[said:]
            if key is not None and follow(self.first, self.found.notation, begins, ends, key):
                self.unsure.append(
                    f"each '{begins}' is the '{ends}' of the row before it with the same '{key}', so a "
                    "row is read as a version that is there from the one to the other. If a row is a single change, "
                    "run init again with --kind files"
                )
                return begins, ends
        return None

    def _current(self) -> str | None:
        """The column that marks the current version: all its values say whether."""
        marks = [
            column
            for column in self.plain
            if (values := self.seen[column].values) and all(map(says_whether, values))
        ]
        return by_name(CURRENT, marks)

    def _time(self) -> tuple[str | None, str | None]:
        """The column with the time of a change, and its time_unit where it counts from 1970."""
        instants = [
            column for column in self.plain if "timestamp" in self.fits[column] and not of_birth(column)
        ]
        if not self.first.rows:  # only the names say what the columns are
            instants = [column for column in self.plain if like_time(column)]
        known = by_name(TIMES, instants)
        time = (
            known
            or next((column for column in instants if like_time(column)), None)
            or next(iter(instants), None)
        )
        if time is not None:
            if known is None and len(instants) > 1:
                self.unsure.append(
                    f"'{time}' is taken for the time of the change; others may be: {_listed(instants, time)}"
                )
            return time, None
        if (time := self._mostly_time()) is not None:
            return time, None
        numbers = [column for column in self.plain if "integer" in self.fits[column] and like_time(column)]
        for column in [by_name(TIMES, numbers), *numbers]:
            if column is not None and (unit := self._since_1970(column)) is not None:
                self.unsure.append(f"'{column}' is read as {unit} since 1970 (time_unit)")
                return column, unit
        return None, None

    def _mostly_time(self) -> str | None:
        """A column that is named like a time, and most of whose values are times."""
        named = [column for column in self.plain if like_time(column) and has_dates(self.seen[column])]
        for column in named:
            value = self.first.value(column)
            is_time = f"at_instant({self.found.notation.instant(value)}) IS NOT NULL"
            times, count = self.first.ask([f"count_if({is_time})", f"count({value})"])
            if (times or 0) >= 0.9 * count:
                self.unsure.append(
                    f"'{column}': some values are no times; the first run shows the first of them"
                )
                return column
        return None

    def _refuse_bad_times(self) -> None:
        """Raise SourceError if a column is named like a time, and not all of its values are times."""
        for column in self.plain:
            if like_time(column) and has_dates(self.seen[column]):
                value = self.first.value(column)
                bad = f"{value} IS NOT NULL AND at_instant({self.found.notation.instant(value)}) IS NULL"
                (row,) = self.first.ask([f"min(row) FILTER ({bad})"])
                where, line = self.file.place(row)
                raise refusal(
                    f"{where}column {column!r} looks like a time, but this value is no date, or not written "
                    "like the others (some with the day first, some with the month?). Correct it, or "
                    "write all like 2026-01-31",
                    path=self.file.name,
                    line=line,
                )

    def _since_1970(self, column: str) -> str | None:
        value = f"TRY_CAST({self.first.value(column)} AS HUGEINT)"
        low, high = self.first.ask([f"min({value})", f"max({value})"])
        units = (unit for least, most, unit in _SINCE_1970 if low is not None and least <= low <= high < most)
        unit = next(units, None)
        assert unit is None or unit in TIME_UNITS
        return unit

    def _op(self) -> str | None:
        """The column with the operation: all its values are names of operations."""
        said = [
            column
            for column in self.plain
            if (values := self.seen[column].values)
            and {value.strip().lower() for value in values} <= {*OPERATIONS}
        ]
        return by_name(OPS, said)

    def _key(self, others: Collection[str | None]) -> str | None:
        """The column that names the row: by name, then the first that can be one."""
        free = [column for column in self.plain if column not in others]
        if (known := by_name(KEYS, free)) is not None:
            return known
        named = [column for column in free if like_key(column)]
        people = person_columns(free)
        likely = [column for column in named if column not in people] or named or list(people) or free
        if likely and (len(likely) > 1 or not (named or people)):
            self.unsure.append(f"'{likely[0]}' is taken for the key that identifies a row")
        return likely[0] if likely else None

    def _dense(self, time: str, key: str | None, op: str | None) -> bool:
        """Whether nearly every key occurs, once, at nearly every time: several pictures of the table."""
        if key is None or op is not None or self.affixed or not self.first.rows:
            return False
        who, when = self.first.value(key), self.first.value(time)
        rows, keys, dates, pairs = self.first.ask(
            [
                "count(*)",
                f"count(DISTINCT {who})",
                f"count(DISTINCT {when})",
                f"count(DISTINCT ({who}, {when}))",
            ]
        )
        dense = bool(rows == pairs and keys > 1 and dates > 2 and rows >= 0.6 * keys * dates)
        if dense:
            self.unsure.append(
                f"almost every '{key}' occurs at every '{time}', so each time is read as the whole "
                "table. If a row is a single change, run init again with --kind files"
            )
        return dense

    def _inclusive(self, span: tuple[str, str], key: str | None) -> bool:
        """Whether the next version begins a day after the one before it ends: valid_to is its last day."""
        begins, ends = (self.found.notation.value("date", self.first.value(column)) for column in span)
        if key is None or not all("date" in self.fits[one] or not self.seen[one].count for one in span):
            return False
        rows = f"""(SELECT {ends} AS ends, lead({begins}) OVER (
                    PARTITION BY {self.first.value(key)} ORDER BY {begins}) AS following FROM sample)"""
        touching, day_after = self.first.ask(
            ["count_if(following = ends)", "count_if(following = ends + 1)"], rows=rows
        )
        return (day_after or 0) > (touching or 0)

    def _finished(self, found: Suggestion, apart: Collection[str | None]) -> Suggestion:
        """The suggestion with unit, types and groups of the other columns."""
        table = {
            Affix(self.new or "").without(column) if column in self.affixed else column: column
            for column in self.seen
            if column not in apart and not (self.old and Affix(self.old).fits(column))
        }
        text = {name: column for name, column in table.items() if self.file.schema[column] == "VARCHAR"}
        types = {
            name: next((guess for guess in GUESSES if guess in self.fits[column]), "text")
            for name, column in text.items()
        }
        few = {
            name: self.seen[column].values
            for name, column in text.items()
            if types[name] == "text" and len(self.seen[column].values) <= FEW
        }
        numbers = tuple(name for name, column in table.items() if "number" in self.fits[column])
        unit = next(iter(person_columns(table)), None)
        rows = 3 if unit is None or found.key is None else self._rows_of_one(table[unit], found.key)
        whose = found.key if unit is None else table[unit]
        changes = 4 if whose is None else self._changes_of_one(whose, found.shape)
        found = replace(found, unit=unit, max_rows=rows, changes=changes)
        return replace(found, types=types, numbers=numbers, values=few,
                       zoned=self._zoned_times(found), unsure=tuple(self.unsure))  # fmt: skip

    def _changes_of_one(self, whose: str, shape: Shape) -> int:
        """How many changes 99 of 100 units have at most, rounded up; a version may also end."""
        if shape not in (Shape.CHANGES, Shape.VERSIONS):
            return _CHANGES[0]
        who = self.first.value(whose)
        rows = f"(SELECT count(*) AS rows FROM sample WHERE {who} IS NOT NULL GROUP BY {who})"
        (most,) = self.first.ask(["quantile_disc(rows, 0.99)"], rows=rows)
        needed = (most or 0) + (shape is Shape.VERSIONS)
        if needed > _CHANGES[-1]:
            self.unsure.append(
                f"some have more than {_CHANGES[-1]} changes, of which at_most counts the first "
                f"{_CHANGES[-1]}; a larger at_most costs accuracy, a smaller one drops changes"
            )
        return next((size for size in _CHANGES if size >= needed), _CHANGES[-1])

    def _zoned_times(self, found: Suggestion) -> bool:
        column = found.valid_from or found.time
        if column is None or found.time_unit is not None:
            return True
        shapes = self.seen[column].shapes
        return bool(shapes) and all(_ZONED.search(shape) for shape in shapes)

    def _rows_of_one(self, unit: str, key: str) -> int:
        """How many rows 99 of 100 units own at most, rounded up."""
        who, row = self.first.value(unit), self.first.value(key)
        rows = f"(SELECT count(DISTINCT {row}) AS owned FROM sample WHERE {who} IS NOT NULL GROUP BY {who})"
        (most,) = self.first.ask(["quantile_disc(owned, 0.99)"], rows=rows)
        return next((size for size in _ROWS_OF_ONE if size >= (most or 1)), _ROWS_OF_ONE[-1])


def _require_header(file: Tabular) -> None:
    """Raise SourceError if the first line seems to be data.  The message names no column."""
    names = list(file.schema)
    numbers = sum(_NUMBER.fullmatch(name.strip()) is not None for name in names)
    if any(_DATE.match(name.strip()) for name in names) or (numbers and 2 * numbers >= len(names)):
        raise refusal("the first line seems to be data; it must name the columns", path=file.name, line=1)


def _listed(columns: Sequence[str], without: str) -> str:
    return ", ".join(f"'{column}'" for column in columns if column != without)

"""How the text of a file seems to be written: delimiter, decimal sign, thousands, dates."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.source.batch.guess import like_time, plain
from tidegauge.source.files.intact import lines
from tidegauge.source.files.notation import Notation
from tidegauge.source.files.tabular import DELIMITERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegauge.source.files.sample import Sample, Seen

    Formats = tuple[str, ...]
    """The formats of all shapes of a column, in one order of day and month."""

_LINES: Final = 50
_NUMBERS: Final = (
    (",", None),
    (",", "."),
    (".", ","),
    (",", " "),
    (".", "'"),
    (".", " "),
    (",", "'"),
    (".", "’"),
)
"""Decimal sign and thousands sign, tried in this order where a decimal point alone does not do."""
_NUMBER_SHAPE: Final = re.compile("[+-]?[9YTN.,'’ \u00a0\u202f]+")
_GROUPED: Final = re.compile(r"[+-]?(9|T)([.,]T)+")
_CLOCK: Final = (
    r"(?P<gap>, |,| )9:9(?P<seconds>:9(?P<rest>\.[9TYN])?)?(?P<half> ?a)?(?P<zone> ?[+-](?:Y|9:9))?"
)
_DATES: Final = (
    (
        re.compile(rf"9(?P<sign>[./-])9(?P=sign)(?P<year>[Y9])(?:{_CLOCK})?"),
        ("%d{s}%m{s}{y}", "%m{s}%d{s}{y}"),
    ),
    (re.compile(rf"Y(?P<sign>[./])9(?P=sign)9(?:{_CLOCK})?"), ("%Y{s}%m{s}%d",)),
    (
        re.compile(rf"9(?P<sign>[ ./-])a(?P=sign)(?P<year>[Y9])(?:{_CLOCK})?"),
        ("%d{s}%b{s}{y}", "%d{s}%B{s}{y}"),
    ),
    (re.compile(rf"a 9, Y(?:{_CLOCK})?"), ("%b %d, %Y", "%B %d, %Y")),
)
_DAY: Final = re.compile(r"N")
_MOST_FORMATS: Final = 6


@dataclass
class Findings:
    """The notation as far as it is known, and the decisions that were not sure."""

    notation: Notation = field(default_factory=Notation)
    unsure: list[str] = field(default_factory=list)


def delimiter_of(path: Path, name: str) -> str | None:
    """The sign that separates the fields of a csv file; None for the usual one."""
    stem = path.with_name(path.name.removesuffix(".gz"))
    usual = {".csv": ",", ".tsv": "\t"}.get(stem.suffix.lower())
    if usual is None:
        return None
    counts: dict[str, list[int]] = {sign: [] for sign in DELIMITERS}
    for _, line in islice(lines(path, name), _LINES):
        if line.strip("\r\n"):
            outside = "".join(line.split('"')[::2])
            for sign in DELIMITERS:
                counts[sign].append(outside.count(sign))
    header = {sign: found[0] if found else 0 for sign, found in counts.items()}
    if not any(header.values()):
        return None
    same = {sign: sum(one == header[sign] for one in counts[sign]) for sign in DELIMITERS if header[sign]}
    best = max(same, key=lambda sign: (same[sign] * 2 > len(counts[sign]), header[sign]))
    return None if best == usual else best


def look(sample: Sample, seen: Mapping[str, Seen], delimiter: str | None) -> Findings:
    """Find the notation of numbers and dates in the first rows."""
    found = Findings(Notation(delimiter=delimiter))
    text = [column for column in sample.columns if sample.file.schema[column] == "VARCHAR"]
    fits = sample.fits(found.notation, text)
    _numbers(sample, found, seen, [column for column in text if not fits[column]], text)
    _dates(sample, found, seen, [column for column in text if "timestamp" not in fits[column]])
    types = sample.fits(found.notation, text)
    nulls = {word for column in text if types[column] for word in seen[column].nulls}
    found.notation = replace(found.notation, nulls=tuple(sorted(nulls)))
    return found


def _numbers(
    sample: Sample, found: Findings, seen: Mapping[str, Seen], other: Sequence[str], text: Sequence[str]
) -> None:
    """Choose decimal and thousands sign; `other` are the columns that are no numbers with a decimal point."""
    like = [column for column in other if _like(_NUMBER_SHAPE, seen[column])]
    if not like:
        return
    choices = [replace(found.notation, decimal=point, thousands=split) for point, split in _NUMBERS]
    scores = [sum("number" in kinds for kinds in sample.fits(choice, like).values()) for choice in choices]
    if not any(scores):
        return
    best = choices[scores.index(max(scores))]
    grouped = [column for column in like if _like(_GROUPED, seen[column])]
    if grouped and len(grouped) == len(like) and best.thousands is None:
        comma = found.notation.delimiter == ";"
        best = best if comma else replace(best, decimal=".", thousands=",")
        read, otherwise = ("1.234", "one thousand and more") if comma else ("1234", "one and a fraction")
        found.unsure.append(
            f"{_named(grouped)}: 1,234 is read as {read}. If it means {otherwise}, change decimal "
            "and thousands"
        )
    if best.decimal == "," and best.thousands is None:
        dotted = [column for column in text if column not in like and _like(_GROUPED, seen[column])]
        if dotted:
            best = replace(best, thousands=".")
            found.unsure.append(
                f"{_named(dotted)}: 1.234 is read as 1234, because other columns have a decimal comma"
            )
    found.notation = best


def _dates(sample: Sample, found: Findings, seen: Mapping[str, Seen], columns: Sequence[str]) -> None:
    """Choose the formats of dates that are not ISO 8601."""
    choices: dict[str, list[Formats]] = {}
    for column in columns:
        if (by_order := _formats(column, seen[column])) and (fit := _that_fit(sample, column, by_order)):
            choices[column] = fit
    clear = {fit[0] for fit in choices.values() if len(fit) == 1}
    chosen: list[str] = []
    for column, fit in choices.items():
        formats = fit[0]
        if len(fit) > 1:
            day_first = any(one[0].startswith("%d") for one in clear)
            formats = fit[0] if day_first else fit[1]
            if "%m" not in fit[1][0]:  # the name of a month, in short or in full
                formats = fit[0]
            elif not clear:
                formats = _ordered(sample, column, fit) or _guessed(found, column, fit)
        chosen += [form for form in formats if form not in chosen]
    found.notation = replace(found.notation, date_format=tuple(chosen[:_MOST_FORMATS]))


def _formats(column: str, seen: Seen) -> list[Formats]:
    """The formats of all shapes of a column, for each order of day and month; empty if it has no dates."""
    orders: list[list[str]] = [[], []]
    for shape in seen.shapes:
        if _DAY.fullmatch(shape) and like_time(column):
            forms: tuple[str, ...] = ("%Y%m%d",)
        else:
            match = next(((m, forms) for pattern, forms in _DATES if (m := pattern.fullmatch(shape))), None)
            if match is None:
                return []
            forms = tuple(_filled(form, match[0]) for form in match[1])
        for order, form in zip(orders, forms if len(forms) == 2 else forms * 2, strict=True):
            if form not in order:
                order.append(form)
    return [tuple(order) for order in dict.fromkeys(map(tuple, orders)) if order]


def _filled(form: str, match: re.Match[str]) -> str:
    part = match.groupdict()
    text = form.replace("{s}", part.get("sign") or "").replace(
        "{y}", "%Y" if part.get("year") == "Y" else "%y"
    )
    if part.get("gap"):
        text += part["gap"] + ("%I:%M" if part["half"] else "%H:%M") + (":%S" if part["seconds"] else "")
        text += (".%n" if part["rest"] else "") + ((part["half"] or "").replace("a", "%p"))
        text += (part["zone"] or "") and (" %z" if (part["zone"] or "").startswith(" ") else "%z")
    return text


def _that_fit(sample: Sample, column: str, orders: Sequence[Formats]) -> list[Formats]:
    """The orders in which all values of a column are dates between 1900 and 2199, or 9999.

    Of a column that is named like a time, one value in ten may be wrong: the first run says where.
    """
    value = sample.value(column)
    asked = [f"count({value})"]
    for order in orders:
        instant = Notation(date_format=order).instant(value)
        year = f"year(at_instant({instant}))"
        usual = f"coalesce({year} BETWEEN 1900 AND 2199 OR {year} = 9999, FALSE)"
        asked.append(f"count_if({value} IS NOT NULL AND NOT {usual})")
    count, *wrong = (number or 0 for number in sample.ask(asked))
    right = [order for order, bad in zip(orders, wrong, strict=True) if bad == 0]
    if right or not like_time(column) or min(wrong) > count / 10:
        return right
    return [orders[wrong.index(min(wrong))]]


def _ordered(sample: Sample, column: str, fit: Sequence[Formats]) -> Formats | None:
    """The order in which the times of the rows never decrease, if only one does that."""
    value = sample.value(column)
    steps = []
    for order in fit:
        instant = Notation(date_format=order).instant(value)
        back = f"{instant} < lag({instant}) OVER (ORDER BY row)"
        rows = f"(SELECT {back} AS back FROM sample WHERE {value} IS NOT NULL)"
        steps.append(sample.ask(["count_if(back)"], rows=rows)[0])
    rising = [order for order, back in zip(fit, steps, strict=True) if not back]
    return rising[0] if len(rising) == 1 else None


def _guessed(found: Findings, column: str, fit: Sequence[Formats]) -> Formats:
    """The usual order for the signs of this file; not sure."""
    day_first = "." in fit[0][0] or found.notation.decimal == "," or found.notation.delimiter == ";"
    formats = fit[0] if day_first else fit[1]
    other = fit[1] if day_first else fit[0]
    found.unsure.append(
        f"'{column}': day and month cannot be distinguished; dates are read as {formats[0]}. "
        f'If the month comes {"first" if day_first else "second"}, write date_format = "{other[0]}"'
    )
    return formats


def _like(pattern: re.Pattern[str], seen: Seen) -> bool:
    return bool(seen.shapes) and all(pattern.fullmatch(shape) for shape in seen.shapes)


def _named(columns: Sequence[str]) -> str:
    return ", ".join(f"'{column}'" for column in columns)


def has_dates(seen: Seen) -> bool:
    """Whether some values of a column look like dates."""
    patterns = (*(pattern for pattern, _ in _DATES), re.compile("Y-9-9.*"))
    return any(pattern.fullmatch(shape) for shape in seen.shapes for pattern in patterns)


def zone_in(header: Sequence[str]) -> str | None:
    """A time zone that a column's name contains, like 'time (Europe/Berlin)' or time_utc."""
    for column in header:
        if match := re.search(r"\b([A-Z][A-Za-z]+/[A-Z][A-Za-z_]+)\b", column):
            return match[1]
        if plain(column).endswith("_utc"):
            return "UTC"
    return None

"""Values that do not parse: counted for the operator; many of them refuse the first run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegauge.model.source import Check
from tidegauge.source.batch.names import quote
from tidegauge.source.batch.refusal import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidegauge.source.files.notation import Notation

MOST: Final = 0.01
"""The largest share of values that do not parse with which a first run commits its plan."""


@dataclass(frozen=True)
class Unread:
    """How many values of a column do not parse, of how many that are not empty.  For the operator alone."""

    values: int
    of: int

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.values / self.of if self.of else 0.0

    @property
    def percent(self) -> float:
        """The share in percent, rounded to two digits, and never 0 if a value does not parse."""
        return max(0.01, round(100 * self.share, 2)) if self.values else 0.0

    def __add__(self, other: Unread) -> Unread:
        return Unread(self.values + other.values, self.of + other.of)


def require_readable(
    unread: Mapping[str, Unread],
    types: Mapping[str, str],
    notation: Notation,
    where: Callable[[str], tuple[str, str, int | None]],
) -> None:
    """Raise SourceError if more than 1 % of the values of a column do not parse.

    `where` returns the file, words for the row, and the line of the first such value of a column.
    """
    for column, one in unread.items():
        if one.share > MOST:
            path, row, line = where(column)
            raise refusal(
                f"{row}more than 1 % of the values of column {column!r} are not of type {types[column]}; "
                f"this is the first. {_advice(types[column], notation)} `tidegauge doctor` shows the share",
                path=path,
                line=line,
            )


def _advice(kind: str, notation: Notation) -> str:
    if kind in ("date", "timestamp"):
        return f"Expected {notation.example}. Correct date_format, types or nulls under [source]."
    if kind in ("integer", "number", "decimal"):
        return "Correct decimal, thousands, types or nulls under [source]."
    return "Correct types or nulls under [source]."


def unread_check(unread: Mapping[str, Unread], *, first_run: bool) -> Check:
    """What the doctor says of the values that do not parse.  A first run refuses more than 1 % of them."""
    bad = {name: one for name, one in unread.items() if one.values}
    if not bad:
        return Check("types", ok=True, detail="every value is of its declared type")
    shares = ", ".join(f"{one.percent} % of {quote(name)}" for name, one in bad.items())
    too_many = first_run and any(one.share > MOST for one in bad.values())
    limit = "; the first run refuses more than 1 %" if too_many else ""
    return Check(
        "types",
        ok=not too_many,
        detail=f"values that do not parse and count as null (secret, never publish): {shares}{limit}",
    )


def operator_counts(unread: Mapping[str, Unread]) -> dict[str, float]:
    """The entries of `status`: how many values of a column do not parse, and their share."""
    bad = {name: one for name, one in unread.items() if one.values}
    counts: dict[str, float] = {}
    for name, one in bad.items():
        counts[f"values of {name} that do not parse"] = one.values
        counts[f"values of {name} that do not parse, percent"] = one.percent
    return counts

"""How the columns with old and with new values are named: by a prefix, or by a suffix ('*_before')."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_STAR: Final = "*"
_WORDS: Final = (("before", "after"), ("old", "new"))
_PREFIXES: Final = (("before_", "after_"), ("old_", "new_"), ("before.", "after."), ("old.", "new."))


@dataclass(frozen=True)
class Affix:
    """A prefix such as 'before_', or a suffix that begins with a star, such as '*_before'."""

    declared: str

    @property
    def is_suffix(self) -> bool:
        """Whether names end with the affix."""
        return self.declared.startswith(_STAR)

    @property
    def text(self) -> str:
        """The affix without its star."""
        return self.declared.removeprefix(_STAR)

    @property
    def pattern(self) -> str:
        """The affix as the operator reads it, with a star for the column of the table."""
        return self.declared if self.is_suffix else self.declared + _STAR

    def fits(self, column: str) -> bool:
        """Whether a column has the affix; a column may consist of it."""
        return column.endswith(self.text) if self.is_suffix else column.startswith(self.text)

    def without(self, column: str) -> str:
        """The column of the table: the name without the affix."""
        return column.removesuffix(self.text) if self.is_suffix else column.removeprefix(self.text)

    def column(self, name: str) -> str:
        """The column of the file with this column of the table."""
        return name + self.text if self.is_suffix else self.text + name

    def among(self, columns: Collection[str]) -> dict[str, str]:
        """Column of the table -> column of the file, of those that have the affix."""
        return {self.without(one): one for one in columns if self.fits(one) and one != self.text}

    def overlaps(self, other: Affix) -> bool:
        """Whether a column that has one affix always has the other."""
        return self.fits(other.text) or other.fits(self.text)


def affixes(columns: Collection[str]) -> tuple[str | None, str | None]:
    """The affixes of the old and of the new values, as they are declared; None where there are none.

    A suffix counts only in a pair of the same column: 'is_new' and 'years_old' are columns of their own.
    New values may be alone only if they have a prefix.
    """
    for old, new in _PREFIXES:
        if Affix(old).among(columns) and Affix(new).among(columns):
            return old, new
    for old, new in _spelled():
        if not Affix(old).among(columns).keys().isdisjoint(Affix(new).among(columns)):
            return old, new
    return None, next((new for _, new in _PREFIXES if Affix(new).among(columns)), None)


def lone_suffixes(marks: Sequence[Affix], columns: Collection[str]) -> list[str]:
    """A sentence for each column that has one of two suffixes and no partner with the other."""
    found = [mark.among(columns) for mark in marks if mark.is_suffix]
    return [
        f"'{column}' is read as a new or old value of '{name}', because of its ending, "
        "but the other value of "
        "the pair is missing. If it is a column of its own, rename it"
        for one in found
        for name, column in one.items()
        if not all(name in other for other in found)
    ]


def _spelled() -> Iterator[tuple[str, str]]:
    """Pairs of affixes that are taken for such only if both occur with the same column."""
    for pair in _WORDS:
        for words in (pair, tuple(map(str.capitalize, pair)), tuple(map(str.upper, pair))):
            old, new = words
            for sign in ("_", ".", " ", "-"):
                yield f"*{sign}{old}", f"*{sign}{new}"
                yield f"{old}{sign}", f"{new}{sign}"
        old, new = map(str.capitalize, pair)
        yield f"*{old}", f"*{new}"

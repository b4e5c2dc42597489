"""The first rows of a file in a scratch engine, and what types their text fits."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidegauge.source.batch.names import literal
from tidegauge.source.batch.workbench import scratch
from tidegauge.source.files.notation import MACROS, Notation
from tidegauge.source.files.tabular import numbered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb
    import pyarrow as pa

    from tidegauge.source.files.tabular import Tabular

ROWS: Final = 10_000
FEW: Final = 20
"""Values that are listed as groups at most."""
NULLS: Final = ("NA", "N/A", "n/a", "na", "#N/A", "NULL", "null", "None", "none", "nan", "-", "?", ".", "\\N")
"""Words that mean an empty value in exports of common programs."""
GUESSES: Final = ("integer", "number", "date", "timestamp", "boolean")
"""In the order in which they are tried: 0 is an integer, no boolean; a day is a date, no timestamp."""
_SHAPE: Final = (
    ("[A-Za-z]+", "a"),
    ("[0-9]{5,}", "N"),
    ("[0-9]{4}", "Y"),
    ("[0-9]{3}", "T"),
    ("[0-9]{1,2}", "9"),
)
_SHAPES: Final = 30


@dataclass(frozen=True)
class Seen:
    """A column in the sample."""

    count: int
    """Values that are there."""
    distinct: int
    values: tuple[str, ...]
    """The distinct values in their order, one more than FEW at most."""
    shapes: tuple[str, ...]
    """The values with digits and letters replaced: 31.01.2026 has the shape 9.9.Y."""
    nulls: tuple[str, ...]
    """Those of NULLS that occur."""


class Sample:
    """The first rows of a file as the table `sample`: text c0, c1, ..., and v_c0, v_c1, ... without NULLS."""

    def __init__(self, engine: duckdb.DuckDBPyConnection, file: Tabular, block: pa.Table | None) -> None:
        self.engine, self.file, self.block = engine, file, block
        self.columns = list(file.schema)
        names = [f"c{place}" for place in range(len(self.columns))]
        if block is None:
            listed = "".join(f", {name} VARCHAR, v_{name} VARCHAR" for name in names)
            engine.execute(f"CREATE TABLE sample (row BIGINT{listed})")
        else:
            engine.register("block", block)
            words = ", ".join(map(literal, NULLS))
            texts = "".join(f", nullif(trim(CAST({name} AS VARCHAR)), '') AS {name}" for name in names)
            values = "".join(
                f", CASE WHEN {name} NOT IN ({words}) THEN {name} END AS v_{name}" for name in names
            )
            rows = f"SELECT row{texts} FROM ({file.select(self.columns)}) WHERE sound"
            engine.execute(f"CREATE TABLE sample AS SELECT *{values} FROM ({rows})")

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return int(self.ask(["count(*)"])[0])

    def text(self, column: str) -> str:
        """SQL: the text of a column."""
        return f"c{self.columns.index(column)}"

    def value(self, column: str) -> str:
        """SQL: the text of a column; null also for words that mean so."""
        return f"v_{self.text(column)}"

    def ask(self, expressions: Sequence[str], *, rows: str = "sample") -> list[Any]:
        """The values of aggregate expressions over the rows."""
        if not expressions:
            return []
        return list(self.engine.execute(f"SELECT {', '.join(expressions)} FROM {rows}").fetchall()[0])

    def seen(self) -> dict[str, Seen]:
        """Every column, looked at."""
        asked = []
        for column in self.columns:
            text, value = self.text(column), self.value(column)
            shape = text
            for pattern, sign in _SHAPE:
                shape = f"regexp_replace({shape}, '{pattern}', '{sign}', 'g')"
            words = ", ".join(map(literal, NULLS))
            asked += [
                f"count({value})",
                f"count(DISTINCT {value})",
                f"list_sort(list(DISTINCT {value}) FILTER ({value} IS NOT NULL))[1:{FEW + 1}]",
                f"list(DISTINCT {shape}) FILTER ({value} IS NOT NULL)",
                f"list_sort(list(DISTINCT {text}) FILTER ({text} IN ({words})))",
            ]
        found = self.ask(asked)
        return {
            column: Seen(
                count,
                distinct,
                tuple(values or ()),
                tuple(sorted(shapes or ())[:_SHAPES]),
                tuple(nulls or ()),
            )
            for column, (count, distinct, values, shapes, nulls) in zip(
                self.columns, zip(*[iter(found)] * 5, strict=True), strict=True
            )
        }

    def fits(self, notation: Notation, columns: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """For each column, the types that all its values have in this notation."""
        asked = [self._fit(kind, column, notation) for column in columns for kind in GUESSES]
        answers = iter(self.ask(asked))
        return {column: frozenset(kind for kind in GUESSES if next(answers)) for column in columns}

    def _fit(self, kind: str, column: str, notation: Notation) -> str:
        value = self.value(column)
        bad = f"{value} IS NOT NULL AND {notation.value(kind, value)} IS NULL"
        fit = f"count({value}) > 0 AND count_if({bad}) = 0"
        if kind in ("integer", "number"):
            fit += f" AND count_if(regexp_matches({value}, '^[+-]?0[0-9]')) = 0"  # 007 is a name
        if kind == "boolean":
            fit += f" AND count_if(lower({value}) NOT IN ('true', 'false')) = 0"
        if kind == "date":
            fit += f" AND count_if({value} LIKE '%:%') = 0"
        return fit


@contextmanager
def sample(file: Tabular) -> Iterator[Sample]:
    """Read the first rows of a file."""
    block = next(numbered(file), None)
    with scratch(MACROS) as engine:
        yield Sample(engine, file, None if block is None else block.slice(0, ROWS))

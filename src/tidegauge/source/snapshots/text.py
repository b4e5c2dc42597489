"""A table in csv or jsonl files that is read whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.errors import SpecError
from tidegauge.source.batch.names import no_column
from tidegauge.source.batch.refusal import refusal
from tidegauge.source.batch.values import arrow_type
from tidegauge.source.batch.workbench import scratch
from tidegauge.source.files.notation import MACROS, SQL_TYPES, Notation
from tidegauge.source.files.source import matching
from tidegauge.source.files.tabular import NO_OBJECT, numbered, tabular
from tidegauge.source.files.unread import Unread, require_readable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb
    import pyarrow as pa

    from tidegauge.source.files.tabular import Tabular


@dataclass(frozen=True)
class Cell:
    """A column that is scanned: its name in SQL, the type that was asked for, and the SQL of its value."""

    place: str
    kind: str
    value: str


class TextReader:
    """A table in one file or in the files that a glob names; `types` and `notation` say how text is read."""

    def __init__(
        self,
        path: str,
        table: str,
        *,
        types: Mapping[str, str] | None = None,
        notation: Notation | None = None,
        base: Path | None = None,
    ) -> None:
        self._path, self._base = path, base or Path()
        self.table = table
        self._types, self._notation = dict(types or {}), notation or Notation()
        for name, kind in self._types.items():
            if kind not in SQL_TYPES:
                raise SpecError(f"must be one of {', '.join(SQL_TYPES)}", key=f"source.types.{name}")
        self._unread: dict[str, Unread] = {}
        self._first: dict[str, tuple[str, str, int | None]] = {}

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns of the first file, with the declared types; others are text."""
        found = self._files()[0].schema
        if missing := [name for name in self._types if name not in found]:
            raise SpecError(no_column(self.table, missing, found), key="source.types")
        return {
            name: SQL_TYPES[self._types[name]] if name in self._types else kind or "VARCHAR"
            for name, kind in found.items()
        }

    @property
    def unread(self) -> Mapping[str, Unread]:
        """The values that did not parse in the last scan, by column."""
        return self._unread

    def require_readable(self) -> None:
        """Raise SourceError if more than 1 % of the values of a column with a declared type do not parse."""
        if not self._types:
            return
        for _ in self.scan([], {name: SQL_TYPES[kind] for name, kind in self._types.items()}):
            pass
        require_readable(self._unread, self._types, self._notation, self._first.__getitem__)

    def delimiter_hint(self) -> str | None:
        """What to declare if another sign seems to separate the columns."""
        sign = self._files()[0].other_delimiter
        return None if sign is None else f"The columns seem to be separated by {sign!r}: declare delimiter."

    def scan(self, text: Sequence[str], typed: Mapping[str, str]) -> Iterator[list[pa.Array]]:
        """All rows.  Raises SourceError for a line that is no row, and for a time that is none."""
        self._unread = {name: Unread(0, 0) for name in typed if name in self._types}
        self._first = {}
        wanted = [*text, *typed]
        with scratch(MACROS) as engine:
            for file in self._files():
                if missing := [name for name in wanted if name not in file.schema and not file.loose]:
                    raise refusal(f"column {missing[0]!r} is missing; all files need it", path=file.name)
                cells = [
                    Cell(f"c{place}", "VARCHAR", f"CAST(c{place} AS VARCHAR)") for place in range(len(text))
                ]
                for place, (name, kind) in enumerate(typed.items(), start=len(text)):
                    cells.append(Cell(f"c{place}", kind, self._value(file, name, kind, f"c{place}")))
                values = ", ".join(f"CAST({cell.value} AS {cell.kind}) AS v_{cell.place}" for cell in cells)
                checked = dict(zip(typed, cells[len(text) :], strict=True))
                for block in numbered(file):
                    engine.register("block", block)
                    engine.execute(f"CREATE OR REPLACE TEMP TABLE picked AS {file.select(wanted)}")
                    self._check(engine, file, checked)
                    rows = engine.sql(f"SELECT {values} FROM picked ORDER BY row").to_arrow_table()
                    for batch in rows.to_batches():
                        columns = zip(batch.columns, cells, strict=True)
                        yield [column.cast(arrow_type(cell.kind)) for column, cell in columns]

    def _files(self) -> list[Tabular]:
        names = matching(self._path, self._base)
        return [tabular(self._base / name, name, self._notation) for name in names]

    def _value(self, file: Tabular, name: str, kind: str, place: str) -> str:
        """SQL: the value of a column in this type."""
        text = f"CAST({place} AS VARCHAR)"
        if name in self._types:
            return self._notation.value(self._types[name], text)
        if kind == "TIMESTAMP" and file.schema.get(name, "VARCHAR") == "VARCHAR":
            return self._notation.value("timestamp", text)
        return f"TRY_CAST({place} AS {kind})"

    def _check(self, engine: duckdb.DuckDBPyConnection, file: Tabular, typed: Mapping[str, Cell]) -> None:
        """Refuse lines that are no rows and times that are none; count other values that do not parse."""
        asked = ["min(row) FILTER (NOT sound)"]
        for cell in typed.values():
            empty = self._notation.is_empty(f"CAST({cell.place} AS VARCHAR)")
            wrong = f"NOT {empty} AND {cell.value} IS NULL"
            asked += [f"count_if({wrong})", f"count({cell.place})", f"min(row) FILTER ({wrong})"]
        not_sound, *counts = engine.execute(f"SELECT {', '.join(asked)} FROM picked").fetchall()[0]
        if not_sound is not None:
            where, line = file.place(not_sound)
            raise refusal(where + NO_OBJECT, path=file.name, line=line)
        for place, name in enumerate(typed):
            number, of, row = counts[3 * place : 3 * place + 3]
            if row is not None and name not in self._types:
                where, line = file.place(row)
                raise refusal(
                    f"{where}column {name!r} does not contain a time; expected {self._notation.example}; for "
                    "another notation declare date_format, or nulls for words that mean an empty value",
                    path=file.name,
                    line=line,
                )
            if row is not None:
                self._first.setdefault(name, (file.name, *file.place(row)))
            if name in self._unread:
                self._unread[name] += Unread(number or 0, of)

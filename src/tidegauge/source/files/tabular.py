"""One file of rows, read in blocks: csv, jsonl or parquet, each also gzipped."""

from __future__ import annotations

import csv
import json
import re
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from tidegauge.model.quoting import literal
from tidegauge.model.stamp import MARK
from tidegauge.scratch import temporary_folder
from tidegauge.source.batch.refusal import refusal
from tidegauge.source.batch.workbench import sql_types
from tidegauge.source.files.advice import bad_bytes, ending
from tidegauge.source.files.intact import BLOCK, BOM, TOO_LONG, Blemish, Guard, lines, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tidegauge.source.files.notation import Notation

_BOM: Final = BOM.decode("latin-1")
_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_SEPARATOR: Final = "\x01"
"""Forbidden in JSON: to the parser of delimited text, a whole line is then one field."""
NO_OBJECT: Final = "the line is not a JSON object with distinct keys"
_STAMPED: Final = (
    "this is a stamped changelog, not a changelog. Name the changelog that it was stamped from; a first run "
    "takes the stamped folder with: tidegauge run --stamped FOLDER"
)
_HEAD_LINES: Final = 1000
DELIMITERS: Final = (",", ";", "\t", "|")
_PARQUET_ROWS: Final = 1 << 17


class Selectable(Protocol):
    """Rows with named columns, which SQL can select."""

    @property
    def name(self) -> str:
        """The path as the user wrote it."""
        ...

    @property
    def schema(self) -> Mapping[str, str | None]:
        """Column -> its type in SQL; None if SQL has no such type."""
        ...

    @property
    def loose(self) -> bool:
        """Whether each row has its own columns, so that a column cannot be missing."""
        ...

    def select(self, columns: Sequence[str]) -> str:
        """SQL: `row`, these columns as c0, c1, ..., `sound`: whether it is a row."""
        ...

    @property
    def other_delimiter(self) -> str | None:
        """The sign that seems to separate the fields of the header, if it is not the declared one."""
        ...


class Tabular(Selectable, Protocol):
    """A file whose rows are numbered from 0; the numbers do not change when the file grows.

    `select` reads a numbered block.
    """

    def blocks(self) -> Iterator[pa.Table]:
        """Yield all rows in order; the columns are named by their place in the file: f0, f1, ..."""
        ...

    def place(self, row: int) -> tuple[str, int | None]:
        """Where a row is: words for it if the file has no lines, and its line if it has."""
        ...


def tabular(path: Path, name: str, notation: Notation) -> Tabular:
    """Choose the reader by the file's name."""
    match path.with_name(path.name.removesuffix(".gz")).suffix.lower():
        case ".csv":
            return Csv(path, name, notation.delimiter or ",")
        case ".tsv":
            return Csv(path, name, notation.delimiter or "\t")
        case ".jsonl" | ".ndjson":
            return JsonLines(path, name)
        case ".parquet":
            return Parquet(path, name, notation.time_zone)
    raise refusal(ending(path.name), path=name)


def numbered(file: Tabular) -> Iterator[pa.Table]:
    """Yield the file's blocks with the column `row`."""
    start = 0
    for block in file.blocks():
        yield block.append_column("row", pa.array(np.arange(start, start + len(block), dtype=np.int64)))
        start += len(block)


@dataclass(frozen=True)
class Csv:
    """RFC 4180 with a header, read strictly; every value is text, and an empty one is null."""

    path: Path
    name: str
    delimiter: str
    loose = False

    @property
    def schema(self) -> Mapping[str, str | None]:
        """The header's names."""
        return dict.fromkeys(self._header[0], "VARCHAR")

    @property
    def other_delimiter(self) -> str | None:
        """Another sign that occurs in the header more often than the declared one."""
        header = next(self._records(), (0, ""))[1]
        signs = {sign: header.count(sign) for sign in DELIMITERS if sign != self.delimiter}
        likely = max(signs, key=lambda sign: signs[sign])
        return likely if signs[likely] > header.count(self.delimiter) else None

    def blocks(self) -> Iterator[pa.Table]:
        """Parse the rows after the header."""
        names, header_bytes = self._header
        with unpacked(self.path, self.name) as stream:
            stream.read(header_bytes)
            guard = Guard(stream, forbidden=b"\0", delimiter=self.delimiter)
            try:
                yield from _delimited(guard, len(names), self.delimiter, quote='"')
            except (Blemish, pa.ArrowException):
                self._diagnose()

    def select(self, columns: Sequence[str]) -> str:
        """The columns by their place in the header."""
        return _picked(self._header[0], columns)

    def place(self, row: int) -> tuple[str, int | None]:
        """The line of a row, counted from the start: a field in quotes may span lines."""
        behind_header = islice(self._records(), 1 + row, None)
        return "", next((line for line, _ in behind_header), None)

    @cached_property
    def _header(self) -> tuple[list[str], int]:
        line, record = next(self._records(), (0, ""))
        if line == 0:
            raise refusal("the file is empty; its first line must name the columns", path=self.name)
        if line > 1:
            raise refusal("the first line must name the columns, and it is empty", path=self.name, line=1)
        if self._fault(record.removeprefix(_BOM)):
            self._diagnose()
        text = record.removeprefix(_BOM).encode("latin-1").decode()
        try:
            names = next(csv.reader([text], delimiter=self.delimiter, strict=True))
        except csv.Error:
            raise refusal("a column's name is too long", path=self.name, line=1) from None
        _distinct(names, self.name)
        return names, len(record)

    def _records(self) -> Iterator[tuple[int, str]]:
        """Yield each record with the number of its first line; an open quote ends with the file."""
        parts: list[str] = []
        start, size, inside = 0, 0, False
        for number, line in lines(self.path, self.name):
            if not parts:
                if not line.strip("\r\n"):
                    continue
                start, size = number, 0
            parts.append(line)
            size += len(line)
            inside ^= line.count('"') % 2 == 1
            if not inside or size > BLOCK:
                yield start, "".join(parts)
                parts, inside = [], False
        if parts:
            yield start, "".join(parts)

    def _diagnose(self) -> NoReturn:
        """Raise SourceError for the first record that a strict parser refuses."""
        width = None
        for line, record in self._records():
            text = record.removeprefix(_BOM) if line == 1 else record
            if fault := self._fault(text):
                message, offset = fault
                raise refusal(message, path=self.name, line=line + len(_NEWLINE.findall(text[:offset])))
            fields = 1 + sum(part.count(self.delimiter) for part in text.split('"')[::2])
            width = fields if width is None else width
            if fields != width:
                raise refusal(
                    f"the row has {fields} fields, the header {width}; a field that contains "
                    f"{self.delimiter!r} needs quotes around it",
                    path=self.name,
                    line=line,
                )
        raise refusal("the file cannot be read as csv, or changed while it was read", path=self.name)

    def _fault(self, record: str) -> tuple[str, int] | None:
        """What is wrong in one record, and at which of its characters."""
        if len(record) > BLOCK:
            return f"the row {TOO_LONG}, or a quote is not closed", 0
        if fault := bad_bytes(record, "\0"):
            return fault
        sign = re.escape(self.delimiter)
        field = rf'(?:"(?:[^"]|"")*"|[^"\r\n{sign}]*)'
        if not re.fullmatch(rf"{field}(?:{sign}{field})*", record.rstrip("\r\n")):
            return "a quote is not closed, not doubled, or not at the start of its field", 0
        return None


@dataclass(frozen=True)
class JsonLines:
    """One object a line; blank lines are skipped, but numbered."""

    path: Path
    name: str
    loose = True
    other_delimiter = None

    @cached_property
    def schema(self) -> Mapping[str, str | None]:
        """The keys of the first lines; a column that occurs only later must be declared."""
        found: dict[str, str | None] = {}
        unread = None
        for number, line in islice(lines(self.path, self.name), _HEAD_LINES):
            if line.strip():
                keys = _keys(line.removeprefix(_BOM))
                found |= dict.fromkeys(keys or (), "VARCHAR")
                unread = number if keys is None and unread is None else unread
        if unread is not None and not found:
            self._diagnose(unread)
        return found

    def blocks(self) -> Iterator[pa.Table]:
        """Yield the lines as text; SQL parses them."""
        with unpacked(self.path, self.name) as stream:
            guard = Guard(stream, forbidden=b"\0" + _SEPARATOR.encode())
            try:
                yield from _delimited(guard, 1, _SEPARATOR, quote=False)
            except (Blemish, pa.ArrowException):
                self._diagnose()

    def select(self, columns: Sequence[str]) -> str:
        """Parse each object once."""
        pointers = ["/" + column.replace("~", "~0").replace("/", "~1") for column in columns]
        literals = ", ".join(map(literal, pointers))
        values = ", ".join(f"v[{place + 1}] AS c{place}" for place in range(len(columns)))
        return f"""SELECT row, sound, {values} FROM (
            SELECT row, json_extract_string(line, [{literals}]) AS v,
                coalesce(json_type(line) = 'OBJECT'
                    AND len(json_keys(line)) = len(list_distinct(json_keys(line))), FALSE) AS sound
            FROM (SELECT row, TRY_CAST(f0 AS JSON) AS line FROM block WHERE trim(f0) <> ''))"""

    def place(self, row: int) -> tuple[str, int | None]:
        """A row is a line."""
        return "", row + 1

    def _diagnose(self, suspect: int | None = None) -> NoReturn:
        for number, line in lines(self.path, self.name):
            if fault := bad_bytes(line, "\0" + _SEPARATOR):
                raise refusal(fault[0], path=self.name, line=number)
        if suspect is not None:
            raise refusal(NO_OBJECT, path=self.name, line=suspect)
        raise refusal("the file cannot be read as lines, or changed while it was read", path=self.name)


@dataclass(frozen=True)
class Parquet:
    """Columns with types of their own; `time_zone` is the zone of timestamps that have none."""

    path: Path
    name: str
    time_zone: str | None = None
    loose = False
    other_delimiter = None

    @cached_property
    def schema(self) -> Mapping[str, str | None]:
        """The columns and types of the file."""
        with self._open() as file:
            arrow = file.schema_arrow
        if MARK in (arrow.metadata or {}):
            raise refusal(_STAMPED, path=self.name)
        _distinct(arrow.names, self.name)
        return sql_types(arrow)

    def blocks(self) -> Iterator[pa.Table]:
        """Yield row group by row group."""
        with self._open() as file:
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                batch.validate(full=True)
                columns = [_in_utc(column, self.time_zone) for column in batch.columns]
                yield pa.table(columns, _places(batch.num_columns))

    def select(self, columns: Sequence[str]) -> str:
        """The columns by their place in the file."""
        return _picked(list(self.schema), columns)

    def place(self, row: int) -> tuple[str, int | None]:
        """The number of the row, from 1: the file has no lines."""
        return f"row {row + 1}: ", None

    @contextmanager
    def _open(self) -> Iterator[pa_parquet.ParquetFile]:
        with (
            unpacked(self.path, self.name) as stream,
            tempfile.TemporaryFile(dir=temporary_folder()) as seekable,
        ):
            if self.path.suffix == ".gz":
                shutil.copyfileobj(stream, seekable, BLOCK)
            try:
                with pa_parquet.ParquetFile(
                    seekable if self.path.suffix == ".gz" else stream,
                    coerce_int96_timestamp_unit="us",  # as the engine reads it: nanoseconds end in 2262
                ) as file:
                    yield file
            except (pa.ArrowException, OSError, ValueError):
                raise refusal("the file is not an intact parquet file", path=self.name) from None


def _delimited(guard: Guard, width: int, delimiter: str, *, quote: str | bool) -> Iterator[pa.Table]:
    if guard.exhausted:
        return
    names = _places(width)
    reader = pa_csv.open_csv(
        guard,
        read_options=pa_csv.ReadOptions(column_names=names, block_size=BLOCK),
        parse_options=pa_csv.ParseOptions(
            delimiter=delimiter,
            quote_char=quote,
            newlines_in_values=bool(quote),
            ignore_empty_lines=bool(quote),
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )
    for batch in reader:
        yield pa.Table.from_batches([batch])


def _in_utc(column: pa.Array, zone: str | None) -> pa.Array:
    """Timestamps without a zone, in UTC: inside a file, an instant with a zone is stored in UTC."""
    if not pa.types.is_timestamp(column.type):
        return column
    if zone is not None and column.type.tz is None:
        column = pc.assume_timezone(column, zone, ambiguous="latest", nonexistent="latest")
    return column.view(pa.timestamp(column.type.unit))


def _places(width: int) -> list[str]:
    return [f"f{place}" for place in range(width)]


def _picked(names: Sequence[str], columns: Sequence[str]) -> str:
    picked = ", ".join(f"f{names.index(column)} AS c{place}" for place, column in enumerate(columns))
    return f"SELECT row, TRUE AS sound, {picked} FROM block"


def _keys(line: str) -> list[str] | None:
    """The keys of an object that can name a column; None if the line is no object."""
    try:
        row = json.loads(line.encode("latin-1").decode())
        "".join(row).encode()
    except (RecursionError, TypeError, ValueError):
        return None
    return [key for key in row if key and "\0" not in key] if isinstance(row, dict) else None


def _distinct(names: Sequence[str], path: str) -> None:
    for place, name in enumerate(names):
        if not name or "\0" in name:
            raise refusal(f"column {place + 1} has no name; write one in the first line", path=path)
        if name in names[:place]:
            raise refusal(f"two columns are named {name!r}; rename one of them in the first line", path=path)

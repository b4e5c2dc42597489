"""The history of a table in files: parquet files are read in place, other files as they were loaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from tidegauge.content import content_of
from tidegauge.model.history import LastingHistory
from tidegauge.source.batch.names import literal, quote
from tidegauge.source.batch.refusal import refusal
from tidegauge.source.files.tabular import Parquet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from tidegauge.source.files.tabular import Tabular

_BLOCK: Final = 1 << 20
"""So many changes are handed over at a time."""
_IN_UTC: Final = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMP", "TIMESTAMPTZ_NS": "TIMESTAMP_NS"}
"""Instants as `blocks` has them: without a zone, in UTC."""


@dataclass(frozen=True)
class InPlace:
    """Parquet files with the same columns, as one table that the embedded engine reads by itself."""

    files: tuple[Parquet, ...]
    name: str
    schema: Mapping[str, str | None]
    kinds: Mapping[str, str]
    """The columns and types as the engine reads them."""
    loose = False
    other_delimiter = None

    @classmethod
    def of(cls, files: Sequence[Tabular], engine: duckdb.DuckDBPyConnection) -> InPlace | None:
        """The files as one table; None where the engine would not read every column as `blocks` does."""
        parquet = tuple(file for file in files if isinstance(file, Parquet))
        if len(parquet) < len(files) or any(one.path.suffix == ".gz" or one.time_zone for one in parquet):
            return None
        try:
            first, *others = (_kinds(one, engine) for one in parquet)
        except duckdb.Error:
            return None
        schema = {name: "TIMESTAMP" if kind.startswith("TIMESTAMP") else kind for name, kind in first.items()}
        if any(dict(one.schema) != schema for one in parquet) or any(kinds != first for kinds in others):
            return None
        return cls(parquet, parquet[0].name, parquet[0].schema, first)

    def select(self, columns: Sequence[str]) -> str:
        """The columns by their names; the rows of all files, one file after the other."""
        picked = ", ".join(f"{self._value(column)} AS c{place}" for place, column in enumerate(columns))
        return f"SELECT NULL AS row, TRUE AS sound, {picked} FROM {_read(self.files)}"

    def _value(self, column: str) -> str:
        """SQL: a column, the same as in `blocks`: a key or a unit has the same text in every run."""
        plain = _IN_UTC.get(self.kinds[column])
        return quote(column) if plain is None else f"CAST({quote(column)} AS {plain})"

    def counts(self) -> dict[str, int]:
        """The number of rows of each file."""
        return {file.name: int(pa_parquet.read_metadata(file.path).num_rows) for file in self.files}

    @property
    def paths(self) -> str:
        """SQL: the list of the files."""
        return _paths(self.files)

    def require_readable(self) -> None:
        """Read everything as blocks.  Raises SourceError if a file is damaged."""
        for file in self.files:
            for _ in file.blocks():
                pass

    @property
    def identity(self) -> tuple[tuple[int, ...], ...]:
        """What differs once a file was replaced or written to."""
        return tuple(_identity(file.path, file.name) for file in self.files)


@dataclass(frozen=True)
class FilesHistory(LastingHistory):
    """The changes of a relation: SQL with the columns of a change, and `key`."""

    engine: duckdb.DuckDBPyConnection
    relation: str
    order: str
    """SQL: how the changes are ordered; empty: as the relation gives them."""
    key: str
    owner: str
    upto: int
    position: str
    rows: int
    informed: bool
    unchanged: Callable[[], None]
    readable: Callable[[], None]
    """Raises SourceError if a file is damaged."""
    ordered: Callable[[], Iterator[pa.Table]]
    held: ExitStack
    hashed: Callable[[str], str | None]
    """A hash of the files and of a text; None: one of them has changed since it was read."""
    again: Callable[[int], FilesHistory]
    """The same history up to another instant."""

    @cached_property
    def after(self) -> pa.DataType:
        """The Arrow type of new rows."""
        return self.engine.sql(f"SELECT after FROM ({self.relation}) LIMIT 0").to_arrow_table().schema[0].type

    def scan(self, columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """Every change, in blocks."""
        self.intact()
        picked = ", ".join(f"{expression} AS {quote(name)}" for name, expression in columns.items())
        try:
            found = self.engine.sql(
                f"SELECT {picked} FROM ({self.relation}) WHERE time <= {self.upto} {self.order}"
            )
            yield from found.to_arrow_reader(_BLOCK)
        except (duckdb.Error, pa.ArrowException, OSError):  # an error of the engine after the first block
            self.intact()
            self.readable()
            raise
        self.intact()

    def batches(self) -> Iterator[pa.Table]:
        """Every change in the order of time."""
        return self.ordered()

    @cached_property
    def _fingerprint(self) -> str | None:
        return self.hashed(f"{self.key} {self.informed} {self.relation} {self.order}")

    def intact(self) -> None:
        """Raise SourceError if the files have changed since the history began."""
        self.unchanged()

    def fingerprint(self) -> str | None:
        """A hash of the files' content and of how they are read."""
        return self._fingerprint

    def until(self, upto: int) -> FilesHistory:
        """The same history up to an earlier instant."""
        return self.again(upto)

    def close(self) -> None:
        """Remove the rows that were loaded."""
        self.held.close()


def unchanged(table: InPlace) -> Callable[[], None]:
    """A check that raises SourceError once one of the files was replaced or written to."""
    known = table.identity

    def require() -> None:
        if table.identity != known:
            raise refusal("the files changed while they were read; run again", path=table.name)

    return require


@dataclass(frozen=True)
class Originals:
    """Files as they were before they were read."""

    known: Mapping[str, tuple[Path, tuple[int, ...]]]

    @classmethod
    def of(cls, files: Sequence[Tabular], base: Path) -> Originals:
        """The files as they are now; their names are relative to `base`."""
        paths = {file.name: base / file.name for file in files}
        return cls({name: (path, _present(path, name)) for name, path in paths.items()})

    def hashed(self, how: str) -> str | None:
        """A hash of names, contents and `how` they are read; None: one of the files has changed."""
        found = [how, *(f"{name} {content_of(path)}" for name, (path, _) in self.known.items())]
        if any(_present(path, name) != present for name, (path, present) in self.known.items()):
            return None
        return sha256("\n".join(found).encode()).hexdigest()


def _present(path: Path, name: str) -> tuple[int, ...]:
    """As `_identity`, with the time of the last change of any kind, which no program can set."""
    return *_identity(path, name), path.stat().st_ctime_ns


def _kinds(file: Parquet, engine: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The columns and types of a file as the engine reads them."""
    columns = engine.execute(f"DESCRIBE FROM {_read([file])}").fetchall()
    return {name: kind for name, kind, *_ in columns}


def _read(files: Sequence[Parquet]) -> str:
    """SQL: the rows of these files.  A folder `ward=a` around them says nothing about a column `ward`."""
    return f"read_parquet({_paths(files)}, hive_partitioning = false)"


def _paths(files: Sequence[Parquet]) -> str:
    """SQL: a list of paths in which no character is a wildcard."""
    return f"[{', '.join(literal(_escaped(str(file.path))) for file in files)}]"


def _escaped(path: str) -> str:
    """The path as a pattern that matches nothing else."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in path)


def _identity(path: Path, name: str) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        raise refusal("the file is gone; put it back", path=name) from None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

"""Changelogs in files: csv, jsonl and parquet, gzipped or not, one file or a glob.

A position is a list of marks.  A mark {"files": {name: rows}, "upto": time} covers the first `rows` rows of each file
as far as their time is not after `upto`; a row is still to come unless a mark covers it.  So rows may be unsorted,
files may grow, and a row that comes with an old time is delivered late.
"""

from __future__ import annotations

import glob
import json
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidegauge.errors import SpecError
from tidegauge.model.mutation import Batch
from tidegauge.model.source import Check, OpenSource
from tidegauge.source.batch.names import quote
from tidegauge.source.batch.position import position_of
from tidegauge.source.batch.refusal import refusal
from tidegauge.source.batch.workbench import scratch
from tidegauge.source.files.layout import Layout, Roles
from tidegauge.source.files.tabular import numbered, tabular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb

    from tidegauge.source.files.tabular import Tabular

BATCH_ROWS: Final = 200_000


class Mark(NamedTuple):
    """The first rows of each file, as far as they are not after an instant."""

    files: Mapping[str, int]
    upto: int


class Files(OpenSource):
    """A table's changelog in files."""

    def __init__(
        self,
        path: str,
        *,
        time: str,
        entry: str,
        table: str | None = None,
        unit: str | None = None,
        before: str | None = None,
        after: str | None = None,
        op: str | None = None,
        types: Mapping[str, str] | None = None,
        time_unit: str | None = None,
        base: Path | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        self._path, self._base, self._batch_rows = path, base or Path(), batch_rows
        self._table = table or _stem(path)
        self._roles = Roles(
            time=time,
            entry=entry,
            unit=unit,
            before=before,
            after=after or "",
            op=op,
            types=dict(types or {}),
            time_unit=time_unit,
        )

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        return self._table

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns of the first file, prefixes taken off, with the types that were declared."""
        return {each.name: each.sql for each in self._layout.fields}

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Look at all rows, then deliver those to come by (time, file, row); see the module for `position`."""
        marks = _marks(position)
        with scratch() as engine:
            rows = self._load(engine, marks, until)
            yield from self._deliver(engine, marks, until, rows)

    def rehearse(self) -> None:
        """Look at all rows of all files, and refuse what `read` would refuse."""
        files = self._files()
        with scratch() as engine:
            engine.execute("CREATE TABLE mutation (file INTEGER, row BIGINT, fault INTEGER)")
            for place, file in enumerate(files):
                self._layout.check(file)
                faulty = f"SELECT {place}, row, fault FROM ({self._layout.mutations(file)}) WHERE fault <> 0"
                for block in numbered(file):
                    engine.register("block", block)
                    engine.execute(f"INSERT INTO mutation {faulty}")
            self._refuse_faults(engine, files)

    def doctor(self, position: str | None = None) -> list[Check]:
        """Whether the files can be read, and in which columns some values are not of their declared type."""
        checks = super().doctor(position)
        if not self._roles.types:
            return checks
        wrong = ", ".join(quote(name) for name, count in self.misfits().items() if count)
        detail = f"some values of {wrong} are not of the declared type and count as null" if wrong else (
            "every value is of its declared type"
        )  # fmt: skip
        return [*checks, Check("types", ok=True, detail=detail)]

    def misfits(self) -> Mapping[str, int]:
        """Count, for the operator alone, the values that are not of their declared type and so count as null."""
        counts = dict.fromkeys(self._roles.types, 0)
        with scratch() as engine:
            for file in self._files() if counts else ():
                self._layout.check(file)
                for block in numbered(file):
                    engine.register("block", block)
                    found = engine.sql(self._layout.misfits(file)).to_arrow_table().to_pylist()[0]
                    counts = {name: count + found[name] for name, count in counts.items()}
        return counts

    @cached_property
    def _layout(self) -> Layout:
        return Layout.of(self._roles, self._files()[0])

    def _files(self) -> list[Tabular]:
        try:
            names = self._names()
        except OSError as error:
            raise refusal(f"the path cannot be followed ({error.strerror})", path=self._path) from None
        files = [tabular(self._base / name, name) for name in names]
        if len({type(file) for file in files}) > 1:
            raise refusal("the files must be of one kind: csv, jsonl or parquet", path=self._path)
        return files

    def _names(self) -> list[str]:
        path = self._base / self._path
        if path.is_file():
            return [self._path]
        if path.is_dir():
            raise refusal("this is a folder; write which files in it, like *.csv", path=self._path)
        matches = glob.glob(self._path, root_dir=self._base, recursive=True)  # noqa: PTH207  (an absolute pattern is allowed)
        names = sorted(name for name in matches if (self._base / name).is_file())
        if not names:
            raise refusal("there is no such file", path=self._path)
        return names

    def _load(self, engine: duckdb.DuckDBPyConnection, marks: Sequence[Mark], until: int) -> dict[str, int]:
        """Fill the table `mutation` with what is to come; return how many rows each file has."""
        files, layout = self._files(), self._layout
        gone = {name for mark in marks for name in mark.files} - {file.name for file in files}
        if gone:
            raise refusal("the file was read before and is gone; put it back", path=min(gone))
        row = ", ".join(f"{quote(name)} {kind}" for name, kind in self.columns.items())
        engine.execute(
            f"""CREATE TABLE mutation (file INTEGER, row BIGINT, time BIGINT, entry VARCHAR, unit VARCHAR,
                before STRUCT({row}), after STRUCT({row}), fault INTEGER)"""
        )
        rows = {}
        for place, file in enumerate(files):
            layout.check(file)
            covered = [f"(row < {mark.files.get(file.name, 0)} AND time <= {mark.upto})" for mark in marks]
            # Materialized, or the engine would work out times and types again for every place in the filter.
            load = f"""INSERT INTO mutation WITH found AS MATERIALIZED ({layout.mutations(file)})
                SELECT {place}, * FROM found WHERE fault <> 0 OR (time <= {until} AND NOT ({" OR ".join(covered) or "FALSE"}))"""
            rows[file.name] = 0
            for block in numbered(file):
                engine.register("block", block)
                engine.execute(load)
                rows[file.name] += len(block)
            if any(mark.files.get(file.name, 0) > rows[file.name] for mark in marks):
                raise refusal("the file has fewer rows than were read before; put them back", path=file.name)
        self._refuse_faults(engine, files)
        return rows

    def _refuse_faults(self, engine: duckdb.DuckDBPyConnection, files: Sequence[Tabular]) -> None:
        first = "SELECT file, row, fault FROM mutation WHERE fault <> 0 ORDER BY file, row LIMIT 1"
        for place, row, fault in engine.execute(first).fetchall():
            where, line = files[place].place(row)
            _, message = self._layout.faults()[fault - 1]
            raise refusal(where + message, path=files[place].name, line=line)

    def _deliver(
        self, engine: duckdb.DuckDBPyConnection, marks: Sequence[Mark], until: int, rows: Mapping[str, int]
    ) -> Iterator[Batch]:
        informed = self._roles.before is not None
        ordered = engine.sql(
            f"SELECT time, entry, unit, before, after, {informed} AND entry <> '' AS informed FROM mutation ORDER BY time, file, row"
        )
        for table, last in _by_instants(ordered.to_arrow_reader(self._batch_rows), self._batch_rows):
            reached = until if last else table["time"][-1].as_py()
            ahead = [mark for mark in marks if mark.upto > reached]
            upto = min(until, max([reached, *(mark.upto for mark in ahead)]))
            yield Batch(table, upto, json.dumps([mark._asdict() for mark in (*ahead, Mark(rows, reached))]))


def _stem(path: str) -> str:
    """Name a table after its file, or after what comes before the first wildcard."""
    name = re.sub(r"(\.\w+)(\.gz)?$", "", Path(path).name)
    stem = re.split(r"[*?\[]", name)[0].rstrip("-_. ")
    if not stem:
        raise SpecError("give the table a name; the path has none to offer", key="source.table")
    return stem


def _marks(position: str | None) -> list[Mark]:
    if position is None:
        return []
    with position_of("a source of kind files"):
        return [
            Mark({name: int(rows) for name, rows in it["files"].items()}, int(it["upto"]))
            for it in json.loads(position)
        ]


def _by_instants(reader: pa.RecordBatchReader, size: int) -> Iterator[tuple[pa.Table, bool]]:
    """Regroup rows ordered by time so that no instant is split; the last group comes with True."""
    held = reader.schema.empty_table()
    for batch in reader:
        held = pa.concat_tables([held, pa.Table.from_batches([batch])])
        while len(held) > size:
            times = held["time"].to_numpy()
            cut = int(np.searchsorted(times, times[size]) or np.searchsorted(times, times[0], side="right"))
            if cut == len(held):
                break
            yield held.slice(0, cut), False
            held = held.slice(cut)
    yield held, True

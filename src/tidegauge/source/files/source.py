"""Changelogs in files: csv, jsonl and parquet, gzipped or not, one file or a glob.

Rows may be unsorted, files may grow, and a row with an old time is delivered late: progress.py.
"""

from __future__ import annotations

import glob
import re
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
import numpy as np
import pyarrow as pa

from tidegauge.errors import SpecError
from tidegauge.model.mutation import Batch
from tidegauge.model.source import Check, OpenSource
from tidegauge.source.batch.names import quote
from tidegauge.source.batch.refusal import refusal
from tidegauge.source.batch.workbench import scratch
from tidegauge.source.files.layout import Layout, Roles
from tidegauge.source.files.notation import MACROS, Notation
from tidegauge.source.files.past import FilesHistory, InPlace, Originals, unchanged
from tidegauge.source.files.progress import Mark, Progress
from tidegauge.source.files.tabular import numbered, tabular
from tidegauge.source.files.unread import Unread, require_readable, unread_check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidegauge.model.history import History
    from tidegauge.source.files.tabular import Tabular

BATCH_ROWS: Final = 200_000


@dataclass(frozen=True)
class Loaded:
    """All rows of all files in the table `mutation` of a scratch engine."""

    engine: duckdb.DuckDBPyConnection
    rows: Mapping[str, int]
    unread: Mapping[str, Unread]
    originals: Originals
    table: InPlace | None = None
    """The files, where they are read in place; `mutation` is not made then."""


class Files(OpenSource):
    """A table's changelog in files."""

    def __init__(
        self,
        path: str,
        *,
        time: str,
        key: str,
        table: str | None = None,
        unit: str | None = None,
        before: str | None = None,
        after: str | None = None,
        op: str | None = None,
        types: Mapping[str, str] | None = None,
        time_unit: str | None = None,
        notation: Notation | None = None,
        base: Path | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        self._path, self._base, self._batch_rows = path, base or Path(), batch_rows
        self._table = table or stem(path)
        self._checked: tuple[ExitStack, Loaded] | None = None
        self._roles = Roles(
            time=time,
            key=key,
            unit=unit,
            before=before,
            after=after or "",
            op=op,
            types=dict(types or {}),
            time_unit=time_unit,
            notation=notation or Notation(),
        )

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        return self._table

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns of the first file, without their prefixes, with the declared types."""
        return {each.name: each.sql for each in self._layout.fields}

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Check all rows, then deliver those still to be delivered by (time, file, row).

        The first read delivers the rows that `rehearse` loaded, without reading the files again.
        """
        progress = Progress.parse(position)
        with ExitStack() as held:
            loaded = self._taken(held) if position is None else None
            if loaded is None or loaded.table is not None:
                loaded = self._load(held, progress.marks, until)
            yield from self._deliver(loaded, progress.marks, until)

    def history(self, until: int) -> History:
        """All changes up to an instant; parquet files are read in place."""
        held = ExitStack()
        with ExitStack() as failed:
            failed.push(held)
            loaded = self._taken(held) or self._begun(held)
            failed.pop_all()
        return self._history(loaded, until, held)

    def _history(self, loaded: Loaded, until: int, held: ExitStack) -> FilesHistory:
        table, informed = loaded.table, self._roles.before is not None
        changes = f"{informed} AND entry <> '' AS informed"
        if table is None:
            more = "entry AS key, after IS NOT NULL AS alive, before IS NOT NULL AS existed, after AS new"
            relation = f"SELECT *, {more}, before AS old, unit AS owner, {changes} FROM mutation"
            order = "ORDER BY time, file, row"
        else:
            loaded.engine.execute("SET preserve_insertion_order = true")  # it is the log's
            loaded.engine.execute("SET disabled_optimizers = 'in_clause'")  # its join would lose it
            keyed = "key IS NOT NULL" if self._layout.key_type(table) != "VARCHAR" else "entry <> ''"
            changes = f"{informed} AND {keyed} AS informed"
            relation, order = f"SELECT *, {changes} FROM ({self._layout.mutations(table, native=True)})", ""
        return FilesHistory(
            engine=loaded.engine,
            relation=relation,
            order=order,
            key="VARCHAR" if table is None else self._layout.key_type(table),
            owner="VARCHAR" if table is None else self._layout.owner_type(table),
            upto=until,
            position=str(Progress((Mark(loaded.rows, until),), loaded.unread)),
            rows=sum(loaded.rows.values()),
            informed=informed,
            unchanged=(lambda: None) if table is None else unchanged(table),
            readable=(lambda: None) if table is None else table.require_readable,
            ordered=lambda: self._ordered(loaded, until),
            held=held,
            hashed=lambda how: loaded.originals.hashed(
                f"{how if table is None else how.replace(table.paths, '')} {self._roles}"
            ),
            again=lambda upto: self._history(loaded, upto, held),
        )

    def _ordered(self, loaded: Loaded, until: int) -> Iterator[pa.Table]:
        """The changes in the order of time, for an engine that takes them in batches."""
        if loaded.table is not None:
            yield from (batch.rows for batch in self.read(None, until))
        else:
            yield from (batch.rows for batch in self._deliver(loaded, (), until))

    def _begun(self, held: ExitStack) -> Loaded:
        """All rows, checked: in place where the engine can read the files by itself, else loaded."""
        engine = held.enter_context(scratch(MACROS))
        files = self._files()
        originals = Originals.of(files, self._base)
        table = InPlace.of(files, engine)
        unread = None if table is None else self._sound(engine, table)
        if table is None or unread is None:
            held.close()
            return self._load(held, (), None)
        return Loaded(engine, table.counts(), unread, originals, table)

    def _sound(self, engine: duckdb.DuckDBPyConnection, table: InPlace) -> dict[str, Unread] | None:
        """The values that do not parse; None if a row cannot be read, which loading the rows then reports."""
        self._layout.check(table)
        faults = f"SELECT count(*) FROM ({self._layout.mutations(table)}) WHERE fault <> 0"
        unread = {}
        try:
            if engine.execute(faults).fetchall() != [(0,)]:
                return None
            if self._layout.typed:
                counts = engine.execute(self._layout.unread(table)).fetchall()[0]
                for index, each in enumerate(self._layout.typed):
                    unread[each.name] = Unread(counts[2 * index] or 0, counts[2 * index + 1] or 0)
        except duckdb.Error:
            return None
        return unread

    def _taken(self, held: ExitStack) -> Loaded | None:
        """What `rehearse` loaded, which `held` then removes; None: nothing."""
        if self._checked is None:
            return None
        loading, loaded = self._checked
        self._checked = None
        held.push(loading)
        return loaded

    def rehearse(self) -> None:
        """Check all rows of all files.  Raises what `read` would raise, and if many values do not parse."""
        self.close()
        with ExitStack() as held:
            loaded = self._begun(held)
            require_readable(loaded.unread, self._roles.types, self._roles.notation, self._where_unread)
            self._checked = (held.pop_all(), loaded)

    def close(self) -> None:
        """Remove the rows that `rehearse` loaded."""
        if self._checked is not None:
            held, _ = self._checked
            self._checked = None
            held.close()

    def doctor(self, position: str | None = None) -> list[Check]:
        """Whether the files can be read, and which share of the values does not parse, by column."""
        checks = super().doctor(position)
        unread = self.unread()
        return [*checks, unread_check(unread, first_run=position is None)] if unread else checks

    def unread(self) -> Mapping[str, Unread]:
        """Count, for the operator alone, the values that do not parse and so count as null."""
        with ExitStack() as held:
            return self._load(held, (), None).unread

    @cached_property
    def _layout(self) -> Layout:
        return Layout.of(self._roles, self._files()[0])

    def _files(self) -> list[Tabular]:
        names = matching(self._path, self._base)
        files = [tabular(self._base / name, name, self._roles.notation) for name in names]
        if len({type(file) for file in files}) > 1:
            raise refusal("the files must be of one kind: csv, jsonl or parquet", path=self._path)
        return files

    def _load(self, held: ExitStack, marks: Sequence[Mark], until: int | None) -> Loaded:
        """Fill the table `mutation` with the rows that no mark covers, up to `until`.

        Raises SourceError if a row cannot be read or rows that were read before are missing.
        """
        engine = held.enter_context(scratch(MACROS))
        files, layout = self._files(), self._layout
        originals = Originals.of(files, self._base)
        gone = {name for mark in marks for name in mark.files} - {file.name for file in files}
        if gone:
            raise refusal("the file was read before and is gone; put it back", path=min(gone))
        row = ", ".join(f"{quote(name)} {kind}" for name, kind in self.columns.items())
        engine.execute(
            f"""CREATE TABLE mutation (file INTEGER, row BIGINT, time BIGINT, entry VARCHAR, unit VARCHAR,
                before STRUCT({row}), after STRUCT({row}), fault INTEGER)"""
        )
        rows, unread = {}, {each.name: Unread(0, 0) for each in layout.typed}
        for place, file in enumerate(files):
            layout.check(file)
            wanted = _wanted(file.name, marks, until)
            # Materialized, or the engine would compute times and types again for every use in the filter.
            load = f"""INSERT INTO mutation WITH found AS MATERIALIZED ({layout.mutations(file)})
                SELECT {place}, * FROM found WHERE fault <> 0 OR ({wanted})"""
            rows[file.name] = 0
            for block in numbered(file):
                engine.register("block", block)
                engine.execute(load)
                rows[file.name] += len(block)
                if layout.typed:
                    counts = engine.execute(layout.unread(file)).fetchall()[0]
                    for index, name in enumerate(unread):
                        unread[name] += Unread(counts[2 * index] or 0, counts[2 * index + 1] or 0)
            if any(mark.files.get(file.name, 0) > rows[file.name] for mark in marks):
                raise refusal("the file has fewer rows than were read before; put them back", path=file.name)
        self._refuse_faults(engine, files)
        return Loaded(engine, rows, unread, originals)

    def _refuse_faults(self, engine: duckdb.DuckDBPyConnection, files: Sequence[Tabular]) -> None:
        first = "SELECT file, row, fault FROM mutation WHERE fault <> 0 ORDER BY file, row LIMIT 1"
        for place, row, fault in engine.execute(first).fetchall():
            where, line = files[place].place(row)
            raise refusal(where + self._layout.faults()[fault - 1].message, path=files[place].name, line=line)

    def _where_unread(self, column: str) -> tuple[str, str, int | None]:
        """The first value of a column that does not parse: file, words for its row, line."""
        field = next(each for each in self._layout.typed if each.name == column)
        with scratch(MACROS) as engine:
            for file in self._files():
                for block in numbered(file):
                    engine.register("block", block)
                    (row,) = engine.execute(self._layout.first_unread(file, field)).fetchall()[0]
                    if row is not None:
                        where, line = file.place(row)
                        return file.name, where, line
        raise refusal("the files changed while they were read", path=self._path)

    def _deliver(self, loaded: Loaded, marks: Sequence[Mark], until: int) -> Iterator[Batch]:
        informed = self._roles.before is not None
        ordered = loaded.engine.sql(
            f"""SELECT time, entry, unit, before, after, {informed} AND entry <> '' AS informed FROM mutation
                WHERE time <= {until} ORDER BY time, file, row"""
        )
        for table, last in _by_instants(ordered.to_arrow_reader(self._batch_rows), self._batch_rows):
            reached = until if last else table["time"][-1].as_py()
            ahead = tuple(mark for mark in marks if mark.upto > reached)
            upto = min(until, max([reached, *(mark.upto for mark in ahead)]))
            done = Progress((*ahead, Mark(loaded.rows, reached)), loaded.unread)
            yield Batch(table, upto, str(done))


def matching(path: str, base: Path) -> list[str]:
    """The files that a path or glob names, relative to `base`.  Raises SourceError if there is none."""
    try:
        if (base / path).is_file():
            return [path]
        if (base / path).is_dir():
            raise refusal("this is a folder; write which files in it, like *.csv", path=path)
        # Path.glob would refuse an absolute pattern.
        found = glob.glob(path, root_dir=base, recursive=True)  # noqa: PTH207
        names = sorted(name for name in found if (base / name).is_file())
    except OSError as error:
        raise refusal(f"the path cannot be followed ({error.strerror})", path=path) from None
    if not names:
        where = Path(base / path).absolute().parent
        raise refusal(f"there is no such file; the folder is {where}. Correct the path", path=path)
    return names


def _wanted(name: str, marks: Sequence[Mark], until: int | None) -> str:
    """SQL: whether a row of this file is still to be delivered."""
    covered = [f"(row < {mark.files.get(name, 0)} AND time <= {mark.upto})" for mark in marks]
    due = "TRUE" if until is None else f"time <= {until}"
    return f"{due} AND NOT ({' OR '.join(covered) or 'FALSE'})"


def stem(path: str) -> str:
    """The name of a table that has none: its file's, or the part of the path before the first wildcard."""
    name = re.sub(r"(\.\w+)(\.gz)?$", "", Path(path).name)
    found = re.split(r"[*?\[]", name)[0].rstrip("-_. ")
    if not found:
        raise SpecError("give the table a name; the path has none to offer", key="source.table")
    return found


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

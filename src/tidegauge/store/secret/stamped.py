"""The folder of a stamped changelog: Parquet files that any engine can read, and stamp.json.

    changes.parquet   the stamped changes (tidegauge.model.stamp)
    views.parquet     what each contribution adds to the sums
    bins.parquet      the bins of the releases
    rows.parquet      the state after the history: rows that exist, ...
    units.parquet     ... counters of units ...
    used.parquet      ... and used clips of flows; all in parts that have no unit in common
    stamp.json        the plan that it was stamped for, and size and hash of every file

Everything in it is secret and in the clear, for its owner alone.  Of an encrypted store, the tables are
sealed (tidegauge.store.secret.sealed_tables) and end in .sealed, and stamp.json shows the plan alone.  The
folder is written under another name and renamed once it is complete: a kill leaves at most FOLDER.new, which
the next stamp replaces.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidegauge.content import content_of
from tidegauge.durable import lock_folder, private_file, sync_file, sync_folder
from tidegauge.errors import SourceError, StoreCorrupt, StoreError
from tidegauge.model.json import as_list, as_object, as_text, as_whole
from tidegauge.model.stamp import MARK, Stamped
from tidegauge.store.cipher import Cipher
from tidegauge.store.secret.sealed_tables import ENDING, SealedTables, opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tidegauge.model.json import Json, JsonObject
    from tidegauge.model.stamp import Stamps

FORMAT: Final = 2
_STAMP: Final = "stamp.json"
_STATE: Final = ("rows", "units", "used")
_FILES: Final = ("changes", "views", "bins", *_STATE)
_DIFFERENT: Final = frozenset({"time", "entry", "digest"})
"""Columns of which most values occur once: a dictionary of them would not make a file smaller."""
_AGAIN: Final = "Remove it and stamp again: tidegauge stamp"


@dataclass(frozen=True)
class Origin:
    """What a changelog was stamped for, and where its source goes on after it."""

    plan: str
    layout: Mapping[str, Mapping[str, str]]
    """The columns of the state."""
    upto: int
    position: str


@dataclass
class StampWriter:
    """Writes the files of one stamped changelog."""

    folder: Path
    origin: Origin
    held: ExitStack
    sealed: SealedTables | None = None
    _writers: dict[str, pq.ParquetWriter] = field(default_factory=dict)
    _files: dict[str, IO[bytes]] = field(default_factory=dict)

    def write(self, name: str, table: pa.Table) -> None:
        """Append a table to one of the files, as a row group or sealed piece of its own."""
        if self.sealed is not None:
            if name not in self._files:
                self._files[name] = self._opened(f"{name}{ENDING}")
            self.sealed.append(self._files[name], name, table)
            return
        if name not in self._writers:
            handle = self._opened(f"{name}.parquet")
            schema = table.schema.with_metadata({MARK: self.origin.plan})
            repeated = [field.name for field in schema if field.name not in _DIFFERENT]
            self._writers[name] = pq.ParquetWriter(
                handle, schema, compression="zstd", compression_level=1, use_dictionary=repeated,
                column_encoding={name: "DELTA_BINARY_PACKED" for name in schema.names if name == "time"},
            )  # fmt: skip
            self.held.callback(self._writers[name].close)
        if table.num_rows:
            self._writers[name].write_table(
                table.replace_schema_metadata(None), row_group_size=table.num_rows
            )

    def _opened(self, file: str) -> IO[bytes]:
        return self.held.enter_context(os.fdopen(private_file(self.folder / file), "wb"))

    def finish(self, stamps: Stamps) -> None:
        """Write everything that follows from the changes."""
        counts: Counter[str] = Counter()
        parts: list[Json] = []
        for part in stamps.parts:
            tables = (part.entries, part.units, part.used)
            for name, table in zip(_STATE, tables, strict=True):
                self.write(name, table)
            parts.append([table.num_rows for table in tables])
            counts.update(part.counts)
        self.write("views", stamps.views())
        self.write("bins", stamps.bins)
        self.held.close()
        files = [f"{name}{'.parquet' if self.sealed is None else ENDING}" for name in _FILES]
        for name in files:
            sync_file(self.folder / name)
        said: dict[str, Json] = {
            "format": FORMAT,
            "secret": True,
            "plan": self.origin.plan,
            "layout": {name: dict(columns) for name, columns in self.origin.layout.items()},
            "upto": self.origin.upto,
            "position": self.origin.position,
            "arrivals": stamps.arrivals,
            "counts": {name: int(count) for name, count in counts.items()},
            "parts": parts,
            "files": {name: _summary(self.folder / name) for name in files},
        }
        if self.sealed is None:
            said["seal"] = _seal(said)
        else:
            said = self._hidden(self.sealed, said)
        with os.fdopen(private_file(self.folder / _STAMP), "w", encoding="utf-8") as file:
            json.dump(said, file, indent=1)
        sync_file(self.folder / _STAMP)
        sync_folder(self.folder)

    def _hidden(self, sealed: SealedTables, said: dict[str, Json]) -> dict[str, Json]:
        pieces: dict[str, Json] = {name: list(sizes) for name, sizes in sealed.sizes.items()}
        return {
            "format": FORMAT,
            "secret": True,
            "plan": self.origin.plan,
            "encryption": sealed.cipher.record(),
            "name": sealed.name,
            "sealed": sealed.seal(self.origin.plan, said | {"pieces": pieces}),
        }


@contextmanager
def stamping(folder: Path, origin: Origin, *, key: bytes | None = None) -> Iterator[StampWriter]:
    """Write a stamped changelog completely and durably, or not at all.  `key`: of an encrypted store.

    Raises SourceError where the folder exists already, or another process writes it.
    """
    _require_absent(folder)
    if not folder.parent.is_dir():
        raise SourceError("there is no such folder. Nothing was written", path=str(folder.parent))
    beside = folder.with_name(f"{folder.name}.new")
    try:
        handle = lock_folder(folder.parent)
    except BlockingIOError:
        raise SourceError(
            "another process is stamping in this folder. Wait until it ends", path=str(folder.parent)
        ) from None
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(mode=0o700)
        try:
            with ExitStack() as held:
                sealed = None if key is None else SealedTables.fresh(Cipher.fresh(key))
                yield StampWriter(beside, origin, held, sealed)
            _require_absent(folder)
            beside.rename(folder)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        sync_folder(folder.parent)
    finally:
        os.close(handle)


def _require_absent(folder: Path) -> None:
    if folder.exists() or folder.is_symlink():
        raise SourceError(f"exists and was not changed. {_AGAIN}", path=str(folder))


def open_stamped(
    folder: Path, *, plan: str, layout: Mapping[str, Mapping[str, str]], key: bytes | None = None
) -> Stamped:
    """The stamped changelog in a folder, every byte of it checked.  `key`: of an encrypted store.

    Raises SourceError unless it is complete, unchanged, and was stamped for this plan and with this key.
    """
    name = str(folder)
    sealed, said = _stamp(folder, key)
    if as_text(said["plan"]) != plan:
        raise SourceError(
            f"was stamped for another plan ({as_text(said['plan'])[:12]}, this one is {plan[:12]}); the "
            "number of a change depends on the plan's releases and constraint. Nothing was read or spent. "
            f"{_AGAIN}",
            path=name,
        )
    if said["layout"] != {table: dict(columns) for table, columns in layout.items()}:
        raise SourceError(f"was stamped by another version or engine. {_AGAIN}", path=name)
    known = {}
    for file, summary in as_object(said["files"]).items():
        known[file] = _identity(folder, file)
        if _summary(folder / file) != summary:
            raise SourceError(
                f"{file} was changed or cut short. Nothing was read or spent. {_AGAIN}", path=name
            )

    def intact() -> None:
        if any(_identity(folder, file) != one for file, one in known.items()):
            raise SourceError("changed while it was read; run again", path=name)

    def table(file: str) -> pa.Table:
        if sealed is None:
            return pq.read_table(folder / f"{file}.parquet")
        return pa.concat_tables(sealed.pieces(folder, file))

    def scan(columns: Sequence[str]) -> pa.RecordBatchReader:
        assert sealed is not None
        return sealed.scan(folder, "changes", columns)

    def parts() -> Iterator[tuple[pa.Table, pa.Table, pa.Table]]:
        if sealed is None:
            return _parts(folder, sizes)
        rows, units, used = (sealed.pieces(folder, one) for one in _STATE)
        return zip(rows, units, used, strict=True)

    sizes = [[as_whole(one) for one in as_list(part)] for part in as_list(said["parts"])]
    return Stamped(
        upto=as_whole(said["upto"]),
        position=as_text(said["position"]),
        arrivals=as_whole(said["arrivals"]),
        counts={reason: as_whole(count) for reason, count in as_object(said["counts"]).items()},
        changes=folder / "changes.parquet" if sealed is None else scan,
        views=table("views"),
        bins=table("bins"),
        parts=parts,
        state=(folder / "rows.parquet", folder / "units.parquet", folder / "used.parquet"),
        intact=intact,
    )


def require_key(folder: Path, key: bytes | None) -> None:
    """Raise SourceError unless this is a stamped changelog of this key (None: it is not encrypted)."""
    _stamp(folder, key)


def _parts(folder: Path, sizes: list[list[int]]) -> Iterator[tuple[pa.Table, pa.Table, pa.Table]]:
    """Rows, counters and used clips, part by part; each part that has any is one row group.

    Files on a local disk are read as they are decoded: to read a row group ahead copies it once more.
    """
    with ExitStack() as held:
        rows, units, used = (
            held.enter_context(pq.ParquetFile(folder / f"{name}.parquet", pre_buffer=False))
            for name in _STATE
        )
        groups = {rows: 0, units: 0, used: 0}

        def following(file: pq.ParquetFile, size: int) -> pa.Table:
            if not size:
                return file.schema_arrow.empty_table()
            groups[file] += 1
            return file.read_row_group(groups[file] - 1)

        for some, others, clips in sizes:
            yield following(rows, some), following(units, others), following(used, clips)


def _stamp(folder: Path, key: bytes | None) -> tuple[SealedTables | None, JsonObject]:
    """The content of stamp.json, and the tables if they are sealed."""
    if not folder.is_dir():
        raise SourceError("there is no such folder. Make it with: tidegauge stamp", path=str(folder))
    try:
        text = (folder / _STAMP).read_text("utf-8")
    except FileNotFoundError:
        raise SourceError(
            f"is not a stamped changelog: {_STAMP} is missing. Make one with: tidegauge stamp",
            path=str(folder),
        ) from None
    sealed: SealedTables | None = None
    try:
        said = as_object(json.loads(text))
        if "encryption" in said:
            sealed, said = _unsealed(folder, said, key)
            whole = True
        else:
            whole = said.get("seal") == _seal({name: value for name, value in said.items() if name != "seal"})
    except (KeyError, ValueError, TypeError, StoreCorrupt):
        said, whole = {}, False
    if not whole:
        raise SourceError(f"{_STAMP} was changed or cut short. {_AGAIN}", path=str(folder))
    if said["format"] != FORMAT:
        raise SourceError(f"was stamped by another version. {_AGAIN}", path=str(folder))
    if sealed is None and key is not None:
        raise SourceError(
            f"is not encrypted, and the store is. Nothing was read or spent. {_AGAIN}", path=str(folder)
        )
    return sealed, said


def _unsealed(folder: Path, said: JsonObject, key: bytes | None) -> tuple[SealedTables, JsonObject]:
    """The tables and the whole content of stamp.json, where they are sealed."""
    if key is None:
        raise SourceError(
            "is encrypted, and the declaration has no [store] key. Nothing was read or spent. Name the key "
            "that it was stamped with, or stamp again without one",
            path=str(folder),
        )
    try:
        cipher = Cipher.recognise(as_text(said["encryption"]), key, store=str(folder))
    except StoreError:
        raise SourceError(
            "is encrypted with another key than the one that [store] key names. Nothing was read or spent. "
            "Name its own key, or remove it and stamp again: tidegauge stamp",
            path=str(folder),
        ) from None
    return opened(cipher, as_text(said["name"]), as_text(said["plan"]), as_text(said["sealed"]))


def _seal(said: JsonObject) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _summary(path: Path) -> dict[str, Json]:
    return dict(content_of(path)._asdict())


def _identity(folder: Path, file: str) -> tuple[int, ...]:
    try:
        found = (folder / file).stat()
    except OSError:
        raise SourceError(f"{file} is missing. {_AGAIN}", path=str(folder)) from None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

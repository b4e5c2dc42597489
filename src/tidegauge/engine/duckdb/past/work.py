"""The work on a history that does not fit into memory, in files: divided changes, and results of parts.

    divided-N     a segment: changes of some blocks, sorted by part; piece 0 has what else was seen in the
                  blocks, piece n + 1 the changes of part n
    divided       written once all changes are divided: how many there are, and a random name of the division
    enforced-N    the result of part N, which names the division that it was computed from

With a `Keeper` the files outlive the process, and the next fold of the same history continues: blocks that a
segment has are not divided again, and parts that have a result are not enforced again.  Any segment may be
missing, because a segment says which changes it has and which numbers its distinct rows have.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from tidegauge.engine.duckdb.past.enforce import Enforced
from tidegauge.engine.duckdb.past.parts import Part
from tidegauge.engine.duckdb.past.segments import packed, unpacked
from tidegauge.engine.duckdb.past.shuffle import fits, parts_of, plain
from tidegauge.model.history import LastingHistory, Narrating
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from tidegauge.engine.duckdb.past.enforce import Ints, Rules
    from tidegauge.engine.duckdb.past.shuffle import Shuffle
    from tidegauge.model.history import Files, History, Keeper, Piece, Report

_FORMAT: Final = 3
"""To be raised whenever files of an earlier version must not be used."""
_DIVIDED: Final = "divided"
_LIBRARIES: Final = ("tidegauge", "numpy", "pyarrow")
_BY_UNIT: Final = (
    "units",
    "changes",
    "first",
    "labels",
    "leaves",
    "settled",
    "accepted",
    "true",
    "leaving",
)
_MOVED: Final = ("accepted_changes", "other_changes", "exits")
"""The fields of `Enforced` that are an array, and a pair of arrays."""
CONTINUED: Final = "Continuing a history that was interrupted: {}."


class Work:
    """Where one history is divided, and whether that outlives the process."""

    def __init__(
        self, history: History, keeper: Keeper | None, selected: Mapping[str, str], *, size: int
    ) -> None:
        """`selected`: the columns of every change that are divided, with their SQL; `size`: about how many
        bytes they need."""
        self.files: Files | None = None
        """None: the history is divided in memory."""
        self.intact: Callable[[], None] = lambda: None
        """Raises SourceError if the source has changed, so that what was read is not kept."""
        self._lasts = False
        if fits(size):
            return
        if keeper is not None and isinstance(history, LastingHistory):
            source = history.fingerprint()
            if source is not None:
                work = _described(history, selected)
                self.files = keeper.begin(work, source=source, upto=history.upto, size=size)
                self.intact = history.intact
        self._lasts = self.files is not None
        self.files = self.files or ScratchFiles()

    def arrivals(self, shuffle: Shuffle) -> int | None:
        """How many changes the history has, if all of them were divided before."""
        found = self._division()
        if found is None:
            return None
        if shuffle.divided < found[0]:  # numbers of distinct rows will differ, also if this process dies
            assert self.files is not None
            self.files.write(_DIVIDED, [json.dumps((found[0], _fresh_name())).encode()])
            return None
        return found[0]

    def _division(self) -> tuple[int, str] | None:
        if self.files is None or _DIVIDED not in self.files.names:
            return None
        arrivals, name = json.loads(bytes(self.files.read(_DIVIDED, 0)))
        return arrivals, name

    def results(
        self, arrivals: int, before: int | None, *, rules: Sequence[Rules], outside: Ints, ends: Ints
    ) -> Results | None:
        """The results of the parts, once all changes are divided; None: they are not kept.

        `before`: what `arrivals` returned.  Results of another division are not used: numbers of distinct
        rows differ.
        """
        if self.files is None or not self._lasts:
            return None
        found = None if before is None else self._division()
        if found is None:
            found = arrivals, _fresh_name()
            self.files.write(_DIVIDED, [json.dumps(found).encode()])
        return Results(self.files, _basis(found[1], rules, outside, ends))

    def enforced(self) -> None:
        """Call this once all parts are enforced: files that are not kept are removed."""
        if self.files is not None and not self._lasts:
            self.files.close()

    def close(self) -> None:
        """Free memory and disk."""
        if self.files is not None:
            self.files.close()


def say(report: Report, text: str) -> None:
    """Print a sentence where progress is shown."""
    if isinstance(report, Narrating):
        report.says(CONTINUED.format(text))


class ScratchFiles:
    """Files of numbered pieces that end with the process."""

    names: Collection[str] = frozenset()

    def __init__(self) -> None:
        self._folder = ScratchFolder()
        self._bounds: dict[str, list[int]] = {}

    def write(self, name: str, pieces: Sequence[Piece]) -> None:
        """Write a file."""
        with self._path(name).open("wb") as file:
            file.writelines(pieces)
        self._bounds[name] = np.cumsum([0, *map(len, pieces)]).tolist()

    def read(self, name: str, number: int) -> bytes:
        """One piece of a file."""
        begin, end = self._bounds[name][number : number + 2]
        with self._path(name).open("rb", buffering=0) as file:
            file.seek(begin)
            return file.read(end - begin)

    def close(self) -> None:
        """Remove the files."""
        self._folder.cleanup()

    def _path(self, name: str) -> Path:
        return Path(self._folder.name) / name


class Results:
    """The results of the parts of one division."""

    def __init__(self, files: Files, basis: str) -> None:
        """`basis`: everything that a result follows from, besides the changes of its part."""
        self._files, self._basis = files, basis
        self.found = {
            name
            for name in files.names
            if name.startswith("enforced-") and self._said(name)["basis"] == basis
        }
        """The results that can be used."""

    def get(self, number: int) -> Part | None:
        """The result of a part, if it is there."""
        name = _enforced(number)
        if name not in self.found:
            return None
        said = self._said(name)
        pieces = (
            unpacked(self._files.read(name, place))["x"].combine_chunks() if there else None
            for place, there in enumerate(said["columns"], 1)
        )
        keys, place, picture, row = (next(pieces) for _ in range(4))
        enforced = []
        for dropped in said["dropped"]:
            fields: dict[str, Any] = {field: _numbers(next(pieces)) for field in _BY_UNIT}
            fields |= {field: (_numbers(next(pieces)), _numbers(next(pieces))) for field in _MOVED}
            enforced.append(Enforced(**fields, dropped=dropped))
        numbers = {"place": _numbers(place), "picture": _numbers(picture), "row": _numbers(row)}
        return Part(
            plain(keys), **numbers, enforced=tuple(enforced), counts=said["counts"], outside=said["outside"]
        )

    def put(self, number: int, part: Part) -> None:
        """Keep the result of a part."""
        columns: list[Any] = [part.keys, part.place, part.picture, part.row]
        for of_scope in part.enforced:
            columns += [getattr(of_scope, field) for field in _BY_UNIT]
            columns += [one for field in _MOVED for one in getattr(of_scope, field)]
        said = {
            "basis": self._basis,
            "columns": [column is not None for column in columns],
            "dropped": [of_scope.dropped for of_scope in part.enforced],
            "counts": dict(part.counts),
            "outside": part.outside,
        }
        pieces: list[Piece] = [json.dumps(said).encode()]
        pieces += [b"" if one is None else packed(pa.table({"x": pa.array(one)})) for one in columns]
        self._files.write(_enforced(number), pieces)

    def _said(self, name: str) -> Any:
        return json.loads(bytes(self._files.read(name, 0)))


def _described(history: History, selected: Mapping[str, str]) -> str:
    """Everything that files follow from, besides store, plan, source and the end of the history."""
    libraries = {name: version(name) for name in _LIBRARIES} | {"duckdb": duckdb.__version__}
    said = {"rows": history.rows, "parts": parts_of(history.rows), "key": history.key}
    said |= {"informed": history.informed, "selected": dict(selected), "order": sys.byteorder}
    return json.dumps([_FORMAT, said, libraries], sort_keys=True)


def _basis(division: str, rules: Sequence[Rules], outside: Ints, ends: Ints) -> str:
    """A hash of everything that the result of a part follows from, besides its changes."""
    digest = hashlib.sha256(division.encode())
    for one in rules:
        digest.update(json.dumps([one.texts, one.retire]).encode())
        flows = (None, None) if one.flows is None else (one.flows.kinds, one.flows.numbers)
        for numbers in (one.codes, one.labels, one.at_most, one.within, one.declared, *flows):
            _add(digest, numbers)
    for numbers in (outside, ends):
        _add(digest, numbers)
    return digest.hexdigest()


def _add(digest: Any, numbers: NDArray[Any] | None) -> None:
    if numbers is None:
        digest.update(b"none ")
        return
    digest.update(f"{numbers.dtype} {len(numbers)} ".encode())
    digest.update(np.ascontiguousarray(numbers).view(np.uint8))


def _numbers(column: pa.Array | None) -> Any:
    return None if column is None else column.to_numpy(zero_copy_only=False)


def _fresh_name() -> str:
    return os.urandom(16).hex()


def _enforced(number: int) -> str:
    return f"enforced-{number:03}"

"""Debezium's change events in files with one event a line, written by the inbox or by another program."""

from __future__ import annotations

import gzip
import os
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Final, cast

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.json import as_object, as_text, as_whole
from tidegauge.model.mutation import Batch
from tidegauge.model.source import Check, FollowedSource
from tidegauge.source.batch.position import Position
from tidegauge.source.debezium.events import LARGEST, event
from tidegauge.source.debezium.log import Replays, Restored
from tidegauge.source.debezium.quarantine import Quarantine, count
from tidegauge.source.debezium.rows import UNUSABLE, Gathered, Reading, reason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tidegauge.model.json import JsonObject
    from tidegauge.source.debezium.events import Event, Unit

_BATCH: Final = 100_000
_BATCH_BYTES: Final = 64 << 20
ONCE: Final = ".once.jsonl"
"""The ending of inbox files without repetitions: each event was compared with all earlier ones."""


@dataclass
class Place(Position):
    """The file and the byte up to which events were read, and what is needed to recognise repetitions."""

    SOURCE: ClassVar[str] = "a Debezium source"

    file: str = ""
    offset: int = 0
    replays: Replays = field(default_factory=Replays)

    @classmethod
    def from_stored(cls, stored: JsonObject) -> Place:
        """The position with these fields, also one of earlier versions."""
        replays = Replays.parse(as_object(stored["replays"]), as_whole(stored.get("clock", 0)))
        return cls(as_text(stored["file"]), as_whole(stored["offset"]), replays)


@dataclass(frozen=True)
class _File:
    """A file, its length (None: compressed), and the byte at which reading begins."""

    path: Path
    length: int | None
    start: int = 0


@dataclass(frozen=True)
class _Line:
    """A line, its file, and the byte at which it ends."""

    file: Path
    end: int
    text: bytes


class Debezium(FollowedSource):
    """Follows one table through JSON lines: a file, or a folder or pattern of files, also gzipped.

    Files are read in the order of their names.
    columns:    names and SQL types; by default they are taken from the first event that carries its schema.
    timestamps: the unit of times, for events that do not say it.
    consume:    whether to remove files once they are read and committed.
    quarantine: the folder for unusable events (for an inbox by default its own folder `quarantine`); without
                it, such an event stops the read.
    """

    leaves_out = 0

    def __init__(
        self,
        path: str | Path,
        table: str,
        *,
        key: str | Sequence[str] = (),
        entry: str | Sequence[str] = (),
        unit: str | None = None,
        schema: str | None = None,
        columns: Mapping[str, str] | None = None,
        timestamps: Unit = "us",
        consume: bool = False,
        inbox: bool = False,
        quarantine: Path | None = None,
    ) -> None:
        self._path = Path(path)
        self.reading = Reading(
            table, key=key or entry, unit=unit, schema=schema, columns=columns, timestamps=timestamps
        )
        """Which events are used, and how they are converted."""
        self._aside = self._path / "quarantine" if inbox and quarantine is None else quarantine
        self._consume = consume or inbox
        """Whether to remove files once they are read and committed."""
        self._inbox = inbox
        """Whether `serve` writes the files: there may be none yet, and unaccepted events are sent again."""

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        return self.reading.table

    @property
    def columns(self) -> Mapping[str, str]:
        """The declared columns, or those of the first event with a schema."""
        if not self._inbox and not self._files():
            raise SourceError(
                "there is no such file, and no file of events (*.jsonl) in such a folder. "
                "Correct [source] path",
                path=str(self._path),
            )
        self._described()
        return self.reading.columns

    def _described(self) -> None:
        """Take the columns from the first event that describes them, unless they were declared."""
        if not self.reading.described:
            for line in self._lines(Place()):
                try:
                    change = event(line.text)
                    if change is not None and self.reading.concerns(change) and self.reading.describe(change):
                        break
                except UNUSABLE:
                    continue

    def select(self, columns: Collection[str]) -> None:
        """Deliver these columns only."""
        self.reading.select(columns)

    def doctor(self, position: str | None = None) -> list[Check]:  # noqa: ARG002
        """Whether there are events, and whether their columns are known."""
        files = self._files()
        detail = "there is a file of events" if files else "there is no file of events"
        if self._inbox and not files:
            detail = "nothing was received yet; tidegauge serve receives"
        checks = [Check("inbox" if self._inbox else "files", self._inbox or bool(files), detail)]
        try:
            detail, known = f"{len(self.columns)} columns are known", True
        except (SpecError, SourceError) as refusal:
            detail, known = str(refusal), False
        checks.append(Check("columns", known, detail))
        if self._aside is not None and count(self._aside):
            detail = f"events that could not be used were set aside in {self._aside}"
            checks.append(Check("quarantine", ok=False, detail=detail))
        return checks

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """The events that exist at the time of the call, in the order of the files, whatever their times."""
        place = Place() if position is None else Place.parse(position)
        return self._read(place, self._lines(place), until)

    def _read(self, place: Place, lines: Iterator[_Line], until: int) -> Iterator[Batch]:
        self._described()
        quarantine = Quarantine(self._aside, content=self._consume)
        gathered = Gathered(self.reading, quarantine)
        for line in lines:
            self._take(line, place, gathered, quarantine, until)
            place.file, place.offset = line.file.name, line.end
            if gathered.count >= _BATCH or gathered.bytes >= _BATCH_BYTES:
                yield Batch(gathered.take(), None, str(place))
        yield Batch(gathered.take(), until, str(place))

    def _take(
        self, line: _Line, place: Place, gathered: Gathered, quarantine: Quarantine, until: int
    ) -> None:
        try:
            change = event(line.text)
            if change is None or not self.reading.concerns(change):
                return
        except UNUSABLE as refusal:
            quarantine.put(line.file.name, line.end, reason(refusal), line.text)
            return
        if not self._old(change, place.replays, line.file.name, until):
            gathered.add(change, line.text, line.file.name, line.end)

    def _old(self, change: Event, replays: Replays, file: str, until: int) -> bool:
        if self._inbox and file.endswith(ONCE):
            return replays.before(change)
        try:
            return replays.old(change, until)
        except Restored:
            if self._inbox:  # earlier versions accepted events out of order
                return False
            raise

    def acknowledge(self, position: str) -> None:
        """Remove the files before the file of this position, if they are consumed."""
        place = Place.parse(position)
        if self._consume:
            for file in self._files():
                if file.name < place.file:
                    file.unlink()

    def _files(self) -> list[Path]:
        if self._path.is_dir():
            return sorted(p for p in self._path.iterdir() if p.name.endswith((".jsonl", ".jsonl.gz")))
        return sorted(self._path.parent.glob(self._path.name))

    def _lines(self, place: Place) -> Iterator[_Line]:
        """Every line after the place, in the files with their present lengths."""
        files = [_File(path, self._length(path)) for path in self._files() if path.name >= place.file]
        if files and files[0].path.name == place.file:
            files[0] = replace(files[0], start=place.offset)
        return self._walk(files)

    def _length(self, file: Path) -> int | None:
        """The length of the file; None for a compressed file.

        A file of an inbox is made durable first, so that no event is counted that a power cut could remove.
        """
        if file.suffix == ".gz":
            return None
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            if self._inbox:
                os.fsync(opened.fileno())
            return size

    def _walk(self, files: Sequence[_File]) -> Iterator[_Line]:
        for number, one in enumerate(files, 1):
            file, length, start = one.path, one.length, one.start
            if length is not None and length < start and not self._inbox:
                raise SourceError(
                    "is shorter than what was read of it: it was overwritten. "
                    "Put it back, and write new events to a new file",
                    path=str(file),
                )
            with _opened(file) as lines:
                try:
                    lines.seek(start)
                    while line := _line(lines, 2**62 if length is None else max(0, length - start)):
                        text, size, ended = line
                        start += size
                        if not ended and (self._inbox or (number == len(files) and not _whole(text))):
                            break  # incomplete, or not acknowledged and sent again
                        yield _Line(file, start, text)
                except (EOFError, OSError, zlib.error) as error:
                    if isinstance(error, EOFError) and number == len(files):
                        return  # a compressed file that is still being written
                    raise SourceError("cannot be read to its end. Copy it again", path=str(file)) from None


def _whole(text: bytes) -> bool:
    """Whether a line without a line end is a complete event."""
    try:
        event(text)
    except UNUSABLE:
        return False
    return True


def _line(lines: BinaryIO, most: int) -> tuple[bytes, int, bool] | None:
    """The next line within so many bytes, its length, and whether it has a line end.

    Of a line that is too long, only the beginning is returned.
    """
    text = rest = lines.readline(min(LARGEST + 2, most))
    size = len(text)
    while rest and not rest.endswith(b"\n") and size < most:
        rest = lines.readline(min(LARGEST, most - size))
        size += len(rest)
    return (text, size, rest.endswith(b"\n")) if text else None


def _opened(file: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.GzipFile(file) if file.suffix == ".gz" else file.open("rb"))

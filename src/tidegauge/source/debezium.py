"""Debezium's change events in files of one event a line: written by something else, or by the inbox."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.mutation import Batch, Live
from tidegauge.source.check import Check
from tidegauge.source.clock import Clock
from tidegauge.source.debezium_events import Replays, event
from tidegauge.source.debezium_rows import Gathered, Reading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tidegauge.source.debezium_events import Event, Unit

_BATCH: Final = 100_000


@dataclass
class Place:
    """How far which file was read, the time there, and what would be a replay."""

    file: str = ""
    offset: int = 0
    clock: int = -(2**63)
    replays: Replays = field(default_factory=Replays)

    @classmethod
    def parse(cls, position: str) -> Place:
        """Read a stored position."""
        try:
            told = json.loads(position)
            return cls(**(told | {"replays": Replays(**told["replays"])}))
        except (TypeError, ValueError, KeyError):
            raise SourceError("the stored position is not one of a Debezium source") from None

    def __str__(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


class Debezium(Live):
    """Follows one table through JSON lines: a file, or a folder or pattern of files whose names grow (also gzipped).

    `columns` gives names and SQL types; without it they are taken from the first event that carries its schema.
    `timestamps` is the unit of instants where an event does not say it.
    """

    leaves_out = 0

    def __init__(
        self,
        path: str | Path,
        table: str,
        *,
        entry: str | Sequence[str],
        unit: str | None = None,
        schema: str | None = None,
        columns: Mapping[str, str] | None = None,
        timestamps: Unit = "us",
        consume: bool = False,
    ) -> None:
        self._path = Path(path)
        self._reading = Reading(
            table, entry=entry, unit=unit, schema=schema, columns=columns, timestamps=timestamps
        )
        self._consume = consume
        """Whether files are ours to remove once they are read and committed."""

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        return self._reading.table

    @property
    def columns(self) -> Mapping[str, str]:
        """As declared, or as the first event with a schema describes them."""
        self._described()
        return self._reading.columns

    def _described(self) -> None:
        if not self._reading.described:
            for _, told in self._events(Place()):
                if told is not None and self._reading.concerns(told):
                    self._reading.describe(told)
                    break

    def select(self, columns: Collection[str]) -> None:
        """Deliver these columns only."""
        self._reading.select(columns)

    def doctor(self) -> list[Check]:
        """Whether there are events, and their columns are known."""
        files = self._files()
        checks = [Check("files", bool(files), f"{len(files)} file{'' if len(files) == 1 else 's'} of events")]
        try:
            detail, known = f"{len(self.columns)} columns are known", True
        except (SpecError, SourceError) as refusal:
            detail, known = str(refusal), False
        return [*checks, Check("columns", known, detail)]

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """The events that are there, in the order of the files; what comes later about the past is late."""
        place = Place() if position is None else Place.parse(position)
        self._described()
        clock = Clock(place.clock)
        gathered = Gathered(self._reading)
        for after, told in self._events(place):
            if told is not None and self._reading.concerns(told):
                time = clock.read(told.time)
                if time > until:
                    break
                if gathered.count >= _BATCH and time != clock.at:
                    yield Batch(gathered.take(), clock.at, str(place))
                if not place.replays.old(told):
                    gathered.add(told, time)
                    clock.set(time)
            place.file, place.offset, place.clock = *after, clock.at
        yield Batch(gathered.take(), until, str(place))

    def acknowledge(self, position: str) -> None:
        """Remove the files that lie wholly before this position, where they are ours."""
        place = Place.parse(position)
        if self._consume:
            for file in self._files():
                if file.name < place.file:
                    file.unlink()

    def _files(self) -> list[Path]:
        if self._path.is_dir():
            return sorted(p for p in self._path.iterdir() if p.name.endswith((".jsonl", ".jsonl.gz")))
        return sorted(self._path.parent.glob(self._path.name))

    def _events(self, place: Place) -> Iterator[tuple[tuple[str, int], Event | None]]:
        """Every event after the place, and the place after it."""
        files = [file for file in self._files() if file.name >= place.file]
        for file in files:
            start = place.offset if file.name == place.file else 0
            with _opened(file) as lines:
                if file.suffix != ".gz" and file.stat().st_size < start:
                    raise SourceError(
                        "is shorter than what was read of it: it was overwritten", path=str(file)
                    )
                lines.seek(start)
                for number, line in enumerate(lines, 1):
                    start += len(line)
                    try:
                        told = event(line)
                    except SourceError as refusal:
                        if not line.endswith(b"\n") and (file == files[-1] or self._consume):
                            break  # it is still being written, or never was to its end and so not acknowledged
                        raise SourceError(
                            str(refusal), path=f"{file} (line {number} of what is new)"
                        ) from None
                    yield (file.name, start), told


def _opened(file: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.GzipFile(file) if file.suffix == ".gz" else file.open("rb"))

"""Reads a public file.  This is all that a web process opens.

The file is replaced as a whole when something is published, and never changed in place.  So it is read
without locks, and a reader goes on with the file that it has open until it looks whether there is another.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from tidegauge.errors import StoreError
from tidegauge.model.json import as_object, parse_json
from tidegauge.model.tick import Seal
from tidegauge.publish.public.tables import APPLICATION, FORMAT
from tidegauge.publish.public.values import (
    About,
    Document,
    Guarantee,
    LedgerEntry,
    ModelReading,
    PublicReading,
    PublicRow,
    ReleaseInfo,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_COLUMNS: Final = "number, cell, time, value, stderr, low, high, low_50, high_50"
GENESIS: Final = "0" * 64


class PublicFile:
    """A public file, open for reading in one thread.  Raises StoreError if it cannot be used."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.identity = identity(self.path)
        """What changes when the file is replaced; compare with `identity(path)`."""
        try:
            uri = f"{self.path.absolute().as_uri()}?mode=ro&immutable=1"
            self._db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        except sqlite3.Error:
            raise _unusable(self.path) from None
        try:
            self._require_format()
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _require_format(self) -> None:
        ((application,),) = self._rows("PRAGMA application_id")
        ((version,),) = self._rows("PRAGMA user_version")
        if application != APPLICATION:
            raise _unusable(self.path)
        if version != FORMAT:
            raise StoreError(
                f"{self.path.name} is a public file of format {version}; this version of Tidegauge reads "
                f"format {FORMAT}. Install the version that wrote it."
            )

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            with closing(self._db.execute(statement, values)) as cursor:
                return cursor.fetchall()
        except (sqlite3.Error, OverflowError):
            raise _unusable(self.path) from None

    # -- everything but the readings -------------------------------------------------------------------------

    @cached_property
    def document(self) -> Document:
        """What the file says besides readings and seals."""
        parts = {part: json.loads(body) for part, body in self._rows("SELECT part, body FROM document")}
        try:
            about = parts["about"] | {"keywords": tuple(parts["about"]["keywords"])}
            guarantee = parts["guarantee"] | {"warnings": tuple(parts["guarantee"]["warnings"])}
            return Document(
                about=About(**about),
                guarantee=Guarantee(**guarantee),
                releases=self.releases,
                ledger=self.ledger,
                plan=parts["plan"],
            )
        except (KeyError, TypeError):
            raise _unusable(self.path) from None

    @property
    def about(self) -> About:
        """What the publisher says of the data."""
        return self.document.about

    @property
    def guarantee(self) -> Guarantee:
        """What everything published together may reveal about one unit."""
        return self.document.guarantee

    @cached_property
    def releases(self) -> tuple[ReleaseInfo, ...]:
        """Every series, in the order of the declaration."""
        rows = self._rows("SELECT body FROM releases ORDER BY position")
        return tuple(ReleaseInfo.from_json(as_object(parse_json(body))) for (body,) in rows)

    @cached_property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        """The ledger, oldest entry first."""
        rows = self._rows("SELECT seq, time, kind, body, previous, hash FROM ledger ORDER BY seq")
        return tuple(
            LedgerEntry(seq, time, kind, json.loads(body), previous, hash_)
            for seq, time, kind, body, previous, hash_ in rows
        )

    @cached_property
    def _ids(self) -> Mapping[str, tuple[int, ReleaseInfo]]:
        infos = {one.name: one for one in self.releases}
        return {name: (id_, infos[name]) for id_, name in self._rows("SELECT id, name FROM releases")}

    def release(self, name: str) -> ReleaseInfo | None:
        """The series of this name, or None."""
        found = self._ids.get(name)
        return None if found is None else found[1]

    # -- seals -----------------------------------------------------------------------------------------------

    @cached_property
    def last_seal(self) -> Seal:
        """The seal of the last tick; number 0 before the first."""
        rows = self._rows("SELECT seq, time, hash FROM seals ORDER BY seq DESC LIMIT 1")
        return Seal(*rows[0]) if rows else Seal(0, None, GENESIS)

    @property
    def last_tick(self) -> int | None:
        """The instant up to which everything is published; None before the first tick."""
        return self.last_seal.time

    def seals(self, *, last: int | None = None) -> tuple[Seal, ...]:
        """All seals, or only the last ones; oldest first."""
        limit = -1 if last is None else last
        rows = self._rows("SELECT seq, time, hash FROM seals ORDER BY seq DESC LIMIT ?", (limit,))
        return tuple(Seal(*row) for row in reversed(rows))

    def seals_between(self, after: int, upto: int) -> tuple[Seal, ...]:
        """The seals with numbers from `after` + 1 to `upto`."""
        rows = self._rows(
            "SELECT seq, time, hash FROM seals WHERE seq > ? AND seq <= ? ORDER BY seq", (after, upto)
        )
        return tuple(Seal(*row) for row in rows)

    # -- readings --------------------------------------------------------------------------------------------

    def cells(self, release: str, group: Mapping[str, Collection[str]]) -> tuple[int, ...]:
        """The cells whose group has, for each of these names, one of these values (as text).

        Raises KeyError for a name that is no group of the release.
        """
        info = self._ids[release][1]
        if unknown := set(group) - {name for name, _ in info.groups}:
            raise KeyError(min(unknown))
        return tuple(
            number
            for number, cell in enumerate(info.cells)
            if all(as_text((cell or {}).get(name)) in wanted for name, wanted in group.items())
        )

    def span(
        self,
        release: str,
        *,
        since: int | None = None,
        until: int | None = None,
    ) -> range:
        """The numbers of the readings of a release from `since` to `until`, both included."""
        id_, info = self._ids[release]
        ((first, last),) = self._rows(
            "SELECT (SELECT min(number) FROM readings WHERE release = ?), "
            "(SELECT max(number) FROM readings WHERE release = ?)",
            (id_, id_),
        )
        if first is None:
            return range(0)
        low, high = first, last + 1
        if since is not None:
            low = _bisect(info, low, high, since)
        if until is not None:
            high = _bisect(info, low, high, until + 1)
        return range(low, high)

    def rows(
        self,
        release: str,
        *,
        since: int | None = None,
        until: int | None = None,
        cells: Sequence[int] | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> list[PublicRow]:
        """As `readings`, but without the names of release and groups."""
        numbers = self.span(release, since=since, until=until)
        id_, info = self._ids[release]
        wanted = tuple(range(len(info.cells))) if cells is None else tuple(sorted(set(cells)))
        if not wanted:
            return []
        skipped, inside = divmod(offset, len(wanted))
        numbers = numbers[skipped:]
        if limit is not None:
            numbers = numbers[: -(-(inside + limit) // len(wanted))]
        if not numbers:
            return []
        only = "" if cells is None else f" AND cell IN ({', '.join(map(str, wanted))})"
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM readings WHERE release = ? "
            f"AND number BETWEEN ? AND ?{only} ORDER BY number, cell",
            (id_, numbers.start, numbers.stop - 1),
        )
        return [PublicRow._make(row) for row in rows[inside : None if limit is None else inside + limit]]

    def readings(
        self,
        release: str,
        *,
        since: int | None = None,
        until: int | None = None,
        cells: Sequence[int] | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> tuple[PublicReading, ...]:
        """Readings by time and cell; `count` says how many there are without `offset` and `limit`.

        since, until: microseconds, both included.
        cells:        only these cells (see `cells`); None: all.
        """
        rows = self.rows(release, since=since, until=until, cells=cells, offset=offset, limit=limit)
        named = self._ids[release][1].cells
        return tuple(
            PublicReading(release, row.number, row.cell, row.time, named[row.cell], *row[3:]) for row in rows
        )

    def count(
        self,
        release: str,
        *,
        since: int | None = None,
        until: int | None = None,
        cells: Sequence[int] | None = None,
    ) -> int:
        """How many readings there are."""
        each = len(self._ids[release][1].cells) if cells is None else len(set(cells))
        return each * len(self.span(release, since=since, until=until))

    def latest(self, release: str) -> tuple[PublicReading, ...]:
        """The readings at the last time of a release, one a cell; empty before its first."""
        numbers = self.span(release)
        if not numbers:
            return ()
        return self.readings(release, since=self._ids[release][1].time_of(numbers[-1]))

    def denoised(
        self,
        release: str,
        *,
        since: int | None = None,
        until: int | None = None,
        cells: Sequence[int] | None = None,
    ) -> tuple[ModelReading, ...]:
        """What a model makes of the readings, by time and cell; empty where that is not published."""
        if not self._has_denoised:
            return ()
        (id_, info), numbers = self._ids[release], self.span(release, since=since, until=until)
        rows = self._rows(
            "SELECT number, cell, value, stderr, low, high FROM denoised WHERE release = ? "
            "AND number BETWEEN ? AND ? ORDER BY number, cell",
            (id_, numbers.start, numbers.stop - 1),
        )
        wanted = range(len(info.cells)) if cells is None else frozenset(cells)
        return tuple(
            ModelReading(release, number, cell, info.time_of(number), info.cells[cell], *estimate)
            for number, cell, *estimate in rows
            if cell in wanted
        )

    @cached_property
    def _has_denoised(self) -> bool:
        return bool(self._rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'denoised'"))

    def next_due(self, release: str) -> int | None:
        """When the next reading is due; None after the last."""
        info, numbers = self._ids[release][1], self.span(release)
        upcoming = numbers.stop if numbers else 0
        return None if info.count is not None and upcoming >= info.count else info.time_of(upcoming)


def identity(path: Path) -> tuple[int, int, int, int]:
    """What changes when the file is replaced.  Raises StoreError where there is none."""
    try:
        found = path.stat()
    except OSError as error:
        raise StoreError(
            f"{path.name} cannot be read: {error.strerror}. A gauge writes this file: declare a publisher of "
            "kind public ([publish.NAME]), then start it with: tidegauge run"
        ) from None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def as_text(value: object) -> str:
    """A group's value as a query string or a CSV file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bisect(info: ReleaseInfo, low: int, high: int, at: int) -> int:
    """The first number from `low` to `high` that is due at this time or later."""
    while low < high:
        middle = (low + high) // 2
        if info.time_of(middle) < at:
            low = middle + 1
        else:
            high = middle
    return low


def _unusable(path: Path) -> StoreError:
    return StoreError(
        f"{path.name} is not a public file of Tidegauge, or is damaged. A publisher of kind public writes "
        "such a file; the store of a gauge is another, and is never served."
    )

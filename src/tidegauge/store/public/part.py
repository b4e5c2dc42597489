"""The public part of a store: plan, ledger, journal, readings, and the witness beside the file.

Nothing here depends on rows except through noise.  A reader of readings, plan or ledger needs this part
alone.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from tidegauge.errors import StoreCorrupt
from tidegauge.model.json import as_object, parse_json
from tidegauge.model.tick import Published
from tidegauge.store.database import Database, refusing
from tidegauge.store.public.journal import Journal
from tidegauge.store.public.ledger import Ledger
from tidegauge.store.public.outbox import cursor_of
from tidegauge.store.public.witness import Witness
from tidegauge.store.signature import require_old, require_signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from tidegauge.model.json import JsonObject
    from tidegauge.model.tick import Measurement, Seal
    from tidegauge.store.public.outbox import Cursor

AMENDED: Final = "plan:"
"""Keys of the plans that added releases: this, and their numbers from 2 on."""

TABLES: Final = (
    "CREATE TABLE ledger (seq INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT "
    "NULL, previous TEXT NOT NULL, hash TEXT NOT NULL UNIQUE)",
    "CREATE TABLE ticks (seq INTEGER PRIMARY KEY, instant INTEGER UNIQUE, previous TEXT NOT NULL, "
    "hash TEXT NOT NULL UNIQUE)",
    "CREATE TABLE journal (release TEXT NOT NULL, component INTEGER NOT NULL, number INTEGER NOT NULL, "
    "cell INTEGER NOT NULL, bin INTEGER NOT NULL, value TEXT NOT NULL, "
    "tick INTEGER NOT NULL REFERENCES ticks(seq), PRIMARY KEY (release, component, number, cell)) WITHOUT "
    "ROWID",
    "CREATE INDEX journal_by_tick ON journal (tick)",
    "CREATE TABLE readings (release TEXT NOT NULL, number INTEGER NOT NULL, cell INTEGER NOT NULL, "
    "time INTEGER NOT NULL, value REAL, stderr REAL, low REAL NOT NULL, high REAL NOT NULL, "
    "PRIMARY KEY (release, number, cell)) WITHOUT ROWID",
)
"""`instant` is when the measured bins end; NULL in what format 2 wrote (see tidegauge.store.upgrade)."""


class PublicPart:
    """Plan, ledger, journal and readings of one file.

    `witness`: where the store's high-water mark is kept; beside the file by default.
    """

    def __init__(self, file: Database, witness: Path | None = None) -> None:
        self._file, self._db = file, file.connection
        self.ledger = Ledger(self._db)
        self.journal = Journal(self._db, version=file.version)
        self.witness = Witness(witness or file.path.with_name(f"{file.path.name}.witness"), file.cipher)
        self._proved = False
        """Whether the journal was proved by this process."""

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, key: bytes | None = None, witness: Path | None = None) -> Iterator[Self]:
        """The public part of a store, for reading; an encrypted one must be as its gauge left it."""
        file = Database(path, write=False, key=key)
        try:
            part = cls(file, witness)
            with refusing(str(path)), file.snapshot():
                part.require_intact()
            yield part
        finally:
            file.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside is of one moment, even if another process writes meanwhile."""
        with self._file.snapshot():
            yield

    def require_intact(self) -> None:
        """Refuse a store whose ledger does not hold, or an encrypted one whose signature does not."""
        if self._file.cipher is not None:
            require = require_old if self._file.version == 2 else require_signed
            require(self._db, self._file.cipher, self._file.path.name)
        self.ledger.prove()

    def require_newest(self) -> None:
        """Refuse a store where the witness remembers more than it does."""
        self.witness.require(self._db, self._file.path.name, unsigned=self.journal.unsigned)

    def attest(self) -> None:
        """Bring the witness up to what is committed; before anyone sees a reading of it."""
        self.witness.attest(self._db)

    # -- the plan --------------------------------------------------------------------------------------------

    @property
    def plan(self) -> JsonObject | None:
        """The first committed plan and the declaration it was made from, or None."""
        text = self._file.get("plan")
        return _plan(text) if text else None

    @property
    def plans(self) -> list[JsonObject]:
        """Every plan that was committed, oldest first: the first one, and those that added releases."""
        more = self._file.with_prefix(AMENDED)
        first = self.plan
        added = (_plan(more[key]) for key in sorted(more, key=_number))
        return [] if first is None else [first, *added]

    @property
    def simulated(self) -> bool:
        """Whether this store was filled with simulated noise, which protects nothing."""
        return self._file.get("simulated") == "1"

    # -- what was measured and published ---------------------------------------------------------------------

    @property
    def next_bins(self) -> Mapping[str, int]:
        """The first bin of each release that has not been measured; absent is 0."""
        return {name: int(value) for name, value in self._file.with_prefix("next:").items()}

    def next_bin(self, release: str) -> int:
        """The first bin of this release that has not been measured."""
        row = self._file.get(f"next:{release}")
        return 0 if row is None else int(row)

    def set_next_bin(self, release: str, bin_: int) -> None:
        """Remember that all bins before this one are measured; inside the tick's transaction."""
        self._file.set(f"next:{release}", str(bin_))

    def record(self, measurements: Iterable[Measurement], readings: Iterable[Published]) -> None:
        """Write down what was measured and what follows from it; inside the tick's transaction.

        Measurements of one instant are sealed together when the transaction ends.  A second value for the
        same one violates the journal's key and aborts the tick.
        """
        self.journal.add(measurements)
        self._db.executemany(
            "INSERT INTO readings VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            ((p.release, p.number, p.cell, p.time, p.value, p.stderr, p.low, p.high) for p in readings),
        )

    def measured(self, release: str, components: int) -> tuple[tuple[int, ...], ...]:
        """The noisy integers of each component, row after row, in each row by cell.

        The whole chain is proved before the first use.
        """
        if not self._proved:
            with self.snapshot():
                self.prove_journal()
        return tuple(self.journal.of(release, component) for component in range(components))

    def readings(self, release: str | None = None) -> list[Published]:
        """Everything published, by release, time and cell."""
        rows = self._db.execute(
            "SELECT release, number, cell, time, value, stderr, low, high FROM readings "
            "WHERE ? IS NULL OR release = ? ORDER BY release, number, cell",
            (release, release),
        )
        return [Published(*row) for row in rows]

    def readings_between(self, release: str, first: int, stop: int) -> list[Published]:
        """The readings of a release with these numbers, `stop` not included, by number and cell."""
        rows = self._db.execute(
            "SELECT release, number, cell, time, value, stderr, low, high FROM readings "
            "WHERE release = ? AND number >= ? AND number < ? ORDER BY number, cell",
            (release, first, stop),
        )
        return [Published(*row) for row in rows]

    def last_number(self, release: str) -> int | None:
        """The number of the last reading of a release; None before its first."""
        row = self._db.execute("SELECT max(number) FROM readings WHERE release = ?", (release,)).fetchone()
        return None if row[0] is None else int(row[0])

    def seals(self, after: int) -> list[Seal]:
        """The seals of the entries of the journal's chain after this one."""
        return self.journal.seals(after)

    def cursor(self, publisher: str) -> Cursor | None:
        """How far a publisher has come."""
        return cursor_of(self._db, publisher)

    def prove_journal(self) -> int:
        """Walk the journal's chain; returns the number of measurements it covers."""
        covered = self.journal.prove()
        self._proved = True
        return covered


def _plan(text: str) -> JsonObject:
    try:
        return as_object(parse_json(text))
    except (ValueError, TypeError):
        raise StoreCorrupt(
            "the plan in the store is not the one that the ledger committed; nothing was read or spent"
        ) from None


def _number(key: str) -> int:
    """The number of an added plan; a key that is no number is one that was damaged."""
    return int(key) if key.isdecimal() else 0

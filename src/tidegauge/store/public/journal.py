"""The journal: noisy integers.  Those of one instant have one seal, and each seal covers the one before.

An entry of the chain is an instant at which bins end, whatever release they belong to.  So the chain counts
bins and nothing else: it is the same however the changes were cut into batches and ticks, and however many
there were.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegauge.errors import StoreCorrupt
from tidegauge.model.tick import Seal
from tidegauge.store.public.ledger import GENESIS, seal

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from tidegauge.model.tick import Measurement

    Row = tuple[str, int, int, int, int, str]

_COLUMNS: Final = "release, component, number, cell, bin, value"


@dataclass(frozen=True)
class SealedBin:
    """A measured bin of a release, and the instant at which it ended."""

    release: str
    bin: int
    instant: int


class Journal:
    """The measurements of a store and the chain over them."""

    def __init__(self, connection: sqlite3.Connection, *, version: int) -> None:
        self._db = connection
        self._instants = "NULL" if version == 2 else "instant"
        """Format 2 sealed once a tick, and wrote a bin's number (`watermark`) in place of the instant."""
        self._fresh: dict[int, list[Row]] = defaultdict(list)

    def add(self, measured: Iterable[Measurement]) -> None:
        """Add measurements; `seal` writes them before the transaction ends."""
        for one in measured:
            row = (one.release, one.component, one.number, one.cell, one.bin, str(one.value))
            self._fresh[one.time].append(row)

    def seal(self) -> None:
        """Write what was added, one link of the chain an instant.

        A second value for the same measurement, or for an instant that is sealed, violates a key and aborts
        the transaction.
        """
        last = self._db.execute("SELECT seq, hash FROM ticks ORDER BY seq DESC LIMIT 1").fetchone()
        seq, previous = last or (0, GENESIS)
        for time, rows in sorted(self._fresh.items()):
            seq, link = seq + 1, _link(previous, time, rows)
            self._db.execute("INSERT INTO ticks VALUES (?, ?, ?, ?)", (seq, time, previous, link))
            self._db.executemany(
                f"INSERT INTO journal ({_COLUMNS}, tick) VALUES (?, ?, ?, ?, ?, ?, ?)",
                ((*row, seq) for row in rows),
            )
            previous = link
        self._fresh.clear()

    def forget(self) -> None:
        """What was added was rolled back."""
        self._fresh.clear()

    def of(self, release: str, component: int) -> tuple[int, ...]:
        """The noisy integers of a component, by number and cell."""
        rows = self._db.execute(
            "SELECT value FROM journal WHERE release = ? AND component = ? ORDER BY number, cell",
            (release, component),
        )
        return tuple(int(value) for (value,) in rows)

    def bins(self) -> Iterator[SealedBin]:
        """Every bin whose seal states the instant at which it ended."""
        rows = self._db.execute(
            f"SELECT DISTINCT release, bin, {self._instants} FROM journal JOIN ticks ON ticks.seq = "
            f"journal.tick WHERE {self._instants} IS NOT NULL"
        )
        return (SealedBin(*row) for row in rows)

    def seals(self, after: int) -> list[Seal]:
        """The seals of the entries after this one."""
        rows = self._db.execute(
            f"SELECT seq, {self._instants}, hash FROM ticks WHERE seq > ? ORDER BY seq", (after,)
        )
        return [Seal(*row) for row in rows]

    def unsigned(self) -> int:
        """How many entries of the chain are of format 2."""
        ((count,),) = self._db.execute(
            f"SELECT count(*) FROM ticks WHERE {self._instants} IS NULL"
        ).fetchall()
        return int(count)

    def prove(self) -> int:
        """Walk the chain; returns how many measurements it covers, or raises at the first broken link."""
        previous, reached, covered = GENESIS, None, 0
        links = self._db.execute(
            f"SELECT seq, {self._instants}, previous, hash FROM ticks ORDER BY seq"
        ).fetchall()
        for number, (seq, time, claimed, sealed) in enumerate(links, start=1):
            rows = self._db.execute(f"SELECT {_COLUMNS} FROM journal WHERE tick = ?", (seq,)).fetchall()
            if seq != number or claimed != previous or _link(previous, time, rows) != sealed:
                raise StoreCorrupt(
                    f"entry {seq} of the journal does not match its seal: a measurement was altered or lost"
                )
            if reached is not None and (time is None or time <= reached):
                raise StoreCorrupt(f"entry {seq} of the journal is not later than the one before it")
            previous, reached, covered = sealed, time, covered + len(rows)
        ((total,),) = self._db.execute("SELECT count(*) FROM journal").fetchall()
        if total != covered:
            raise StoreCorrupt("the journal holds measurements that are not sealed")
        return covered


def _link(previous: str, time: int | None, rows: Iterable[Row]) -> str:
    """The seal of one entry; without an instant, as format 2 made it."""
    digest = seal("", *(json.dumps(row) for row in sorted(rows)))
    return seal(previous, digest) if time is None else seal(previous, str(time), digest)

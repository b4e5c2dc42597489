"""The ledger: reserved losses.  Entries are only added, and each is linked to the one before by its hash."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from tidegauge.errors import BudgetExceeded, StoreCorrupt
from tidegauge.model.ledger import LedgerEntry, Reservation

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

GENESIS: Final = "0" * 64
COMMIT: Final = "commit"
"""The kind of an entry that reserves the loss of a plan."""
AMEND: Final = "amend"
"""The kind of an entry that reserves the loss of releases that were added later."""
CHOICE: Final = "choice"
"""The kind of an entry that reserves the loss of the draw of at_most, which comes before the plan."""


def seal(previous: str, *parts: str) -> str:
    """The hash that links an entry to all before it."""
    text = json.dumps([previous, *parts], separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Ledger:
    """The chain of reservations in a store."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def entries(self) -> list[LedgerEntry]:
        """All entries, oldest first."""
        return [
            LedgerEntry(seq, time, kind, Reservation.from_json(json.loads(body)), previous, hash_)
            for seq, time, kind, body, previous, hash_ in self._rows()
        ]

    def reserve(self, reservation: Reservation, *, time: str, amends: bool = False) -> None:
        """Record a plan's whole lifetime loss, or that of the choice of at_most; inside a transaction.

        `amends`: the plan adds releases to those before.  Raises BudgetExceeded where less than this is left.
        """
        left = reservation.budget - self.spent()
        if reservation.reserved > left:
            what = "the choice of at_most" if reservation.choice else "the plan"
            raise BudgetExceeded(what, measure=reservation.measure, needed=reservation.reserved, left=left)
        kind = CHOICE if reservation.choice else AMEND if amends else COMMIT
        text = json.dumps(reservation.as_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        last = self._db.execute("SELECT hash FROM ledger ORDER BY seq DESC LIMIT 1").fetchone()
        previous = last[0] if last else GENESIS
        self._db.execute(
            "INSERT INTO ledger (time, kind, body, previous, hash) VALUES (?, ?, ?, ?, ?)",
            (time, kind, text, previous, seal(previous, time, kind, text)),
        )

    def spent(self) -> Fraction:
        """The loss that all committed plans have reserved."""
        return sum((entry.body.reserved for entry in self.entries()), Fraction(0))

    def _rows(self) -> Iterable[tuple[int, str, str, str, str, str]]:
        return self._db.execute(
            "SELECT seq, time, kind, body, previous, hash FROM ledger ORDER BY seq"
        ).fetchall()

    def prove(self) -> int:
        """Walk the chain; returns its length, or raises at the first link that does not hold."""
        previous, number = GENESIS, 0
        for number, (seq, time, kind, body, claimed, sealed) in enumerate(self._rows(), start=1):
            if seq != number or claimed != previous or seal(previous, time, kind, body) != sealed:
                raise StoreCorrupt(
                    f"ledger entry {seq} does not follow from the one before it: it was altered or lost"
                )
            previous = sealed
        return number

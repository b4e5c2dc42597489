"""What was promised and reserved: entries that are only added, each sealed with the hash of the last."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tidegauge.errors import BudgetExceeded, StoreCorrupt
from tidegauge.model.quantity import fraction

if TYPE_CHECKING:
    import sqlite3

GENESIS: Final = "0" * 64


@dataclass(frozen=True)
class Entry:
    """One line of the ledger."""

    seq: int
    time: str
    kind: str
    body: dict[str, Any]
    previous: str
    hash: str

    def as_json(self) -> dict[str, Any]:
        """The entry as `ledger --json` prints it."""
        return vars(self).copy()


def seal(previous: str, *parts: str) -> str:
    """The hash that links an entry to all before it."""
    text = json.dumps([previous, *parts], separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Ledger:
    """The chain of reservations in a store."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def entries(self) -> list[Entry]:
        """All entries, oldest first."""
        rows = self._db.execute(
            "SELECT seq, time, kind, body, previous, hash FROM ledger ORDER BY seq"
        ).fetchall()
        return [
            Entry(seq, time, kind, json.loads(body), previous, hash_)
            for seq, time, kind, body, previous, hash_ in rows
        ]

    def reserve(
        self,
        *,
        time: str,
        measure: str,
        budget: Fraction,
        needed: Fraction,
        body: dict[str, Any],
        kind: str = "commit",
    ) -> None:
        """Write down a plan's whole lifetime loss, or refuse; inside the caller's transaction.

        `kind`: commit, or choice for the draw of at_most, which comes before the plan.
        """
        left = budget - self.spent()
        if needed > left:
            what = "the plan" if kind == "commit" else "the choice of at_most"
            raise BudgetExceeded(what, measure=measure, needed=needed, left=left)
        self._append(time, kind, {"measure": measure, "budget": str(budget), "reserved": str(needed), **body})

    def spent(self) -> Fraction:
        """What all committed plans have reserved."""
        return sum((fraction(entry.body["reserved"]) for entry in self.entries()), Fraction(0))

    def _append(self, time: str, kind: str, body: dict[str, Any]) -> None:
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        last = self._db.execute("SELECT hash FROM ledger ORDER BY seq DESC LIMIT 1").fetchone()
        previous = last[0] if last else GENESIS
        self._db.execute(
            "INSERT INTO ledger (time, kind, body, previous, hash) VALUES (?, ?, ?, ?, ?)",
            (time, kind, text, previous, seal(previous, time, kind, text)),
        )

    def prove(self) -> int:
        """Walk the chain; returns its length, or raises at the first link that does not hold."""
        previous = GENESIS
        rows = self._db.execute(
            "SELECT seq, time, kind, body, previous, hash FROM ledger ORDER BY seq"
        ).fetchall()
        for number, (seq, time, kind, body, claimed, sealed) in enumerate(rows, start=1):
            if seq != number or claimed != previous or seal(previous, time, kind, body) != sealed:
                raise StoreCorrupt(
                    f"ledger entry {seq} does not follow from the one before it: it was altered or lost"
                )
            previous = sealed
        return len(rows)

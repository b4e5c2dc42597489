"""Exact sums of bins that are still needed, and how many changes did not count, by reason: all secret."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

    from tidegauge.model.program import Total
    from tidegauge.store.cipher import Cipher
    from tidegauge.store.secret.rows import RowDigests

SUMS: Final = (
    "CREATE TABLE totals (release TEXT NOT NULL, component INTEGER NOT NULL, bin INTEGER NOT NULL, "
    "cell INTEGER NOT NULL, amount TEXT NOT NULL, PRIMARY KEY (release, component, bin, cell)) WITHOUT ROWID",
    "CREATE TABLE counts (name TEXT PRIMARY KEY, amount INTEGER NOT NULL) WITHOUT ROWID",
)
"""The tables, as statements."""
_COUNTS: Final = b"counts\0"
_OLDER: Final = {"past_limit": "dropped"}
"""Reasons that stores of earlier versions call by another name."""


class Sums:
    """In SQLite, as they are or sealed.  Sealed, only release, bin and the number of cells are seen."""

    def __init__(self, connection: sqlite3.Connection, cipher: Cipher | None, digests: RowDigests) -> None:
        self._db = connection
        self._cipher = cipher
        self._digests = digests
        self._erased = False

    def add(self, totals: Iterable[Total]) -> None:
        """Add to what is there; inside the tick's transaction."""
        for total in totals:
            key = self._key(total)
            row = self._db.execute(
                "SELECT amount FROM totals WHERE release = ? AND component = ? AND bin = ? AND cell = ?", key
            ).fetchone()
            before = self._opened(*key, row[0])[2] if row else 0
            amount = self._amount(key, total, total.amount + before)
            self._db.execute("INSERT OR REPLACE INTO totals VALUES (?, ?, ?, ?, ?)", (*key, amount))
            self._digests.changed("totals", old=(*key, row[0]) if row else None, new=(*key, amount))

    def since(self, release: str, first: int) -> dict[tuple[int, int, int], int]:
        """Sums of all bins from this one on, by (component, bin, cell); absent is 0."""
        rows = self._db.execute(
            "SELECT component, bin, cell, amount FROM totals WHERE release = ? AND bin >= ?", (release, first)
        )
        found = {}
        for part, bin_, token, sealed in rows:
            component, cell, amount = self._opened(release, part, bin_, token, sealed)
            found[component, bin_, cell] = amount
        return found

    def drop(self, release: str, before: int | None) -> None:
        """Drop the sums of bins before this one (None: of all bins); `tidy` overwrites their remains."""
        self._db.execute(
            "DELETE FROM totals WHERE release = ? AND (? IS NULL OR bin < ?)", (release, before, before)
        )
        self._erased = True

    def tidy(self) -> None:
        """Leave no copy of what was dropped in the unused part of a page; inside the tick's transaction.

        Clearing the table gives its pages back, which overwrites them with zeros (see
        tidegauge.store.secret.secrets).  It costs as much as reading the sums that are still needed, which a
        tick that measures does anyway.
        """
        if self._erased:
            rows = self._db.execute("SELECT * FROM totals ORDER BY release, component, bin, cell").fetchall()
            self._db.execute("DELETE FROM totals")
            self._db.executemany("INSERT INTO totals VALUES (?, ?, ?, ?, ?)", rows)
            self._digests.reset("totals", rows)
            self._erased = False

    def forget(self) -> None:
        """What was dropped was rolled back."""
        self._erased = False

    def count(self, counts: Mapping[str, int]) -> None:
        """Add to the changes that did not count; inside the tick's transaction."""
        if self._cipher is not None:
            known = self.counts()
            known |= {name: known.get(name, 0) + amount for name, amount in counts.items() if amount}
            row = ("", self._cipher.seal(_COUNTS, known))
            self._db.execute("INSERT OR REPLACE INTO counts VALUES (?, ?)", row)
            self._digests.reset("counts", [row])
            return
        self._db.executemany(
            "INSERT INTO counts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET amount = amount + "
            "excluded.amount",
            [(name, amount) for name, amount in counts.items() if amount],
        )

    def counts(self) -> dict[str, int]:
        """How many changes did not count, by reason: for the operator alone."""
        rows = dict(self._db.execute("SELECT name, amount FROM counts ORDER BY name"))
        if self._cipher is not None and rows:
            rows = self._cipher.open(_COUNTS, rows[""])
        found: Counter[str] = Counter()
        for name, amount in rows.items():
            found[_OLDER.get(name, name)] += amount
        return dict(sorted(found.items()))

    def _key(self, total: Total) -> tuple[str, int, int, Any]:
        """The key of a sum."""
        if self._cipher is None:
            return total.release, total.component, total.bin, total.cell
        token = self._cipher.token("totals", total.release, total.component, total.bin, total.cell)
        return total.release, 0, total.bin, token

    def _amount(self, key: tuple[str, int, int, Any], total: Total, amount: int) -> str | bytes:
        if self._cipher is None:
            return str(amount)
        return self._cipher.seal(_place(*key), [total.component, total.cell, amount])

    def _opened(self, release: str, part: int, bin_: int, token: Any, stored: Any) -> tuple[int, int, int]:
        """(component, cell, amount) of a row."""
        if self._cipher is None:
            return part, token, int(stored)
        component, cell, amount = self._cipher.open(_place(release, part, bin_, token), stored)
        return component, cell, amount


def _place(release: str, part: int, bin_: int, token: bytes) -> bytes:
    return b"\0".join([b"totals", release.encode(), str(part).encode(), str(bin_).encode(), token])

"""A ledger that several gauges share: one total for everything that is published about the same units.

One SQLite file.  Its first entry declares the total, the kind of unit, the term and the measure; every later
entry is linked to the one before by its hash.  A gauge reserves its loss here before it commits its plan, and
then confirms that it did.  Reservations of processes that race are made one after the other; none is ever
removed.  The file has nothing secret in it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Self

from tidegauge.durable import sync_folder
from tidegauge.errors import BudgetExceeded, LedgerError, StoreBehind, StoreCorrupt
from tidegauge.model.json import as_object, as_scalar, as_text, parse_json
from tidegauge.model.quantity import Span, fraction
from tidegauge.model.terms import Beginning
from tidegauge.store.public.ledger import GENESIS, seal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tidegauge.model.json import Json, JsonObject
    from tidegauge.model.ledger import Reservation

_APPLICATION: Final = 0x544C4744
_PATIENCE: Final = 30.0
_TABLE: Final = (
    "CREATE TABLE ledger (seq INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, "
    "gauge TEXT NOT NULL, body TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL UNIQUE)"
)


@dataclass(frozen=True)
class Terms:
    """What all gauges of a shared ledger have in common."""

    measure: str
    """The measure of privacy loss: epsilon or rho."""
    total: Fraction
    unit: str
    """The kind of unit that is protected."""
    term: str | None = None
    """The period after which every constraint renews; None: constraints are for a unit's lifetime."""
    declared: str = ""
    """The total as it was declared, in words."""
    begins: Beginning | None = None
    """When the terms of a gauge begin; the ledger keeps it with each reservation."""

    def as_json(self) -> dict[str, Json]:
        """The terms as the ledger keeps and prints them."""
        return {
            "declared": self.declared,
            "measure": self.measure,
            "term": self.term,
            "total": str(self.total),
            "unit": self.unit,
        }

    @classmethod
    def from_json(cls, record: JsonObject) -> Self:
        """The terms that `as_json` wrote."""
        return cls(
            measure=as_text(record["measure"]),
            total=fraction(as_scalar(record["total"])),
            unit=as_text(record["unit"]),
            term=None if record["term"] is None else as_text(record["term"]),
            declared=as_text(record["declared"]),
        )

    def differing(self, other: Terms) -> list[str]:
        """What another gauge declares differently, one line a difference."""
        found = []
        for name in ("unit", "term", "measure"):
            own, given = getattr(self, name), getattr(other, name)
            if own != given:
                found.append(f"{name}: the ledger's is {_named(own)}, the gauge's is {_named(given)}")
        return found


def _require_together(entries: list[SharedEntry], gauge: str, terms: Terms, name: str) -> None:
    """Raise LedgerError unless the terms of this gauge begin when those of all other gauges do."""
    if terms.begins is None or terms.term is None:
        return
    for entry in entries:
        if entry.kind != "reserve" or entry.gauge == gauge:
            continue
        known = entry.body.get("begins")
        other = None if known is None else Beginning.from_json(as_object(known))
        if other is None or not other.same(terms.begins, Span.parse(terms.term)):
            since = "unknown, because an earlier version reserved it" if other is None else str(other)
            raise LedgerError(
                f"{name} cannot count this gauge: its terms of {terms.term} begin at other times.\n"
                f"  another gauge of the ledger: {since}\n  this gauge: {terms.begins}\n"
                "Nothing was read or spent. Losses add up only in the same terms: declare the same "
                "renews_from and [calendar] time_zone, or use another ledger."
            )


def _named(value: str | None) -> str:
    return "none" if value is None else f"'{value}'"


@dataclass(frozen=True)
class SharedEntry:
    """One entry: the terms, a reservation, or the confirmation that its plan was committed."""

    seq: int
    time: str
    kind: str
    gauge: str
    body: JsonObject
    previous: str
    hash: str

    @property
    def reserved(self) -> Fraction:
        """The loss that this entry reserves; 0 for other kinds."""
        return fraction(as_scalar(self.body["reserved"])) if self.kind == "reserve" else Fraction(0)

    def as_json(self) -> dict[str, Json]:
        """The entry as `ledger --json` prints it."""
        return dict(vars(self))


class SharedLedger:
    """The file of a shared ledger, opened for each use."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, terms: Terms, *, time: str) -> Self:
        """Make a new ledger.  Raises LedgerError where there is a file already."""
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640))
        except FileExistsError:
            raise LedgerError(f"{path.name} exists already. Nothing was changed.") from None
        except OSError as error:
            raise LedgerError(f"{path.name} cannot be made: {error.strerror}") from None
        ledger = cls(path)
        with ledger._transaction(new=True) as db:
            db.execute(_TABLE)
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
            _append(db, time=time, kind="terms", gauge="", body=terms.as_json())
        sync_folder(path.parent)
        return ledger

    def terms(self) -> Terms:
        """What the ledger was made for."""
        return Terms.from_json(self.entries()[0].body)

    def entries(self) -> list[SharedEntry]:
        """All entries, oldest first.  Raises StoreCorrupt where the chain is broken."""
        with self._connection() as db:
            return _entries(db, self.path.name)

    def reserve(self, gauge: str, terms: Terms, reservation: Reservation, *, time: str) -> None:
        """Reserve what a plan of this gauge needs, durably, before the plan is committed.

        What the gauge reserved before and never committed counts: a process may have died in between.
        Raises LedgerError where the gauge has other terms or they begin at other times, StoreBehind where it
        committed a plan that its store does not have, BudgetExceeded where too little is left.
        """
        with self._transaction() as db:
            entries = _entries(db, self.path.name)
            known = Terms.from_json(entries[0].body)
            if differing := known.differing(terms):
                raise LedgerError(
                    f"{self.path.name} cannot count this gauge:\n  "
                    + "\n  ".join(differing)
                    + "\nNothing was read or spent. Losses add up only for the same kind of unit, term and "
                    "measure: use another ledger, or declare the gauge as the ledger is."
                )
            _require_together(entries, gauge, terms, self.path.name)
            own = [entry for entry in entries if entry.gauge == gauge]
            if any(entry.kind == "commit" for entry in own):
                raise StoreBehind(
                    f"{self.path.name} says that this gauge has committed a plan, but its store has none: "
                    "the store is an old copy. Bring back the newest one. Nothing was read or spent."
                )
            before = sum((entry.reserved for entry in own), Fraction(0))
            spent = sum((entry.reserved for entry in entries), Fraction(0))
            more = max(Fraction(0), reservation.reserved - before)
            if more > known.total - spent:
                raise BudgetExceeded(
                    f"this gauge, in the shared ledger {self.path.name},",
                    measure=known.measure,
                    needed=more,
                    left=known.total - spent,
                )
            body = reservation.as_json() | {"reserved": str(more)}
            del body["budget"]
            if terms.begins is not None:
                body["begins"] = terms.begins.as_json()
            _append(db, time=time, kind="reserve", gauge=gauge, body=body)

    def confirm(self, gauge: str, plans: Sequence[str], needed: Fraction, *, time: str) -> None:
        """Record that the gauge has committed these plans; each once.  Called before anything is measured.

        `plans`: all that its store has.  Raises StoreBehind where the gauge has committed another one, and
        StoreCorrupt where the ledger has no reservation of the gauge that covers them.
        """
        with self._transaction() as db:
            own = [entry for entry in _entries(db, self.path.name) if entry.gauge == gauge]
            known = {as_text(entry.body["plan"]) for entry in own if entry.kind == "commit"}
            if not known <= set(plans):
                raise StoreBehind(
                    f"{self.path.name} says that this gauge has committed a plan that its store does not "
                    "have: the store is an old copy, or a copy of another gauge's. Bring back the newest "
                    "one. Nothing was read or spent."
                )
            if sum((entry.reserved for entry in own), Fraction(0)) < needed:
                raise StoreCorrupt(
                    f"{self.path.name} has no reservation for this gauge's plan: it is an old copy, or "
                    "another ledger. Bring back the ledger that the gauge was committed with. Nothing was "
                    "read or spent.",
                    advice=None,
                )
            for plan in plans:
                if plan not in known:
                    _append(db, time=time, kind="commit", gauge=gauge, body={"plan": plan})

    @contextmanager
    def _transaction(self, *, new: bool = False) -> Iterator[sqlite3.Connection]:
        """Alone among all processes; durable when it returns."""
        with self._connection(new=new) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                db.execute("ROLLBACK")
                raise

    @contextmanager
    def _connection(self, *, new: bool = False) -> Iterator[sqlite3.Connection]:
        """Readers may write as well: they undo what a process that was killed has left half written."""
        if self.path.is_dir():
            raise LedgerError(
                f"'{self.path.resolve().name}' is a folder; name the file of a ledger. "
                "Nothing was read or spent."
            )
        if not self.path.exists():
            raise LedgerError(
                f"there is no ledger {self.path.name}. Make it once with: tidegauge ledger --create, or "
                "bring it back from where it was. Nothing was read or spent."
            )
        db = None
        try:
            uri = f"{self.path.absolute().as_uri()}?mode=rw"
            db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_PATIENCE)
            db.execute("PRAGMA synchronous = FULL")
            if not new and db.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
                raise LedgerError(f"{self.path.name} is not a ledger. Nothing was changed.")
            yield db
        except sqlite3.OperationalError as error:
            raise LedgerError(
                f"{self.path.name} cannot be used: it is locked by another program, or it, its folder or its "
                f"disk cannot be written ({error.sqlite_errorname}). Nothing was read or spent."
            ) from None
        except sqlite3.DatabaseError:
            raise LedgerError(f"{self.path.name} is not a ledger. Nothing was changed.") from None
        finally:
            if db is not None:
                db.close()


def _append(db: sqlite3.Connection, *, time: str, kind: str, gauge: str, body: JsonObject) -> None:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    last = db.execute("SELECT hash FROM ledger ORDER BY seq DESC LIMIT 1").fetchone()
    previous = last[0] if last else GENESIS
    db.execute(
        "INSERT INTO ledger (time, kind, gauge, body, previous, hash) VALUES (?, ?, ?, ?, ?, ?)",
        (time, kind, gauge, text, previous, seal(previous, time, kind, gauge, text)),
    )


def _entries(db: sqlite3.Connection, name: str) -> list[SharedEntry]:
    found, previous = [], GENESIS
    for number, row in enumerate(db.execute("SELECT * FROM ledger ORDER BY seq"), start=1):
        seq, time, kind, gauge, body, claimed, sealed = row
        if seq != number or claimed != previous or seal(previous, time, kind, gauge, body) != sealed:
            raise StoreCorrupt(
                f"entry {seq} of {name} does not follow from the one before it: it was altered"
            )
        found.append(SharedEntry(seq, time, kind, gauge, as_object(parse_json(body)), claimed, sealed))
        previous = sealed
    if not found or found[0].kind != "terms":
        raise StoreCorrupt(f"{name} does not begin with its terms: it was altered")
    return found

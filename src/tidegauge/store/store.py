"""The store: a committed plan, what was measured, where the source stands, and the state; one transaction a tick."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from tidegauge.errors import StoreCorrupt, StoreError, StoreLocked
from tidegauge.store.database import Database
from tidegauge.store.form import Plain, Sealed
from tidegauge.store.ledger import GENESIS, Ledger, seal
from tidegauge.store.pending import Keys, Pending
from tidegauge.store.state import StoredState
from tidegauge.store.sums import Sums
from tidegauge.store.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from tidegauge.model.program import Arrived, Folded
    from tidegauge.store.form import Form

NOTHING_YET = -(2**62)
"""The watermark of a store that has read nothing: earlier than any time a source can deliver."""

_ALIKE = 80
"""Characters of a sealed number, so that its length tells nothing of its size."""


@dataclass(frozen=True)
class Clock:
    """How far a gauge has come."""

    position: str | None
    watermark: int
    """The end of the last measured bin: what is not later takes effect after it.  The public clock moves it, no data."""
    arrivals: int


@dataclass(frozen=True)
class Measured:
    """One noisy integer: the `number`-th measurement of a component, of one cell, taken when `bin` ended."""

    release: str
    component: int
    number: int
    cell: int
    bin: int
    value: int


@dataclass(frozen=True)
class Carried:
    """What a stream keeps of its cells once so many bins are measured: integers of any size, by cell."""

    bins: int
    state: list[list[int]]


@dataclass(frozen=True)
class Published:
    """One reading as it was made public."""

    release: str
    number: int
    cell: int
    time: int
    value: float | None
    stderr: float | None
    low: float
    high: float


class Store:
    """Open for writing by one process at a time, for reading by any."""

    def __init__(
        self, path: Path, *, write: bool = False, key: bytes | None = None, witness: Path | None = None
    ) -> None:
        self.path = path
        self._witness = Witness(witness or path.with_name(f"{path.name}.witness"))
        self._file = Database(path, write=write, key=key)
        self._db = self._file.connection
        self._cipher = self._file.cipher
        self._form: Form = Plain() if self._cipher is None else Sealed(self._cipher)
        self._sums = Sums(self._db, self._cipher)
        self._pending = Pending(self._db, self._cipher)
        self._keys = Keys(self._db, self._cipher)
        self.ledger = Ledger(self._db)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def require_newest(self) -> None:
        """Refuse to go on where the witness remembers more than this store."""
        self._witness.require(self._db, self.path.name)

    def attest(self) -> None:
        """Let the witness know what is committed, before anyone is told of it."""
        self._witness.attest(self._db)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside becomes durable at its end, or none of it."""
        try:
            with self._file.transaction():
                yield
        except BaseException:
            self._form.forget()
            raise

    def _get(self, key: str) -> str | None:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def _get_secret(self, key: str) -> Any:
        found = self._get(key)
        if found is None:
            return None
        return json.loads(found) if self._cipher is None else self._cipher.open(_place(key), found)

    def _set_secret(self, key: str, value: Any) -> None:
        text = json.dumps(value) if self._cipher is None else self._cipher.seal(_place(key), value)
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, text))

    def _set(self, **values: str | int) -> None:
        self._db.executemany(
            "INSERT OR REPLACE INTO meta VALUES (?, ?)", ((k, str(v)) for k, v in values.items())
        )

    # -- the plan ---------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> dict[str, Any] | None:
        """The committed plan and the declaration it was made from, or None."""
        text = self._get("plan")
        return json.loads(text) if text else None

    @property
    def simulated(self) -> bool:
        """Whether this store was filled with simulated noise and protects nobody."""
        return self._get("simulated") == "1"

    def commit_plan(
        self,
        plan: dict[str, Any],
        *,
        time: str,
        measure: str,
        budget: Fraction,
        needed: Fraction,
        body: dict[str, Any],
        layout: Mapping[str, Mapping[str, str]],
        simulated: bool = False,
    ) -> None:
        """Reserve the plan's whole loss and make it immutable."""
        with self.transaction():
            if self.plan is not None:
                raise StoreError("a plan is already committed here")
            self.ledger.reserve(time=time, measure=measure, budget=budget, needed=needed, body=body)
            self._set(
                plan=json.dumps(plan, sort_keys=True, ensure_ascii=False),
                layout=json.dumps(layout, sort_keys=False),
                simulated=int(simulated),
            )
            self._set_secret("clock", [None, NOTHING_YET, 0])
            self._state(layout).create()

    def state(self) -> StoredState:
        """The rows and units as they are known."""
        layout = self._get("layout")
        assert layout is not None, "a plan is committed first"
        return self._state(json.loads(layout))

    def _state(self, layout: Mapping[str, Mapping[str, str]]) -> StoredState:
        return StoredState(self._db, layout, self._form, self._pending, self._keys)

    # -- a tick -----------------------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        """Where the source has come to and up to when everything has taken effect."""
        return Clock(*(self._get_secret("clock") or (None, NOTHING_YET, 0)))

    def advance(self, clock: Clock, *, since: Clock) -> None:
        """Move on; inside the tick's transaction.  Nobody else may have moved it meanwhile."""
        if self.clock != since:
            raise StoreLocked(
                f"{self.path.name} was written by another process meanwhile. What this one was about to commit was rolled "
                "back. Let only one process run it."
            )
        self._set_secret("clock", [clock.position, clock.watermark, clock.arrivals])

    def arrive(self, arrived: Arrived, changes: pa.Table, *, alone: bool) -> None:
        """Take over what became of a batch, and let changes wait (`alone`: no others); inside the tick's transaction."""
        self._keys.put(arrived.keys)
        self._sums.count(arrived.counts)
        if alone:
            self._pending.replace(changes)
        else:
            self._pending.append(changes)

    def fold(self, folded: Folded) -> None:
        """Take over state, sums and counts of what took effect; inside the tick's transaction."""
        self.state().apply(folded)
        self._sums.add(folded.totals)
        self._sums.count(folded.counts)

    def totals(self, release: str, first: int, last: int) -> dict[tuple[int, int, int], int]:
        """Exact sums of bins first..last, by (component, bin, cell); absent is 0."""
        return self._sums.between(release, first, last)

    def forget(self, release: str, before: int) -> None:
        """Drop exact sums that no measurement needs any more."""
        self._sums.forget(release, before)

    def record(self, measured: Iterable[Measured], published: Iterable[Published]) -> None:
        """Write down what was measured and what follows from it; inside the tick's transaction.

        A second value for the same node violates the journal's key and aborts the tick.
        """
        rows = [(m.release, m.component, m.number, m.cell, m.bin, str(m.value)) for m in measured]
        if rows:
            last = self._db.execute("SELECT seq, hash FROM ticks ORDER BY seq DESC LIMIT 1").fetchone()
            seq, previous = (last[0] + 1, last[1]) if last else (1, GENESIS)
            watermark = max(row[4] for row in rows)
            self._db.execute(
                "INSERT INTO ticks VALUES (?, ?, ?, ?)",
                (seq, watermark, previous, seal(previous, _digest(rows))),
            )
            self._db.executemany(
                "INSERT INTO journal (release, component, number, cell, bin, value, tick) VALUES (?, ?, ?, ?, ?, ?, ?)",
                ((*row, seq) for row in rows),
            )
        self._db.executemany(
            "INSERT INTO readings VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            ((p.release, p.number, p.cell, p.time, p.value, p.stderr, p.low, p.high) for p in published),
        )

    def veils(self, release: str, component: int) -> list[int]:
        """The secret draws, one a cell, that all rows of a component share; empty before the first."""
        return self._get_secret(f"veils:{release}:{component}") or []

    def set_veils(self, release: str, component: int, draws: list[int]) -> None:
        """Keep them; inside the tick's transaction."""
        self._set_secret(f"veils:{release}:{component}", draws)

    def carried(self, release: str, component: int) -> Carried | None:
        """The secret state of a component that is measured as a stream; None before its first bin."""
        found = self._get_secret(f"carried:{release}:{component}")
        if found is None:
            return None
        bins, state = found
        return Carried(bins, [[int(number) for number in cells] for cells in state])

    def carry(self, release: str, component: int, carried: Carried) -> None:
        """Keep it; inside the tick's transaction, with the measurements that it led to."""
        state = [
            [str(number).rjust(0 if self._cipher is None else _ALIKE) for number in cells]
            for cells in carried.state
        ]
        self._set_secret(f"carried:{release}:{component}", [carried.bins, state])

    # -- what was published -----------------------------------------------------------------------------------------

    def next_bin(self, release: str, first: int) -> int:
        """The first bin of this release that has not been measured."""
        row = self._get(f"next:{release}")
        return first if row is None else int(row)

    def set_next_bin(self, release: str, bin_: int) -> None:
        """Remember that all bins before this one are measured; inside the tick's transaction."""
        self._set(**{f"next:{release}": bin_})

    def journal(self, release: str) -> list[tuple[int, int, int, int]]:
        """(component, number, cell, noisy value) of everything measured for a release, in order."""
        rows = self._db.execute(
            "SELECT component, number, cell, value FROM journal WHERE release = ? ORDER BY component, number, cell",
            (release,),
        )
        return [(component, number, cell, int(value)) for component, number, cell, value in rows]

    def readings(self, release: str | None = None) -> list[Published]:
        """Everything published, by release, time and cell."""
        rows = self._db.execute(
            "SELECT release, number, cell, time, value, stderr, low, high FROM readings "
            "WHERE ?1 IS NULL OR release = ?1 ORDER BY release, number, cell",
            (release,),
        )
        return [Published(*row) for row in rows]

    def counts(self) -> dict[str, int]:
        """What did not count and why: for the operator alone."""
        return self._sums.counts()

    def prove_journal(self) -> int:
        """Walk the chain of ticks; returns the number of measurements it covers."""
        previous, covered = GENESIS, 0
        for number, (seq, claimed, sealed) in enumerate(
            self._db.execute("SELECT seq, previous, hash FROM ticks ORDER BY seq").fetchall(), start=1
        ):
            rows = self._db.execute(
                "SELECT release, component, number, cell, bin, value FROM journal WHERE tick = ?", (seq,)
            ).fetchall()
            if seq != number or claimed != previous or seal(previous, _digest(rows)) != sealed:
                raise StoreCorrupt(
                    f"tick {seq} of the journal does not match its seal: a measurement was altered or lost"
                )
            previous, covered = sealed, covered + len(rows)
        (total,) = self._db.execute("SELECT count(*) FROM journal").fetchone()
        if total != covered:
            raise StoreCorrupt("the journal holds measurements that no tick sealed")
        return covered


def _place(key: str) -> bytes:
    return b"meta\0" + key.encode()


def _digest(rows: Iterable[tuple[Any, ...]]) -> str:
    return seal("", *(json.dumps(row) for row in sorted(rows)))

"""The store: one file with a public and a secret part; a tick loads once and commits once."""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from tidegauge.errors import StoreError, StoreLocked
from tidegauge.model.tick import Known, Loaded, Progress
from tidegauge.store.database import FORMAT, Database, refusing
from tidegauge.store.draw import Draw
from tidegauge.store.public import part as public
from tidegauge.store.secret import part as secret
from tidegauge.store.secret.unfinished import Unfinished, erase, folder_of
from tidegauge.store.upgrade import upgrade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tidegauge.model.json import JsonObject
    from tidegauge.model.ledger import Reservation
    from tidegauge.model.program import State
    from tidegauge.model.tick import Clock, TickResult, Wanted
    from tidegauge.store.secret.exact import Levels


@dataclass(frozen=True)
class Commitment:
    """A plan as it is committed, and what is reserved for it."""

    plan: JsonObject
    """The plan's record."""
    time: str
    reservation: Reservation
    layout: Mapping[str, Mapping[str, str]]
    """The state's tables and their columns, as the engine declares them."""
    simulated: bool = False
    shared: str | None = None
    """The identity of the shared ledger that reserved it as well."""


class Store:
    """Open for writing by one process at a time, for reading by any."""

    def __init__(
        self, path: Path, *, write: bool = False, key: bytes | None = None, witness: Path | None = None
    ) -> None:
        self.path = path
        self._file = Database(path, write=write, key=key, tables=(*public.TABLES, *secret.TABLES))
        try:
            with refusing(str(path)):
                if write and self._file.version < FORMAT:
                    old = public.PublicPart(self._file, witness)
                    with self._file.snapshot():
                        old.require_intact()
                        old.require_newest()
                    upgrade(self._file)
                self.public = public.PublicPart(self._file, witness)
                self.secret = secret.SecretPart(self._file)
                with self._file.snapshot():
                    self.public.require_intact()
                    if write:
                        self.secret.begin()
                        self._remove_finished()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside becomes durable at its end, or none of it."""
        try:
            with self._file.transaction():
                yield
                self.public.journal.seal()
                self.secret.write()
                self._file.sign()
        except BaseException:
            self.public.journal.forget()
            self.secret.forget()
            raise

    def commit_plan(self, commitment: Commitment) -> None:
        """Reserve the plan's whole loss and make it immutable."""
        with self.transaction():
            if self.public.plan is not None:
                raise StoreError("a plan is already committed here")
            self.public.ledger.reserve(commitment.reservation, time=commitment.time)
            self._file.set("plan", json.dumps(commitment.plan, sort_keys=True, ensure_ascii=False))
            self._file.set("simulated", str(int(commitment.simulated)))
            if commitment.shared is not None:
                self._file.set("shared_ledger", commitment.shared)
            self.secret.create_state(commitment.layout)

    def amend_plan(self, plan: JsonObject, reservation: Reservation, *, time: str) -> None:
        """Reserve the loss of added releases and commit their plan beside those before: both, or neither."""
        with self.transaction():
            number = len(self.public.plans) + 1
            if number == 1:
                raise StoreError("no plan is committed here that releases could be added to")
            self.public.ledger.reserve(reservation, time=time, amends=True)
            self._file.set(f"{public.AMENDED}{number}", json.dumps(plan, sort_keys=True, ensure_ascii=False))

    def widen_state(self, layout: Mapping[str, Mapping[str, str]]) -> None:
        """Let the state have the columns of releases that are about to begin; they are empty in all rows."""
        if not self.secret.complete(layout):
            with self.transaction():
                self.secret.widen_state(layout)

    def identity(self) -> str:
        """The name by which a shared ledger knows this gauge: random, made once, and durable."""
        known = self._file.get("gauge")
        if known is None:
            known = uuid4().hex
            with self.transaction():
                self._file.set("gauge", known)
        return known

    @property
    def shared_ledger(self) -> str | None:
        """The identity of the shared ledger that the plan was committed with; None: it has none."""
        return self._file.get("shared_ledger")

    @property
    def draw(self) -> Draw:
        """The draw of at_most, which comes before the plan."""
        return Draw(self._file, self.public.ledger, self.transaction)

    def extend_state(
        self, layout: Mapping[str, Mapping[str, str]], levels: Callable[[State], Levels]
    ) -> None:
        """Let the state have the columns of this version of the engine; a newer version may need more.

        `levels`: gives the running values that the rows of the state show.
        """
        if not self.secret.complete(layout):
            found = levels(self.secret.state())
            with self.transaction():
                self.secret.extend_state(layout, found)

    @property
    def engine_secret(self) -> bytes | None:
        """The secret under which an engine encrypts the state that it keeps itself; None: no store key."""
        cipher = self._file.cipher
        return None if cipher is None else bytes.fromhex(cipher.mac("state of an engine", ()))

    def unfinished(self, plan: str) -> Unfinished:
        """The finished work on the history that the plan of this hash begins with."""
        return Unfinished(self.path, self._file.cipher, lambda: f"{self.identity()} {plan}")

    def _remove_finished(self) -> None:
        """Remove what was kept of a history that is committed: the process may have died before it did."""
        if folder_of(self.path).exists() and self.secret.clock.position is not None:
            erase(self.path)

    # -- a tick ----------------------------------------------------------------------------------------------

    def require_rows(self) -> None:
        """Raise StoreCorrupt where secrets or rows are not those that the last tick left."""
        with refusing(str(self.path)):
            self.secret.require_rows()

    @property
    def progress(self) -> Progress:
        """How far the gauge has come."""
        return Progress(self.secret.clock, self.public.next_bins)

    def load(self, wanted: Sequence[Wanted] = (), *, since: Clock | None = None) -> Loaded:
        """Everything that a tick starts from: the state, and what measuring these releases needs.

        `since`: where the caller knows the store to be.  Raises StoreLocked where another process has moved
        it.
        """
        if since is not None:
            self._require_at(since)
        return Loaded(
            self.secret.state(),
            {
                one.release: Known(
                    self.secret.sums.since(one.release, one.sums_from),
                    tuple(self.secret.shared_noise(one.release, j) for j in range(one.components)),
                    tuple(self.secret.stream(one.release, j) for j in range(one.components)),
                    tuple(self.secret.noise_ahead(one.release, j) for j in range(one.components)),
                    self.public.measured(one.release, one.components) if one.journal else None,
                )
                for one in wanted
            },
            self.secret.version,
        )

    def commit(self, result: TickResult) -> None:
        """Make everything that a tick led to durable, in one transaction, and let the witness know.

        Raises StoreLocked, and changes nothing, where another process has moved the store since the tick
        started.
        """
        with self.transaction():
            self._require_at(result.since)
            self.secret.take(result)
            for measured in result.measured:
                self.public.record(measured.measurements, measured.readings)
                self.public.set_next_bin(measured.release, measured.next_bin)
                self.secret.keep(measured)
            self.secret.set_clock(result.clock)
        if result.since.position is None:
            with suppress(StoreError):  # the next process that writes says why it cannot be removed
                erase(self.path)
        if result.ended:
            self.public.attest()

    def _require_at(self, since: Clock) -> None:
        if self.secret.clock != since:
            raise StoreLocked(
                f"{self.path} was written by another process meanwhile. What this one was about to "
                "commit was rolled back. Let only one process run it."
            )

"""The secret part of a store: rows and units, waiting changes, exact sums, shared noise and stream state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tidegauge.errors import StoreCorrupt
from tidegauge.model.tick import NOTHING_YET, Clock, NoiseAhead, StreamState
from tidegauge.store.secret.exact import ExactSums
from tidegauge.store.secret.old_rows import old_rows
from tidegauge.store.secret.packed import packed, unpacked
from tidegauge.store.secret.pending import WAITING, Keys, Pending
from tidegauge.store.secret.rows import RowDigests
from tidegauge.store.secret.secrets import SECRETS, STATE, Secrets
from tidegauge.store.secret.sums import SUMS, Sums
from tidegauge.store.secret.table.directory import Directory, require_blocks
from tidegauge.store.signature import require_undamaged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from tidegauge.model.tick import Measured, TickResult
    from tidegauge.store.database import Database
    from tidegauge.store.secret.exact import Levels
    from tidegauge.store.secret.state import StoredState
    from tidegauge.store.secret.tables import StateTables

    Layout = Mapping[str, Mapping[str, str]]
    """Table -> column -> type, as the engine declared the state."""

PAGES: Final = "CREATE TABLE pages (number INTEGER PRIMARY KEY, margin BLOB NOT NULL, content BLOB NOT NULL)"
"""The pages of the blocks of the state (tidegauge.store.secret.table.file), as a statement.

`margin` is as many zeros as fill the part of a row that SQLite may copy from page to page.  So `content` lies
on a page of its own, which is overwritten with zeros when the block is deleted.
"""
TABLES: Final = (SECRETS, *SUMS, *WAITING, PAGES)

_VERSION: Final = "engine_version"
_WIDTH: Final = 80
"""Characters of a sealed number, so that its length says nothing of its size."""


class SecretPart:
    """What a tick needs besides what is public, and what it keeps for the next one."""

    def __init__(self, file: Database) -> None:
        self._file, self._sealed = file, file.cipher is not None
        db, cipher = file.connection, file.cipher
        self._tables: StateTables | None = None
        self.secrets = Secrets(db, cipher, version=file.version)
        self.digests = RowDigests(db, cipher, self.secrets, version=file.version)
        self.sums = Sums(db, cipher, self.digests)
        self.pending = Pending(db, cipher, self.digests)
        self.keys = Keys(db, cipher)
        self.exact = ExactSums(self.secrets, sealed=self._sealed)

    # -- rows and units --------------------------------------------------------------------------------------

    def create_state(self, layout: Layout) -> None:
        """Begin the state, once, when the plan is committed."""
        self._file.set("layout", json.dumps(layout, sort_keys=False))
        self.secrets.set(STATE, {})
        self.set_clock(Clock(None, NOTHING_YET, 0))

    @property
    def keeps_excess(self) -> bool:
        """Whether the state keeps what the constraint drops of each unit."""
        return "excess" in self._layout()["units"]

    def complete(self, layout: Layout) -> bool:
        """Whether the tables of the state have all columns of this layout."""
        return not any(self._missing(layout).values())

    def _missing(self, layout: Layout) -> Layout:
        known = self._layout()
        return {
            table: {name: kind for name, kind in columns.items() if name not in known[table]}
            for table, columns in layout.items()
        }

    def _layout(self) -> dict[str, dict[str, str]]:
        layout = self._file.get("layout")
        assert layout is not None, "a plan is committed first"
        found: dict[str, dict[str, str]] = json.loads(layout)
        return found

    def extend_state(self, layout: Layout, levels: Levels) -> None:
        """Add the columns of the state that only this version of the engine has; inside a transaction.

        They are empty in all rows, so the exact values are known from now on only.  `levels`: the running
        values as the rows give them.
        """
        self.widen_state(layout)
        if self.clock.watermark > NOTHING_YET:
            self.exact.begin(self.clock.watermark, levels)

    def widen_state(self, layout: Layout) -> None:
        """Add the columns of this layout that the state does not have; inside a transaction."""
        known, more = self._layout(), self._missing(layout)
        extended = {table: {**known[table], **more.get(table, {})} for table in known}
        self._file.set("layout", json.dumps(extended, sort_keys=False))

    def state(self) -> StoredState:
        """The rows and units as they are known."""
        from tidegauge.store.secret.state import StoredState  # noqa: PLC0415  (slow to load)

        return StoredState(
            self._file, self._layout(), self.tables, self.pending, self.keys, watermark=self.clock.watermark
        )

    @property
    def tables(self) -> StateTables:
        """The tables of the state."""
        if self._tables is None:
            from tidegauge.store.secret.tables import StateTables  # noqa: PLC0415  (slow to load)

            self._tables = StateTables(
                self._file.connection, self._file.cipher, self.secrets, version=self._file.version
            )
        return self._tables

    def excess(self) -> Iterator[tuple[str, str]]:
        """Every unit whose accepted contribution is not the true one of the rows that count, and the
        difference, as the engine has it.
        """
        if self._file.version >= 4:
            yield from self.state().excess()
            return
        for rows in old_rows(self._file.connection, self._file.cipher, "units", self._layout()["units"]):
            some = rows.filter(rows["excess"].is_valid())
            yield from zip(some["unit"].to_pylist(), some["excess"].to_pylist(), strict=True)

    def living_rows(self) -> Iterator[pa.Table]:
        """Every living row, some at a time."""
        if self._file.version >= 4:
            yield self.state().all_entries()
            return
        yield from old_rows(self._file.connection, self._file.cipher, "entries", self._layout()["entries"])

    def begin(self) -> None:
        """Follow the changes of rows from now on.  Raises StoreCorrupt where they were altered."""
        self._require_undamaged()
        self.digests.begin(self._file.path.name)
        self._require_blocks(every=False)

    def require_rows(self) -> None:
        """Raise StoreCorrupt where secrets or rows are not those that the last tick left."""
        self._require_undamaged()
        self.digests.require(self._file.path.name)
        if self._file.version >= 4:
            self._require_blocks(every=self._sealed or self._file.version >= 6)

    def _require_undamaged(self) -> None:
        if not self._sealed and self._file.version >= 6:
            require_undamaged(self._file.connection, self._file.path.name)

    def _require_blocks(self, *, every: bool) -> None:
        if self._file.get("layout") is None:
            return
        if STATE not in self.secrets.names():
            raise StoreCorrupt(f"{self._file.path.name} has a plan but no state: the store was altered")
        tables = (self.secrets.get(STATE) or {}).get("tables", {}).values()
        names = [name for table in tables for name in Directory.from_json(table).names]
        require_blocks(self._file.connection, names, old=self._file.version < 6)
        if every:
            self.tables.open_all(names)

    # -- a tick ----------------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        """The source's position, and up to when everything has taken effect."""
        return Clock(*(self.secrets.get("clock") or (None, NOTHING_YET, 0)))

    def set_clock(self, clock: Clock) -> None:
        """Move on; inside the tick's transaction."""
        self.secrets.set("clock", [clock.position, clock.watermark, clock.arrivals])

    @property
    def version(self) -> str | None:
        """The committed version of an engine that keeps its state itself; None: it has none."""
        found: str | None = self.secrets.get(_VERSION)
        return found

    def take(self, result: TickResult) -> None:
        """Take over state, sums, counts and waiting changes; inside the tick's transaction."""
        if result.version is not None:
            self.secrets.set(_VERSION, result.version)
        elif result.folded:
            self.state().apply(result.folded)
        for folded in result.folded:
            self.sums.add(folded.totals)
            self.sums.count(folded.counts)
        if result.ended:
            self.exact.take(result)
        self.keys.put(result.arrived.keys)
        self.sums.count(result.arrived.counts)
        if result.ended:
            self.pending.replace(result.waiting)
        else:
            self.pending.append(result.waiting)

    def keep(self, measured: Measured) -> None:
        """Keep what the next measurement needs and erase the rest; inside the tick's transaction."""
        for component, (shared, stream, ahead) in enumerate(
            zip(measured.shared_noise, measured.streams, measured.ahead, strict=True)
        ):
            if shared:
                self.set_shared_noise(measured.release, component, shared)
            if stream is not None:
                self.set_stream(measured.release, component, stream)
            if ahead is not None:
                self.set_noise_ahead(measured.release, component, ahead)
        self.sums.drop(measured.release, measured.sums_from)
        if measured.sums_from is None:
            for component in range(len(measured.streams)):
                self.secrets.set(_shared(measured.release, component), None)
                self.secrets.set(_stream(measured.release, component), None)
                self.secrets.set(_ahead(measured.release, component), None)

    def shared_noise(self, release: str, component: int) -> tuple[int, ...]:
        """The secret draws, one a cell, that all rows of a component share; empty before the first."""
        return tuple(self.secrets.get(_shared(release, component)) or ())

    def set_shared_noise(self, release: str, component: int, draws: Sequence[int]) -> None:
        """Keep them; inside the tick's transaction."""
        self.secrets.set(_shared(release, component), list(draws))

    def stream(self, release: str, component: int) -> StreamState | None:
        """The integers that a buffered strategy keeps; None before its first bin."""
        found = self.secrets.get(_stream(release, component))
        if found is None:
            return None
        bins, rows = found
        return StreamState(bins, tuple(tuple(int(number) for number in cells) for cells in rows))

    def set_stream(self, release: str, component: int, state: StreamState) -> None:
        """Keep them; inside the tick's transaction, with the measurements that they led to."""
        width = _WIDTH if self._sealed else 0
        rows = [[str(number).rjust(width) for number in cells] for cells in state.rows]
        self.secrets.set(_stream(release, component), [state.bins, rows])

    def noise_ahead(self, release: str, component: int) -> NoiseAhead | None:
        """The noise of the bins that are not measured, where it was drawn ahead; None before the draw."""
        found = self.secrets.get(_ahead(release, component))
        return None if found is None else NoiseAhead(found[0], unpacked(*found[1:]))

    def set_noise_ahead(self, release: str, component: int, noise: NoiseAhead) -> None:
        """Keep it; inside the tick's transaction.  What was used before is overwritten with the others."""
        self.secrets.set(_ahead(release, component), [noise.bin, *packed(noise.rows)])

    def counts(self) -> dict[str, int]:
        """How many changes did not count, by reason: for the operator alone."""
        return self.sums.counts()

    # -- the transaction -------------------------------------------------------------------------------------

    def write(self) -> None:
        """Write what was set, and leave no copy of what was dropped; before the transaction ends."""
        self.sums.tidy()
        self.digests.save()
        self.secrets.write()
        if self._tables is not None:
            self._tables.saved()

    def forget(self) -> None:
        """The transaction was rolled back: drop what was set in memory."""
        for part in (self.sums, self.secrets, self.digests):
            part.forget()
        if self._tables is not None:
            self._tables.forget()


def _shared(release: str, component: int) -> str:
    return f"shared_noise:{release}:{component}"


def _ahead(release: str, component: int) -> str:
    return f"noise_ahead:{release}:{component}"


def _stream(release: str, component: int) -> str:
    return f"stream_state:{release}:{component}"

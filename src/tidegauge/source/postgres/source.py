"""A table of a PostgreSQL server, followed through its log."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import psycopg

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.mutation import Batch
from tidegauge.model.source import Check, FollowedSource
from tidegauge.source.batch.names import key_columns, literal, no_column, quote
from tidegauge.source.batch.rows import schema as batch_schema
from tidegauge.source.batch.rows import truncation
from tidegauge.source.batch.spool import Spool
from tidegauge.source.postgres import catalog
from tidegauge.source.postgres import publication as publications
from tidegauge.source.postgres.access import LOG, Access, Patience, final, reason, unreachable
from tidegauge.source.postgres.doctor import examine
from tidegauge.source.postgres.follow import Place, Transactions
from tidegauge.source.postgres.load import copied
from tidegauge.source.postgres.rows import Layout
from tidegauge.source.postgres.slot import OurSlot, SlotState, default_name, remove
from tidegauge.source.postgres.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tidegauge.source.postgres.access import Connection

_PASSING: Final = (psycopg.OperationalError, psycopg.InterfaceError)
_STALLED: Final = 5
"""After so many rounds without a message, the log probably ends in the middle of a record."""
_IDLE: Final = 120
"""Seconds after which an unused connection is replaced: a server or a firewall may have closed it."""


@dataclass
class _Round:
    """One read; it continues if a connection breaks."""

    target: int | None = None
    """The end of the log when the read began; None until the server has answered."""


class Postgres(FollowedSource):
    """Follows one table by logical replication.

    key:      the primary key, one column or several (`entry` is its older name).
    unit:     the column that names the unit of privacy.
    on_lost:  what to do if the log after our position is lost (the slot was dropped, the server was upgraded
              or restored): stop, or load the table again and count the net difference.
    patience: seconds for which a read waits for a server that does not answer.

    Publication and slot are created if they are missing and the role has the right.
    """

    installs = True
    leaves_out = 20
    """A value is stored out of line, and then left out of updates, only if it is longer than its pointer."""

    def __init__(
        self,
        dsn: str,
        table: str,
        *,
        key: str | Sequence[str] = (),
        entry: str | Sequence[str] = (),
        unit: str | None = None,
        schema: str = "public",
        slot: str | None = None,
        publication: str | None = None,
        on_lost: Literal["stop", "reload"] = "stop",
        patience: float = 600,
    ) -> None:
        self._access = Access(dsn)
        self._table = table
        self._schema = schema
        self._key = key_columns(key or entry, required=True)
        self._unit = unit
        self._named_slot = None if slot is None else OurSlot(slot)
        self._publication = publication or default_name(schema, table)
        self._on_lost = on_lost
        self._patience = patience
        self._selected: frozenset[str] | None = None
        self._columns: dict[str, str] | None = None
        self._connection: Connection | None = None
        self._stream: Stream | None = None
        self._transactions: Transactions | None = None
        self._slot_state = SlotState.SETTLED
        self._round: _Round | None = None
        """The current read, whose stream may be inside a transaction.  None between reads."""
        self._confirmed = 0
        self._used = time.monotonic()

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        return self._table

    @property
    def columns(self) -> Mapping[str, str]:
        """The table's columns as they are now."""
        if self._columns is None:
            try:
                found = self._found()
            except psycopg.Error as error:
                raise final(error) or unreachable(error) from None
            self._columns = catalog.types(found, self._table, self._unit)
        return self._columns

    def select(self, columns: Collection[str]) -> None:
        """Deliver these columns only; the others may be dropped or retyped during the run."""
        self._selected = frozenset(columns)
        self._end_stream()

    def doctor(self, position: str | None = None) -> list[Check]:
        """The checks for a run that continues from the store's `position`, with the SQL that fixes them."""
        return examine(
            self._access, schema=self._schema, table=self._table, key=frozenset(self._key), unit=self._unit,
            slot=self._slot_of, publication=self._publication, selected=self._selected,
            place=None if position is None else Place.parse(position), reloads=self._on_lost == "reload",
        )  # fmt: skip

    def rehearse(self) -> None:
        """Raise SourceError if another gauge uses the slot."""
        try:
            self._slot.require_free(self._control())
        except psycopg.Error as error:
            raise final(error) or unreachable(error) from None
        finally:
            self._disconnect()

    def reach(self, *, wait: bool) -> None:
        """Connect.  With `wait`, try again for as long as a read would."""
        patience = Patience(self._patience if wait else 0)
        while True:
            try:
                self._control()
            except _PASSING as error:
                patience.wait(error)
            except psycopg.Error as error:
                raise final(error) or unreachable(error) from None
            else:
                return

    def install(self) -> str:
        """Create the publication; the first load creates the slot."""
        try:
            found = self._found()
            self._publish(found, self._layout(found, {})[1])
        except psycopg.Error as error:
            raise final(error) or unreachable(error) from None
        finally:
            self._disconnect()
        return (
            f"The publication {quote(self._publication)} contains every change of {found.quoted}. The first "
            "run makes the replication slot. Undo with: tidegauge uninstall"
        )

    def uninstall(self, position: str | None = None) -> str:  # noqa: ARG002
        """Drop the slot, and the publication if no other gauge can be using it.

        As long as the slot exists, the server keeps its log from the slot's position on.
        """
        try:
            return remove(
                self._control(), self._slot, default_name(self._schema, self._table), self._publication
            )
        except psycopg.Error as error:
            raise final(error) or unreachable(error) from None
        finally:
            self._disconnect()

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Every change that the server's log has at the time of the call, in the order of the log."""
        place = None if position is None else Place.parse(position)
        if time.monotonic() - self._used > _IDLE:
            self._disconnect()
        patience = Patience(self._patience)
        self._round = _Round()
        try:
            while self._round is not None:
                try:
                    for batch in self._read(place, until):
                        place = Place.parse(batch.position)
                        patience.restore()
                        yield batch
                    self._round = None
                except _PASSING as error:
                    self._disconnect()
                    patience.wait(error)
        except psycopg.Error as error:
            raise final(error) or unreachable(error) from None
        finally:
            if self._round is not None:  # the next read cannot use a stream inside a transaction
                self._disconnect()
            self._round = None
            self._used = time.monotonic()

    def acknowledge(self, position: str) -> None:
        """Allow the server to remove its log up to this position."""
        self._confirmed = Place.parse(position).lsn
        if self._slot_state is SlotState.LOADING:
            self._slot_state = SlotState.COMMITTED
        try:
            if self._round is None:
                self._settle()
            if self._stream:
                self._stream.confirm(self._confirmed)
        except psycopg.Error as error:  # the next acknowledgement includes this one
            self._disconnect()
            LOG.warning("the position could not be acknowledged%s", reason(error))

    def _settle(self) -> None:
        """Give the slot its final name once its load is committed; no stream may be reading it."""
        if self._slot_state is SlotState.COMMITTED:
            self._end_stream()
            self._slot.settle(self._control())
            self._slot_state = SlotState.SETTLED

    def close(self) -> None:
        """Close the connections; slot and publication stay."""
        try:
            self._settle()
        except psycopg.Error as error:  # the next process does it
            LOG.warning("the slot could not be renamed%s", reason(error))
        self._disconnect()

    def _disconnect(self) -> None:
        self._end_stream()
        if self._connection:
            self._connection.close()
            self._connection = None

    def _end_stream(self) -> None:
        if self._stream:
            self._stream.close()
        self._stream = self._transactions = None

    def _control(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = self._access.connect()
        return self._connection

    def _slot_of(self, connection: Connection) -> OurSlot:
        """The slot.  Unlike the name of a publication, its name must be unique on the whole server."""
        return self._named_slot or OurSlot(default_name(connection.info.dbname, self._schema, self._table))

    @property
    def _slot(self) -> OurSlot:
        return self._slot_of(self._control())

    def _found(self) -> catalog.Table:
        found = catalog.table(self._control(), self._schema, self._table)
        return catalog.wanted(found, self._schema, self._table, frozenset(self._key))

    def _read(self, place: Place | None, until: int) -> Iterator[Batch]:
        if place is None or not self._opened(place):
            yield self._loaded(place, until)
            return
        try:
            yield from self._followed(until)
        except catalog.Changed as change:
            if self._on_lost == "stop" or not self._found().has(place.columns):
                raise
            LOG.warning("the whole table is read again: %s", str(change).partition(". ")[0])
            self._end_stream()
            yield self._loaded(place, until)

    def _loaded(self, place: Place | None, until: int) -> Batch:
        """The whole table.  Its snapshot is taken with the new slot, so no change is missed or read twice."""
        control, found = self._control(), self._found()
        layout, columns = self._layout(found, place.columns if place else {})
        self._publish(found, columns)
        if place and catalog.slot(control, self._slot.name):
            control.execute("SELECT pg_drop_replication_slot(%s)", [self._slot.name])
        begin = self._slot.make(control, self._access)
        self._slot_state = SlotState.LOADING
        spool = Spool(batch_schema(layout.columns))
        try:
            with control.transaction():
                control.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                control.execute(f"SET TRANSACTION SNAPSHOT {literal(begin.snapshot)}".encode())
                at = min(catalog.moment(control)[0], until)
                if place:  # replaces all rows known before
                    spool.append(truncation(layout.columns, at))
                for text in copied(control, found, layout.needed):
                    spool.append(layout.loaded(text, at))
        finally:
            begin.holder.close()
        loaded = Place(begin.lsn, begin.system, found.oid, columns)
        return Batch(rows=spool.take(), position=str(loaded), upto=until)

    def _followed(self, until: int) -> Iterator[Batch]:
        """Every change up to the target, which may move back if a connection breaks, but never forward."""
        assert self._stream is not None
        assert self._transactions is not None
        assert self._round is not None
        _, end = catalog.moment(self._control())
        target = self._round.target = end if self._round.target is None else min(self._round.target, end)
        yield from self._advance(self._stream, self._transactions, target)
        yield self._transactions.batch(until, target)

    def _advance(self, stream: Stream, transactions: Transactions, target: int) -> Iterator[Batch]:
        """Read until the server has sent everything before the target."""
        messages = transactions.waiting
        stream.ask()
        quiet = 0
        while True:
            yield from transactions.feed(messages, target)
            if transactions.waiting or (stream.reached >= target and not transactions.inside):
                return
            messages = stream.receive(0.2)
            quiet = 0 if messages else quiet + 1
            if quiet == _STALLED:
                catalog.nudge(self._control())

    def _opened(self, place: Place) -> bool:
        """Open the stream at this place.  Returns False if the table must be loaded again."""
        control, found = self._control(), self._found()
        layout, columns = self._layout(found, place.columns)
        try:
            found.require(place.relation)
            self._publish(found, columns)
            self._settle()
            if self._transactions and self._transactions.place == place and not self._transactions.pending:
                return True
            self._end_stream()
            self._stream = self._attached(control, place)
        except catalog.Lost as loss:
            if self._on_lost == "stop":
                raise
            LOG.warning("the whole table is read again: %s", str(loss).partition(". ")[0])
            return False
        if self._confirmed:
            self._stream.confirm(self._confirmed)
        self._transactions = Transactions(
            layout, place, schema_name=self._schema, table=self._table,
            base_type=lambda oid, modifier: catalog.base_type(self._control(), oid, modifier),
        )  # fmt: skip
        return True

    def _attached(self, control: Connection, place: Place) -> Stream:
        """A stream from this place on.  Raises Lost if the log after it is no longer available."""
        name = self._slot.current(control)
        _, log_end = catalog.moment(control)
        self._slot.check(control, name, position=place.lsn, log_end=log_end)
        if self._slot_state is SlotState.SETTLED:  # the load is in the store that the place came from
            self._slot.settle(control)
            name = self._slot.name
        assert name is not None
        connection = self._access.connect(replication=True)
        stream = Stream(connection, slot=name, publication=self._publication, start=place.lsn)
        if stream.system != place.system:
            stream.close()
            raise catalog.Lost("this is another PostgreSQL server than the one that was followed")
        return stream

    def _layout(
        self, found: catalog.Table, known: Mapping[str, list[int]]
    ) -> tuple[Layout, dict[str, list[int]]]:
        """Which columns are read, and the types they must keep: those at our place, or the present ones."""
        types = {name: list(kind) for name, kind in found.columns.items()} | dict(known)
        wanted = frozenset(known or types) if self._selected is None else self._selected
        used = [*wanted, *self._key, *([self._unit] if self._unit else [])]
        if missing := [name for name in used if name not in types]:
            raise SpecError(
                f"{no_column(self._table, missing, types)} Correct [source] or the SELECT.", key="source"
            )
        names = [name for name in types if name in wanted]
        columns = {name: types[name] for name in types if name in used}
        padded = frozenset(name for name, (oid, _) in columns.items() if oid == catalog.PADDED)
        kinds = {name: catalog.sql_type(*types[name]) for name in names}
        return Layout(kinds, self._key, self._unit, padded, found.partitioned), columns

    def _publish(self, found: catalog.Table, columns: Collection[str]) -> None:
        """Create the publication if it is missing.  Raises SourceError if it lacks changes of our table."""
        control = self._control()
        publication = publications.publication(control, self._publication, found)
        if publication is None:
            needed = publications.create_publication(control, self._publication, found)
            try:
                control.execute(needed.encode())
            except psycopg.errors.InsufficientPrivilege:
                raise SourceError("this role may not create the publication. Nothing was read. As the table's"
                                  f" owner: {needed}") from None  # fmt: skip
            return
        missing = publications.amend_publication(self._publication, found, publication, frozenset(columns))
        if missing is not None:
            raise SourceError(
                f"the publication does not contain every change. Nothing was read. As its owner: {missing}"
                if missing
                else f"the publication {quote(self._publication)} does not contain every change, and cannot "
                "without writes in its other tables being refused. Nothing was read. Choose another "
                "[source] publication."
            )

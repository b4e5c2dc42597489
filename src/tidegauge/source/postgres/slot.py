"""Our replication slot, from its creation to its removal.

A slot is created under the name '<slot>_loading'.  It gets its final name once the load is committed.  So a
slot under the loading name belongs to no gauge and may be dropped.  A slot under the final name belongs to a
gauge that needs it; only `uninstall` and a reload drop it.
"""

from __future__ import annotations

import enum
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg

from tidegauge.errors import SourceError, SpecError
from tidegauge.source.batch.names import quote
from tidegauge.source.postgres import catalog
from tidegauge.source.postgres.access import LOG
from tidegauge.source.postgres.stream import identify, place

if TYPE_CHECKING:
    from tidegauge.source.postgres.access import Access, Connection

_NAME: Final = re.compile(r"[a-z0-9_]{1,55}")
_LOADING: Final = "_loading"


def default_name(*path: str) -> str:
    """The default name of the slot or publication for the table at the end of this path."""
    plain = re.sub(r"[^a-z0-9_]", "_", path[-1].lower())[:30]
    exact = sha256(".".join(map(quote, path)).encode()).hexdigest()
    return f"tidegauge_{plain}_{exact[:8]}"


class SlotState(enum.Enum):
    """The state of a slot that this process created.  A slot that it found is settled."""

    LOADING = "created, under its loading name; the load is not committed"
    COMMITTED = "the load is committed; the slot still has its loading name"
    SETTLED = "has its final name, or gets it from the next process"


class Beginning(NamedTuple):
    """Where a new slot begins.  While `holder` is open, `snapshot` shows the table at this place."""

    holder: Connection
    system: str
    lsn: int
    snapshot: str


class OurSlot:
    """Finds, creates, renames and checks the slot."""

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise SpecError("a slot's name has up to 55 of a-z, 0-9 and _", key="source.slot")
        self.name = name

    @property
    def loading(self) -> str:
        """Its name until the first load is committed."""
        return self.name + _LOADING

    def current(self, connection: Connection) -> str | None:
        """The name that the slot has now; None if it does not exist."""
        return next((name for name in (self.name, self.loading) if catalog.slot(connection, name)), None)

    def make(self, connection: Connection, access: Access) -> Beginning:
        """Create the slot."""
        self.require_free(connection)
        if self.drop_loading(connection):
            LOG.info("dropped a replication slot whose first load had not been committed")
        holder = access.connect(replication=True)
        statement = f"CREATE_REPLICATION_SLOT {quote(self.loading)} LOGICAL pgoutput EXPORT_SNAPSHOT"
        try:
            system = identify(holder)
            made = holder.execute(statement.encode()).fetchone()
        except BaseException:
            holder.close()
            raise
        assert made is not None
        return Beginning(holder, system, place(made[1]), str(made[2]))

    def require_free(self, connection: Connection) -> None:
        """Raise SourceError if another gauge uses the slot, or is loading the table with it now."""
        own = f"Give this gauge a slot of its own: slot = '{self.name[:53]}_2' in [source]"
        if catalog.slot(connection, self.name):
            raise SourceError(
                f"the replication slot {self.name} belongs to a gauge that has already loaded the table. "
                f"Nothing was read. {own}; or, if that gauge is gone: {catalog.drop_slot(self.name)}"
            )
        loading = catalog.slot(connection, self.loading)
        if loading and loading.active:
            raise SourceError(
                f"another gauge is loading the table with the replication slot {self.loading} now. Nothing "
                f"was read. {own}."
            )

    def drop_loading(self, connection: Connection) -> bool:
        """Drop the slot under its loading name.  Returns whether it existed."""
        found = catalog.slot(connection, self.loading) is not None
        if found:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [self.loading])
        return found

    def settle(self, connection: Connection) -> None:
        """Give the slot its final name, if it does not have it: its load is committed."""
        if not catalog.slot(connection, self.name):
            connection.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", [self.loading, self.name])
        self.drop_loading(connection)

    def check(self, connection: Connection, name: str | None, *, position: int, log_end: int) -> None:
        """Raise SourceError unless the slot and the log are those from which `position` was read."""
        found = catalog.slot(connection, name) if name else None
        if found is None or (name == self.loading and found.confirmed > position):
            raise catalog.Lost(f"the replication slot {self.name} is gone")
        if found.plugin != "pgoutput" or not found.here:
            raise SourceError(
                f"the replication slot {name} is of another plugin or database. Nothing was read. "
                "Give this gauge a slot of its own ([source] slot)."
            )
        if found.lost:
            raise catalog.Lost(f"the server has given up the replication slot {name}")
        if found.confirmed > position:
            raise SourceError(
                f"the replication slot {name} has been read further than this store knows: the store is an "
                "old copy, or another gauge used the slot. Nothing was read. Readings may have been "
                "published that this store does not remember; do not publish from it. Bring back the newest "
                "store, or start a new gauge."
            )
        if log_end < position:
            raise catalog.Lost(
                "the server's log ends before the place that was read last: it was restored from a backup"
            )


def remove(connection: Connection, slot: OurSlot, own: str, publication: str) -> str:
    """Drop the slot, and the publication if it is named `own`, our default, and no other gauge can use it."""
    done = []
    for name in (slot.name, slot.loading):
        if (found := catalog.slot(connection, name)) is not None:
            if found.active:
                raise SourceError(
                    f"the replication slot {name} is being read. Nothing was removed. Stop the gauge first."
                )
            connection.execute("SELECT pg_drop_replication_slot(%s)", [name])
            done.append(f"the replication slot {name}")
    others = connection.execute(
        "SELECT 1 FROM pg_replication_slots WHERE slot_type = 'logical' AND database = current_database()"
    ).fetchone()
    there = connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", [publication]).fetchone()
    drop = f"DROP PUBLICATION {quote(publication)};"
    left = ""
    if there and publication == own and not others:
        try:
            connection.execute(drop.encode())
            done.append(f"the publication {quote(publication)}")
        except psycopg.errors.InsufficientPrivilege:
            left = f" This role may not remove the publication; as its owner: {drop}"
    elif there:
        left = f" The publication may serve others and was left; if it does not: {drop}"
    if not done:
        return "Nothing of this gauge was installed." + left
    return (
        f"Removed {' and '.join(done)}. The server keeps no log for this gauge any longer, so the gauge "
        'cannot continue where it stopped. With [source] on_lost = "reload" it reads the whole table again, '
        f"and the net difference counts.{left}"
    )

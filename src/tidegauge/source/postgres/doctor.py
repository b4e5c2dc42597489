"""Checks of what a server needs before a table can be followed, and the SQL that adds what is missing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from tidegauge.errors import SourceError
from tidegauge.model.source import Check
from tidegauge.source.batch.names import quote
from tidegauge.source.postgres import catalog
from tidegauge.source.postgres import publication as publications
from tidegauge.source.postgres.access import final, unreachable
from tidegauge.source.postgres.identity import restricted, statements
from tidegauge.source.postgres.stream import identify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidegauge.source.postgres.access import Access, Connection
    from tidegauge.source.postgres.follow import Place
    from tidegauge.source.postgres.slot import OurSlot


def examine(
    access: Access,
    *,
    schema: str,
    table: str,
    key: frozenset[str],
    unit: str | None,
    slot: Callable[[Connection], OurSlot],
    publication: str,
    selected: frozenset[str] | None,
    place: Place | None,
    reloads: bool,
) -> list[Check]:
    """Every check that can be made, in the order in which the findings must be fixed.

    place:   the store's position in the log; None before the first load.
    reloads: whether the gauge loads the table again if the log after its position is lost.
    """
    try:
        with access.connect() as connection:
            ours = slot(connection)
            checks = [Check("connection", ok=True, detail="the server answers"), *_server(connection, ours)]
            found = catalog.table(connection, schema, table)
            checks.append(_slot(connection, ours, _Reached(access, place, found, reloads=reloads)))
            try:
                target = catalog.ordinary(found, schema, table)
            except SourceError as refusal:
                return [*checks, Check("table", ok=False, detail=str(refusal))]
            used = (frozenset(target.columns) if selected is None else selected) | {
                *key,
                *([unit] if unit else []),
            }
            first = statements(target.members, key)
            if first and restricted(connection, target.members):
                return [
                    *checks,
                    _named(
                        target,
                        used,
                        key,
                        "a publication has a column list or row filter for it. Remove those first: "
                        "PostgreSQL would refuse writes if the replica identity were changed before",
                    ),
                    *_rights(connection, target),
                ]
            return [
                *checks,
                _named(target, used, key, None),
                *_rights(connection, target),
                _publication(connection, publication, target, used, first),
            ]
    except psycopg.Error as error:
        return [Check("connection", ok=False, detail=str(final(error) or unreachable(error)))]


def _named(target: catalog.Table, used: frozenset[str], key: frozenset[str], hindrance: str | None) -> Check:
    """Whether the columns exist and the log identifies every row by the key."""
    if missing := used - set(target.columns):
        return Check(
            "table",
            ok=False,
            detail=f"{target.quoted} has no column {', '.join(map(quote, sorted(missing)))}",
        )
    needed = statements(target.members, key)
    parts = " in every partition" if target.partitioned else ""
    if not needed:
        return Check("table", ok=True, detail=f"{target.quoted} and its key are in the server's log{parts}")
    columns = ", ".join(map(quote, sorted(key)))
    detail = f"the server's log does not identify the rows of {target.quoted} by {columns}{parts}"
    if hindrance is not None:
        return Check("table", ok=False, detail=f"{detail}, and {hindrance}")
    if target.partitioned and any("FULL" in one for one in needed):
        detail += (
            ". A partition that is added later needs REPLICA IDENTITY FULL as well, before its rows are "
            "updated or deleted; a primary key of the whole table is inherited by every partition"
        )
    return Check("table", ok=False, detail=detail, fix=" ".join(needed))


def _server(connection: Connection, slot: OurSlot) -> Iterator[Check]:
    def show(name: str) -> str:
        row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
        assert row is not None
        return str(row[0])

    def count(query: bytes) -> int:
        row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])

    version = connection.info.server_version // 10000
    yield Check("version", version >= 13, f"PostgreSQL {version}; 13 or later is needed")
    encoding = show("server_encoding")
    yield Check(
        "encoding",
        encoding != "SQL_ASCII",
        f"the database's encoding is {encoding}; text of unknown encoding cannot be read",
    )
    level = show("wal_level")
    yield Check(
        "wal_level",
        level == "logical",
        f"wal_level is {level}; it must be logical",
        "ALTER SYSTEM SET wal_level = 'logical'; -- then restart the server",
    )
    slots, limit = count(b"SELECT count(*) FROM pg_replication_slots"), int(show("max_replication_slots"))
    current = slot.current(connection)
    yield Check(
        "max_replication_slots",
        current is not None or slots < limit,
        f"{slots} of {limit} are in use",
        f"ALTER SYSTEM SET max_replication_slots = {limit + 4}; -- then restart the server",
    )
    senders, limit = (
        count(b"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'"),
        int(show("max_wal_senders")),
    )
    yield Check(
        "max_wal_senders",
        senders < limit,
        f"{senders} of {limit} are in use",
        f"ALTER SYSTEM SET max_wal_senders = {limit + 4}; -- then restart the server",
    )


@dataclass(frozen=True)
class _Reached:
    """The store's position in the log, and what it is compared with."""

    access: Access
    place: Place | None
    table: catalog.Table | None
    reloads: bool

    def require(self, connection: Connection, slot: OurSlot) -> None:
        """Raise Lost or another SourceError if a run could not continue from the position."""
        assert self.place is not None
        if self.table is not None:
            self.table.require(self.place.relation)
        current = slot.current(connection)
        _, log_end = catalog.moment(connection)
        slot.check(connection, current, position=self.place.lsn, log_end=log_end)
        with suppress(psycopg.Error):  # without the right to replicate, which another check reports
            with self.access.connect(replication=True) as replication:
                system = identify(replication)
            if system != self.place.system:
                raise catalog.Lost("this is another PostgreSQL server than the one that was followed")


def _slot(connection: Connection, slot: OurSlot, reached: _Reached) -> Check:
    current = slot.current(connection)
    found = catalog.slot(connection, current) if current else None
    if reached.place is not None:
        try:
            reached.require(connection, slot)
        except catalog.Lost as loss:
            reason = str(loss).partition(". ")[0]
            if reached.reloads:
                return Check(
                    "slot",
                    ok=True,
                    detail=f"{reason}; the next run loads the table again, and the net difference counts",
                )
            return Check(
                "slot",
                ok=False,
                detail=f"{reason}, so the gauge cannot continue from its position. It can load the table "
                "again and count the net difference; otherwise start a new gauge",
                fix='[source] on_lost = "reload"',
            )
        except SourceError as refusal:
            return Check("slot", ok=False, detail=str(refusal))
    if found is None or current is None:
        return Check("slot", ok=True, detail="there is none yet; the first run makes it")
    if reached.place is None:
        if found.active:
            return Check(
                "slot", ok=False, detail=f"{current} is read by another gauge; choose another [source] slot"
            )
        if current == slot.name:
            return Check(
                "slot",
                ok=False,
                detail=f"{current} belongs to a gauge that has already loaded the "
                "table, and this store has not. Give this gauge a slot of its own; or, if that gauge is "
                f"gone: {catalog.drop_slot(current)}",
                fix=f"[source] slot = '{current[:53]}_2'",
            )
        return Check(
            "slot",
            ok=True,
            detail=f"{current} is left from a load that was not committed; the first run replaces it",
        )
    row = connection.execute("SELECT current_setting('max_slot_wal_keep_size')").fetchone()
    assert row is not None
    keeps = str(row[0])
    limit = (
        "without limit: watch the server's disk while the gauge is down"
        if keeps == "-1"
        else f"up to {keeps}"
    )
    state = "read by a process now" if found.active else "waiting for its reader"
    return Check("slot", ok=True, detail=f"{current} is {state}; the server keeps its log for it {limit}")


def _rights(connection: Connection, target: catalog.Table) -> Iterator[Check]:
    row = connection.execute(
        "SELECT rolname, rolsuper OR rolreplication OR EXISTS (SELECT FROM pg_roles g WHERE g.rolname IN "
        "('rds_replication', 'cloudsqlsuperuser', 'azure_pg_admin') AND pg_has_role(g.oid, 'member')), "
        "has_table_privilege(%s::oid, 'SELECT') AND has_schema_privilege(%s, 'USAGE'), "
        "row_security_active(%s::oid) "
        "FROM pg_roles WHERE rolname = current_user",
        [target.oid, target.schema, target.oid],
    ).fetchone()
    assert row is not None
    name, replicates, selects, filtered = row
    role = quote(name)
    yield Check(
        "replication",
        replicates,
        f"the role {role} may read the server's log"
        if replicates
        else f"the role {role} may not read the server's log",
        f"ALTER ROLE {role} REPLICATION;",
    )
    yield Check(
        "select",
        selects,
        f"the role {role} may {'' if selects else 'not '}read {target.quoted}",
        f"GRANT USAGE ON SCHEMA {quote(target.schema)} TO {role}; GRANT SELECT ON {target.quoted} TO {role};",
    )
    yield Check(
        "row security",
        not filtered,
        "policies hide rows from this role" if filtered else "no policy hides rows",
        f"ALTER ROLE {role} BYPASSRLS;",
    )


def _publication(
    connection: Connection, name: str, target: catalog.Table, used: frozenset[str], first: Sequence[str]
) -> Check:
    """Whether the publication contains every change.

    first: what the table needs before it is published; without it, the server would refuse writes.
    """
    full = any("FULL" in one for one in first)
    found = publications.publication(connection, name, target, full=full)
    if found is None:
        row = connection.execute(
            "SELECT pg_has_role(relowner, 'usage') AND has_database_privilege(current_database(), 'CREATE') "
            "FROM pg_class WHERE oid = %s",
            [target.oid],
        ).fetchone()
        may = bool(row and row[0])
        make = publications.create_publication(connection, name, target, full=full)
        return Check(
            "publication",
            may,
            "there is none yet; the first run makes it"
            if may
            else "there is none, and this role may not make it",
            " ".join([*first, make]),
        )
    missing = publications.amend_publication(name, target, found, used)
    if missing == "":
        return Check(
            "publication",
            ok=False,
            detail="it does not contain every change, and other tables of "
            "it have no replica identity: their updates would be refused. Choose another [source] "
            "publication",
        )
    return Check(
        "publication",
        missing is None,
        "it contains every change" if missing is None else "it does not contain every change",
        None if missing is None else " ".join([*first, missing]),
    )

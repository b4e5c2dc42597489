"""What a server needs to be followed, checked one by one, and the SQL that brings what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from tidegauge.errors import SourceError
from tidegauge.source import postgres_catalog as catalog
from tidegauge.source.check import Check
from tidegauge.source.names import quote
from tidegauge.source.postgres_access import final, unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidegauge.source.postgres_access import Access, Connection
    from tidegauge.source.postgres_slot import OurSlot


def examine(
    access: Access,
    *,
    schema: str,
    table: str,
    entry: Sequence[str],
    unit: str | None,
    slot: Callable[[Connection], OurSlot],
    publication: str,
    selected: frozenset[str] | None,
) -> list[Check]:
    """Every check that can be made; the table's follow only where there is one."""
    try:
        with access.connect() as connection:
            checks = [
                Check("connection", ok=True, detail="the server answers"),
                *_server(connection, slot(connection)),
            ]
            found = catalog.table(connection, schema, table)
            try:
                target = catalog.wanted(found, schema, table, frozenset(entry))
            except SourceError as refusal:
                detail, _, fix = str(refusal).partition(", or: ")
                return [*checks, Check("table", ok=False, detail=detail, fix=fix or None)]
            used = (frozenset(target.columns) if selected is None else selected) | {
                *entry,
                *([unit] if unit else []),
            }
            missing = used - set(target.columns)
            checks.append(Check("table", not missing, f"{target.quoted} and its key are in the server's log" if not missing
                                else f"{target.quoted} has no column {', '.join(map(quote, sorted(missing)))}"))  # fmt: skip
            return [
                *checks,
                *_rights(connection, target),
                _publication(connection, publication, target, used),
            ]
    except psycopg.Error as error:
        return [Check("connection", ok=False, detail=str(final(error) or unreachable(error)))]


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
    yield Check("encoding", encoding != "SQL_ASCII", f"the database's encoding is {encoding}; text of unknown encoding "
                "cannot be read")  # fmt: skip
    level = show("wal_level")
    yield Check("wal_level", level == "logical", f"wal_level is {level}; it must be logical",
                "ALTER SYSTEM SET wal_level = 'logical'; -- then restart the server")  # fmt: skip
    slots, limit = count(b"SELECT count(*) FROM pg_replication_slots"), int(show("max_replication_slots"))
    current = slot.current(connection)
    yield Check("max_replication_slots", current is not None or slots < limit, f"{slots} of {limit} are in use",
                f"ALTER SYSTEM SET max_replication_slots = {limit + 4}; -- then restart the server")  # fmt: skip
    senders, limit = (
        count(b"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'"),
        int(show("max_wal_senders")),
    )
    yield Check("max_wal_senders", senders < limit, f"{senders} of {limit} are in use",
                f"ALTER SYSTEM SET max_wal_senders = {limit + 4}; -- then restart the server")  # fmt: skip
    yield _slot(connection, current, show("max_slot_wal_keep_size"))


def _slot(connection: Connection, current: str | None, keeps: str) -> Check:
    found = catalog.slot(connection, current) if current else None
    if found is None or current is None:
        return Check("slot", ok=True, detail="there is none yet; the first run makes it")
    if found.lost:
        return Check("slot", ok=False, detail=f"{current} is lost: the server dropped what it kept for it",
                     fix=catalog.drop_slot(current))  # fmt: skip
    if found.plugin != "pgoutput" or not found.here:
        return Check(
            "slot",
            ok=False,
            detail=f"{current} is of another plugin or database; choose another [source] slot",
        )
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
        "has_table_privilege(%s::oid, 'SELECT') AND has_schema_privilege(%s, 'USAGE'), row_security_active(%s::oid) "
        "FROM pg_roles WHERE rolname = current_user",
        [target.oid, target.schema, target.oid],
    ).fetchone()
    assert row is not None
    name, replicates, selects, filtered = row
    role = quote(name)
    yield Check("replication", replicates, f"the role {role} may read the server's log" if replicates
                else f"the role {role} may not read the server's log", f"ALTER ROLE {role} REPLICATION;")  # fmt: skip
    yield Check("select", selects, f"the role {role} may {'' if selects else 'not '}read {target.quoted}",
                f"GRANT USAGE ON SCHEMA {quote(target.schema)} TO {role}; GRANT SELECT ON {target.quoted} TO {role};")  # fmt: skip
    yield Check("row security", not filtered, "policies hide rows from this role" if filtered else "no policy hides rows",
                f"ALTER ROLE {role} BYPASSRLS;")  # fmt: skip


def _publication(connection: Connection, name: str, target: catalog.Table, used: frozenset[str]) -> Check:
    found = catalog.publication(connection, name, target)
    if found is None:
        row = connection.execute(
            "SELECT pg_has_role(relowner, 'usage') AND has_database_privilege(current_database(), 'CREATE') "
            "FROM pg_class WHERE oid = %s",
            [target.oid],
        ).fetchone()
        may = bool(row and row[0])
        return Check("publication", may, "there is none yet; the first run makes it" if may
                     else "there is none, and this role may not make it", catalog.create_publication(name, target))  # fmt: skip
    missing = catalog.amend_publication(name, target, found, used)
    return Check("publication", missing is None,
                 "it tells of every change" if missing is None else "it does not tell of every change", missing)  # fmt: skip

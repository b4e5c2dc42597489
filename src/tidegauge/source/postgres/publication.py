"""Publications: how a publication publishes our table, and the SQL after which it publishes every change.

No statement here makes a write of the application fail that succeeded before.  PostgreSQL refuses updates and
deletions in published tables without a replica identity, so no statement publishes such a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegauge.source.batch.names import quote
from tidegauge.source.postgres.identity import FULL

if TYPE_CHECKING:
    from tidegauge.source.postgres.access import Connection
    from tidegauge.source.postgres.catalog import Table

_MODERN: Final = 150_000
_GENERATED: Final = 180_000


@dataclass(frozen=True)
class Publication:
    """How a publication publishes our table.  `lists`: the published columns; None for all of them."""

    every_change: bool
    via_root: bool
    contains: bool
    filtered: bool
    lists: frozenset[str] | None
    generated: bool
    """Whether generated columns are published as the table's replica identity needs it."""
    extendable: bool
    """Whether it can publish every kind of change without making writes to its other tables fail."""


def publication(
    connection: Connection, name: str, target: Table, *, full: bool = False
) -> Publication | None:
    """The publication as it is now; None if it does not exist.

    full: whether the table's replica identity is going to be FULL.
    """
    version = connection.info.server_version
    generated = "pubgencols = 's'" if version >= _GENERATED else "true"
    row = connection.execute(
        "SELECT oid::int8, puballtables, pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubupdate "
        "AND pubdelete, "
        f"pubviaroot, {generated} FROM pg_publication WHERE pubname = %s".encode(),
        [name],
    ).fetchone()
    if row is None:
        return None
    oid, everything, every_change, updates, via_root, publishes_generated = row
    detail = (
        "prqual IS NOT NULL, CASE WHEN prattrs IS NOT NULL THEN ARRAY(SELECT attname::text FROM pg_attribute "
        "WHERE attrelid = prrelid AND attnum = ANY(prattrs)) END"
        if version >= _MODERN
        else "false, NULL"
    )
    direct = connection.execute(
        f"SELECT {detail} FROM pg_publication_rel WHERE prpubid = %s AND prrelid = %s".encode(),
        [oid, target.oid],
    ).fetchone()
    listed = connection.execute(
        "SELECT 1 FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s AND tablename = %s",
        [name, target.schema, target.name],
    ).fetchone()
    filtered, lists = direct or (False, None)
    whole = lists is None or set(lists) >= set(target.columns)
    return Publication(
        every_change,
        via_root,
        contains=everything or direct is not None or listed is not None,
        filtered=filtered,
        lists=None if whole else frozenset(lists),
        generated=publishes_generated or not _needs_generated(connection, target, full=full),
        extendable=updates or not _others_refuse(connection, name, oid, target),
    )


def _needs_generated(connection: Connection, target: Table, *, full: bool) -> bool:
    """Whether generated columns must be published.

    From version 18 on, FULL includes generated columns, and updates are refused if these are not published.
    """
    if connection.info.server_version < _GENERATED or not (full or target.members[0].identity == FULL):
        return False
    row = connection.execute(
        "SELECT 1 FROM pg_attribute WHERE attrelid = %s AND attgenerated = 's' AND NOT attisdropped",
        [target.oid],
    ).fetchone()
    return row is not None


def _others_refuse(connection: Connection, name: str, oid: int, target: Table) -> bool:
    """Whether another table of the publication would refuse updates and deletions once they are published."""
    without = connection.execute(
        """SELECT 1 FROM (
               SELECT c.oid FROM pg_publication_tables p JOIN pg_namespace n ON nspname = schemaname
               JOIN pg_class c ON relnamespace = n.oid AND relname = tablename WHERE pubname = %s
           ) published, LATERAL (
               SELECT published.oid
               UNION SELECT relid::oid FROM pg_partition_tree(published.oid::regclass) WHERE isleaf
           ) part(oid) JOIN pg_class c ON c.oid = part.oid
           WHERE relkind = 'r' AND c.oid <> ALL(%s::oid[])
           AND (relreplident = 'n' OR (relreplident = 'd' AND NOT EXISTS (
               SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary AND indimmediate)))""",
        [name, [one.oid for one in target.members]],
    ).fetchone()
    if without is not None or connection.info.server_version < _MODERN:
        return without is not None
    return connection.execute(
        "SELECT 1 FROM pg_publication_rel WHERE prpubid = %s AND prrelid <> %s AND (prattrs IS NOT NULL OR "
        "prqual IS NOT NULL)",
        [oid, target.oid],
    ).fetchone() is not None  # fmt: skip


def create_publication(connection: Connection, name: str, target: Table, *, full: bool = False) -> str:
    """The statement that creates the publication."""
    options = ["publish_via_partition_root = true"] if target.partitioned else []
    if _needs_generated(connection, target, full=full):
        options.append("publish_generated_columns = stored")
    written = f" WITH ({', '.join(options)})" if options else ""
    return f"CREATE PUBLICATION {quote(name)} FOR TABLE {target.quoted}{written};"


def amend_publication(name: str, target: Table, found: Publication, used: frozenset[str]) -> str | None:
    """The statements after which a publication publishes every change.

    None if it already does; empty if no statement can be offered.
    """
    quoted = quote(name)
    options = []
    if target.partitioned and not found.via_root:
        options.append("publish_via_partition_root = true")
    if not found.generated:
        options.append("publish_generated_columns = stored")
    if not found.every_change:
        options.append("publish = 'insert, update, delete, truncate'")
    needed = [f"ALTER PUBLICATION {quoted} SET ({', '.join(options)});"] if options else []
    if found.filtered or (found.lists is not None and not used <= found.lists):
        needed.insert(0, f"ALTER PUBLICATION {quoted} DROP TABLE {target.quoted};")
        needed.append(f"ALTER PUBLICATION {quoted} ADD TABLE {target.quoted};")
    elif not found.contains:
        needed.append(f"ALTER PUBLICATION {quoted} ADD TABLE {target.quoted};")
    if needed and not found.every_change and not found.extendable:
        return ""
    return " ".join(needed) or None

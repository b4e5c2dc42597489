"""Replica identities: the columns by which the server's log identifies the rows of a table or partition.

Once a table is published, PostgreSQL refuses an UPDATE or DELETE in a partition without a replica identity.
The identity of the partition, not that of the table, decides which old values are in the log.  So every
partition must have an identity that contains our key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegauge.source.batch.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.source.postgres.access import Connection

FULL: Final = "f"
_MODERN: Final = 150_000


@dataclass(frozen=True)
class Member:
    """A table, or one of its partitions that hold rows.  `key`: the columns of its replica identity."""

    oid: int
    quoted: str
    kind: str
    persistence: str
    identity: str
    key: frozenset[str]
    primary: frozenset[str]

    @property
    def logged(self) -> bool:
        """Whether its changes are in the log: it is an ordinary, permanent table."""
        return self.kind in "rp" and self.persistence == "p"


def members(connection: Connection, oid: int) -> tuple[Member, ...]:
    """The table, and then its partitions at every level that hold rows."""
    columns = (
        "SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped"
    )
    indexed = (
        f"{columns} AND attnum = ANY (SELECT unnest(indkey) FROM pg_index "
        "WHERE indrelid = c.oid AND indimmediate AND"
    )
    rows = connection.execute(
        f"""SELECT c.oid::int8, nspname, relname, relkind, relpersistence, relreplident,
                   ARRAY({indexed} indisprimary)),
                   CASE relreplident WHEN 'f' THEN ARRAY({columns} AND attgenerated = '')
                                     WHEN 'i' THEN ARRAY({indexed} indisreplident))
                                     WHEN 'd' THEN ARRAY({indexed} indisprimary)) ELSE '{{}}' END
            FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
            WHERE c.oid = %(oid)s
               OR c.oid IN (SELECT relid FROM pg_partition_tree(%(oid)s::oid::regclass) WHERE isleaf)
            ORDER BY c.oid <> %(oid)s, nspname, relname""".encode(),
        {"oid": oid},
    ).fetchall()
    return tuple(
        Member(
            number,
            f"{quote(schema)}.{quote(name)}",
            kind,
            persistence,
            identity,
            frozenset(key),
            frozenset(primary),
        )
        for number, schema, name, kind, persistence, identity, primary, key in rows
    )


def statements(found: Sequence[Member], key: frozenset[str]) -> list[str]:
    """The statements after which the log identifies every row by these columns; empty if it already does.

    Partitions come first, so that at no moment a write is refused that was allowed before.
    """
    wrong = sorted((one for one in found if not key <= one.key), key=lambda one: one == found[0])
    return [
        f"ALTER TABLE {one.quoted} REPLICA IDENTITY {'DEFAULT' if key <= one.primary else 'FULL'};"
        for one in wrong
    ]


def restricted(connection: Connection, found: Sequence[Member]) -> bool:
    """Whether a publication has a column list or row filter for one of these tables.

    PostgreSQL refuses updates if these do not match the replica identity, so it must not be changed.
    """
    if connection.info.server_version < _MODERN:
        return False
    oids = [one.oid for one in found]
    row = connection.execute(
        "SELECT 1 FROM pg_publication_rel WHERE (prattrs IS NOT NULL OR prqual IS NOT NULL) AND (prrelid = "
        "ANY(%(oids)s::oid[]) "
        "OR prrelid IN (SELECT relid FROM unnest(%(oids)s::oid[]) AS one, "
        "pg_partition_ancestors(one::regclass) AS relid))",
        {"oids": oids},
    ).fetchone()
    return row is not None

"""Tables and slots as the server's catalog describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SourceError, SpecError
from tidegauge.source.batch.names import literal, no_key_or_unit, quote
from tidegauge.source.postgres.identity import members, statements
from tidegauge.source.postgres.stream import place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegauge.source.postgres.access import Connection
    from tidegauge.source.postgres.identity import Member

_KINDS: Final = {
    16: "BOOLEAN", 20: "BIGINT", 21: "SMALLINT", 23: "INTEGER", 700: "FLOAT", 701: "DOUBLE",
    1082: "DATE", 1083: "TIME", 1114: "TIMESTAMP", 1184: "TIMESTAMP",
}  # fmt: skip
_NUMERIC: Final = 1700
_FIRST_OWN_TYPE: Final = 16384
PADDED: Final = 1042
"""The type character(n): its trailing blanks have no meaning in SQL."""
ANY_NUMERIC: Final = "DECIMAL(38,9)"


def sql_type(oid: int, modifier: int) -> str:
    """The embedded engine's type for a type of the server; VARCHAR if there is no similar one."""
    if oid != _NUMERIC:
        return _KINDS.get(oid, "VARCHAR")
    precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
    return f"DECIMAL({precision},{scale})" if modifier >= 0 and scale <= precision <= 38 else ANY_NUMERIC


def base_type(connection: Connection, oid: int, modifier: int) -> tuple[int, int]:
    """The type that a domain stands for."""
    while oid >= _FIRST_OWN_TYPE:
        row = connection.execute(
            "SELECT typbasetype::int8, typtypmod FROM pg_type WHERE oid = %s", [oid]
        ).fetchone()
        if row is None or not row[0]:
            break
        oid, modifier = row
    return oid, modifier


class Lost(SourceError):
    """The changes since our position are no longer available."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}. Nothing was read, and nothing already published changes. "
            'With [source] on_lost = "reload" the whole table is read again, and the net difference counts.'
        )


class Changed(SourceError):
    """The log describes another table than the one that was followed."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}. The gauge stops at this point of the log: earlier changes were delivered or will be, "
            "later changes were neither read nor acknowledged. Undo the change of the table and start again. "
            "If rows were changed in between, the log still has them in their former shape: then set "
            '[source] on_lost = "reload", which reads the whole table again and counts the net difference.'
        )


@dataclass(frozen=True)
class Table:
    """A table, its columns as (type, modifier), and how the log identifies the rows of each partition."""

    oid: int
    schema: str
    name: str
    columns: dict[str, tuple[int, int]]
    members: tuple[Member, ...]

    @property
    def quoted(self) -> str:
        """Its name in a statement."""
        return f"{quote(self.schema)}.{quote(self.name)}"

    def require(self, oid: int) -> None:
        """Raise Lost if this is another table of the same name."""
        if oid != self.oid:
            raise Lost(f"the table {self.quoted} is another than the one that was followed")

    def has(self, columns: Mapping[str, Sequence[int]]) -> bool:
        """Whether the table has these columns, with these types."""
        return all(
            name in self.columns
            and self.columns[name][0] == oid
            and sql_type(*self.columns[name]) == sql_type(oid, modifier)
            for name, (oid, modifier) in columns.items()
        )

    @property
    def partitioned(self) -> bool:
        """Whether the rows are in partitions."""
        return self.members[0].kind == "p"


def table(connection: Connection, schema: str, name: str) -> Table | None:
    """The table as it is now; None if it does not exist."""
    row = connection.execute(
        "SELECT c.oid::int8 FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s "
        "AND relname = %s",
        [schema, name],
    ).fetchone()
    if row is None:
        return None
    (oid,) = row
    columns = connection.execute(
        "SELECT attname, atttypid::int8, atttypmod FROM pg_attribute "
        "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
        [oid],
    ).fetchall()
    named = {column: base_type(connection, kind, modifier) for column, kind, modifier in columns}
    return Table(oid, schema, name, named, members(connection, oid))


def tables(connection: Connection, schema: str) -> list[str]:
    """The tables, views and foreign tables of a schema that this role may read, without partitions."""
    found = connection.execute(
        "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s "
        "AND relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT relispartition AND has_table_privilege(c.oid, "
        "'SELECT') ORDER BY 1",
        [schema],
    )
    return [name for (name,) in found]


def primary_key(connection: Connection, target: Table) -> list[str]:
    """The columns of the primary key, in their order."""
    found = connection.execute(
        "SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey) "
        "WHERE indrelid = %s AND indisprimary ORDER BY array_position(indkey::int2[], attnum)",
        [target.oid],
    )
    return [name for (name,) in found]


@dataclass(frozen=True)
class Slot:
    """A replication slot.  The server may have removed its log up to `confirmed`."""

    plugin: str
    here: bool
    active: bool
    lost: bool
    confirmed: int


def slot(connection: Connection, name: str) -> Slot | None:
    """The slot as it is now; None if it does not exist."""
    row = connection.execute(
        "SELECT plugin, database = current_database(), active, coalesce(wal_status = 'lost', false), "
        "coalesce(confirmed_flush_lsn::text, '0/0') FROM pg_replication_slots WHERE slot_name = %s",
        [name],
    ).fetchone()
    return None if row is None else Slot(row[0] or "", bool(row[1]), row[2], row[3], place(row[4]))


def drop_slot(name: str) -> str:
    """The statement that removes a slot."""
    return f"SELECT pg_drop_replication_slot({literal(name)});"


def moment(connection: Connection) -> tuple[int, int]:
    """The server's clock (microseconds), and the position up to which its log is durable."""
    row = connection.execute(
        "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::int8, "
        "pg_current_wal_flush_lsn()::text"
    ).fetchone()
    assert row is not None
    return row[0], place(row[1])


def nudge(connection: Connection) -> None:
    """Write an empty message to the log, so that the server completes the current page of the log."""
    connection.execute("SELECT pg_logical_emit_message(true, 'tidegauge', '')")


def ordinary(target: Table | None, schema: str, name: str) -> Table:
    """The table.  Raises SourceError if its changes are not in the log."""
    if target is None:
        raise SourceError(
            f"there is no table {quote(schema)}.{quote(name)} that this role may see. Nothing "
            "was read. Correct "
            "[source] table or schema, or grant the role USAGE on the schema and SELECT on the table."
        )
    if unlogged := [one.quoted for one in target.members if not one.logged]:
        raise SourceError(
            f"{unlogged[0]} is not an ordinary, permanent table: its changes are not in the server's log. "
            'Nothing was read. Use a source of kind "snapshots" for it.'
        )
    return target


def wanted(target: Table | None, schema: str, name: str, key: frozenset[str]) -> Table:
    """The table.  Raises SourceError if it cannot be followed."""
    found = ordinary(target, schema, name)
    if unknown := sorted(key - found.columns.keys()):
        raise SpecError(no_key_or_unit(name, unknown, found.columns), key="source")
    if missing := statements(found.members, key):
        raise SourceError(
            f"the server's log does not identify the rows of {found.quoted} by "
            f"{', '.join(map(quote, sorted(key)))}{' in every partition' if found.partitioned else ''}. "
            f"Nothing was read. Declare them as its primary key, or: {' '.join(missing)}"
        )
    return found


def types(found: Table, name: str, unit: str | None) -> dict[str, str]:
    """The types of the columns in SQL.  Raises SpecError if the unit is not one of them."""
    if unit is not None and unit not in found.columns:
        raise SpecError(no_key_or_unit(name, [unit], found.columns), key="source")
    return {column: sql_type(*kind) for column, kind in found.columns.items()}

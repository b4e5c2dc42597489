"""Triggers that write every change of an SQLite table into a table beside it.

Columns are always written with their table: SQLite takes an unknown quoted name for a string.  The
application may use any version of SQLite, any journal mode and any way of writing.

REPLACE removes a row when another row takes its place, and no trigger fires for the removal.  So the rows
that may be removed are noted as rivals before each insertion or update.  A note always names a row that
exists according to the log, with its present unique values: notes follow renames, and a recorded deletion
removes them.  A noted row that is no longer in the table was therefore replaced: its deletion is recorded,
before the change that replaced it.
"""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SourceError, SpecError
from tidegauge.source.batch.names import key_columns, listed, no_key_or_unit, no_table, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

META: Final = "_tidegauge"
ACTIONS: Final = ("insert", "update", "delete", "before_insert", "before_update", "after_update")
NOW: Final = (
    "CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * "
    "1000"
)
"""The time in microseconds, exact to the millisecond, in SQL of every version of SQLite."""


def connect(path: str | Path, wait: float = 10.0) -> sqlite3.Connection:
    """Open an existing file.  Transactions are begun and ended explicitly.  Raises SourceError."""
    if not Path(path).exists():
        raise SourceError("there is no such file. Correct [source] path", path=str(path))
    refusal = SourceError(
        "is not an SQLite file that can be opened. "
        "Correct [source] path, or give this user the right to read it",
        path=str(path),
    )
    try:
        connection = sqlite3.connect(
            Path(path).absolute().as_uri() + "?mode=rw", uri=True, timeout=wait, isolation_level=None
        )
    except sqlite3.Error:
        raise refusal from None
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema")
    except sqlite3.Error:
        connection.close()
        raise refusal from None
    return connection


def log_name(table: str) -> str:
    """The name of the table of changes."""
    return f"{META}:log:{table}"


def rivals_name(table: str) -> str:
    """The name of the table of rows that a statement may replace."""
    return f"{META}:rivals:{table}"


def readers_name(table: str) -> str:
    """The name of the table of gauges that read the changes."""
    return f"{META}:readers:{table}"


def trigger_name(action: str, table: str) -> str:
    """The name of the trigger of an action."""
    return f"{META}:{action}:{table}"


@dataclass(frozen=True)
class Recorder:
    """The names and statements of what is installed for one table."""

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    """The recorded columns, the key included."""
    rivalries: tuple[tuple[tuple[str, str], ...], ...]
    """Sets of (column, collation) in which no two rows may agree, other than the key."""
    defaults: dict[str, str]
    """The value that REPLACE writes into such a column instead of null."""

    @property
    def log(self) -> str:
        """The table of changes."""
        return log_name(self.table)

    @property
    def rivals(self) -> str:
        """The table of rows that a statement may replace."""
        return rivals_name(self.table)

    @property
    def _rival_columns(self) -> list[str]:
        return list(dict.fromkeys(name for columns in self.rivalries for name, _ in columns))

    def tables(self) -> Iterator[str]:
        """The statements that create the tables and their indexes."""
        old = ", ".join(quote(f"old_{name}") for name in self.key)
        new = ", ".join(quote(f"new_{name}") for name in self.columns)
        yield (
            f"CREATE TABLE {quote(self.log)} "
            f"(id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, kind TEXT NOT NULL, {old}, {new})"
        )
        by = "".join(f", {quote(f'by_{name}')}" for name in self._rival_columns)
        yield f"CREATE TABLE {quote(self.rivals)} ({old}{by})"
        yield f"CREATE INDEX {quote(self.rivals + ':key')} ON {quote(self.rivals)} ({old})"
        for number, columns in enumerate(self.rivalries):
            sets = ", ".join(f"{quote(f'by_{name}')} COLLATE {quote(order)}" for name, order in columns)
            yield f"CREATE INDEX {quote(f'{self.rivals}:{number}')} ON {quote(self.rivals)} ({sets})"

    def triggers(self) -> dict[str, str]:
        """The statements that create the triggers, by name."""
        table, log, rivals = quote(self.table), quote(self.log), quote(self.rivals)
        old = ", ".join(quote(f"old_{name}") for name in self.key)
        new = ", ".join(quote(f"new_{name}") for name in self.columns)
        old_values = ", ".join(f"OLD.{quote(name)}" for name in self.key)
        new_values = ", ".join(f"NEW.{quote(name)}" for name in self.columns)
        by = [f"{quote(f'by_{name}')} = NEW.{quote(name)}" for name in self._rival_columns]
        refresh = f"UPDATE {rivals} SET {', '.join(by)} WHERE {self._noted('NEW')}; " if by else ""
        moved = ", ".join([*(f"{quote(f'old_{name}')} = NEW.{quote(name)}" for name in self.key), *by])
        renamed = _differ(self.key)
        actions = {
            "insert": f"AFTER INSERT ON {table} BEGIN {self._gone()}{refresh}"
            f"INSERT INTO {log} (at, kind, {new}) VALUES ({NOW}, 'i', {new_values}); END",
            "update": f"AFTER UPDATE ON {table} BEGIN "
            + self._delete(f"({self._noted('NEW')}) AND ({renamed})")  # the key was another row's
            + f"UPDATE {rivals} SET {moved} WHERE {self._noted('OLD')}; {self._gone()}"
            f"INSERT INTO {log} (at, kind, {old}, {new}) SELECT {NOW}, 'u', {old_values}, {new_values} WHERE "
            f"{_differ(self.columns)}; END",
            "delete": f"AFTER DELETE ON {table} BEGIN DELETE FROM {rivals} WHERE {self._noted('OLD')}; "
            f"INSERT INTO {log} (at, kind, {old}) VALUES ({NOW}, 'd', {old_values}); END",
            "before_update": f"BEFORE UPDATE ON {table} WHEN {_differ([*self.key, *self._rival_columns])} "
            f"BEGIN {self._note_others()} END",
        }
        if self.rivalries:
            actions["before_insert"] = (
                f"BEFORE INSERT ON {table} BEGIN {self._note(self._agree('t', ''))} END"
            )
        return {
            (name := trigger_name(action, self.table)): f"CREATE TRIGGER {quote(name)} {body}"
            for action, body in actions.items()
        }

    def _noted(self, row: str) -> str:
        """Whether a note has the key of OLD or NEW.  The plus removes the affinity: the index is used."""
        return " AND ".join(f"{quote(f'old_{name}')} IS +{row}.{quote(name)}" for name in self.key)

    def _agree(self, row: str, prefix: str) -> str:
        """Whether a row, or its note, has the values of the new row in a unique set."""

        def new(name: str) -> str:
            default = self.defaults.get(name)  # REPLACE writes it instead of null, after the triggers
            value = f"NEW.{quote(name)}" if default is None else f"coalesce(NEW.{quote(name)}, {default})"
            return f"+{value}" if prefix else value

        return " OR ".join(
            "(" + " AND ".join(f"{row}.{quote(prefix + name)} = {new(name)} COLLATE "
                               f"{quote(order)}" for name, order in columns) + ")"
            for columns in self.rivalries
        )  # fmt: skip

    def _note_others(self) -> str:
        """Note the other rows that have the new key of the updated row, or its values in a unique set."""
        same = " AND ".join(f"t.{quote(name)} = NEW.{quote(name)}" for name in self.key)
        agree = self._agree("t", "")
        other = " OR ".join(f"NOT (t.{quote(name)} COLLATE BINARY IS OLD.{quote(name)})" for name in self.key)
        return self._note(f"(({same}){f' OR {agree}' if agree else ''}) AND ({other})")

    def _note(self, condition: str) -> str:
        keys = ", ".join(f"t.{quote(name)}" for name in (*self.key, *self._rival_columns))
        known = " AND ".join(f"r.{quote(f'old_{name}')} IS +t.{quote(name)}" for name in self.key)
        return (
            f"INSERT INTO {quote(self.rivals)} SELECT {keys} FROM {quote(self.table)} AS t WHERE "
            f"({condition}) "
            f"AND NOT EXISTS (SELECT 1 FROM {quote(self.rivals)} AS r WHERE {known});"
        )

    def _gone(self) -> str:
        """Record as deleted the noted rows that the new row has replaced."""
        if not self.rivalries:
            return ""
        same = " AND ".join(
            f"t.{quote(name)} IS r.{old} AND t.{quote(name)} COLLATE BINARY IS r.{old}"
            for name in self.key
            for old in [quote(f"old_{name}")]
        )
        return self._delete(
            f"({self._agree('r', 'by_')}) AND NOT EXISTS (SELECT 1 FROM {quote(self.table)} AS t WHERE "
            f"{same})"
        )

    def _delete(self, condition: str) -> str:
        """Record the noted rows (r) of a condition as deleted."""
        rivals, olds = quote(self.rivals), ", ".join(quote(f"old_{name}") for name in self.key)
        found = f"FROM {rivals} AS r WHERE {condition}"
        return (
            f"INSERT INTO {quote(self.log)} (at, kind, {olds}) SELECT {NOW}, 'd', {olds} {found}; "
            f"DELETE FROM {rivals} WHERE rowid IN (SELECT r.rowid {found}); "
        )


def _differ(names: Iterable[str]) -> str:
    """Whether the old and the new row differ in a column, in its value or only in its type."""
    return " OR ".join(
        f"NOT (NEW.{column} COLLATE BINARY IS OLD.{column}) OR typeof(NEW.{column}) <> typeof(OLD.{column})"
        for column in map(quote, dict.fromkeys(names))
    )


def primary_key(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    """The columns of the primary key, in its order."""
    found = connection.execute("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", [table])
    return tuple(name for (name,) in found)


def table_names(connection: sqlite3.Connection) -> list[str]:
    """The names of the application's tables."""
    found = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~' "
        f"AND name NOT LIKE '~{META}%' ESCAPE '~' ORDER BY name"
    )
    return [name for (name,) in found]


def declared(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """The table's stored columns and their declared types."""
    found = connection.execute(
        "SELECT x.name, x.type FROM sqlite_schema AS s, pragma_table_xinfo(s.name) AS x "
        "WHERE s.type = 'table' AND s.name = ? AND x.hidden = 0",
        [table],
    )
    return dict(found.fetchall())


def _rivalries(
    connection: sqlite3.Connection, table: str, key: Sequence[str]
) -> Iterator[tuple[tuple[str, str], ...]]:
    """The unique sets for which REPLACE may remove rows: all but the key, which updates the same row."""
    indexes = connection.execute(
        'SELECT name, origin FROM pragma_index_list(?) WHERE "unique"', [table]
    ).fetchall()
    for name, _ in indexes:
        columns = connection.execute(
            "SELECT name, coll FROM pragma_index_xinfo(?) WHERE key", [name]
        ).fetchall()
        if any(column is None for column, _ in columns):
            raise SourceError(
                f"the table {quote(table)} has a unique index on an expression: a row that REPLACE throws "
                "out for it "
                'would not be seen. Nothing was installed. Use a source of kind "snapshots".'
            )
        exact = all(collation == "BINARY" for _, collation in columns)
        if {column for column, _ in columns} != set(key) or not exact:
            yield tuple(columns)
    alias = primary_key(connection, table)  # an INTEGER PRIMARY KEY is the table itself and has no index
    if alias and set(alias) != set(key) and "pk" not in [origin for _, origin in indexes]:
        yield tuple((column, "BINARY") for column in alias)


def _unique_sets(connection: sqlite3.Connection, table: str) -> list[set[str]]:
    """The sets of columns whose values are unique."""
    found = connection.execute(
        "SELECT i.seq, x.name FROM pragma_index_list(?) AS i, pragma_index_xinfo(i.name) AS x "
        'WHERE i."unique" AND NOT i.partial AND x.key',
        [table],
    ).fetchall()
    indexes: dict[int, set[str]] = {}
    for number, column in found:
        indexes.setdefault(number, set()).add(column)
    return [set(primary_key(connection, table)), *indexes.values()]


def recorder(
    connection: sqlite3.Connection, table: str, key: Sequence[str] = (), columns: Sequence[str] = ()
) -> Recorder:
    """The recorder for this table and these columns; all columns if none are named."""
    known = declared(connection, table)
    if not known:
        raise SourceError(no_table(table, table_names(connection)))
    keys = tuple(key) or primary_key(connection, table)
    if not keys:
        raise SourceError(
            f"the table {quote(table)} has no primary key, and VACUUM may renumber its rows. Nothing was "
            "read or installed. Name the columns that identify its rows ([source] key)."
        )
    if missing := [name for name in (*keys, *columns) if name not in known]:
        raise SpecError(no_key_or_unit(table, missing, known), key="source")
    if set(keys) not in _unique_sets(connection, table):
        raise SpecError(
            f"{listed(keys)} is neither the primary key of {quote(table)} nor unique. Name "
            "columns that are, or "
            "make a unique index on these",
            key="source.key",
        )
    recorded = tuple(name for name in known if not columns or name in columns or name in keys)
    found = connection.execute(
        'SELECT name, dflt_value FROM pragma_table_info(?) WHERE "notnull" AND dflt_value IS NOT NULL',
        [table],
    )
    return Recorder(
        table,
        keys,
        recorded,
        tuple(_rivalries(connection, table, keys)),
        {name: f"({default})" for name, default in found},
    )


def _has_meta(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", [META]).fetchone() is not None


def installed(
    connection: sqlite3.Connection, table: str
) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """The token, key and columns of what is installed; None if nothing is."""
    if not _has_meta(connection):
        return None
    row = connection.execute(f"SELECT token FROM {META} WHERE name = ?", [table]).fetchone()
    if row is None:
        return None
    names = [
        name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", [log_name(table)])
    ]
    key = tuple(name.removeprefix("old_") for name in names if name.startswith("old_"))
    columns = tuple(name.removeprefix("new_") for name in names if name.startswith("new_"))
    return row[0], key, columns


def triggers_of(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """The statements of the triggers of a table, by name."""
    query = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?"
    return dict(connection.execute(query, [table]).fetchall())


def intact(connection: sqlite3.Connection, wanted: Recorder) -> bool:
    """Whether every trigger exists with the same statement.  A rebuilt table has lost its triggers."""
    found = triggers_of(connection, wanted.table)
    return all(found.get(name) == statement for name, statement in wanted.triggers().items())


def install(
    path: str | Path,
    table: str,
    *,
    key: str | Sequence[str] = (),
    columns: Sequence[str] = (),
    entry: str | Sequence[str] = (),
) -> None:
    """Record the changes of a table from now on.  Does nothing if they are already recorded in this way."""
    keys = key_columns(key or entry)
    with closing(connect(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            wanted = recorder(connection, table, keys, columns)
            found = installed(connection, table)
            if not (found and found[1:] == (wanted.key, wanted.columns) and intact(connection, wanted)):
                _remove(connection, table)
                connection.execute(
                    f"CREATE TABLE IF NOT EXISTS {META} (name TEXT PRIMARY KEY, token TEXT NOT NULL)"
                )
                connection.execute(f"INSERT INTO {META} VALUES (?, ?)", [table, secrets.token_hex(8)])
                for statement in (*wanted.tables(), *wanted.triggers().values()):
                    connection.execute(statement)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def uninstall(path: str | Path, table: str) -> None:
    """Remove everything that `install` created.  Recorded changes that were not read are lost."""
    with closing(connect(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        _remove(connection, table)
        if _has_meta(connection) and not connection.execute(f"SELECT 1 FROM {META}").fetchone():
            connection.execute(f"DROP TABLE {META}")
        connection.execute("COMMIT")


def _remove(connection: sqlite3.Connection, table: str) -> None:
    for action in ACTIONS:
        connection.execute(f"DROP TRIGGER IF EXISTS {quote(trigger_name(action, table))}")
    for name in (log_name(table), rivals_name(table), readers_name(table)):
        connection.execute(f"DROP TABLE IF EXISTS {quote(name)}")
    if _has_meta(connection):
        connection.execute(f"DELETE FROM {META} WHERE name = ?", [table])

"""The state of stores up to format 3: one row of SQLite for each row, as it is or sealed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from tidegauge.store.cipher import Cipher

TABLES: Final = ("entries", "units", "used")
_ARROW: Final = {"VARCHAR": "string", "BIGINT": "int64"}
_AT_ONCE: Final = 500_000


def old_rows(
    db: sqlite3.Connection, cipher: Cipher | None, table: str, declared: Mapping[str, str]
) -> Iterator[pa.Table]:
    """All rows of a table with the columns that the engine declared, some at a time."""
    import pyarrow as pa  # noqa: PLC0415  (slow to load)

    there = {name for (name,) in db.execute(f"SELECT name FROM pragma_table_info('{table}')")}
    names = ", ".join(f'"{name}"' if name in there else "NULL" for name in declared)
    found = db.execute(f"SELECT {names} FROM {table}" if cipher is None else f"SELECT * FROM {table}")
    while rows := found.fetchmany(_AT_ONCE):
        opened = rows if cipher is None else [_opened(cipher, table, row) for row in rows]
        columns = [
            pa.array([row[n] if n < len(row) else None for row in opened], _ARROW[kind])
            for n, kind in enumerate(declared.values())
        ]  # a row that was sealed before a column was added is shorter
        yield pa.Table.from_arrays(columns, names=list(declared))


def _opened(cipher: Cipher, table: str, row: tuple[Any, ...]) -> list[Any]:
    """A sealed row; it is bound to its table and to the tokens by which it was found."""
    *tokens, sealed = row
    found: list[Any] = cipher.open(table.encode() + b"\0" + b"".join(tokens), sealed)
    return found

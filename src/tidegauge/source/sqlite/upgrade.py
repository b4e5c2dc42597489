"""Triggers of the first version are replaced by those of today; they wrote the same log."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

from tidegauge.source.batch.names import quote
from tidegauge.source.sqlite import triggers

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path


def renew(path: str | Path, table: str, key: Sequence[str] = ()) -> bool:
    """Replace triggers of the first version, which wrote the same log; returns whether there were any."""
    with closing(triggers.connect(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = triggers.installed(connection, table)
            known = found is not None and set(found[2]) <= triggers.declared(connection, table).keys()
            wanted = triggers.recorder(connection, table, key, found[2]) if found and known else None
            if first := wanted is not None and _of_first_version(connection, wanted):
                assert wanted is not None
                for action in triggers.ACTIONS:
                    connection.execute(
                        f"DROP TRIGGER IF EXISTS {quote(triggers.trigger_name(action, table))}"
                    )
                connection.execute(f"DROP TABLE IF EXISTS {quote(wanted.rivals)}")
                for statement in (*islice(wanted.tables(), 1, None), *wanted.triggers().values()):
                    connection.execute(statement)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    return first


def _of_first_version(connection: sqlite3.Connection, wanted: triggers.Recorder) -> bool:
    """Whether the triggers are those that the first version made for the table as it is."""
    found = triggers.triggers_of(connection, wanted.table)
    actions = ["insert", "update", "delete"]
    if wanted.rivalries:
        actions += ["before_insert", "before_update", "after_update"]
    watched, name = ", ".join(map(quote, wanted.columns)), triggers.trigger_name("update", wanted.table)
    begins = (
        f"CREATE TRIGGER {quote(name)} AFTER UPDATE OF {watched} ON {quote(wanted.table)} BEGIN INSERT INTO"
    )
    complete = found.keys() >= {triggers.trigger_name(one, wanted.table) for one in actions}
    return complete and found[name].startswith(begins)

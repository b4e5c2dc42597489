"""tidegauge, dying by SIGKILL at a given point: python deadly.py POINT before|after NTH VERB ...

A point is a step of a tick or of its surroundings; the process ends before or after its NTH time.  The point
"write" is every statement that changes a database, and every file that is synced or renamed.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tidegauge.cli import main
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.source.postgres.source import Postgres
from tidegauge.source.sqlite.source import SQLite
from tidegauge.store.public.journal import Journal
from tidegauge.store.public.ledger import Ledger
from tidegauge.store.public.part import PublicPart
from tidegauge.store.secret.part import SecretPart
from tidegauge.store.secret.secrets import Secrets
from tidegauge.store.secret.state import StoredState
from tidegauge.store.secret.sums import Sums
from tidegauge.store.secret.table.file import BlockFile
from tidegauge.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POINTS: Final[dict[str, list[tuple[type, str]]]] = {
    "reserve": [(Ledger, "reserve")],
    "commit plan": [(Store, "commit_plan")],
    "engine": [(DuckEngine, "fold")],
    "load": [(Store, "load")],
    "fold": [(StoredState, "apply")],
    "block": [(BlockFile, "write")],
    "old block": [(BlockFile, "delete")],
    "sums": [(Sums, "add")],
    "record": [(PublicPart, "record")],
    "next bin": [(PublicPart, "set_next_bin")],
    "keep": [(SecretPart, "keep")],
    "clock": [(SecretPart, "set_clock")],
    "seal": [(Journal, "seal")],
    "secrets": [(Secrets, "write")],
    "transaction": [(Store, "transaction")],
    "commit": [(Store, "commit")],
    "attest": [(PublicPart, "attest")],
    "acknowledge": [(Postgres, "acknowledge"), (SQLite, "acknowledge")],
    "close": [(Postgres, "close"), (Store, "close")],
}
"""By name, the methods that are this step."""


GROWING: Final[dict[str, list[tuple[type, str]]]] = {
    "amend plan": [(Store, "amend_plan")],
    "widen": [(Store, "widen_state")],
    "begin": [(DuckEngine, "begin")],
}
"""The same for gauges to which releases are added."""


WRITE: Final = "write"
_WRITING: Final = {"BEGIN", "COMMIT", "INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "ALTER", "DROP"}


def arm(point: str, when: str, nth: int) -> None:
    """Make the process end there."""
    left = nth

    def passing() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    if point == WRITE:
        _arm_writes(passing)
        return
    for owner, name in (POINTS | GROWING)[point]:
        real = getattr(owner, name)

        def step(self: Any, *args: Any, _real: Any = real, **options: Any) -> Any:
            if when == "before":
                passing()
            result = _real(self, *args, **options)
            if when == "after":
                passing()
            return result

        @contextmanager
        def whole(self: Any, *, _real: Any = real) -> Iterator[None]:
            if when == "before":
                passing()
            with _real(self):
                yield
            if when == "after":
                passing()

        setattr(owner, name, whole if name == "transaction" else step)


def _arm_writes(passing: Callable[[], None]) -> None:
    """Call this before everything that is written."""
    connect, calls = sqlite3.connect, {name: getattr(os, name) for name in ("fsync", "replace", "rename")}

    def seen(statement: str) -> None:
        if statement.split(None, 1)[0].upper() in _WRITING:
            passing()

    def connected(*args: Any, **options: Any) -> sqlite3.Connection:
        found: sqlite3.Connection = connect(*args, **options)
        found.set_trace_callback(seen)
        return found

    def before(name: str) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            passing()
            return calls[name](*args, **options)

        return called

    sqlite3.connect = connected  # type: ignore[assignment]
    for name in calls:
        setattr(os, name, before(name))


if __name__ == "__main__":
    arm(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.argv[1:] = sys.argv[4:]
    main()

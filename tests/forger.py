"""Someone with write access to a store without a key: changes the committed plan,
then makes all hashes agree again."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from tidegauge.plan.outline import address
from tidegauge.store.public.ledger import GENESIS, seal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def forge(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit the plan, compute the ledger's chain again so that it commits the edited plan,
    and remove the witness."""
    path.with_name(f"{path.name}.witness").unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as db, db:
        (text,) = db.execute("SELECT value FROM meta WHERE key = 'plan'").fetchone()
        plan = json.loads(text)
        edit(plan)
        db.execute("UPDATE meta SET value = ? WHERE key = 'plan'", (json.dumps(plan),))
        commit_again(db, plan)


def commit_again(db: sqlite3.Connection, plan: dict[str, Any], **changes: str) -> None:
    """Let the ledger's first entry commit this plan (with these changes of its body),
    every seal as it should be."""
    previous = GENESIS
    for seq, time, kind, body in db.execute(
        "SELECT seq, time, kind, body FROM ledger ORDER BY seq"
    ).fetchall():
        known = json.loads(body)
        if "plan" in known:
            known |= {"plan": address(plan), **changes}
        text = json.dumps(known, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        sealed = seal(previous, time, kind, text)
        db.execute(
            "UPDATE ledger SET body = ?, previous = ?, hash = ? WHERE seq = ?", (text, previous, sealed, seq)
        )
        previous = sealed

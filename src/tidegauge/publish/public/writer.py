"""Writes a public file: a copy of the last one with what is new, in its place at once.

A reader, a copy or a backup sees the file before or after, never in between, and no lock is needed.  What was
killed half-way leaves a file beside it that the next one overwrites.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from tidegauge.durable import put_in_place
from tidegauge.errors import PublishError, StoreError
from tidegauge.publish.public.reader import GENESIS, PublicFile
from tidegauge.publish.public.tables import APPLICATION, DENOISED, FORMAT, TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tidegauge.publish.batch import Batch
    from tidegauge.publish.public.values import Document, PublicReading

_PAGE: Final = 8192


def held(path: Path) -> Mapping[str, int]:
    """How many readings of each release a file has.  Raises StoreError where it is something else."""
    if not path.exists():
        return {}
    with PublicFile(path) as public:
        return {one.name: public.span(one.name).stop for one in public.releases}


def gauge_of(path: Path) -> str | None:
    """The first ledger entry's seal, which no other gauge has; None where there is no file."""
    if not path.exists():
        return None
    with PublicFile(path) as public:
        return public.ledger[0].hash if public.ledger else GENESIS


def write(path: Path, batch: Batch) -> None:
    """Add a batch to the file.  What is in it already is left as it is.

    Raises PublishError where the file is of another gauge, or cannot be written.
    """
    fresh = path.with_name(path.name + ".new")
    try:
        own = batch.document.ledger[0].hash if batch.document.ledger else GENESIS
        if (found := gauge_of(path)) not in (None, own):
            raise PublishError(f"{path.name} was published by another gauge. Nothing was changed there.")
        path.parent.mkdir(parents=True, exist_ok=True)
        if found is None:
            fresh.unlink(missing_ok=True)
        else:
            shutil.copyfile(path, fresh)
        fresh.with_name(fresh.name + "-journal").unlink(missing_ok=True)
        with closing(sqlite3.connect(fresh, isolation_level=None)) as db:
            _add(db, batch, new=found is None)
        fresh.chmod(0o644)
        put_in_place(fresh, path)
    except StoreError as error:
        raise PublishError(str(error)) from None
    except OSError as error:
        raise PublishError(f"{path.name} cannot be written: {error.strerror}") from None
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        raise PublishError(f"{path.name} cannot be written ({name})") from None


def _add(db: sqlite3.Connection, batch: Batch, *, new: bool) -> None:
    db.execute("PRAGMA journal_mode = OFF")  # a file that was not finished is never used
    db.execute("PRAGMA synchronous = OFF")  # `put_in_place` synchronises it
    if new:
        db.execute(f"PRAGMA page_size = {_PAGE}")
    db.execute("BEGIN")
    if new:
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {FORMAT}")
        for table in TABLES:
            db.execute(table)
    _write_document(db, batch.document)
    db.executemany(
        "INSERT OR IGNORE INTO seals VALUES (?, ?, ?)", ((one.seq, one.time, one.hash) for one in batch.seals)
    )
    ids = dict(db.execute("SELECT name, id FROM releases"))
    db.executemany(f"INSERT OR IGNORE INTO readings VALUES ({_PLACES})", _rows(ids, batch.readings))
    db.execute(DENOISED)
    db.execute("DELETE FROM denoised")
    db.executemany(
        "INSERT INTO denoised VALUES (?, ?, ?, ?, ?, ?, ?)",
        ((ids[m.release], m.number, m.cell, m.value, m.stderr, m.low, m.high) for m in batch.denoised),
    )
    db.execute("COMMIT")


_PLACES: Final = ", ".join("?" * 10)


def _rows(ids: Mapping[str, int], readings: Iterable[PublicReading]) -> Iterable[tuple[object, ...]]:
    return (
        (ids[r.release], r.number, r.cell, r.time, r.value, r.stderr, r.low, r.high, r.low_50, r.high_50)
        for r in readings
    )


def _write_document(db: sqlite3.Connection, document: Document) -> None:
    parts = {
        "about": asdict(document.about),
        "guarantee": asdict(document.guarantee),
        "plan": document.plan,
    }
    db.executemany(
        "INSERT OR REPLACE INTO document VALUES (?, ?)",
        ((name, _json(part)) for name, part in parts.items()),
    )
    db.executemany(
        "INSERT OR IGNORE INTO ledger VALUES (?, ?, ?, ?, ?, ?)",
        ((one.seq, one.time, one.kind, _json(one.body), one.previous, one.hash) for one in document.ledger),
    )
    for position, one in enumerate(document.releases):
        db.execute(
            "INSERT INTO releases (name, position, body) VALUES (?, ?, ?) "
            "ON CONFLICT (name) DO UPDATE SET position = excluded.position, body = excluded.body",
            (one.name, position, _json(one.as_json())),
        )


def _json(value: object) -> str:
    """As the ledger writes a body, so that its seals can be computed again."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

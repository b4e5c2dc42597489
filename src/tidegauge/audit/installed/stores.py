"""What a store refuses: an old copy of itself, altered records, and plans with too little noise."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.audit.findings import require, require_refused
from tidegauge.audit.installed.exercises import COUNT, PASSES, Exercise, toggles
from tidegauge.audit.installed.published import Silent
from tidegauge.audit.noise.laws import Recorder
from tidegauge.audit.worlds.rehearsal import MemoryLog, Rehearsal, SetClock
from tidegauge.audit.worlds.world import Random, Table
from tidegauge.errors import SpecError, StoreBehind, StoreCorrupt, StoreError
from tidegauge.mechanism.encode import scaled
from tidegauge.plan.certify import certify
from tidegauge.run.gauge import Gauge
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.audit.worlds.rehearsal import Subject
    from tidegauge.mechanism.noise.samplers import Sampler


def _run(subject: Subject, folder: Path, until: int, sampler: Sampler | None = None) -> None:
    """Bring the gauge in this folder up to an instant, with real noise."""
    table = Table(None)
    toggles(5, 15, 25)(table)
    source = MemoryLog("t", subject.plan.columns, Random(0), owner=None, informed=False)
    source.write([event for event in table.log if event.arrival <= until])
    store, clock = folder / "store.db", SetClock(until)
    gauge = Rehearsal(subject, source, store=store, now=clock, sampler=sampler or Recorder())
    with closing(gauge.run()) as readings:
        list(readings)


def check_old_copies() -> None:
    """A store that does not remember all it published goes no further.  Raises Discrepancy."""
    subject = Exercise(toggles(), COUNT).subject()
    with ScratchFolder() as name, ScratchFolder() as other_name:
        folder, other = Path(name.name), Path(other_name.name)
        store = folder / "store.db"
        _run(subject, folder, PASSES[1])
        shutil.copy(store, other / "store.db")
        _run(subject, folder, PASSES[2])
        newest = store.read_bytes()
        shutil.copy(other / "store.db", store)
        require_refused("an old copy of the store", lambda: _run(subject, folder, PASSES[2]), StoreBehind)
        _run(subject, other, PASSES[2])  # the copy is run on elsewhere, and draws noise once more
        shutil.copy(other / "store.db", store)
        require_refused("a copy that was run elsewhere", lambda: _run(subject, folder, 300), StoreBehind)
        store.unlink()
        require_refused("a new store of an old gauge", lambda: _run(subject, folder, 300), StoreBehind)
        store.write_bytes(newest)
        require_refused(
            "simulated noise with a real ledger", lambda: _run(subject, folder, 300, Silent()), SpecError
        )
        _run(subject, folder, 300)


_ALTERED = {
    "a measurement": "UPDATE journal SET value = value + 1 WHERE number = 1",
    "a reading": "UPDATE readings SET value = value + 1 WHERE number = 1",
    "an interval": "UPDATE readings SET low = low - 1 WHERE number = 1",
    "the ledger": "UPDATE ledger SET body = replace(body, '1/2', '1/4')",
    "a measurement beside the chain": "INSERT INTO journal SELECT release, component, number + 99, cell, "
    "bin, value, tick + 99 FROM journal WHERE number = 1",
    "a removed measurement": "DELETE FROM journal WHERE number = 1",
}


def check_altered() -> None:
    """Records that were altered do not pass `verify`, and untouched ones do.  Raises Discrepancy."""
    exercise = Exercise(toggles(), COUNT)
    subject = exercise.subject()
    with ScratchFolder() as name:
        folder = Path(name.name)
        store = folder / "store.db"
        _run(subject, folder, PASSES[2])
        with closing(sqlite3.connect(store)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        known = store.read_bytes()

        def verify() -> None:
            source = MemoryLog("t", subject.plan.columns, Random(0), owner=None, informed=False)
            Gauge(subject.spec, source=source, store=store, base=folder).reader.verify()

        verify()
        for what, statement in _ALTERED.items():
            with closing(sqlite3.connect(store)) as db:
                with suppress(sqlite3.OperationalError):
                    db.execute(statement)
                db.commit()
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            require(store.read_bytes() != known, "nothing was altered")
            require_refused(f"{what} that was altered", verify, StoreError)
            store.write_bytes(known)


def check_certificates() -> None:
    """A plan that adds too little noise, or needs too much, is not carried out.  Raises Discrepancy."""
    for pure in (False, True):
        plan = Exercise(toggles(), COUNT, pure=pure, added={"s": COUNT | _LATER}).subject().plan
        first, added = plan.parts
        certify(first)
        certify(added)
        for part in (first, added):
            (release,) = part.releases
            (measured,) = release.component_plans
            less = replace(measured, noise=scaled(measured.noise, Fraction(99, 100)))
            quieter = replace(part, releases=(replace(release, component_plans=(less,)),))
            require_refused("a plan with too little noise", partial(certify, quieter), StoreCorrupt)
            dearer = replace(part, releases=(replace(release, loss=release.loss * Fraction(101, 100)),))
            require_refused("a plan beyond its budget", partial(certify, dearer), StoreCorrupt)


_LATER = {"start": "1970-01-01T00:00:00.000030Z", "for": "30 microseconds"}

STORES: dict[str, Callable[[], None]] = {
    "old copies of a store": check_old_copies,
    "altered records": check_altered,
    "certificates of plans": check_certificates,
}

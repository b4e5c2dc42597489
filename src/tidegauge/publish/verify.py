"""Checks a store by its chains of hashes, and compares readings that others have with the store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegauge.errors import StoreBehind, StoreCorrupt
from tidegauge.model.quantity import rfc3339
from tidegauge.plan.grow import all_certified
from tidegauge.plan.outline import require_recorded
from tidegauge.publish.formats import Row
from tidegauge.publish.journal import all_readings
from tidegauge.publish.reading import ends
from tidegauge.publish.readings import same
from tidegauge.publish.registry import decode_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tidegauge.model.json import Json
    from tidegauge.model.reading import Reading
    from tidegauge.plan.plan import Plan
    from tidegauge.store.public.part import PublicPart


@dataclass(frozen=True)
class Verified:
    """What was proved."""

    ledger_entries: int
    measurements: int
    readings: int
    compared: int = 0

    def as_json(self) -> dict[str, Json]:
        """What verify --json prints."""
        return {"verified": True, **vars(self)}


def prove(store: PublicPart) -> Verified:
    """Prove a store, as it is at one moment: the ledger's chain, the journal's chain, the loss, and every
    reading.

    Every measurement must be sealed with the instant at which its bin ends, every reading must follow from
    the journal, and none may be newer than the store.
    """
    with store.snapshot():
        store.require_newest()
        entries, measurements = store.ledger.prove(), store.prove_journal()
        records, commits = store.plans, [entry.body for entry in store.ledger.entries()]
        plan = all_certified(records, commits) if records else None
        require_recorded(records, commits)
        if plan is None:
            return Verified(entries, measurements, 0)
        if store.ledger.spent() > plan.total:
            raise StoreCorrupt("the ledger has reserved more than the budget.")
        _prove_instants(store, plan)
        for name, readings in all_readings(store, plan).items():
            if not same(readings, store.readings(name)):
                raise StoreCorrupt(f"readings of '{name}' do not follow from the journal.")
        return Verified(entries, measurements, len(store.readings()))


def _prove_instants(store: PublicPart, plan: Plan) -> None:
    schedules = {release.release.name: release.release.schedule for release in plan.releases}
    for one in store.journal.bins():
        if one.release not in schedules or schedules[one.release].bin_end(one.bin) != one.instant:
            raise StoreCorrupt(
                f"a measurement of '{one.release}' is not sealed with the instant at which its bin ends."
            )


def compare(path: Path, readings: Iterable[Reading]) -> int:
    """Check that every reading of an exported file is in the store as it was; returns how many there are."""
    known = {row.name: row for row in (Row.of(reading.as_json()) for reading in readings)}
    exported = [_upright(row) for row in decode_file(path)]
    missing = [row for row in exported if row.name not in known]
    other = [row for row in exported if row.name in known and not _same(row, known[row.name])]
    if other:
        raise StoreCorrupt(
            f"{len(other)} of {len(exported)} readings in {path.name} have other values in the store, the "
            f"first of {_place(other[0])}: the store is not the one that published them, or noise was drawn "
            "twice. (Smoothed or consistent readings are revised by design: compare plain ones.)"
        )
    if missing:
        raise StoreBehind(
            f"{len(missing)} of {len(exported)} readings in {path.name} are not in the store, the first of "
            f"{_place(missing[0])}: the store is an old copy, or another gauge published them. Do "
            "not run it: that would draw new noise for windows that are public already."
        )
    return len(exported)


def _upright(row: Row) -> Row:
    """An exported row as it is shown now: earlier versions exported ends that were the wrong way round."""
    if row.low is None or row.high is None:
        return row
    low, high = ends(row.value, row.stderr, row.low, row.high)
    return replace(row, low=low, high=high)


def _place(row: Row) -> str:
    return f"'{row.release}' at {rfc3339(row.time)}"


def _same(one: Row, other: Row) -> bool:
    return all(map(_near, one.numbers, other.numbers))


def _near(left: float | None, right: float | None) -> bool:
    """Whether two numbers are the same, up to the last digits that another order of additions may change."""
    if left is None or right is None:
        return left is right
    return abs(left - right) <= 1e-9 * max(1.0, abs(right))

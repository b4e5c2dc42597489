"""What a store proves of itself, and readings that were handed on compared with it."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.errors import SpecError, StoreBehind, StoreCorrupt
from tidegauge.model.quantity import instant, rfc3339
from tidegauge.plan.certify import certified
from tidegauge.publish.formats import NUMBERS, flat
from tidegauge.publish.outcome import same
from tidegauge.run.tick import carried, derivable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tidegauge.model.reading import Reading
    from tidegauge.plan.plan import Plan
    from tidegauge.store import Store


@dataclass(frozen=True)
class Verified:
    """What was proved."""

    ledger_entries: int
    measurements: int
    readings: int
    compared: int = 0

    def as_json(self) -> dict[str, Any]:
        """What verify --json prints."""
        return {"verified": True, **vars(self)}


def prove(store: Store) -> Verified:
    """Prove a store, as it is at one moment: the ledger's chain, the journal's chain, the loss, and every reading.

    Every measurement must be sealed with the instant at which its bin ends, every reading must follow from the journal, none
    may be newer than the store, and what streams keep must belong to the last bin that was measured.
    """
    with store.snapshot():
        store.require_newest()
        entries, measurements = store.ledger.prove(), store.prove_journal()
        record = store.plan
        if record is None:
            return Verified(entries, measurements, 0)
        plan = certified(record, (entry.body for entry in store.ledger.entries()))
        if store.ledger.spent() > plan.total:
            raise StoreCorrupt("the ledger has reserved more than the budget")
        _prove_instants(store, plan)
        for release in plan.releases:
            bins = store.next_bin(release.release.name, 0)
            if bins != release.release.schedule.bins:  # nothing is kept of a release that has ended
                for component in range(len(release.component_plans)):
                    carried(store, release, component, bins)
        for name, readings in derivable(store, plan).items():
            if not same(readings, store.readings(name)):
                raise StoreCorrupt(f"readings of '{name}' do not follow from the journal")
        return Verified(entries, measurements, len(store.readings()))


def _prove_instants(store: Store, plan: Plan) -> None:
    schedules = {release.release.name: release.release.schedule for release in plan.releases}
    for name, bin_, ended in store.measured_bins():
        if name not in schedules or schedules[name].bin_end(bin_) != ended:
            raise StoreCorrupt(
                f"a measurement of '{name}' is not sealed with the instant at which its bin ends"
            )


def compare(path: Path, readings: Iterable[Reading]) -> int:
    """See that every reading of an exported file is in the store as it was; returns how many there are."""
    known = {_name(row): row for row in (reading.as_json() for reading in readings)}
    exported = _rows(path)
    missing = [row for row in exported if _name(row) not in known]
    other = [row for row in exported if _name(row) in known and not _same(row, known[_name(row)])]
    if other:
        raise StoreCorrupt(
            f"{len(other)} of {len(exported)} readings in {path.name} have other values in the store, the first of "
            f"{_place(other[0])}: the store is not the one that published them, or noise was drawn "
            "twice. (Smoothed or consistent readings are revised by design: compare plain ones.)"
        )
    if missing:
        raise StoreBehind(
            f"{len(missing)} of {len(exported)} readings in {path.name} are not in the store, the first of "
            f"{_place(missing[0])}: the store is an old copy, or another gauge published them. Do "
            "not run it: that would draw new noise for windows that are public already."
        )
    return len(exported)


def _place(row: dict[str, Any]) -> str:
    return f"'{row['release']}' at {rfc3339(instant(row['time']))}"


def _name(row: dict[str, Any]) -> tuple[Any, ...]:
    """Which reading it is; a group's values as text, as csv has them."""
    group = {name: str(value) for name, value in (row["group"] or {}).items() if value not in (None, "")}
    return row["release"], instant(row["time"]), tuple(sorted(group.items()))


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    for name in NUMBERS:
        left, right = one[name], other[name]
        if (left is None) != (right is None):
            return False
        if left is not None and abs(left - right) > 1e-9 * max(1.0, abs(right)):
            return False
    return True


def _rows(path: Path) -> list[dict[str, Any]]:
    """A file as `readings` or `run --json` writes it."""
    try:
        rows = _parquet(path) if path.suffix == ".parquet" else _text(path.read_text("utf-8"))
        return [_row(row) for row in rows]
    except OSError as error:
        raise SpecError(f"{path.name} cannot be read: {error.strerror}", key="--against") from None
    except (KeyError, ValueError, TypeError, AttributeError, csv.Error, SpecError):
        raise SpecError(
            f"{path.name} is not what 'tidegauge readings' writes (csv, json or parquet)", key="--against"
        ) from None


def _text(text: str) -> list[dict[str, Any]]:
    match text.lstrip()[:1]:
        case "[":
            return list(json.loads(text))
        case "{":
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        case _:
            return [flat(row) for row in csv.DictReader(io.StringIO(text))]


def _parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq  # noqa: PLC0415  (slow to load, and only this needs it)

    return [flat(row) for row in pq.read_table(path).to_pylist()]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    instant(row["time"])
    numbers = {name: None if row[name] in (None, "") else float(row[name]) for name in NUMBERS}
    return {"release": row["release"], "time": row["time"], "group": row["group"], **numbers}

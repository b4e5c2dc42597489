"""Reads what a committed gauge has published, from its store alone.

A reader needs no declaration: the committed plan is in the store.  The declaration only says where the
witness is and which environment variable holds the key, and what its source could not use.

Readings as they were published need neither strategies nor numerical libraries; what does is loaded when it
is asked for.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

from tidegauge.errors import SpecError, StoreCorrupt, StoreError
from tidegauge.model.json import as_object, tables
from tidegauge.model.kinds import SOURCES
from tidegauge.model.source import Location
from tidegauge.plan.outline import outlines
from tidegauge.plan.spec.change import changed
from tidegauge.plan.spec.declaration import load
from tidegauge.plan.spec.places import StoreSpec
from tidegauge.publish.reading import Shown, as_reading
from tidegauge.scratch import use_memory
from tidegauge.source.batch.names import secret
from tidegauge.store.cipher import parse_key
from tidegauge.store.database import begun
from tidegauge.store.public.part import PublicPart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from fractions import Fraction

    import pyarrow as pa

    from tidegauge.model.declared import SourceSpec
    from tidegauge.model.json import JsonObject
    from tidegauge.model.ledger import LedgerEntry
    from tidegauge.model.reading import Reading
    from tidegauge.model.status import Status
    from tidegauge.model.tick import Published
    from tidegauge.plan.outline import Outline
    from tidegauge.plan.plan import Plan
    from tidegauge.plan.spec.declaration import GaugeSpec
    from tidegauge.publish.verify import Verified
    from tidegauge.store.store import Store


@dataclass(frozen=True)
class StoreFile:
    """Where a store is, and what opening it needs."""

    path: Path
    base: Path
    """The folder of the declaration."""
    declared: StoreSpec

    def open(self, *, write: bool = False) -> Store:
        """The whole store, secret part included."""
        from tidegauge.store.store import Store  # noqa: PLC0415  (see above)

        return Store(self.path, write=write, key=self.key(), witness=self._witness)

    def public(self) -> AbstractContextManager[PublicPart]:
        """What readers of readings, plan and ledger need of the store."""
        return PublicPart.open(self.path, key=self.key(), witness=self._witness)

    @property
    def begun(self) -> bool:
        """Whether there is a store with something in it."""
        return begun(self.path)

    @property
    def _witness(self) -> Path | None:
        named = self.declared.witness
        return None if named is None else self.base / named

    def key(self) -> bytes | None:
        """The key of an encrypted store; from now on, temporary files are in memory.  None: it has none."""
        if self.declared.key is None:
            return None
        use_memory()
        return parse_key(secret(self.declared.key, key="store.key"))


class Reader:
    """The readings, the status, the ledger and the proof of one store, whatever the declaration says now.

    `source`: the declared source, if it is known; its counts are part of the status.
    `note`: one line if the declaration is not the committed one; empty otherwise.
    """

    def __init__(self, store: StoreFile, source: SourceSpec | None = None, note: str = "") -> None:
        self.store, self._source, self.note = store, source, note

    @classmethod
    def from_file(cls, file: Path, store: Path | None = None) -> Self:
        """The reader for the store of a tidegauge.toml, even if that file was changed, broken or removed.

        Raises SpecError if neither the file nor the store can be used.
        """
        path = store or file.with_suffix(".db")
        try:
            spec = load(file)
        except SpecError as error:
            place = StoreFile(path, file.parent, _store_table(file))
            if not place.begun:
                raise
            missing = "is not here" if not file.exists() else "does not declare a gauge any more"
            reader = cls(place, None, f"Note: {file} {missing}; this is what was committed in {path}.")
            reader._require_readable(error)
            return reader
        reader = cls(StoreFile(path, file.parent, spec.store), spec.source)
        reader.note = reader._difference(file, spec)
        return reader

    def _require_readable(self, error: SpecError) -> None:
        """Raise the declaration's error if the store cannot be opened without the declaration."""
        try:
            with self.store.public():
                pass
        except StoreError as refused:
            raise SpecError(f"{error}\nThe store cannot be read without it either: {refused}") from None

    def _difference(self, file: Path, spec: GaugeSpec) -> str:
        records = self._records()
        lines = changed(as_object(records[-1]["declaration"]), spec) if records else []
        keys = [one.partition(": ")[0] for one in lines]
        if not keys:
            return ""
        shown = ", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
        return f"Note: {file} differs from the committed plan ({shown}); this is what was committed."

    def _records(self) -> list[JsonObject]:
        if not self.store.begun:
            return []
        with self.store.public() as store:
            return store.plans

    # -- what was published ----------------------------------------------------------------------------------

    def published(self, release: str | None = None, **shown: Unpack[Shown]) -> list[Reading]:
        """Every reading so far, or those of one release; `Shown` has the options.

        Raises SpecError if there is no such release.
        """
        with self.store.public() as store:
            with store.snapshot():
                known, rows = self._outlines(store), store.readings(release)
            if not known:
                return []
            if release is not None and release not in known:
                raise SpecError(f"there is no release '{release}'; there are: {', '.join(known)}")
            if not any(shown.values()):
                return self._as_published(known, rows)
            found = self._again(store, release, shown)
        return [reading for reading in found if release in (None, reading.release)]

    def _again(self, store: PublicPart, release: str | None, shown: Shown) -> list[Reading]:
        """Readings that are computed again from what was measured."""
        from tidegauge.publish.denoise.readings import with_model  # noqa: PLC0415  (see above)
        from tidegauge.publish.journal import all_readings  # noqa: PLC0415
        from tidegauge.publish.readings import agree, plan_reading  # noqa: PLC0415
        from tidegauge.run.committed import committed  # noqa: PLC0415

        consistent = shown.get("consistent", False)
        with store.snapshot():
            plan, rows = committed(store), store.readings()
        assert plan is not None
        if shown.get("smoothed"):
            rows = [one for series in all_readings(store, plan, smoothed=True).values() for one in series]
        rows = [row for row in rows if consistent or release in (None, row.release)]
        readings = [plan_reading(plan, row) for row in rows]
        if (used := shown.get("denoised")) is not None:
            readings = with_model(plan, readings, rows, store, past=used == "past")
        if consistent:
            declared = tables(plan.declaration["release"])
            wholes = {name: str(one["parts_of"]) for name, one in declared.items() if one.get("parts_of")}
            readings = agree(readings, plan, wholes)
        return readings

    def _as_published(self, known: Mapping[str, Outline], rows: Sequence[Published]) -> list[Reading]:
        """Readings as they were published.  Their plan is built once, when another interval is asked for."""
        plan = cache(self.plan)

        def reading(row: Published) -> Reading:
            def half_width(level: float) -> float:
                return plan().series[row.release].half_width(row.number, row.stderr or 0.0, level)

            return as_reading(known[row.release], row, half_width)

        try:
            return [reading(row) for row in rows]
        except (LookupError, TypeError, ValueError, ArithmeticError):
            raise StoreCorrupt("a reading in the store is none of the committed plan's") from None

    def _outlines(self, store: PublicPart) -> dict[str, Outline]:
        return outlines(store.plans, (entry.body for entry in store.ledger.entries()))

    def readings(self, release: str | None = None, **shown: Unpack[Shown]) -> pa.Table:
        """Every reading so far in an Arrow table: release, time, its groups, value, stderr, low, high."""
        from tidegauge.publish.arrow_html import show_tables  # noqa: PLC0415  (see above)
        from tidegauge.publish.formats import as_table  # noqa: PLC0415

        show_tables()
        return as_table(self.published(release, **shown))

    def plan(self) -> Plan:
        """The committed plan.  Raises SpecError before the commit."""
        from tidegauge.run.committed import committed  # noqa: PLC0415  (see above)

        with self.store.public() as store:
            if (plan := committed(store)) is None:
                raise SpecError("no plan is committed yet. Commit one with: tidegauge run")
            return plan

    def first_release(self) -> str | None:
        """The release that is declared first; None if nothing was committed."""
        if not self.store.begun:
            return None
        with self.store.public() as store:
            return next(iter(self._outlines(store)), None)

    def status(self) -> Status:
        """How far the gauge has come; `operator_only` has exact numbers that are not for the public."""
        from tidegauge.model.status import Status  # noqa: PLC0415  (see above)
        from tidegauge.run.committed import committed  # noqa: PLC0415

        if not self.store.begun:
            return Status()
        with self.store.open() as store:
            return self.status_in(store, committed(store.public), {})

    def status_in(self, store: Store, plan: Plan | None, publishers: Mapping[str, int]) -> Status:
        """The status of an open store; `publishers`: how many readings each still has to deliver."""
        from tidegauge.run.status import status_of  # noqa: PLC0415  (see above)

        return status_of(store, plan, publishers, self._source_counts(store.secret.clock.position))

    def _source_counts(self, position: str | None) -> dict[str, float]:
        """What the source could not use, for the operator alone."""
        if self._source is None or self._source.kind not in SOURCES.names():
            return {}
        place = Location(self.store.base, self.store.path, position)
        return dict(SOURCES.named(self._source.kind).operator_counts(self._source, place))

    def held_back(self) -> Fraction | None:
        """The loss that is still held back for added releases; None: the budget has no reserve."""
        from tidegauge.plan.grow import combined  # noqa: PLC0415  (see above)
        from tidegauge.plan.plan import Plan  # noqa: PLC0415

        if not (records := self._records()):
            return None
        plan = combined([Plan.from_record(one) for one in records])
        return None if plan.budget.reserve is None else plan.held_back

    def ledger(self) -> list[LedgerEntry]:
        """What was promised and reserved, oldest first."""
        with self.store.public() as store:
            return store.ledger.entries()

    def verify(self, against: str | Path | None = None) -> Verified:
        """Prove the ledger's chain, the journal's chain, the loss, and that every reading follows from the
        journal.

        Stream states must be those of the last bins that were measured.

        `against`: a file of exported readings (csv, json, parquet); each must be in the store unchanged.
        """
        from tidegauge.plan.grow import combined  # noqa: PLC0415  (see above)
        from tidegauge.plan.plan import Plan  # noqa: PLC0415
        from tidegauge.publish.verify import compare, prove  # noqa: PLC0415
        from tidegauge.run.tick import require_stream_states  # noqa: PLC0415

        with self.store.open() as store, store.public.snapshot():
            proved = prove(store.public)
            store.require_rows()
            if records := store.public.plans:
                require_stream_states(combined([Plan.from_record(one) for one in records]), store)
        if against is None:
            return proved
        return replace(proved, compared=compare(Path(against), self.published()))


def _store_table(file: Path) -> StoreSpec:
    """The [store] table of a file that declares no gauge; the defaults if even that cannot be read."""
    try:
        return StoreSpec.model_validate(tomllib.loads(file.read_text("utf-8")).get("store", {}))
    except (OSError, ValueError):  # not there, no UTF-8, no TOML, or no such table
        return StoreSpec()

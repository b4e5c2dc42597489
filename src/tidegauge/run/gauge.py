"""The gauge: a declaration, its plan, and the loop that carries it out."""

from __future__ import annotations

import time as system_time
from collections.abc import Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from tidegauge.engine.registry import open_engine
from tidegauge.errors import PlanChanged, SpecError
from tidegauge.mechanism.noise.samplers import SecureSampler
from tidegauge.model import kinds
from tidegauge.model.budget import Budget
from tidegauge.model.constraint import Constraint
from tidegauge.model.ledger import Reservation
from tidegauge.model.quantity import instant, rfc3339
from tidegauge.model.reading import Reading
from tidegauge.model.source import Location, whole
from tidegauge.model.status import Status
from tidegauge.model.tick import NOTHING_YET
from tidegauge.plan.certify import certified
from tidegauge.plan.plan import Plan
from tidegauge.plan.spec.change import changed
from tidegauge.plan.spec.declaration import GaugeSpec, declared_form, load
from tidegauge.publish.formats import as_table
from tidegauge.publish.journal import all_readings
from tidegauge.publish.readings import agree, plan_reading
from tidegauge.publish.verify import Verified, compare, prove
from tidegauge.run import clock
from tidegauge.run.clock import PublicClock
from tidegauge.run.loop import Loop
from tidegauge.run.progress import release_status
from tidegauge.run.ready import require_ready
from tidegauge.run.tick import Ticker, require_stream_states
from tidegauge.run.whole_error import running_values, whole_error
from tidegauge.scratch import use_memory
from tidegauge.source.batch.names import secret
from tidegauge.store import Commitment, Store, begun, parse_key
from tidegauge.store.public.part import PublicPart

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pyarrow as pa

    from tidegauge.mechanism.noise.samplers import Sampler
    from tidegauge.model.engine import Engine
    from tidegauge.model.ledger import LedgerEntry
    from tidegauge.model.mutation import Source
    from tidegauge.model.source import Check, OpenSource


def _now() -> int:
    return instant(datetime.now(UTC))


class Setting(TypedDict, total=False):
    """The clock and the randomness of a gauge, which are arguments so that tests can hold them."""

    now: Callable[[], int]
    """The time of day, in microseconds."""
    sleep: Callable[[float], None]
    steady: Callable[[], float] | None
    """Seconds of a clock that cannot be set.  Without it, and with `now` given, jumps of the time of day are
    not noticed."""
    sampler: Sampler


class Gauge:
    """A declared gauge and its store.

    `spec` is a declaration that was read already; without it, the declaration is made from the other
    arguments. `source` is what a [source] table would say, or any object that keeps the contract of a source
    (then `unit` and `max_rows` are given here).  `key` (env:NAME) encrypts the store, `witness` is where its
    high-water mark is kept.
    """

    def __init__(
        self,
        spec: GaugeSpec | None = None,
        *,
        source: Mapping[str, Any] | Source | None = None,
        budget: Mapping[str, Any] | Budget | None = None,
        releases: Mapping[str, Mapping[str, Any]] | None = None,
        constraint: Mapping[str, Any] | Constraint | None = None,
        unit: str | None = None,
        max_rows: int | None = None,
        engine: str = "duckdb",
        time_zone: str | None = None,
        key: str | None = None,
        witness: str | Path | None = None,
        store: str | Path = "tidegauge.db",
        base: str | Path = ".",
        **setting: Unpack[Setting],
    ) -> None:
        self._given = None if source is None or isinstance(source, Mapping) else whole(source)
        if self._given is not None:
            source = {"kind": "object", "table": self._given.table, "unit": unit, "max_rows": max_rows}
        if isinstance(constraint, Constraint):
            constraint = declared_form(constraint)
        if isinstance(budget, Budget):
            budget = {name: value for name, value in vars(budget).items() if value is not None}
        declared = {"source": source, "constraint": constraint, "budget": budget, "release": releases}
        self.spec = spec or GaugeSpec.parse(
            {name: value for name, value in declared.items() if value is not None}
            | {"engine": {"kind": engine}, "calendar": {"time_zone": time_zone}}
            | {"store": {"key": key, "witness": None if witness is None else str(witness)}}
        )
        self.path, self._base = Path(store), Path(base)
        self._now, self._sleep = setting.get("now", _now), setting.get("sleep", system_time.sleep)
        self._sampler = setting.get("sampler") or SecureSampler()
        self._steady = setting.get("steady") or (clock.steady if self._now is _now else None)

    @classmethod
    def from_file(
        cls, path: str | Path, *, store: str | Path | None = None, **setting: Unpack[Setting]
    ) -> Gauge:
        """The gauge that a tidegauge.toml declares; its store lies beside it."""
        path = Path(path)
        return cls(load(path), store=store or path.with_suffix(".db"), base=path.parent, **setting)

    # -- planning --------------------------------------------------------------------------------------------

    def plan(self, *, optimise: bool = False) -> Plan:
        """The committed plan, or the one that run would commit; `optimise`: search as long as it takes."""
        if begun(self.path):
            with self._public() as store:
                if store.plan is not None:
                    return self._committed(store)
        return self._make_plan(optimise=optimise)

    def _store(self, *, write: bool = False) -> Store:
        """The whole store, secret part included."""
        return Store(self.path, write=write, key=self._key(), witness=self._witness)

    def _public(self) -> AbstractContextManager[PublicPart]:
        """What readers of readings, plan and ledger need of the store."""
        return PublicPart.open(self.path, key=self._key(), witness=self._witness)

    @property
    def _witness(self) -> Path | None:
        named = self.spec.store.witness
        return None if named is None else self._base / named

    def _key(self) -> bytes | None:
        named = self.spec.store.key
        if named is None:
            return None
        if (left := self.spec.source.keeps) is not None:
            raise SpecError(f"{left} beside the store, which are not encrypted", key="store.key")
        use_memory()
        return parse_key(secret(named, key="store.key"))

    @contextmanager
    def _source(self) -> Iterator[OpenSource]:
        """The source; what it holds on to is let go at the end."""
        declared = self.spec.source
        source = self._given or kinds.find(declared.kind).open(declared, self._location)
        try:
            yield source
        finally:
            source.close()

    @property
    def _location(self) -> Location:
        return Location(self._base, self.path)

    def _make_plan(self, *, optimise: bool = False) -> Plan:
        from tidegauge.plan.planner import make_plan  # noqa: PLC0415  (slow to load)

        with self._source() as source:
            plan = make_plan(
                self.spec,
                table=source.table,
                columns=source.columns,
                now=self._now(),
                leaves_out=source.leaves_out,
                cache=self.path.with_suffix(".matrices"),
                ask=optimise,
            )
        self._engine(plan).close()
        return plan

    def _engine(self, plan: Plan) -> Engine:
        return open_engine(self.spec.engine.kind, plan.program, plan.columns)

    def _committed(self, store: PublicPart) -> Plan:
        record = store.plan
        assert record is not None
        changes = changed(record["declaration"], self.spec)
        if changes:
            raise PlanChanged(
                "a committed plan cannot be changed, but the declaration was:\n  "
                + "\n  ".join(changes)
                + "\n"
                "Nothing was read or spent. Put it back as it was, or start another gauge with a store of "
                "its own; the privacy losses of both gauges add up."
            )
        return certified(record, (entry.body for entry in store.ledger.entries()))

    def _commit(self, store: Store) -> Plan:
        plan = self._make_plan()
        store.public.witness.require_writable()
        with self._source() as source:
            require_ready(source, plan.program.used)
        with self._engine(plan) as engine:
            layout = engine.layout.tables()
        store.commit_plan(
            Commitment(
                plan=plan.record(),
                time=rfc3339(self._now()),
                reservation=Reservation(
                    plan=plan.hash,
                    measure=plan.measure,
                    budget=plan.total,
                    reserved=plan.needed,
                    releases={release.release.name: release.loss for release in plan.releases},
                ),
                layout=layout,
                simulated=self._sampler.simulated,
            )
        )
        return plan

    # -- the source ------------------------------------------------------------------------------------------

    def doctor(self) -> list[Check]:
        """What the source needs to go on from where the store has come, checked one by one."""
        position = self._position()
        with self._source() as source:
            return source.doctor(position)

    def _position(self) -> str | None:
        """The position in the source up to which the store has read; None before the first run."""
        if not begun(self.path):
            return None
        with self._store() as store:
            return store.secret.clock.position

    def install(self) -> str:
        """Make in the source what following it needs."""
        with self._source() as source:
            return source.install()

    def uninstall(self) -> str:
        """Remove from the source what was made there for this gauge."""
        position = self._position()
        with self._source() as source:
            return source.uninstall(position)

    # -- running ---------------------------------------------------------------------------------------------

    def run(
        self,
        until: str | datetime | None = None,
        *,
        follow: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Generator[Reading, None, None]:
        """Commit the plan if this is the first run, catch up, and yield each reading once it is durable.

        With `follow`, go on as time passes, until `until` or the last reading of all.
        """
        limit = None if until is None else instant(until)
        with self._store(write=True) as store:
            store.public.require_newest()
            with self._source() as source:
                source.reach(wait=follow)
            plan = self._commit(store) if store.public.plan is None else self._committed(store.public)
            if store.public.simulated != self._sampler.simulated:
                raise SpecError(
                    "simulated noise and a real ledger do not mix: use a store of its own for simulation"
                )
            store.public.attest()
            with self._source() as source, self._engine(plan) as engine:
                self._check_columns(plan, source)
                store.extend_state(engine.layout.tables(), partial(running_values, plan.program))
                ticker = Ticker(plan, store, engine, self._sampler)
                now = PublicClock(self._now, self._steady)
                loop = Loop(ticker, source, now=now, sleep=self._sleep, progress=progress)
                for published in loop.run(limit, follow=follow):
                    yield plan_reading(plan, published)

    @staticmethod
    def _check_columns(plan: Plan, source: OpenSource) -> None:
        """Columns that queries speak of must still be there, of the type that was committed."""
        for name in sorted(plan.program.used):
            if source.columns.get(name) != plan.columns[name]:
                found = (
                    "is no longer there"
                    if name not in source.columns
                    else "has another type than was committed"
                )
                raise SpecError(f"column '{name}' {found}. Nothing was read or spent.", key="source")

    # -- what was published ----------------------------------------------------------------------------------

    def published(
        self, release: str | None = None, *, smoothed: bool = False, consistent: bool = False
    ) -> list[Reading]:
        """Every reading so far.

        `smoothed`: re-estimate past values with later measurements.  `consistent`: parts add up to their
        whole (parts_of) and counts are not negative; each reading then has its bias.
        """
        if release is not None and release not in self.spec.release:
            raise SpecError(f"there is no release '{release}'; there are: {', '.join(self.spec.release)}")
        with self._public() as store:
            if store.plan is None:
                return []
            plan = self._committed(store)
            rows = store.readings()
            if smoothed:
                rows = [one for series in all_readings(store, plan, smoothed=True).values() for one in series]
            readings = [plan_reading(plan, reading) for reading in rows]
        if consistent:
            wholes = {
                name: one.parts_of for name, one in self.spec.measured.items() if one.parts_of is not None
            }
            readings = agree(readings, plan, wholes)
        return [reading for reading in readings if release in (None, reading.release)]

    def readings(
        self, release: str | None = None, *, smoothed: bool = False, consistent: bool = False
    ) -> pa.Table:
        """Every reading so far in an Arrow table: release, time, its groups, value, stderr, low, high."""
        return as_table(self.published(release, smoothed=smoothed, consistent=consistent))

    def status(self) -> Status:
        """How far the gauge has come."""
        if not begun(self.path):
            return Status()
        with self._store() as store:
            plan = None if store.public.plan is None else self._committed(store.public)
            reached = store.secret.clock.watermark
            return Status(
                plan=None if plan is None else plan.hash,
                simulated=store.public.simulated,
                processed_to=reached if reached > NOTHING_YET else None,
                releases={
                    name: release_status(series, store.public.next_bin(series.plan.release.name))
                    for name, series in ({} if plan is None else plan.series).items()
                },
                operator_only=store.secret.counts() | self._operator_counts(),
                whole_error=None if plan is None else whole_error(plan, store),
            )

    def _operator_counts(self) -> dict[str, int]:
        """What the source could not use, for the operator alone."""
        if self._given is not None:
            return {}
        declared = self.spec.source
        return dict(kinds.find(declared.kind).operator_counts(declared, self._location))

    def ledger(self) -> list[LedgerEntry]:
        """What was promised and reserved, oldest first."""
        with self._public() as store:
            return store.ledger.entries()

    def verify(self, against: str | Path | None = None) -> Verified:
        """Prove the ledger's chain, the journal's chain, the loss, and that every reading follows from the
        journal.

        Stream states must be those of the last bins that were measured.

        `against`: a file of readings that were handed on (csv, json, parquet); each must be in the store as
        it was.
        """
        with self._store() as store, store.public.snapshot():
            proved = prove(store.public)
            store.require_rows()
            if (record := store.public.plan) is not None:
                require_stream_states(Plan.from_record(record), store)
        if against is None:
            return proved
        return replace(proved, compared=compare(Path(against), self.published()))

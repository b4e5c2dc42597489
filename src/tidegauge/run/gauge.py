"""The gauge: a declaration, its plan, and the loop that carries it out."""

from __future__ import annotations

import time as system_time
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.engine.registry import open_engine
from tidegauge.errors import PlanChanged, SpecError
from tidegauge.mechanism.noise.samplers import SecureSampler
from tidegauge.model import kinds
from tidegauge.model.constraint import Constraint
from tidegauge.model.quantity import instant, rfc3339
from tidegauge.model.reading import Reading
from tidegauge.model.source import Location, whole
from tidegauge.plan.certify import certified
from tidegauge.plan.plan import Plan
from tidegauge.plan.spec.declaration import GaugeSpec, declared_form, differences, load
from tidegauge.publish.formats import as_table
from tidegauge.publish.outcome import agree, plan_reading
from tidegauge.publish.verify import Verified, compare, prove
from tidegauge.run import clock
from tidegauge.run.clock import PublicClock
from tidegauge.run.loop import Loop
from tidegauge.run.ready import require_ready
from tidegauge.run.tick import Ticker, derivable
from tidegauge.source.batch.names import secret
from tidegauge.store import NOTHING_YET, Store, begun, parse_key, use_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pyarrow as pa

    from tidegauge.mechanism.noise.samplers import Sampler
    from tidegauge.model.budget import Budget
    from tidegauge.model.engine import Engine
    from tidegauge.model.mutation import Source
    from tidegauge.model.source import Check, OpenSource
    from tidegauge.store.public.ledger import Entry


def _now() -> int:
    return instant(datetime.now(UTC))


class Gauge:
    """A declared gauge and its store.

    `source` is what a [source] table would say, or any object that keeps the contract of a source (then `unit` and
    `max_rows` are given here).  `key` (env:NAME) encrypts the store, `witness` is where its high-water mark is kept.
    `now` (microseconds), `sleep` and `steady` (seconds that no one sets) are the clock and `sampler` is the randomness: arguments, so
    that tests can hold them.  Where `now` is given and `steady` is not, jumps of the clock are not noticed.
    """

    def __init__(
        self,
        *,
        source: Mapping[str, Any] | Source,
        budget: Mapping[str, Any] | Budget,
        releases: Mapping[str, Mapping[str, Any]],
        constraint: Mapping[str, Any] | Constraint | None = None,
        unit: str | None = None,
        max_rows: int | None = None,
        engine: str = "duckdb",
        store: str | Path = "tidegauge.db",
        key: str | None = None,
        witness: str | Path | None = None,
        base: str | Path = ".",
        now: Callable[[], int] = _now,
        sleep: Callable[[float], None] = system_time.sleep,
        steady: Callable[[], float] | None = None,
        sampler: Sampler | None = None,
    ) -> None:
        declared = source if isinstance(source, Mapping) else {
            "kind": "object", "table": source.table, "unit": unit, "max_rows": max_rows
        }  # fmt: skip
        data: dict[str, Any] = {"source": declared, "budget": _plain(budget), "release": dict(releases)}
        if constraint is not None:
            data["constraint"] = (
                declared_form(constraint) if isinstance(constraint, Constraint) else constraint
            )
        data["engine"] = {"kind": engine}
        data["store"] = {"key": key, "witness": None if witness is None else str(witness)}
        self._init(
            GaugeSpec.parse(data),
            store=Path(store),
            base=Path(base),
            now=now,
            sleep=sleep,
            steady=steady,
            sampler=sampler,
        )
        self._given = None if isinstance(source, Mapping) else whole(source)

    _given: OpenSource | None = None

    def _init(
        self,
        spec: GaugeSpec,
        *,
        store: Path,
        base: Path,
        now: Callable[[], int],
        sleep: Callable[[float], None],
        steady: Callable[[], float] | None,
        sampler: Sampler | None,
    ) -> None:
        self.spec, self.path, self._base = spec, store, base
        self._now, self._sleep, self._sampler = now, sleep, sampler or SecureSampler()
        self._steady = steady or (clock.steady if now is _now else None)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        store: str | Path | None = None,
        now: Callable[[], int] = _now,
        sleep: Callable[[float], None] = system_time.sleep,
        steady: Callable[[], float] | None = None,
        sampler: Sampler | None = None,
    ) -> Gauge:
        """The gauge that a tidegauge.toml declares; its store lies beside it."""
        path = Path(path)
        gauge = cls.__new__(cls)
        beside = path.with_suffix(".db") if store is None else Path(store)
        gauge._init(
            load(path), store=beside, base=path.parent, now=now, sleep=sleep, steady=steady, sampler=sampler
        )
        return gauge

    # -- planning -----------------------------------------------------------------------------------------------------

    def plan(self, *, optimise: bool = False) -> Plan:
        """The committed plan if there is one, else what run would commit now; `optimise`: however long finding it takes."""
        if begun(self.path):
            with self._store() as store:
                if store.plan is not None:
                    return self._committed(store)
        return self._make_plan(optimise=optimise)

    def _store(self, *, write: bool = False) -> Store:
        named = self.spec.store.key
        witness = None if (told := self.spec.store.witness) is None else self._base / told
        if named is None:
            return Store(self.path, write=write, witness=witness)
        if (kept := self.spec.source.keeps) is not None:
            raise SpecError(f"{kept} beside the store, which are not encrypted", key="store.key")
        use_memory()
        return Store(self.path, write=write, key=parse_key(secret(named, key="store.key")), witness=witness)

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

    def _committed(self, store: Store) -> Plan:
        record = store.plan
        assert record is not None
        changes = list(differences(record["declaration"], self.spec.canonical()))
        if changes:
            raise PlanChanged(
                "a committed plan cannot be changed, but the declaration was:\n  "
                + "\n  ".join(changes)
                + "\n"
                "Nothing was read or spent. Put it back as it was, or start another gauge with a store of its own; "
                "what both publish adds up."
            )
        return certified(record, (entry.body for entry in store.ledger.entries()))

    def _commit(self, store: Store) -> Plan:

        plan = self._make_plan()
        store.require_witness()
        with self._source() as source:
            require_ready(source, plan.program.used)
        with self._engine(plan) as engine:
            layout = engine.layout.tables()
        store.commit_plan(
            plan.record(),
            time=rfc3339(self._now()),
            measure=plan.measure,
            budget=plan.total,
            needed=plan.needed,
            body={
                "plan": plan.hash,
                "releases": {release.release.name: str(release.loss) for release in plan.releases},
            },
            layout=layout,
            simulated=self._sampler.simulated,
        )
        return plan

    # -- the source -----------------------------------------------------------------------------------------------------

    def doctor(self) -> list[Check]:
        """What the source needs to go on from where the store has come, checked one by one."""
        position = None
        if begun(self.path):
            with self._store() as store:
                position = store.clock.position
        with self._source() as source:
            return source.doctor(position)

    def install(self) -> str:
        """Make in the source what following it needs."""
        with self._source() as source:
            return source.install()

    def uninstall(self) -> str:
        """Remove from the source what was made there for this gauge."""
        with self._source() as source:
            return source.uninstall()

    # -- running ------------------------------------------------------------------------------------------------------

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
            store.require_newest()
            with self._source() as source:
                source.reach()
            plan = self._commit(store) if store.plan is None else self._committed(store)
            if store.simulated != self._sampler.simulated:
                raise SpecError(
                    "simulated noise and a real ledger do not mix: use a store of its own for simulation"
                )
            store.attest()
            with self._source() as source, self._engine(plan) as engine:
                self._check_columns(plan, source)
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

    # -- what was published ---------------------------------------------------------------------------------------------

    def published(
        self, release: str | None = None, *, smoothed: bool = False, consistent: bool = False
    ) -> list[Reading]:
        """Every reading so far.

        `smoothed`: as all that is known by now would have it, which revises the past.  `consistent`: parts add up to
        their whole (parts_of) and counts are not negative; each reading then tells its bias.
        """
        if release is not None and release not in self.spec.release:
            raise SpecError(f"there is no release '{release}'; there are: {', '.join(self.spec.release)}")
        with self._store() as store:
            plan = self._committed(store) if store.plan is not None else None
            if plan is None:
                return []
            if smoothed:
                rows = [one for rows in derivable(store, plan, smoothed=True).values() for one in rows]
            else:
                rows = store.readings()
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
        """Every reading so far as an Arrow table: release, time, one column a group, value, stderr, low, high."""
        return as_table(self.published(release, smoothed=smoothed, consistent=consistent))

    def status(self) -> dict[str, Any]:
        """How far the gauge has come; what stands under operator_only is exact and not for the public."""
        if not begun(self.path):
            return {
                "plan": None,
                "simulated": False,
                "processed_to": None,
                "releases": {},
                "operator_only": {},
            }
        with self._store() as store:
            plan = None if store.plan is None else self._committed(store)
            releases = {}
            for name, series in {} if plan is None else plan.series.items():
                release = series.plan.release
                schedule, first = release.schedule, store.next_bin(release.name, 0)
                done = max(series.first, -(-(first - schedule.offset) // schedule.stride))
                finished = schedule.count is not None and done >= schedule.count
                upcoming = None if finished else rfc3339(schedule.bin_end(schedule.bin_of_reading(done)))
                releases[name] = {
                    "readings": done - series.first,
                    "readings_total": series.timetable.count,
                    "next": upcoming,
                }
            reached = store.clock.watermark
            return {
                "plan": None if plan is None else plan.hash,
                "simulated": store.simulated,
                "processed_to": rfc3339(reached) if reached > NOTHING_YET else None,
                "releases": releases,
                "operator_only": store.counts() | self._operator_counts(),
            }

    def _operator_counts(self) -> dict[str, int]:
        """What the source could not use, for the operator alone."""
        if self._given is not None:
            return {}
        declared = self.spec.source
        return dict(kinds.find(declared.kind).operator_counts(declared, self._location))

    def ledger(self) -> list[Entry]:
        """What was promised and reserved, oldest first."""
        with self._store() as store:
            return store.ledger.entries()

    def verify(self, against: str | Path | None = None) -> Verified:
        """Prove the ledger's chain, the journal's chain, the loss, and that every reading follows from the journal.

        `against`: a file of readings that were handed on (csv, json, parquet); each must be in the store as it was.
        """
        with self._store() as store:
            proved = prove(store)
        if against is None:
            return proved
        return replace(proved, compared=compare(Path(against), self.published()))


def _plain(budget: Mapping[str, Any] | Budget) -> dict[str, Any]:
    return {
        name: value
        for name, value in (budget if isinstance(budget, dict) else vars(budget)).items()
        if value is not None
    }

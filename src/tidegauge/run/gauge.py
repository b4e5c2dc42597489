"""The gauge: a declaration, its plan, and the loop that carries it out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Unpack

from tidegauge.engine.registry import left_in_the_clear, require_fit
from tidegauge.errors import SpecError
from tidegauge.mechanism.noise.samplers import SecureSampler
from tidegauge.model.budget import Budget
from tidegauge.model.constraint import Constraint
from tidegauge.model.kinds import SOURCES
from tidegauge.model.quantity import instant, rfc3339
from tidegauge.model.reading import Reading
from tidegauge.model.source import Location, whole
from tidegauge.model.status import Status
from tidegauge.plan.grow import begun, program_of_all
from tidegauge.plan.spec.declaration import GaugeSpec, declared_form, load
from tidegauge.publish.notebook import gauge_html
from tidegauge.publish.outbox import deliver_once
from tidegauge.publish.reading import Shown
from tidegauge.publish.readings import plan_reading
from tidegauge.run import clock
from tidegauge.run.clock import PublicClock
from tidegauge.run.commit import NOTHING_COMMITTED, Commits, require_unchanged
from tidegauge.run.committed import committed
from tidegauge.run.engines import Engines
from tidegauge.run.loop import Loop
from tidegauge.run.outlets import delivering, open_senders, require_declared, waiting
from tidegauge.run.reader import Reader, StoreFile
from tidegauge.run.ready import hidden_by_noise, require_columns
from tidegauge.run.setting import Setting, system_now
from tidegauge.run.shared import Sharing
from tidegauge.run.stamp import open_for, require_own_key, stamp
from tidegauge.run.tick import Ticker
from tidegauge.run.whole_error import running_values

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from datetime import datetime

    import pyarrow as pa

    from tidegauge.model.history import Report
    from tidegauge.model.ledger import LedgerEntry
    from tidegauge.model.mutation import Source
    from tidegauge.model.source import Check, OpenSource
    from tidegauge.plan.plan import Plan
    from tidegauge.plan.what_if import Alternative, Choice
    from tidegauge.publish.outbox import Failure, Sender
    from tidegauge.publish.verify import Verified
    from tidegauge.store.public.part import PublicPart
    from tidegauge.store.store import Store


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
        source: Mapping[str, object] | Source | None = None,
        budget: Mapping[str, object] | Budget | None = None,
        releases: Mapping[str, Mapping[str, object]] | None = None,
        constraint: Mapping[str, object] | Constraint | None = None,
        unit: str | None = None,
        max_rows: int | None = None,
        engine: str = "duckdb",
        time_zone: str | None = None,
        key: str | None = None,
        witness: str | Path | None = None,
        ledger: Mapping[str, str] | None = None,
        store: str | Path = "tidegauge.db",
        base: str | Path = ".",
        publish: Mapping[str, Mapping[str, object]] | None = None,
        **setting: Unpack[Setting],
    ) -> None:
        if unknown := sorted(set(setting) - set(Setting.__annotations__)):
            raise TypeError(f"a gauge has no argument '{unknown[0]}'")
        self._given = None if source is None or isinstance(source, Mapping) else whole(source)
        if self._given is not None:
            source = {"kind": "object", "table": self._given.table, "unit": unit, "max_rows": max_rows}
        if isinstance(constraint, Constraint):
            constraint = declared_form(constraint)
        if isinstance(budget, Budget):
            budget = {name: value for name, value in vars(budget).items() if value is not None}
        declared = {"source": source, "constraint": constraint, "budget": budget}
        declared |= {"release": releases, "ledger": ledger, "publish": publish}
        self.spec = spec or GaugeSpec.parse(
            {name: value for name, value in declared.items() if value is not None}
            | {"engine": {"kind": engine}, "calendar": {"time_zone": time_zone}}
            | {"store": {"key": key, "witness": None if witness is None else str(witness)}}
        )
        self.path, self._base = Path(store), Path(base)
        self._now, self._sleep = setting.get("now", system_now), setting.get("sleep", sleep)
        self._sampler = setting.get("sampler") or SecureSampler()
        self._commits = Commits(self.spec, Sharing(self.spec.ledger, self._base), self._sampler)
        self._steady = setting.get("steady") or (clock.steady if self._now is system_now else None)
        self._certified: tuple[tuple[str, str], Plan] | None = None
        """The committed plan, certified once, with its record and its last ledger entry."""
        self.undelivered: list[Failure] = []
        """Publishers that could not deliver everything when a run, or `publish`, ended."""

    @classmethod
    def from_file(
        cls, path: str | Path, *, store: str | Path | None = None, **setting: Unpack[Setting]
    ) -> Gauge:
        """The gauge that a tidegauge.toml declares; its store lies beside it."""
        path = Path(path)
        return cls(load(path), store=store or path.with_suffix(".db"), base=path.parent, **setting)

    # -- planning --------------------------------------------------------------------------------------------

    def plan(self, *, optimise: bool = False) -> Plan:
        """The committed plan, or the one that run would commit; `optimise`: search as long as it takes.

        Raises PlanChanged if the declaration is not the committed one.
        """
        if self._file.begun:
            with self._file.public() as store:
                if store.plan is not None:
                    return self._committed(store)
        return self._make_plan(optimise=optimise)

    @property
    def committed(self) -> bool:
        """Whether a plan was committed; `run` then carries that plan out."""
        if not self._file.begun:
            return False
        with self._file.public() as store:
            return store.plan is not None

    @property
    def _file(self) -> StoreFile:
        left = self.spec.source.keeps or left_in_the_clear(self.spec.engine.kind)
        if self.spec.store.key is not None and left is not None:
            what = (
                f"Remove the key, or use another kind of {'source' if self.spec.source.keeps else 'engine'}"
            )
            raise SpecError(f"{left} beside the store, which are not encrypted. {what}", key="store.key")
        return StoreFile(self.path, self._base, self.spec.store)

    @property
    def reader(self) -> Reader:
        """A reader of the store, by its committed plan; the declaration may have changed since."""
        return Reader(self._file, None if self._given is not None else self.spec.source)

    @contextmanager
    def _source(self) -> Iterator[OpenSource]:
        """The source; what it holds on to is let go at the end."""
        declared = self.spec.source
        source = self._given or SOURCES.named(declared.kind).open(declared, self._location)
        try:
            yield source
        finally:
            source.close()

    @property
    def _location(self) -> Location:
        return Location(self._base, self.path)

    def _make_plan(self, *, optimise: bool = False) -> Plan:
        with self._planner(optimise=optimise) as planned:
            plan = planned(self.spec)
        with Engines(self.spec.engine.kind, plan.columns) as engines:
            engines.open(plan.program)
        return plan

    @contextmanager
    def _planner(self, *, optimise: bool = False) -> Iterator[Callable[[GaugeSpec], Plan]]:
        """A function that plans a declaration on this gauge's source, all at the same time of day."""
        from tidegauge.run.choose import first_plan  # noqa: PLC0415  (slow to load)

        now = self._now()
        with self._source() as source:
            require_fit(self.spec.engine.kind, self.spec.source.kind, source.engine)
            cache = self.path.with_suffix(".matrices")
            yield lambda spec: first_plan(spec, source, now=now, cache=cache, ask=optimise)

    def what_if(self, wanted: Mapping[str, Sequence[str]]) -> list[Choice]:
        """The plan for each combination of other values, for example {"epsilon": ["1", "2"]}."""
        from tidegauge.plan.what_if import grid  # noqa: PLC0415  (slow to load)

        with self._planner() as planned:
            return grid(self.spec, wanted, planned)

    def alternatives(self, plan: Plan) -> list[Alternative]:
        """What would lower the noise of this plan, and to what."""
        from tidegauge.plan.what_if import alternatives  # noqa: PLC0415  (slow to load)

        with self._planner() as planned:
            return alternatives(self.spec, plan, planned)

    def too_small(self, plan: Plan) -> list[str]:
        """The releases whose every group is smaller than the noise, as far as that is known: secret.

        Only a source that contains its past is looked at, and no further than is needed.
        """
        if not self.spec.source.PAST:
            return []
        with self._source() as source:
            return hidden_by_noise(source, plan, self._now())

    def _committed(self, store: PublicPart) -> Plan:
        """All committed plans as one, certified once.  Raises PlanChanged unless they are as declared."""
        entries = store.ledger.entries()
        known = json.dumps(store.plans, sort_keys=True), entries[-1].hash if entries else ""
        if self._certified is None or self._certified[0] != known:
            plan = committed(store)
            assert plan is not None
            self._certified = known, plan
        require_unchanged(self._certified[1], self.spec)
        return self._certified[1]

    # -- adding releases -------------------------------------------------------------------------------------

    def amendment(self) -> Plan:
        """The plan of the releases that the declaration adds to the committed ones.  Spends nothing.

        Raises PlanChanged where it changes something else, and BudgetExceeded beyond the reserve.
        """
        if not self._file.begun:
            raise SpecError(NOTHING_COMMITTED)
        with self._file.open() as store:
            return self._amendment(store)

    def _amendment(self, store: Store) -> Plan:
        with self._source() as source:
            return self._commits.amendment(
                store, source, now=self._now(), cache=self.path.with_suffix(".matrices")
            )

    def amend(self, plan: Plan | None = None) -> Plan:
        """Commit the releases that the declaration adds; `plan`: as `amendment()` returned it.

        The next run begins with them, with the rows as they are at their start.
        """
        if not self._file.begun:
            raise SpecError(NOTHING_COMMITTED)
        with self._file.open(write=True) as store:
            store.public.require_newest()
            plan = plan or self._amendment(store)
            self._commits.more(store, plan, now=self._now())
            return plan

    # -- the source ------------------------------------------------------------------------------------------

    def doctor(self) -> list[Check]:
        """What the source needs to go on from where the store has come, checked one by one."""
        position = self._position()
        with self._source() as source:
            return source.doctor(position)

    def _position(self) -> str | None:
        """The position in the source up to which the store has read; None before the first run."""
        if not self._file.begun:
            return None
        with self._file.open() as store:
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

    def stamp(
        self, output: Path | None = None, *, until: str | None = None, progress: Report | None = None
    ) -> Path:
        """Write the changelog, stamped for this plan, into a new folder, by default beside the store: secret.

        A first run can begin with it: run(stamped=folder).  Spends nothing.
        """
        limit = self._now() if until is None else min(self._now(), instant(until))
        folder = Path(output or self.path.with_suffix(".stamped"))
        with self._source() as source:
            plan, key = self.plan(), self._file.key()
            return stamp(plan, self.spec, source, folder, limit=limit, key=key, report=progress)

    # -- running ---------------------------------------------------------------------------------------------

    def run(
        self,
        until: str | datetime | None = None,
        *,
        plan: Plan | None = None,
        follow: bool = False,
        stamped: str | Path | None = None,
        progress: Report | None = None,
    ) -> Generator[Reading, None, None]:
        """Commit the plan if this is the first run, catch up, and yield each reading once it is durable.

        `plan`: commit this plan, which `plan()` returned; it is ignored if one was committed before.
        With `follow`, go on as time passes, until `until` or the last reading of all.  `stamped`: the first
        run begins with this folder, which `stamp()` wrote.
        """
        limit = None if until is None else instant(until)
        require_own_key(stamped, self._file)
        with self._file.open(write=True) as store, ExitStack() as held:
            store.public.require_newest()
            with self._source() as source:
                source.reach(wait=follow)
            source = held.enter_context(self._source())  # the check and the first read are of one source
            first, past = store.public.plan is None, None
            plan = plan or self._make_plan() if first else self._committed(store.public)
            if stamped is not None:
                past = open_for(
                    plan, self.spec, store, Path(stamped), now=self._now(), limit=limit, key=self._file.key()
                )
            if first:
                plan = self._commits.first(store, source, plan, now=self._now(), checked=past is not None)
            self._commits.require_own_noise(store)
            self._commits.shared.confirm(store, plan, time=rfc3339(self._now()))
            store.public.attest()
            kind, secret = self.spec.engine.kind, store.engine_secret
            with Engines(kind, plan.columns, store=self.path, secret=secret) as engines:
                require_columns(plan, source)
                program = program_of_all(begun(plan, store.secret.clock.watermark))
                engine = engines.open(program)
                store.extend_state(engine.layout.tables(), partial(running_values, program))
                ticker = Ticker(plan, store, engine, self._sampler, engines.open)
                now = PublicClock(self._now, self._steady)
                with delivering(
                    self._senders(plan), ticker.progress.clock.watermark, self.undelivered.extend
                ) as released:
                    loop = Loop(
                        ticker, source, now=now, sleep=self._sleep, progress=progress, released=released
                    )
                    for published in loop.run(limit, follow=follow, stamped=past):
                        yield plan_reading(plan, published)

    def _senders(self, plan: Plan, only: str | None = None) -> list[Sender]:
        return open_senders(
            self.spec.publish, plan, base=self._base, store=self.path, public=self._file.public, only=only
        )

    def publish(self, only: str | None = None) -> int:
        """Deliver everything that waits in the outbox, and return how many readings were delivered.

        only: the name of one publisher; None: all.  `undelivered` lists those that failed.  Raises SpecError.
        """
        require_declared(self.spec.publish, only)
        with self._file.open(write=True) as store:
            store.public.require_newest()
            if store.public.plan is None:
                return 0
            plan = self._committed(store.public)
            store.public.attest()
            delivered, failures = deliver_once(self._senders(plan, only))
        self.undelivered.extend(failures)
        return delivered

    # -- what was published ----------------------------------------------------------------------------------

    def published(self, release: str | None = None, **shown: Unpack[Shown]) -> list[Reading]:
        """Every reading so far, or those of one release: see `Reader.published`."""
        return self.reader.published(release, **shown)

    def readings(self, release: str | None = None, **shown: Unpack[Shown]) -> pa.Table:
        """Every reading so far in an Arrow table: release, time, its groups, value, stderr, low, high."""
        return self.reader.readings(release, **shown)

    def _repr_html_(self) -> str:
        """What a notebook shows: a chart of every release."""
        return gauge_html(self.plan(), self.published() if self.committed else [])

    def status(self) -> Status:
        """How far the gauge has come; `operator_only` has exact numbers that are not for the public."""
        if not self._file.begun:
            return Status()
        with self._file.open() as store:
            plan = committed(store.public)
            senders = [] if plan is None else self._senders(plan)
            return self.reader.status_in(store, plan, waiting(senders, store.public))

    def ledger(self) -> list[LedgerEntry]:
        """What was promised and reserved, oldest first."""
        return self.reader.ledger()

    def verify(self, against: str | Path | None = None) -> Verified:
        """Prove the store, and compare it with exported readings if given: see `Reader.verify`."""
        return self.reader.verify(against)

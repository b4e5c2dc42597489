"""One tick: fold what the source brought, measure the bins that have ended, decode readings, commit once."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.errors import StoreCorrupt
from tidegauge.mechanism.encode import draw_ahead, expected_draws, measure
from tidegauge.mechanism.noise.pool import Pool
from tidegauge.model.engine import KeepingEngine
from tidegauge.model.history import HistoryEngine
from tidegauge.model.tick import (
    Clock,
    Measured,
    Measurement,
    NoiseAhead,
    Progress,
    StreamState,
    TickResult,
    Wanted,
)
from tidegauge.plan.grow import begun, in_order, program_of_all
from tidegauge.publish.journal import as_arrays, decode, decodings
from tidegauge.run.arrive import arrive
from tidegauge.run.past import continued, fold_history, kept_version
from tidegauge.run.spill import spilled
from tidegauge.run.sums import add_sums, by_release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.windows import Decoding
    from tidegauge.mechanism.noise.samplers import Noise, Sampler
    from tidegauge.model.engine import Engine
    from tidegauge.model.history import History, Report
    from tidegauge.model.mutation import Batch
    from tidegauge.model.program import Folded, Program, State
    from tidegauge.model.stamp import Stamped
    from tidegauge.model.tick import Known, Published
    from tidegauge.plan.plan import Plan, ReleasePlan
    from tidegauge.publish.journal import Rows
    from tidegauge.store.store import Store


@dataclass
class Ticker:
    """Carries a committed plan out, batch by batch: one load and one commit a tick."""

    plan: Plan
    store: Store
    engine: Engine
    sampler: Sampler
    reopen: Callable[[Program], Engine] | None = None
    """Opens the engine again, for a program with more releases; None: no releases were added."""
    _measured: dict[str, Decoded] = field(default_factory=dict)
    """What was measured of each release, ready to be decoded, so that the journal is read once."""

    def __post_init__(self) -> None:
        self.progress = self.store.progress
        """Where this process has brought the store; no other process may move it meanwhile."""
        self._parts = in_order(self.plan)
        self._begun = len(begun(self.plan, self.progress.clock.watermark))
        """How many plans have begun."""
        self._fresh: frozenset[str] = frozenset()
        """Releases that begin with the next fold."""

    def tick(self, batch: Batch, *, now: int) -> list[Published]:
        """Everything that this batch leads to, durable when it returns.

        `now`: the clock when the batch was read.  The changes wait; once a bin ends, those up to its end take
        effect.
        """
        reached, published = self.last_end(batch.upto), []
        for at in self._beginnings(reached):
            if self.progress.clock.watermark < at:
                published += self._tick(batch, at, now=now)
                batch = replace(batch, rows=batch.rows.slice(0, 0), remote=None)
            self._begin(at)
        return published + self._tick(batch, reached, now=now)

    def _beginnings(self, reached: int | None) -> list[int]:
        """The instants before `reached` at which plans begin that have not begun."""
        coming = {part.begins for part in self._parts[self._begun :]}
        return sorted(at for at in coming if reached is not None and at < reached)

    def _begin(self, at: int) -> None:
        """Let the next fold begin the plans that begin at this instant; everything before has been folded."""
        assert self.reopen is not None
        before, self._begun = self._begun, len(begun(self.plan, at + 1))
        self.engine = self.reopen(program_of_all(self._parts[: self._begun]))
        self.store.widen_state(self.engine.layout.tables())
        fresh = self._parts[before : self._begun]
        self._fresh = frozenset(one.release.name for part in fresh for one in part.releases)

    def _tick(self, batch: Batch, reached: int | None, *, now: int) -> list[Published]:
        """One transaction: what the batch leads to up to `reached`; None: no bin has ended."""
        clock = self.progress.clock
        if reached is None and not batch.places and batch.position == clock.position:
            return []

        def folded(state: State, tick: ExitStack) -> TickResult:
            return fold(self.engine, state, batch, tick, since=clock, now=now, reached=reached)

        return self._carry_out(folded, reached)

    @property
    def can_backfill(self) -> bool:
        """Whether a whole history can be carried out as one tick: one plan, which the engine can backfill."""
        engine = self.engine
        return len(self._parts) == 1 and isinstance(engine, HistoryEngine) and engine.can_backfill

    def backfill(
        self, history: History | Stamped, *, now: int, report: Report = lambda _, __: None
    ) -> list[Published]:
        """Everything that a whole history leads to, durable when it returns: one tick.

        The store has read nothing yet, and the history ends with a bin.  `report`: called with what is done
        and the total.
        """
        clock, reached = self.progress.clock, self.last_end(history.upto)
        assert reached == history.upto, "a history ends with a bin"
        unfinished = self.store.unfinished(self.plan.hash)

        def folded(state: State, tick: ExitStack) -> TickResult:
            return fold_history(
                self.engine, state, history, tick, since=clock, now=now, report=report, keeper=unfinished
            )

        return self._carry_out(folded, reached)

    def continued(self, history: History) -> History:
        """The part of a history that an interrupted run had begun with, if that run can be continued."""
        return continued(history, self.store.unfinished(self.plan.hash), self.last_end)

    def _carry_out(
        self, folded: Callable[[State, ExitStack], TickResult], reached: int | None
    ) -> list[Published]:
        """Fold, measure the bins that have ended, decode and commit."""
        ended = [] if reached is None else self._ended(reached)
        measured: list[Measured] = []
        try:
            with ExitStack() as tick:
                wanted = [self._wanted(one) for one in ended]
                loaded = self.store.load(wanted, since=self.progress.clock)
                if isinstance(self.engine, KeepingEngine):
                    self.engine.resume(loaded.version)
                if self._fresh:
                    self.engine.begin(self._fresh, state=loaded.state)
                result = folded(loaded.state, tick)
                totals, sampler = by_release(result.folded), self._pool(ended)
                for one in ended:
                    plan, name = one.plan, one.plan.release.name
                    known = loaded.releases[name]
                    if known.journal is not None:
                        self._measured[name] = Decoded.of(plan, as_arrays(plan, known.journal))
                    before = self._measured[name]
                    sums = add_sums(known.sums, totals.get(name, ()))
                    fresh = measure_release(plan, one.bins, replace(known, sums=sums), before.rows, sampler)
                    before.add(fresh.measurements, cells=len(plan.release.query.cells))
                    readings = decode_bins(self.plan, plan, one.bins, before.decodings)
                    measured.append(replace(fresh, readings=tuple(readings)))
                self.store.commit(replace(result, measured=tuple(measured)))
        except BaseException:
            self.engine.forget()
            for one in ended:  # they may have taken in what was not committed
                self._measured.pop(one.plan.release.name, None)
            raise
        self._fresh = frozenset()
        next_bins = {one.release: one.next_bin for one in measured}
        self.progress = Progress(result.clock, {**self.progress.next_bins, **next_bins})
        published = (reading for one in measured for reading in one.readings)
        return sorted(published, key=lambda reading: (reading.time, reading.release, reading.cell))

    def _pool(self, ended: Sequence[Ended]) -> Sampler:
        """The sampler of a tick: if each release measures one bin, all noise of one law is drawn at once.

        Longer ticks draw enough at a time anyway.  The draws of a seed keep their order.
        """
        components = [(one.bins, of, plan) for one in ended for of in [one.plan.release]
                      for plan in one.plan.component_plans]  # fmt: skip
        if self.sampler.simulated or len(components) < 2 or any(len(bins) > 1 for bins, _, _ in components):
            return self.sampler
        wanted: Counter[Noise] = Counter()
        for bins, release, plan in components:
            wanted += expected_draws(plan, bins, len(release.query.cells))
        return Pool(self.sampler, wanted)

    def last_end(self, upto: int | None) -> int | None:
        """The end of the last bin, of any release, that has ended by then and is not measured."""
        if upto is None:
            return None
        ends = (
            plan.release.schedule.last_end(self.progress.next_bin(plan.release.name), upto)
            for plan in self.plan.releases
        )
        return max((end for end in ends if end is not None), default=None)

    def _ended(self, upto: int) -> list[Ended]:
        """The releases with bins that have ended by then and are not measured, and those bins."""
        found = []
        for plan in self.plan.releases:
            first = self.progress.next_bin(plan.release.name)
            bins = [index for index, _ in plan.release.schedule.ends(first, upto)]
            if bins:
                found.append(Ended(plan, range(first, bins[-1] + 1)))
        return found

    def _wanted(self, ended: Ended) -> Wanted:
        plans = ended.plan.component_plans
        needed = plans[0].strategy.needed_from(ended.bins.start - 1)
        name = ended.plan.release.name
        return Wanted(name, len(plans), needed, journal=name not in self._measured)


@dataclass
class Decoded:
    """What was measured of a release, ready to be decoded."""

    decodings: list[Decoding]
    rows: list[int]
    """By component: how many rows were measured."""

    @classmethod
    def of(cls, plan: ReleasePlan, rows: Rows) -> Decoded:
        """From all rows so far."""
        return cls(decodings(plan, rows), [len(some) for some in rows])

    def add(self, measurements: Iterable[Measurement], *, cells: int) -> None:
        """Take in the measurements of the next bins."""
        values: list[list[int]] = [[] for _ in self.decodings]
        for one in measurements:
            values[one.component].append(one.value)
        for component, fresh in enumerate(values):
            rows = np.array(fresh, dtype=np.float64).reshape(-1, cells)
            self.decodings[component].add(rows)
            self.rows[component] += len(rows)


@dataclass(frozen=True)
class Ended:
    """A release, and its bins that have ended and are not measured."""

    plan: ReleasePlan
    bins: range


def fold(
    engine: Engine,
    state: State,
    batch: Batch,
    until: ExitStack,
    *,
    since: Clock,
    now: int,
    reached: int | None,
) -> TickResult:
    """What becomes of a batch before anything is measured.  The result can be used until `until` is closed.

    `reached`: the end of the last bin that has ended; None: all changes of the batch wait.
    """
    arrived = arrive(engine, state, batch, since=since, now=now)
    watermark = since.watermark if reached is None else max(since.watermark, reached)
    clock = Clock(batch.position, watermark, since.arrivals + batch.places)
    folded: tuple[Folded, ...] = ()
    if reached is not None:
        folded = spilled(engine.fold(state=state, watermark=since.watermark, reached=reached), until)
    waiting = engine.waiting(since.arrivals if reached is None else None)
    ended, version = reached is not None, kept_version(engine)
    return TickResult(since, clock, arrived, waiting, ended=ended, folded=folded, version=version)


def measure_release(
    plan: ReleasePlan, bins: range, known: Known, before: Sequence[int], sampler: Sampler
) -> Measured:
    """What is measured of these bins, and what is kept for the next; its readings are decoded later.

    `before`: how many rows of each component were measured so far.
    """
    release, strategy = plan.release, plan.component_plans[0].strategy
    cells, ends = len(release.query.cells), release.schedule.bin_end
    measurements: list[Measurement] = []
    shared_noise, streams, ahead = [], [], []
    for j, component_plan in enumerate(plan.component_plans):
        exact = {
            (bin_, cell): amount
            for (component, bin_, cell), amount in known.sums.items()
            if component == j and bin_ < bins.stop
        }
        shared = draw_once(plan, j, known.shared_noise[j], sampler)
        state = stream_numbers(plan, j, known.streams[j], bins.start)
        later = noise_ahead(plan, j, known.ahead[j], bins.start, sampler)
        rows = 0 if later is None else sum(len(strategy.rows(bin_)) for bin_ in bins)
        noisy = measure(
            component_plan,
            exact,
            bins=bins,
            shared_noise=shared or [0] * cells,
            sampler=sampler,
            stream_state=state,
            noise_ahead=None if later is None else later[:rows],
        )
        start = before[j]
        measurements += [
            Measurement(release.name, j, start + n // cells, cell, bin_, value, ends(bin_))
            for n, (bin_, cell, value) in enumerate(noisy)
        ]
        shared_noise.append(shared)
        streams.append(None if state is None else StreamState(bins.stop, tuple(map(tuple, state.tolist()))))
        ahead.append(None if later is None else NoiseAhead(bins.stop, later[rows:]))
    last = bins.stop == release.schedule.bins
    return Measured(
        release=release.name,
        next_bin=bins.stop,
        measurements=tuple(measurements),
        readings=(),
        shared_noise=tuple(shared_noise),
        streams=tuple(streams),
        ahead=tuple(ahead),
        sums_from=None if last else strategy.needed_from(bins.stop - 1),
        reading_from=None if release.schedule.span is None else release.schedule.latest_bins(bins.stop).start,
    )


def draw_once(plan: ReleasePlan, component: int, known: tuple[int, ...], sampler: Sampler) -> tuple[int, ...]:
    """The secret draw that all rows of a cell share: the known one, or the first; empty without one."""
    law = plan.component_plans[component].shared_noise
    if law is None or known:
        return known
    return tuple(sampler.draw(law, len(plan.release.query.cells)))


def stream_numbers(
    plan: ReleasePlan, component: int, known: StreamState | None, bins: int
) -> NDArray[np.object_] | None:
    """The integers that a buffered strategy goes on from, once so many bins are measured; None for other
    strategies.

    Raises StoreCorrupt where the known state is that of another number of bins.
    """
    stream, name = plan.component_plans[component].strategy.stream, plan.release.name
    if stream is None:
        return None
    if (0 if known is None else known.bins) != bins:
        raise StoreCorrupt(f"the stream state of '{name}' does not belong to its last measurement")
    state = np.zeros((stream.width, len(plan.release.query.cells)), dtype=object)
    if known is not None:
        state[...] = known.rows
    return state


def noise_ahead(
    plan: ReleasePlan, component: int, known: NoiseAhead | None, bins: int, sampler: Sampler | None
) -> NDArray[np.object_] | None:
    """The noise of all rows from this bin on, drawn before bin 0 and never again; None for other strategies.

    Raises StoreCorrupt where the known noise does not begin with this bin, or is not there.  `sampler`: None
    does not draw.
    """
    component_plan, cells = plan.component_plans[component], len(plan.release.query.cells)
    if component_plan.strategy.ahead is None:
        return None
    if known is None and bins == 0:
        return None if sampler is None else draw_ahead(component_plan, cells, sampler)
    left = sum(
        len(component_plan.strategy.rows(bin_)) for bin_ in range(bins, plan.release.schedule.bins or 0)
    )
    if known is None or (known.bin, known.rows.shape) != (bins, (left, cells)):
        raise StoreCorrupt(
            f"the noise drawn ahead for '{plan.release.name}' does not belong to its last measurement"
        )
    return known.rows


def decode_bins(whole: Plan, plan: ReleasePlan, bins: range, measured: Sequence[Decoding]) -> list[Published]:
    """The readings of everything that is published of a release, at the ends of these bins."""
    return [one for series in whole.series_of(plan) for one in decode(series, measured, bins)]


def require_stream_states(plan: Plan, store: Store) -> None:
    """Refuse a store whose stream states, or noise drawn ahead, are not those of the last measured bins."""
    for release in plan.releases:
        name, schedule = release.release.name, release.release.schedule
        bins = store.public.next_bin(name)
        if bins != schedule.bins:  # nothing is kept of a release that has ended
            for component in range(len(release.component_plans)):
                stream_numbers(release, component, store.secret.stream(name, component), bins)
                noise_ahead(release, component, store.secret.noise_ahead(name, component), bins, None)

"""One tick: take what the source brought, fold and measure the bins that have ended, and commit all of it at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.errors import StoreCorrupt
from tidegauge.mechanism.encode import measure
from tidegauge.store import Carried, Clock, Measured, Published

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.noise.samplers import Sampler
    from tidegauge.model.engine import Engine
    from tidegauge.model.mutation import Batch
    from tidegauge.plan.plan import Plan, ReleasePlan, Series
    from tidegauge.store import Store


def journal_arrays(store: Store, plan: ReleasePlan) -> list[NDArray[np.float64]]:
    """Everything measured so far of a release: per component, rows by cells."""
    cells = len(plan.release.query.cells)
    values: list[list[float]] = [[] for _ in plan.component_plans]
    for component, _, _, value in store.journal(plan.release.name):
        values[component].append(float(value))
    return [np.array(column, dtype=np.float64).reshape(-1, cells) for column in values]


@dataclass
class Ticker:
    """Carries a committed plan out, batch by batch."""

    plan: Plan
    store: Store
    engine: Engine
    sampler: Sampler
    _rows: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._clock = self.store.clock
        """Where this process has brought the store; nobody else may move it meanwhile."""

    def tick(self, batch: Batch, *, now: int) -> list[Published]:
        """Everything that this batch leads to, durable when it returns.

        `now`: the clock when the batch was read.  The changes wait; once a bin ends, those up to its end take effect.
        """
        import pyarrow.compute as pc  # noqa: PLC0415  (slow to load)

        clock, reached = self._clock, self._last_end(batch.upto)
        if reached is None and not batch.rows.num_rows and batch.position == clock.position:
            return []
        published: list[Published] = []
        try:
            with self.store.transaction():
                state = self.store.state()
                arrived = self.engine.arrive(batch.rows, state=state, now=now, arrivals=clock.arrivals)
                arrived.counts["late"] = (
                    pc.sum(pc.less_equal(batch.rows["time"], clock.watermark)).as_py() or 0
                )
                if reached is None:
                    self.store.arrive(arrived, self.engine.waiting(clock.arrivals), alone=False)
                else:
                    for folded in self.engine.fold(state=state, watermark=clock.watermark, reached=reached):
                        self.store.fold(folded)
                    self.store.arrive(arrived, self.engine.waiting(), alone=True)
                    for release in self.plan.releases:
                        published += self._measure(release, reached)
                watermark = clock.watermark if reached is None else max(clock.watermark, reached)
                after = Clock(batch.position, watermark, clock.arrivals + batch.rows.num_rows)
                self.store.advance(after, since=clock)
        except BaseException:
            self._rows.clear()
            self.engine.forget()
            raise
        self._clock = after
        if reached is not None:
            self.store.attest()
        return sorted(published, key=lambda reading: (reading.time, reading.release, reading.cell))

    def _last_end(self, upto: int | None) -> int | None:
        """The end of the last bin, of any release, that has ended by then and is not measured."""
        ends = (
            schedule.last_end(self.store.next_bin(plan.release.name, 0), upto)
            for plan in self.plan.releases
            for schedule in [plan.release.schedule]
            if upto is not None
        )
        return max((end for end in ends if end is not None), default=None)

    def _measure(self, plan: ReleasePlan, upto: int) -> list[Published]:
        release, schedule = plan.release, plan.release.schedule
        first = self.store.next_bin(release.name, 0)
        ended = [index for index, _ in schedule.ends(first, upto)]
        if not ended:
            return []
        last, cells = ended[-1], len(release.query.cells)
        totals = self.store.totals(
            release.name, plan.component_plans[0].strategy.needed_from(first - 1), last
        )
        measured = []
        rows = self._rows.get(release.name) or journal_arrays(self.store, plan)
        for j, component_plan in enumerate(plan.component_plans):
            exact = {(bin_, cell): amount for (part, bin_, cell), amount in totals.items() if part == j}
            veils = self._veils(plan, j, cells)
            state = carried(self.store, plan, j, first)
            noisy = measure(
                component_plan,
                exact,
                bins=range(first, last + 1),
                shared_noise=veils,
                sampler=self.sampler,
                stream_state=state,
            )
            if state is not None:
                self.store.carry(release.name, j, Carried(last + 1, state.tolist()))
            start = len(rows[j])
            measured += [
                Measured(release.name, j, start + n // cells, cell, bin_, value, schedule.bin_end(bin_))
                for n, (bin_, cell, value) in enumerate(noisy)
            ]
            fresh = np.array([value for _, _, value in noisy], dtype=np.float64).reshape(-1, cells)
            rows[j] = np.concatenate([rows[j], fresh])
        self._rows[release.name] = rows
        readings = [schedule.reading_of_bin(bin_) for bin_ in ended]
        published = [one for series in self.plan.series_of(plan) for one in decode(series, rows, readings)]
        self.store.record(measured, published)
        self.store.set_next_bin(release.name, last + 1)
        self.store.forget(release.name, plan.component_plans[0].strategy.needed_from(last))
        if last + 1 == schedule.bins:
            self.store.finish(release.name)
        return published

    def _veils(self, plan: ReleasePlan, component: int, cells: int) -> list[int]:
        """The secret draw that all rows of a cell share: drawn once, kept with the state."""
        veil, name = plan.component_plans[component].shared_noise, plan.release.name
        if veil is None:
            return [0] * cells
        known = self.store.veils(name, component)
        if not known:
            known = self.sampler.draw(veil, cells)
            self.store.set_veils(name, component, known)
        return known


def carried(store: Store, plan: ReleasePlan, component: int, bins: int) -> NDArray[np.object_] | None:
    """What a stream keeps, once so many bins are measured; None where the strategy is none."""
    stream, name = plan.component_plans[component].strategy.stream, plan.release.name
    if stream is None:
        return None
    shape, known = (stream.width, len(plan.release.query.cells)), store.carried(name, component)
    state = np.zeros(shape, dtype=object)
    if (0 if known is None else known.bins) != bins:
        raise StoreCorrupt(f"what is kept of '{name}' does not belong to its last measurement")
    if known is not None:
        state[...] = known.state
    return state


def decode(
    series: Series,
    rows: list[NDArray[np.float64]],
    readings: list[int | None],
    *,
    through: int | None = None,
) -> list[Published]:
    """The readings that follow from what was measured; smoothed, if from all bins `through` this one."""
    schedule, decoder = series.plan.release.schedule, series.decoder
    return [
        Published(
            series.name,
            reading,
            cell,
            schedule.bin_end(schedule.bin_of_reading(reading)),
            estimate.value,
            estimate.stderr,
            estimate.low,
            estimate.high,
        )
        for reading in readings
        if reading is not None and reading >= series.first
        for cell, estimate in enumerate(decoder.estimates(reading, rows, through=through))
    ]


def derivable(store: Store, plan: Plan, *, smoothed: bool = False) -> dict[str, list[Published]]:
    """Every reading that follows from the journal, by the name it is published under.

    `smoothed`: as all that is measured by now would have it.
    """
    found: dict[str, list[Published]] = {}
    for release in plan.releases:
        rows, bins = journal_arrays(store, release), store.next_bin(release.release.name, 0)
        readings = [release.release.schedule.reading_of_bin(bin_) for bin_ in range(bins)]
        through = bins - 1 if smoothed else None
        for series in plan.series_of(release):
            found[series.name] = decode(series, rows, readings, through=through)
    return found

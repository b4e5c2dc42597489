"""One random gauge over one random table, in the world as it is and in the worlds without one
of its units."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

from tests.adjacency.declared import declare
from tests.adjacency.sources import DebeziumLog, FilesLog, Log, SQLiteLog, cut_batches
from tests.adjacency.world import alone, random_table, without
from tests.shared_plans import SharedPlans, shared_plans
from tidegauge.audit.replay.transcript import (
    Labels,
    Transcript,
    loss,
    require_same,
    require_unit_local,
    transcript,
)
from tidegauge.audit.worlds.rehearsal import listening
from tidegauge.errors import SpecError
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.adjacency.declared import Declared
    from tests.adjacency.world import Event

Kind = Literal["memory", "debezium", "files", "sqlite"]
KINDS: Final[tuple[Kind, ...]] = ("memory", "debezium", "files", "sqlite")


@dataclass(frozen=True)
class Play:
    """Everything but the batches, which every world cuts by itself."""

    declared: Declared
    log: tuple[Event, ...]
    units: tuple[str, ...]
    kind: Kind
    informed: bool = False
    plans: SharedPlans = field(default_factory=SharedPlans, compare=False, repr=False)
    """All worlds have the same declaration, so they are planned once."""

    def run(self, folder: Path, log: Sequence[Event], seed: int) -> Transcript:
        """Run the gauge at every pass of the public clock, on what the log holds by then."""
        folder.mkdir()
        assert [event.arrival for event in log] == sorted(event.arrival for event in log)
        rng, clock, declared = random.Random(seed), Clock(), self.declared
        labels, readings = Labels(rng), []
        source = self._source(folder, rng)
        with listening() as messages, shared_plans(self.plans), pytest.MonkeyPatch.context() as patch:
            written = 0
            for number, at in enumerate(declared.times.passes):
                clock.now = declared.times.micros(at)
                fresh = [event for event in log[written:] if event.arrival <= clock.now]
                source.write(fresh)
                written += len(fresh)
                cut_batches(patch, rng.choice((1, 2, 3, 1000)))
                gauge = self.opened(
                    number,
                    source=source if isinstance(source, Log) else source.source(),
                    store=folder / "store.db",
                    now=clock,
                    sampler=labels,
                )
                readings += list(gauge.run())
        return transcript(folder, gauge.reader.plan(), labels, readings, messages)

    def opened(self, number: int, **given: Any) -> Gauge:
        """The gauge at this pass of the clock."""
        del number
        return Gauge(**given, **self.declared.gauge)

    def _source(self, folder: Path, rng: random.Random) -> Any:
        owned = self.declared.owned
        match self.kind:
            case "memory":
                return Log(rng, owned=owned, informed=self.informed)
            case "debezium":
                return DebeziumLog(folder, owned=owned, informed=self.informed)
            case "files":
                return FilesLog(folder, rng, owned=owned)
            case "sqlite":
                return SQLiteLog(folder, owned=owned)


def play(seed: int, kind: Kind, *, tuned: bool = False) -> Play:
    """A gauge that can be planned, and a table whose log this kind of source can state."""
    rng = random.Random(f"{kind} {seed}")
    while True:
        declared = declare(rng, tuned=tuned)
        try:
            probe = Log(rng, owned=declared.owned, informed=False)
            start = Clock(declared.times.micros(declared.times.passes[0]))
            with shared_plans(plans := SharedPlans()):
                Gauge(source=probe, now=start, sampler=Labels(rng), **declared.gauge).plan()
        except SpecError:
            continue
        break
    table = random_table(
        rng, declared.times, owned=declared.owned, values=declared.values, plain=kind == "files"
    )
    return Play(declared, tuple(table.log), tuple(table.units), kind, rng.random() < 0.5, plans)


def check(one: Play, folder: Path, seed: int, *, most: int | None = None) -> int:
    """Remove each unit (or so many of them) in turn; returns the number of pairs."""
    whole = one.run(folder / "whole", one.log, seed)
    units = list(one.units)
    random.Random(seed).shuffle(units)
    for n, unit in enumerate(units[:most]):
        other = one.run(folder / f"without{n}", without(one.log, unit), seed + 1 + n)
        compare(whole, other)
        own = one.run(folder / f"alone{n}", alone(one.log, unit), seed + 101 + n)
        compare(whole, own, adjacent=False)
        require_unit_local(whole, other, own)
    return len(units[:most])


def compare(one: Transcript, other: Transcript, *, adjacent: bool = True) -> None:
    """Everything public is the same but for noise, and,
    where one unit is the difference, the noise covers it."""
    require_same(one, other)
    if adjacent:
        cost = loss(one, other)
        for name, amount in cost.items():
            assert amount <= one.reserved[name], (name, float(amount), float(one.reserved[name]))
        assert sum(cost.values()) <= one.total

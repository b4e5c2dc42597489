"""Neighbours: one log, and the same log without one unit, through source, SQL, enforcement and encoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.audit.findings import Discrepancy, require
from tidegauge.audit.replay.transcript import (
    Crashed,
    Journal,
    Labels,
    loss,
    require_same,
    require_unit_local,
    transcript,
)
from tidegauge.audit.worlds.rehearsal import MemoryLog, carry_out
from tidegauge.audit.worlds.world import Random, alone, without, without_term
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidegauge.audit.replay.transcript import Transcript
    from tidegauge.audit.worlds.rehearsal import Log, Subject
    from tidegauge.audit.worlds.world import Event

    OpenLog = Callable[[Path, Random], Log]

ROUNDING: Final = Fraction(1, 10**9)
"""What a plan may need more than it reserves: roundings of a search may differ between machines."""


@dataclass(frozen=True)
class Pair:
    """What one unit's presence costs."""

    losses: dict[str, Fraction]
    reserved: dict[str, Fraction]
    total: Fraction

    @property
    def ratio(self) -> float:
        """The largest part of a reservation that the unit uses: of a release, or of the whole plan."""
        found = [float(self.losses[name] / kept) for name, kept in self.reserved.items() if kept]
        return max([*found, float(sum(self.losses.values()) / self.total)])


@dataclass
class Stage:
    """One log of a plan, and the passes of the public clock at which it is read."""

    subject: Subject
    log: Sequence[Event]
    passes: Sequence[int]
    seed: int
    informed: bool = False
    crash: int | None = None
    """Draws after which the second pass is interrupted once; None: it is not."""
    open_log: OpenLog | None = None
    """Opens a source of the declared kind; None: a source in memory."""
    stamped: bool = False
    """Whether the first pass begins with a stamped log."""
    _whole: Transcript | None = field(default=None, init=False)

    def run(self, log: Sequence[Event], seed: int) -> Transcript:
        """Everything that this log leads to.  Batches are cut by the seed."""
        plan, rng = self.subject.plan, Random(seed)
        with ScratchFolder() as folder:
            path = Path(folder.name)
            source = (
                MemoryLog(
                    plan.releases[0].release.query.table,
                    plan.columns,
                    rng,
                    owner=plan.program.owner,
                    informed=self.informed,
                )
                if self.open_log is None
                else self.open_log(path, rng)
            )
            labels, journal = Labels(rng), Journal(path)
            readings, messages = carry_out(
                self.subject,
                source,
                log,
                folder=path,
                passes=self.passes,
                sampler=labels,
                before_pass=self._crash(labels),
                after_pass=journal.look,
                stamped=self.stamped,
            )
            return transcript(path, plan, labels, readings, messages)

    def _crash(self, labels: Labels) -> Callable[[int], type[BaseException] | None]:
        """Arrange for the interruption, in both worlds at the same draw."""

        def before_pass(at: int) -> type[BaseException] | None:
            labels.crash_in = self.crash if at == self.passes[min(1, len(self.passes) - 1)] else None
            return None if labels.crash_in is None else Crashed

        return before_pass

    @property
    def whole(self) -> Transcript:
        """The world with all units."""
        if self._whole is None:
            self._whole = self.run(self.log, self.seed)
        return self._whole

    def remove(self, unit: str, *, local: bool = True) -> Pair:
        """Compare with the world without this unit.  Raises Discrepancy.

        `local`: also run the unit alone, and require that it adds the same to every measurement.
        """
        return self.compare(without(self.log, unit), unit, local=local)

    def remove_in_term(self, unit: str, begins: int, ends: int) -> Pair:
        """Compare with the world in which this unit is absent in one term.  Raises Discrepancy."""
        return self.compare(without_term(self.log, unit, begins, ends), unit)

    def compare(self, log: Sequence[Event], unit: str, *, local: bool = True) -> Pair:
        """Compare with the world of another log, which differs by this unit alone.  Raises Discrepancy."""
        whole, other = self.whole, self.run(log, self.seed + 1)
        require_same(whole, other)
        pair = Pair(loss(whole, other), whole.reserved, whole.total)
        for name, amount in pair.losses.items():
            if amount > pair.reserved[name] * (1 + ROUNDING):
                raise Discrepancy(
                    f"one unit's changes cost {float(amount / pair.reserved[name]):.4g} times what is "
                    f"reserved for '{name}'"
                )
        require(
            sum(pair.losses.values()) <= pair.total * (1 + ROUNDING),
            "one unit's changes cost more than the ledger reserves for the plan",
        )
        if local:
            own, rest = self.run(alone(self.log, unit), self.seed + 2), alone(log, unit)
            require_same(whole, own)
            less = self.run(rest, self.seed + 3) if rest else None
            require_unit_local(whole, other, own, less)
        return pair

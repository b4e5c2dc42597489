"""Small parts that every gauge relies on: its clock, the noise that a tick shares, and what is erased."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.audit.findings import require
from tidegauge.audit.installed.exercises import COUNT, SHARED, Exercise, toggles
from tidegauge.audit.worlds.rehearsal import MemoryLog, carry_out, listening
from tidegauge.audit.worlds.world import Random, Table
from tidegauge.engine.duckdb.arrays import _DENSE, _sums
from tidegauge.mechanism.noise.pool import Pool
from tidegauge.mechanism.noise.samplers import DiscreteLaplace
from tidegauge.run.clock import SETTLED, PublicClock
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.mechanism.noise.samplers import Noise

_SECOND: Final = 10**6
_HOUR: Final = 3600 * _SECOND
_LATE: Final = SETTLED // _SECOND
_JUMPS: Final[tuple[tuple[tuple[int, int, int], ...], ...]] = (
    ((0, 0, 0), (10, 0, 0), (20, _SECOND, _SECOND), (30, 0, 0)),
    ((0, 0, 0), (10, _HOUR, 0), (10 + _LATE - 1, _HOUR, 0), (10 + _LATE, _HOUR, _HOUR), (200, _HOUR, _HOUR)),
    ((0, 0, 0), (10, _HOUR, 0), (20, 0, 0), (10 + _LATE + 1, 0, 0), (100, _HOUR, 0)),
    ((0, 0, 0), (10, -_HOUR, -_HOUR), (10 + _LATE, -_HOUR, -_HOUR), (100, 0, -_HOUR)),
    ((0, 0, 0), (10, _HOUR, 0), (50, 2 * _HOUR, 0), (10 + _LATE, 2 * _HOUR, 0),
     (50 + _LATE, 2 * _HOUR, 2 * _HOUR)),
)  # fmt: skip
"""Seconds that passed, by how much the clock is ahead of them, and by how much the time that counts is."""


def check_clock() -> None:
    """A jump of the clock closes no window before it has lasted for a minute.  Raises Discrepancy."""
    for steps in _JUMPS:
        at = [0, 0]
        clock = PublicClock(partial(_shown, at), partial(_passed, at))
        for passed, ahead, counts in steps:
            at[:] = passed, ahead
            with listening():
                found = clock()
            right = passed * _SECOND + counts
            require(found == right, "a jump of the clock is believed too early, or too late")


def _shown(at: list[int]) -> int:
    return at[0] * _SECOND + at[1]


def _passed(at: list[int]) -> float:
    return float(at[0])


class _Remembering:
    """A sampler that remembers its draws, no two of which are alike."""

    simulated: Final = False

    def __init__(self) -> None:
        self.draws: list[tuple[Noise, int]] = []

    def draw(self, noise: Noise, count: int) -> list[int]:
        """The next numbers, with many digits."""
        found = [(10**15 + 7919 * (len(self.draws) + n)) * 10007 for n in range(count)]
        self.draws += [(noise, one) for one in found]
        return found


def check_pool() -> None:
    """Noise that is drawn for several releases is handed out once, also if too little was expected.

    Raises Discrepancy.
    """
    one, other = DiscreteLaplace(Fraction(3)), DiscreteLaplace(Fraction(4))
    for expected in (0, 1, 2, 3, 5, 9):
        sampler = _Remembering()
        pool = Pool(sampler, {one: expected, other: 2})
        asked = [(one, 1), (other, 1), (one, 2), (one, 0), (one, 1), (other, 2), (one, 3)]
        found = [(law, draw) for law, count in asked for draw in pool.draw(law, count)]
        require(len(found) == sum(count for _, count in asked), "a release is given another number of draws")
        require(len(set(found)) == len(found), "one draw is handed out twice")
        require(set(found) <= set(sampler.draws), "a draw is handed out for another law")


def check_erased() -> None:
    """The shared noise of a release is nowhere in the store once the release has ended.

    Raises Discrepancy.
    """
    exercise = Exercise(toggles(5, 15), COUNT | {"strategy": SHARED}, {"at_most": 2}, pure=True)
    subject, table, sampler = exercise.subject(), Table(None), _Remembering()
    exercise.happen(table)
    (release,) = subject.plan.releases
    law = release.component_plans[0].shared_noise
    source = MemoryLog("t", subject.plan.columns, Random(0), owner=None, informed=False)
    with ScratchFolder() as name:
        folder, kept = Path(name.name), list[bool]()

        def look() -> None:
            draws = [str(draw).encode() for noise, draw in sampler.draws if noise == law]
            content = b"".join(one.read_bytes() for one in sorted(folder.glob("store.db*")))
            kept.append(any(draw in content for draw in draws))

        carry_out(
            subject, source, table.log, folder=folder, passes=(24, 44, 200), sampler=sampler, after_pass=look
        )
    require(kept[0], "shared noise is not kept for later measurements")
    require(not kept[-1], "the shared noise of a release that has ended is still in the store")


def check_many_places() -> None:
    """Sums of cells and bins are exact, also where there are too many for one array.  Raises Discrepancy."""
    rng = Random(11)
    for places in (20, 2 * _DENSE):
        spots = [rng.randrange(places) for _ in range(40)] + [places - 1]
        parts = [
            [(spot, rng.choice((2**62, -(2**62), 1, 0, -7))) for spot in rng.choices(spots, k=90)]
            for _ in range(2)
        ]
        right: dict[int, int] = dict.fromkeys(spots, 0)
        for sign, part in zip((1, -1), parts, strict=True):
            for spot, amount in part:
                right[spot] += sign * amount
        arrays = []
        for sign, part in zip((1, -1), parts, strict=True):
            spots_of, amounts = (np.array(column, np.int64) for column in zip(*part, strict=True))
            arrays.append((spots_of, amounts, sign))
        found = dict(_sums(arrays))
        require(
            found == {spot: amount for spot, amount in right.items() if amount}, "sums of many places differ"
        )


CLOCK_AND_NOISE: dict[str, Callable[[], None]] = {
    "a clock that jumps": check_clock,
    "noise that a tick shares": check_pool,
    "shared noise is erased": check_erased,
    "sums of many places": check_many_places,
}

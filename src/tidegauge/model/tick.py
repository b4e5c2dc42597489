"""The frozen values that a tick loads from the store and commits to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from tidegauge.model.program import Arrived, Folded, State

    Sums = Mapping[tuple[int, int, int], int]
    """Exact sums by (component, bin, cell); absent is 0."""

NOTHING_YET: Final = -(2**62)
"""The watermark of a store that has read nothing: earlier than every time that a source can deliver."""


@dataclass(frozen=True)
class Clock:
    """How far a gauge has come."""

    position: str | None
    watermark: int
    """The end of the last measured bin.  Earlier changes take effect after it.  Only the clock moves it."""
    arrivals: int


@dataclass(frozen=True)
class Measurement:
    """One noisy integer: measurement `number` of a component and cell, taken when `bin` ended at `time`."""

    release: str
    component: int
    number: int
    cell: int
    bin: int
    value: int
    time: int


@dataclass(frozen=True)
class Seal:
    """The seal of everything measured up to an instant; `time` is None in what store format 2 wrote."""

    seq: int
    time: int | None
    hash: str


@dataclass(frozen=True)
class Published:
    """One reading as it was made public."""

    release: str
    number: int
    cell: int
    time: int
    value: float | None
    stderr: float | None
    low: float
    high: float


@dataclass(frozen=True)
class StreamState:
    """The integers that a buffered strategy keeps after so many bins: one row a buffer, by cell."""

    bins: int
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class NoiseAhead:
    """Noise that was drawn ahead and is not published: a row for each bin from this one on, by cell."""

    bin: int
    """The next bin; rows that were used are not kept."""
    rows: NDArray[np.object_]


@dataclass(frozen=True)
class Progress:
    """How far a gauge has come, and each release's first bin that is not measured (absent is 0)."""

    clock: Clock
    next_bins: Mapping[str, int]

    def next_bin(self, release: str) -> int:
        """The first bin of this release that has not been measured."""
        return self.next_bins.get(release, 0)


@dataclass(frozen=True)
class Wanted:
    """The parts of a release that a tick needs to measure it."""

    release: str
    components: int
    sums_from: int
    """The first bin whose exact sums are needed."""
    journal: bool
    """Whether the measurements so far are needed as well."""


@dataclass(frozen=True)
class Known:
    """The stored values of one release, by component.  All of them except the journal are secret."""

    sums: Sums
    shared_noise: tuple[tuple[int, ...], ...]
    """One secret draw a cell; empty before the first."""
    streams: tuple[StreamState | None, ...]
    ahead: tuple[NoiseAhead | None, ...]
    """Noise that was drawn ahead; None: there is none yet, or the strategy draws none."""
    journal: tuple[tuple[int, ...], ...] | None
    """The noisy integers so far, row after row; None where they were not asked for."""


@dataclass(frozen=True)
class Loaded:
    """Everything that a tick starts from."""

    state: State
    """Rows and units as they are known; the engine reads from it what it needs."""
    releases: Mapping[str, Known]
    version: str | None = None
    """The committed version of an engine that keeps its state itself."""


@dataclass(frozen=True)
class Measured:
    """New measurements of one release, their readings, and the values to keep for the next measurement."""

    release: str
    next_bin: int
    measurements: tuple[Measurement, ...]
    readings: tuple[Published, ...]
    shared_noise: tuple[tuple[int, ...], ...]
    streams: tuple[StreamState | None, ...]
    ahead: tuple[NoiseAhead | None, ...]
    sums_from: int | None
    """The first bin whose exact sums are still needed; None: the release has ended, nothing is kept."""
    reading_from: int | None = None
    """The first bin of the latest reading; None: a running value, which sums all bins."""


@dataclass(frozen=True)
class TickResult:
    """The result of a tick; the store commits all of it or nothing."""

    since: Clock
    """Where the tick started."""
    clock: Clock
    arrived: Arrived
    waiting: pa.Table
    """Changes that have not taken effect: all of them if bins have ended, else those of this batch."""
    ended: bool
    """Whether bins have ended."""
    folded: tuple[Folded, ...] = ()
    measured: tuple[Measured, ...] = ()
    version: str | None = None
    """The new version of an engine that keeps its state itself; None: the store keeps it."""

"""The contract of every strategy: what is measured, and how readings are decoded from measurements.

Let x[b] be the exact change of one cell in bin b, an integer.  A strategy measures integer combinations of
these changes.  Each is measured once, when its last bin has ended:

    y[r] = sum over b of C[r, b] x[b]  +  noise of scale  s * scales[layer of r]

The base scale s is calibrated from the strategy's `sensitivity`.

Shared noise: a strategy may draw one noise of scale s * shared for each cell, before the first row.  It is
never published, and is added row.shared times to every row.  It hides the cell's running value; the
sensitivity relies on it.

Stream: a strategy may keep a few integers of each cell, its stream state, instead of the cell's bins.  Its
rows are then integers within a known distance of C x (Strategy.stream).

Noise drawn ahead: a strategy may draw all its noise before the first row (Strategy.ahead).  The noise of a
row is then a combination of draws, and the noise of later rows is secret until they are published.

A reading is the sum of the last `span` bins (None: all).  It is estimated by a linear decoding of the
measurements so far, `weights @ y`.  Noise is added to the integers C x; decoding comes after it and may use
floats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.decoding.weighted import Terms, Weighted, terms_of
from tidegauge.mechanism.decoding.windows import Windows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.windows import Decoding
    from tidegauge.mechanism.search.task import Search
    from tidegauge.model.constraint import Constraint
    from tidegauge.model.query import Kind
    from tidegauge.model.schedule import Schedule
    from tidegauge.theory.sensitivity import Sensitivity

    Whole = NDArray[np.object_]
    """Python's own integers, of any size."""


MANY: Final = 1 << 30
"""The number of groups where the number is not known."""


@dataclass(frozen=True)
class Exposure:
    """The bounds on one unit's changes of one component of a release, as enforcement guarantees them."""

    constraint: Constraint
    schedule: Schedule
    kind: Kind
    lower: int
    upper: int
    grouped: bool = False
    rows: int = 1
    clip: int | None = None
    cells: int | None = None
    """How many groups there are; None is any number."""
    returns_after: int | None = None
    """Most bins that end while the unit contributes anything by what it does; None: any number.  [T15]"""

    @property
    def groups(self) -> int:
        """Groups between which a row can change; 1 if there are none."""
        return (self.cells or MANY) if self.grouped else 1


@dataclass(frozen=True)
class Row:
    """One measurement without its noise: a sum over ranges of bins."""

    layer: int
    index: int
    ranges: tuple[tuple[int, int, int], ...]
    """(first bin, last bin, coefficient), both ends included."""
    shared: int = 0
    """How many times the shared noise of the cell is added to the row."""


def refuse_running_values() -> NoReturn:
    """Refuse a running value, for a strategy that does not measure the initial load."""
    raise SpecError(
        "this strategy measures changes alone, without the rows that exist at the start: choose another "
        "strategy for a running value"
    )


def refuse_sum_before(first: int, bin_: int, span: int | None) -> None:
    """Refuse the sum of `span` bins (None: all) up to bin_ where bins before the `first` are not measured."""
    if first and (span is None or span > bin_):
        refuse_running_values()


def refuse_windows_before(first: int, windows: Windows) -> None:
    """Refuse windows of which one has the rows that exist at the start, as `refuse_sum_before`."""
    if first and (windows.after < 0).any():
        refuse_running_values()


class Stream(ABC):
    """Measures from a few integers per cell.  They are as secret as the bins that they replace."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of integers in the stream state of a cell; all are 0 before the first bin."""

    @abstractmethod
    def advance(self, bin_: int, state: Whole, changes: Whole) -> tuple[Whole, Whole]:
        """The stream state (width by cells) after this bin, and the bin's rows by cells, without noise.

        `changes`: the exact changes of the bin by cells.
        """


class DrawnAhead(ABC):
    """Noise for a whole release, drawn before its first row: one draw for every node of a tree.  [T20]"""

    @property
    @abstractmethod
    def nodes(self) -> tuple[Row, ...]:
        """The sums that the draws hide, layer by layer.  A node's draw has the scale of its layer."""

    @abstractmethod
    def combined(self, draws: Whole) -> Whole:
        """The noise of every row (rows by cells) from the draws (nodes by cells), exact integers.

        If the draws move by the nodes of some changes, the noise moves by the rows of these changes.
        """

    @abstractmethod
    def reach(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights over the draws of a weighted sum of the noise of rows; `weights`: rows, or rows by cases.

        Rows that are not there yet have weight 0 and may be left out.
        """


class Strategy(ABC):
    """A frozen, stateless description; everything about it is public."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def parameters(self) -> dict[str, int | float | str]:
        """The arguments of its constructor, as a committed plan records them and plan --json shows them."""

    @property
    def attachments(self) -> dict[str, str]:
        """Long texts, by their digests, that a committed plan stores once, beside the parameters."""
        return {}

    def folds(self, exposure: Exposure) -> int | None:
        """Most measurements that one unit can change; None where the strategy does not count them."""
        del exposure
        return None

    @property
    def plain_sums(self) -> bool:
        """Whether readings are plain sums of measured integers, and so exact if the noise is 0."""
        return False

    @property
    def denominator(self) -> int:
        """The common denominator of the coefficients C: a measured 1 is 1/denominator of a grid unit."""
        return 1

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """Noise of each layer relative to the base scale."""
        return (Fraction(1),)

    @property
    def shared(self) -> Fraction | None:
        """Scale of the shared noise relative to the base scale; None: there is no shared noise."""
        return None

    @property
    def adaptive(self) -> bool:
        """Whether the guarantee holds for data that react to readings: rows use ended bins only."""
        return True

    @property
    def stream(self) -> Stream | None:
        """How the strategy measures from a stream state; None: it measures from the bins, by `rows`.

        A stream has one layer and no shared noise.  Its `rows` are its linear map to the nearest integers,
        for tests.
        """
        return None

    @property
    def ahead(self) -> DrawnAhead | None:
        """The noise that is drawn before the first row; None: noise is drawn with each row.

        `scales` and `sensitivity` are then those of the nodes.  There is one row per bin.  Only for Laplace
        noise: the kind says so (StrategyKind.pure).
        """
        return None

    @abstractmethod
    def rows(self, bin_: int) -> tuple[Row, ...]:
        """The rows that are measured when this bin ends, in order."""

    @abstractmethod
    def weights(self, bin_: int, span: int | None) -> NDArray[np.float64]:
        """Weights that decode the sum of the last `span` bins up to `bin_` (None: all) from the rows so far.

        The result is over the rows of bins 0..bin_ in their order, in grid units per measured 1.
        """

    @abstractmethod
    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """The most that one unit can move all measurements together, each divided by the scale of its layer.

        Exact or an upper bound, in measured integers.  Raises SpecError if the constraint sets no bound.
        """

    def smoothed(self, bin_: int, span: int | None, *, through: int) -> NDArray[np.float64]:
        """Weights like those of `weights`, over all rows of bins 0..through, so that later rows can help.

        By default later rows have weight 0.
        """
        early = self.weights(bin_, span)
        return np.concatenate([early, np.zeros(len(self.layers(through)) - len(early))])

    def decoding(self, cells: int) -> Decoding:
        """Estimates sums of bins of so many cells from rows as they come in: what `weights` say, but faster.

        By default every estimate takes the time of all rows so far.
        """
        return Weighted(self, cells)

    def powers(self, windows: Windows, power: int) -> NDArray[np.float64]:
        """The sum of this power of the absolute weights of each window, by layer.  `power`: 2, 4 or 6.

        By default every window takes the time of all its rows.
        """
        found = np.zeros((len(windows), len(self.scales)))
        for at in range(len(windows)):
            weights, layers = self._noise_weights(windows, at)
            found[at] = np.bincount(layers, np.abs(weights) ** power, minlength=len(self.scales))
        return found

    def terms(self, windows: Windows, at: int) -> Terms:
        """For each layer, the distinct sizes of the weights of one window, ascending, and how many have each.

        Weights below 1e-12 of the largest in a layer are left out.
        """
        return terms_of(*self._noise_weights(windows, at))

    def _noise_weights(self, windows: Windows, at: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The weight of each independent draw in the estimate of one window, and its layer."""
        last, through = int(windows.last[at]), int(windows.through[at])
        weights = self.smoothed(last, windows.span(at), through=through)
        if self.ahead is None:
            return weights, np.asarray(self.layers(through), dtype=np.int64)
        return self.ahead.reach(weights), np.array([node.layer for node in self.ahead.nodes], dtype=np.int64)

    def equal(self, windows: Windows) -> NDArray[np.int64]:
        """How many weights each window has, if all of them have one layer and one size; else 0.

        The size is the root of the mean square.
        """
        found = np.zeros(len(windows), dtype=np.int64)
        for at in range(len(windows)):
            terms = self.terms(windows, at)
            if len(terms) == 1 and len(terms[0].sizes) == 1:
                found[at] = terms[0].counts[0]
        return found

    def shared_weights(self, windows: Windows) -> NDArray[np.float64]:
        """How many times the shared noise is in the estimate of each window."""
        found = np.zeros(len(windows))
        if self.shared is None:
            return found
        through = int(max(windows.through, default=-1))
        shared = np.array([row.shared for row in self.measured(through)], dtype=np.float64)
        for at, (last, until) in enumerate(zip(windows.last, windows.through, strict=True)):
            weights = self.smoothed(int(last), windows.span(at), through=int(until))
            found[at] = weights @ shared[: len(weights)]
        return found

    def variances(self, bins: NDArray[np.int64], span: int | None) -> NDArray[np.float64]:
        """Variance of the decoded sum that ends with each bin, in squared grid units, for base variance 1."""
        windows = Windows.of(bins, span)
        scales = np.array([float(scale) ** 2 for scale in self.scales])
        found: NDArray[np.float64] = self.powers(windows, 2) @ scales
        if self.shared is not None:
            found += (self.shared_weights(windows) * float(self.shared)) ** 2
        return found

    def needed_from(self, bin_: int) -> int:
        """The first bin whose exact change is still needed after `bin_` was measured; 0: all bins are."""
        del bin_
        return 0

    def layers(self, through: int) -> NDArray[np.int64]:
        """The layer of every row of bins 0..through, in order."""
        return np.array([row.layer for row in self.measured(through)], dtype=np.int64)

    def measured(self, through: int) -> Iterator[Row]:
        """Every row of bins 0..through, in order."""
        for bin_ in range(through + 1):
            yield from self.rows(bin_)


def _none(search: Search) -> bool:
    del search
    return False


@dataclass(frozen=True, eq=False)
class Recorded:
    """A strategy as a committed plan records it, or as a declaration pins it."""

    parameters: Mapping[str, Any]
    """The values that `Strategy.parameters` gave; not yet checked."""
    attachments: Mapping[str, str]
    """The long texts of the plan, by their digests."""


Fixing = Literal["base", "bins", "count", "span", "stride"]
"""The properties of a Schedule that can fix a parameter."""


@dataclass(frozen=True, eq=False)
class StrategyKind:
    """One kind of strategy, as the planner, the store and `plan --explain` see it."""

    strategy: type[Strategy]
    describe: Callable[[Schedule], str]
    """What the strategy measures, for `plan --explain`; completes a sentence that begins with "it"."""
    candidates: Callable[[Search], Iterable[Strategy]]
    """The valid strategies of this kind for a search, with the best parameters."""
    fixed: Mapping[str, Fixing]
    """Parameters that the schedule fixes, and the property of Schedule that gives each value."""
    read: Callable[[Recorded], Strategy] | None = None
    """Builds a strategy from its record; None: the parameters are the fields of the class."""
    valid: str = ""
    """When the kind is valid, for the message that refuses it otherwise."""
    pure: bool = False
    """Whether the kind needs a budget in pure epsilon, that is, Laplace noise."""
    asked: Callable[[Search], bool] = field(default=_none)
    """Whether there is a candidate that takes minutes to find, and so needs --optimise."""

    @property
    def name(self) -> str:
        """The name of the kind in plans."""
        return self.strategy.name

    def from_record(
        self, parameters: Mapping[str, int | float | str], attachments: Mapping[str, str]
    ) -> Strategy:
        """The strategy that a committed plan records, or that a declaration names."""
        values = {
            name: None if name in self.fixed and value == "ever" else value
            for name, value in parameters.items()
        }
        return self.strategy(**values) if self.read is None else self.read(Recorded(values, attachments))


def says(text: str) -> Callable[[Schedule], str]:
    """A description that is the same for every schedule."""
    return lambda _: text

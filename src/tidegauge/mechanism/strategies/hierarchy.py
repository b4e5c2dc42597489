"""A hierarchical release: nodes of 1, c, c^2, ... bins.  Each node is measured once, when it is complete."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeVar

import numpy as np

from tidegauge.errors import SpecError
from tidegauge.mechanism.decoding.tree import Leaves, Tree, TreeSums
from tidegauge.mechanism.decoding.weighted import LayerTerms, equal_by_powers
from tidegauge.mechanism.decoding.windows import Decoding
from tidegauge.mechanism.exposure import costs, over_cases, spread
from tidegauge.mechanism.strategy import Exposure, Row, Strategy, StrategyKind, refuse_running_values, says
from tidegauge.theory.paths.path import ON_OFF
from tidegauge.theory.paths.tree import Costs, hierarchy_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from tidegauge.mechanism.decoding.weighted import Terms
    from tidegauge.mechanism.decoding.windows import Windows
    from tidegauge.mechanism.exposure import Flow
    from tidegauge.mechanism.search.task import Search, Task
    from tidegauge.mechanism.strategy import Recorded
    from tidegauge.theory.paths.path import BinCase
    from tidegauge.theory.sensitivity import Sensitivity

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

S = TypeVar("S", bound=Strategy)

_DISTINGUISHED: Final = 1 << 11
"""Most bins times changes for which values of both signs in groups are computed exactly."""

_HIGHEST: Final = 40
"""The longest node has 2^40 bins."""


@dataclass(frozen=True)
class Hierarchy(Strategy):
    """Trees of `height` layers.  The leaves are the bins, with or without bin 0.

    Decoding: generalised least squares over all complete nodes.
    """

    name: ClassVar[str] = "hierarchy"

    branching: int
    height: int
    bins: int | None
    load: Literal["apart", "leaf", "none"] = "apart"
    """How the initial load (bin 0) is measured: as a separate node, as a leaf, or not at all."""
    relative: tuple[Fraction, ...] = ()
    """Scale of the noise of each layer, then of the initial load; empty: all are 1."""

    def __post_init__(self) -> None:
        if self.branching < 2 or self.height < 1:
            raise SpecError("branching must be 2 or more, and height 1 or more")
        if self.height > _HIGHEST or self.branching ** (self.height - 1) > 1 << _HIGHEST:
            raise SpecError(f"a node spans at most 2^{_HIGHEST} bins: lower height or branching")
        if self.load not in {"apart", "leaf", "none"}:
            raise SpecError(
                "load must be 'apart', 'leaf' or 'none': how rows that exist at the start are measured"
            )
        if self.relative and (len(self.relative) != self.height + 1 or min(self.relative) <= 0):
            raise SpecError(
                "scales must be numbers above 0: one for each layer and one for the rows that "
                "exist at the start"
            )

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """Branching, height, bins, load; and scales if they are not all 1."""
        found: dict[str, int | float | str] = {
            "branching": self.branching,
            "height": self.height,
            "bins": "ever" if self.bins is None else self.bins,
            "load": self.load,
        }
        return found | ({"scales": " ".join(map(str, self.relative))} if self.relative else {})

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """The scales of the layers from the bottom up, then of the initial load."""
        return self.relative or (Fraction(1),) * (self.height + 1)

    @property
    def _shift(self) -> int:
        """The number of a leaf, counted from 1, minus the number of its bin."""
        return int(self.load == "leaf")

    @property
    def _leaves(self) -> int | None:
        return None if self.bins is None else self.bins - 1 + self._shift

    def rows(self, bin_: int) -> tuple[Row, ...]:
        """The initial load, or the nodes that end with this bin."""
        leaf = bin_ + self._shift
        if not leaf:
            return (Row(self.height, 0, ((0, 0, 1),)),) if self.load == "apart" else ()
        sizes = [self.branching**layer for layer in range(self.height)]
        return tuple(
            Row(layer, leaf // size - 1, ((bin_ - size + 1, bin_, 1),))
            for layer, size in enumerate(sizes)
            if leaf % size == 0
        )

    def needed_from(self, bin_: int) -> int:
        """The start of the first incomplete node of the top layer."""
        top: int = self.branching ** (self.height - 1)
        return max((bin_ + self._shift) // top * top + 1 - self._shift, 0)

    def layers(self, through: int) -> Indices:
        """The layer of every row."""
        plan = _Layout(self, through + self._shift)
        found = np.full(len(plan.weights), self.height)
        for layer, places in enumerate(plan.places):
            found[places] = layer
        return found

    @cached_property
    def _knowledge(self) -> tuple[Floats, Floats]:
        """By layer: variance of a node's sum from its subtree, and weight of its own measurement."""
        variance, own = np.empty(self.height), np.ones(self.height)
        for layer in range(self.height):
            noise = float(self.scales[layer]) ** 2
            if layer:
                below = self.branching * variance[layer - 1]
                own[layer] = below / (below + noise)
            variance[layer] = own[layer] * noise
        return variance, own

    def weights(self, bin_: int, span: int | None) -> Floats:
        """Generalised least squares over the nodes that are complete at the end of `bin_`."""
        return self.smoothed(bin_, span, through=bin_)

    def smoothed(self, bin_: int, span: int | None, *, through: int) -> Floats:
        """Generalised least squares over the nodes that are complete at the end of bin `through`."""
        plan = _Layout(self, through + self._shift)
        start, end = self._summed(plan, bin_, span)
        self._add(plan, end, 1.0)
        self._add(plan, start, -1.0)
        return plan.weights

    def _summed(self, plan: _Layout, bin_: int, span: int | None) -> tuple[int, int]:
        """The leaves (start, end] of the sum.  Sets the weight of an initial load measured apart."""
        if span is not None and span <= bin_:
            return bin_ - span + self._shift, bin_ + self._shift
        self._require_initial_load()
        if self.load == "apart":
            plan.weights[0] = 1.0
        return 0, bin_ + self._shift

    def _require_initial_load(self) -> None:
        if self.load == "none":
            refuse_running_values()

    def _add(self, plan: _Layout, leaf: int, sign: float) -> None:
        """Add the weights of the best estimate of the sum of the leaves 1..leaf."""
        at = 0
        for layer in reversed(range(self.height)):
            size = self.branching**layer
            complete, inside = plan.through // size, leaf // size
            self._spread(plan, layer, at // size, min(complete, inside), sign)
            if inside < complete:
                self._add_inside(plan, layer, inside, leaf % size, sign)
                return
            at = complete * size

    def _spread(self, plan: _Layout, layer: int, first: int, end: int, weight: float) -> None:
        """Add the weights of the estimated sums of the nodes first..end, each from its own subtree."""
        for below in range(layer, -1, -1):
            size = self.branching ** (layer - below)
            plan.weights[plan.places[below][first * size : end * size]] += weight * self._knowledge[1][below]
            weight *= 1 - self._knowledge[1][below]

    def _add_inside(self, plan: _Layout, layer: int, index: int, leaves: int, sign: float) -> None:
        """Add the weights of the first `leaves` leaves of a complete node that has no complete parent.

        The best estimate of a child is its own estimate plus an equal part of the difference between parent
        and children.  The sum is therefore `share` times the parent plus a contrast of its children, and so
        on in the layers below.
        """
        digits, rest, shares = [], leaves, [0.0]
        for below in reversed(range(layer)):
            whole, rest = divmod(rest, self.branching**below)
            digits.append(whole)
        for whole in reversed(digits):
            shares.append((whole + shares[-1]) / self.branching)
        shares.reverse()
        self._spread(plan, layer, index, index + 1, sign * shares[0])
        for below, whole, share, part in zip(
            reversed(range(layer)), digits, shares, shares[1:], strict=False
        ):
            first = index * self.branching
            index = first + whole
            self._spread(plan, below, first, index, sign)
            self._spread(plan, below, index, index + 1, sign * part)
            self._spread(plan, below, first, first + self.branching, -sign * share)

    def decoding(self, cells: int) -> Decoding:
        """By sums of nodes beside the paths to both ends of a window."""
        return _Nodes(self, cells)

    @cached_property
    def tree(self) -> Tree:
        """The layers, and how much each node's measurement counts."""
        return Tree(self.branching, tuple(self._knowledge[1].tolist()))

    def leaves(self, windows: Windows) -> tuple[Leaves, NDArray[np.bool_]]:
        """The leaves that each window sums, and whether it contains the initial load, measured apart."""
        whole = windows.after < 0
        if whole.any():
            self._require_initial_load()
        start = np.where(whole, 0, windows.after + self._shift)
        found = Leaves(start, windows.last + self._shift, windows.through + self._shift)
        return found, whole & (self.load == "apart")

    def powers(self, windows: Windows, power: int) -> Floats:
        """From the groups of nodes with equal weights, for all windows at once."""
        leaves, loaded = self.leaves(windows)
        return np.column_stack([self.tree.powers(leaves, power), loaded.astype(np.float64)])

    def terms(self, windows: Windows, at: int) -> Terms:
        """From the groups of nodes with equal weights."""
        leaves, loaded = self.leaves(windows.at(slice(at, at + 1)))
        load = [LayerTerms(self.height, np.ones(1), np.ones(1, dtype=np.int64))] if loaded[0] else []
        return self.tree.terms(leaves) + load

    def equal(self, windows: Windows) -> Indices:
        """Looked at one by one where the powers allow it."""
        return equal_by_powers(self, windows)

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """Exact; for long releases with values of both signs in groups an upper bound."""

        def stock(case: BinCase) -> tuple[Fraction, Fraction]:
            l1, l2 = costs(exposure, coarse=self._many(case))
            return self._most(l1, case, 1), self._most(l2, case, 2)

        return over_cases(exposure, stock=stock, flow=lambda flow: self._flow(flow, spread(exposure)[1]))

    def _many(self, case: BinCase) -> bool:
        """Whether there are too many paths to distinguish groups and signs."""
        changes, bins = case
        return (
            changes is not None and bins is not None and (self._leaves or bins**2) * changes > _DISTINGUISHED
        )

    def _weights(self, power: int) -> tuple[list[Fraction], Fraction]:
        *layers, load = (1 / scale**power for scale in self.scales)
        return layers, load if self.load == "apart" else Fraction(0)

    def _most(self, cost: Costs, case: BinCase, power: int) -> Fraction:
        layers, load = self._weights(power)
        return hierarchy_paths(
            cost,
            weights=layers,
            base=None if self.load == "leaf" else load,
            branching=self.branching,
            leaves=self._leaves,
            case=case,
        )

    def _flow(self, flow: Flow, largest: Fraction) -> tuple[Fraction, Fraction]:
        """The worst split of the changes: some in the initial load, the rest in as few nodes as possible.

        Between multiples of what one node counts, sums of squares are convex in the number that is loaded.
        """
        counted = [min(flow.total, flow.each * self.branching**layer) for layer in range(self.height)]
        (absolute, load), (square, load_square) = self._weights(1), self._weights(2)
        found = []
        for loaded in {0, *(flow.total % most for most in counted), min(flow.total, flow.each)}:
            if loaded > flow.each:
                continue
            one, two = loaded * load, loaded**2 * load_square
            rest = flow.total - loaded
            for layer, most in enumerate(counted):
                full, left = divmod(rest, most)
                one += rest * absolute[layer]
                two += (full * most**2 + left**2) * square[layer]
            found.append((one, two))
        return largest * max(one for one, _ in found), largest**2 * max(two for _, two in found)


class _Layout:
    """The positions of the complete nodes among the rows, and a weight for each row."""

    def __init__(self, tree: Hierarchy, through: int) -> None:
        self.through = through
        sizes = [tree.branching**layer for layer in range(tree.height)]
        before = int(tree.load == "apart")
        self.weights = np.zeros(before + sum(through // size for size in sizes))
        self.places = []
        for layer, size in enumerate(sizes):
            ends = np.arange(1, through // size + 1) * size
            self.places.append(before + layer + sum((ends - 1) // each for each in sizes))


class _Nodes(Decoding):
    """The measured nodes, and the initial load measured apart."""

    def __init__(self, tree: Hierarchy, cells: int) -> None:
        self._hierarchy, self._nodes = tree, TreeSums(tree.tree, cells)
        self._load: Floats | None = None if tree.load == "apart" else np.zeros(cells)

    def add(self, rows: Floats) -> None:
        """Take in the load, if it is measured apart, then nodes."""
        if self._load is None and len(rows):
            self._load, rows = rows[0].copy(), rows[1:]
        self._nodes.add(rows)

    def sums(self, windows: Windows) -> Floats:
        """The estimated sums of leaves, with the load if it is one of the bins."""
        leaves, loaded = self._hierarchy.leaves(windows)
        found = self._nodes.sums(leaves)
        if self._load is not None:
            found[loaded] += self._load
        return found


@lru_cache(maxsize=64)
def _tuned(task: Task) -> Hierarchy:
    from tidegauge.mechanism.search import tune  # noqa: PLC0415  (it tries hierarchies)

    target, schedule = tune.Target.of(task.schedule, worst=task.worst), task.schedule
    return tune.hierarchy(target, task.cases, pure=task.pure, bins=schedule.bins, levels=not schedule.base)


def _candidates(search: Search) -> Iterator[Hierarchy]:
    yield _tuned(search.task._replace(domain=ON_OFF))


def read_scaled(strategy: Callable[..., S], recorded: Recorded) -> S:
    """The strategy with the recorded parameters, of which one lists the scales of its layers."""
    parameters = dict(recorded.parameters)
    scales = tuple(map(Fraction, str(parameters.pop("scales", "")).split()))
    return strategy(**parameters, relative=scales)


KIND: Final = StrategyKind(
    Hierarchy,
    says("measures windows of several widths, so that few of them make up any longer window"),
    _candidates,
    fixed={"bins": "bins"},
    read=partial(read_scaled, Hierarchy),
)

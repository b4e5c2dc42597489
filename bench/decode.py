"""How long decoding takes: all readings at once, tick after tick, and by weights as its definition has it.

    python -m bench.decode [--bins 100000] [--cells 10] [--by-weights 2000]

Prints, for each strategy, the seconds for values, errors and intervals of all readings, those for the last
1,000 readings tick after tick, the seconds that weights take for a shorter release, and the ratio to them
there.  `peak` is the memory of the process in megabytes, at its highest so far.
"""

from __future__ import annotations

import resource
import sys
from fractions import Fraction
from time import process_time

import numpy as np

from bench.result import Ratio, Result, Table, options, say
from tidegauge.mechanism.decoding.weighted import Weighted
from tidegauge.mechanism.decoding.windows import Decoding, Windows
from tidegauge.mechanism.encode import ComponentPlan
from tidegauge.mechanism.noise.errors import Errors
from tidegauge.mechanism.noise.samplers import DiscreteGaussian
from tidegauge.mechanism.strategies.autoregressive import Autoregressive
from tidegauge.mechanism.strategies.buffered import Buffered
from tidegauge.mechanism.strategies.disjoint import Disjoint
from tidegauge.mechanism.strategies.epochs import Epochs
from tidegauge.mechanism.strategies.hierarchy import Hierarchy
from tidegauge.mechanism.strategies.levels import Levels
from tidegauge.mechanism.strategies.toeplitz import Toeplitz
from tidegauge.mechanism.strategy import Strategy

TICKS = 1000


def strategies(bins: int) -> dict[str, Strategy]:
    """One of each kind that has no limit below 100,000 bins."""
    return {
        "disjoint": Disjoint(),
        "levels": Levels(),
        "hierarchy": Hierarchy(4, 9, bins),
        "toeplitz root": Toeplitz("root", bins),
        "toeplitz banded": Toeplitz("banded", None, width=14),
        "buffered": Buffered(bins, "0.4:0.5 0.3:0.05 0.2:0.005 0.1:0.0001", 0.15),
        "autoregressive": Autoregressive(bins, 65000, Fraction(1, 2)),
        "epochs": Epochs(64),
    }


def readings(strategy: Strategy, decoding: Decoding, rows: np.ndarray, bins: range) -> float:
    """Seconds for the readings at the ends of these bins, from rows that come in now."""
    begin = process_time()
    decoding.add(rows)
    windows = Windows.of(np.arange(bins.start, bins.stop), None)
    decoding.sums(windows)
    Errors(ComponentPlan(strategy, 1, DiscreteGaussian(Fraction(2**60))), windows, 1.0).half_widths(0.95)
    return process_time() - begin


def by_weights(strategy: Strategy, cells: int, bins: int) -> tuple[float, float]:
    """Seconds for values and terms of a short release by weights, and for the same at once."""
    rows = np.ones((len(strategy.layers(bins - 1)), cells))
    plain, windows = Weighted(strategy, cells), Windows.of(np.arange(bins), None)
    begin = process_time()
    plain.add(rows)
    plain.sums(windows)
    for at in range(bins):
        Strategy.terms(strategy, windows, at)
    slow = process_time() - begin
    return slow, readings(strategy, strategy.decoding(cells), rows, range(bins))


def result(bins: int, cells: int, by_weight_bins: int) -> Result:
    """Seconds for each strategy, and the ratio to weights."""
    rows, ratios = [], []
    for name, strategy in strategies(bins).items():
        rng = np.random.default_rng(1)
        late = range(bins - TICKS, bins)
        one_each = not isinstance(strategy, Hierarchy)  # long rows take long to list
        counts = [1 if one_each else len(strategy.rows(bin_)) for bin_ in late]
        stop = len(strategy.layers(late.start - 1))
        numbers = np.rint(rng.normal(size=(stop + sum(counts), cells)) * 1e6)
        decoding = strategy.decoding(cells)
        whole = readings(strategy, decoding, numbers[:stop], range(bins - TICKS))
        ticks = 0.0
        for bin_, count in zip(late, counts, strict=True):
            ticks += readings(strategy, decoding, numbers[stop : stop + count], range(bin_, bin_ + 1))
            stop += count
        slow, fast = by_weights(strategy, cells, by_weight_bins)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        ratios.append(Ratio(f"{name}, {by_weight_bins:,} bins", fast, "weights", slow, "s"))
        if bins == 100_000:
            ratios.append(Ratio(f"{name}, {bins:,} bins", whole, "the limit", 10.0, "s", 1.0))
            ratios.append(
                Ratio(f"{name}, {bins:,} bins, peak memory so far", peak, "the limit", 500.0, "MB", 1.0)
            )
        rows.append([name, f"{whole:.2f} s", f"{ticks:.2f} s", f"{peak:.0f} MB"])
    head = ["strategy", f"{bins:,} bins at once", f"{TICKS:,} ticks", "peak memory so far"]
    return Result(
        "Decoding",
        f"Processor seconds for values, errors and intervals of all readings of {cells} cells: by the "
        "decoding that the journal is read with, against the weights that define a strategy.",
        ratios=ratios,
        tables=[Table("Long releases", head, rows)],
    )


def main() -> int:
    parser = options(__doc__.partition("\n")[0], quick="5,000 bins, 200 by weights")
    parser.add_argument("--bins", type=int, default=100_000)
    parser.add_argument("--cells", type=int, default=10)
    parser.add_argument("--by-weights", type=int, default=2000)
    asked = parser.parse_args()
    bins, few = (5_000, 200) if asked.quick else (asked.bins, asked.by_weights)
    return say(result(bins, asked.cells, few), as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())

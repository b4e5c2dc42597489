"""Corollary 4.2: the variance of a hierarchical release grows with log T, that of a sum of windows with T."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from figure import Line, Panel, main

from tidegauge.theory import cover

BRANCHING = 2


def height(windows: int) -> int:
    """The layers that a range of so many windows needs."""
    return max(1, (windows - 1).bit_length())


def worst(windows: int) -> int:
    """The most nodes that a running value up to any of these windows is summed from."""
    return max(
        len(cover(0, end, branching=BRANCHING, height=height(windows))) for end in range(1, windows + 1)
    )


def simulated(windows: int, runs: int, random: np.random.Generator) -> float:
    """The largest variance of a running value over the windows, in units of one node's variance."""
    layers = height(windows)
    noise = [random.laplace(size=(runs, -(-windows // BRANCHING**layer))) / 2**0.5 for layer in range(layers)]
    found = 0.0
    for end in sorted({windows, windows - 1, windows * 3 // 4, 2 ** (layers - 1) - 1} - {0}):
        nodes = cover(0, end, branching=BRANCHING, height=layers)
        found = max(found, float(np.var(sum(noise[layer][:, index] for layer, index in nodes))))
    return found


def panels(small: bool) -> Sequence[Panel]:
    sizes = [2**power for power in range(1, 7 if small else 13)]
    random = np.random.default_rng(1)
    runs = 500 if small else 4000
    same_noise = [
        Line("sum of windows (DCR)", [(n, n) for n in sizes]),
        Line("hierarchy (HDCR)", [(n, worst(n)) for n in sizes]),
        Line("2 (c - 1) h", [(n, 2 * (BRANCHING - 1) * height(n)) for n in sizes]),
        Line("simulated", [(n, simulated(n, runs, random)) for n in sizes], dots=True),
    ]
    same_loss = [
        Line("sum of windows (DCR)", [(n, n) for n in sizes]),
        Line("hierarchy (HDCR)", [(n, height(n) ** 2 * worst(n)) for n in sizes]),
    ]
    return [
        Panel("Each measurement has the same noise", "windows T",
              "worst variance, in variances of one measurement",
              same_noise, log_x=True, log_y=True),
        Panel("The lifetime loss is the same", "windows T", "the same; h layers share the loss",
              same_loss, log_x=True, log_y=True),
    ]  # fmt: skip


if __name__ == "__main__":
    main("variance.svg", "Variance of running values against the number of windows, c = 2, k = 1", panels)

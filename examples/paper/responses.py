"""Section 6: the mean of many surveys by randomized response is the truth, and what one survey is off by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from figure import Line, Panel, main

from tidegauge.local import Survey
from tidegauge.local.decode import histogram
from tidegauge.local.simulate import simulated_tally, true_histogram
from tidegauge.local.tally import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

ANSWERS = ["well", "ill"]


def people(number: int, windows: int) -> NDArray[np.int64]:
    """The answer of each person in each window: all begin well, half of them fall ill one after the other."""
    when = np.linspace(1, 2 * windows, number)
    return (when[:, None] <= np.arange(windows)[None, :]).astype(np.int64)


def estimates(protocol: str, lives: NDArray[np.int64], runs: int) -> NDArray[np.float64]:
    """How many are ill in each window, by each of many surveys of the same people."""
    survey = Survey(answers=ANSWERS, windows=lives.shape[1], changes=2, epsilon=4, protocol=protocol)
    random = np.random.default_rng(2)
    tallies = (simulated_tally(survey, lives, random) for _ in range(runs))
    return np.array([histogram(survey, Layout(survey), tally).value[:, 1] for tally in tallies])


def panels(small: bool) -> Sequence[Panel]:
    number, windows, runs = (500, 8, 20) if small else (10_000, 64, 400)
    lives = people(number, windows)
    truth = true_histogram(lives, 2)[:, 1]
    drawn = []
    for protocol, title in (("response-dcr", "Sum of windows (DCR)"), ("response-hdcr", "Hierarchy (HDCR)")):
        found = estimates(protocol, lives, runs)
        mean, spread = found.mean(axis=0), found.std(axis=0)
        lines = [
            Line(
                "95 % of surveys",
                list(enumerate(mean - 1.96 * spread)),
                to=list(enumerate(mean + 1.96 * spread)),
            ),
            Line("one survey", list(enumerate(found[0])), dots=True),
            Line(f"mean of {runs} surveys", list(enumerate(mean))),
            Line("truth", list(enumerate(truth))),
        ]
        drawn.append(
            Panel(f"{title}: people who are ill", "window", f"of {number:,} people, epsilon = 4", lines)
        )
    return drawn


if __name__ == "__main__":
    main(
        "responses.svg", "Running histograms from randomized responses to net changes, two protocols", panels
    )

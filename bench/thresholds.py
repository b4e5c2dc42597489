"""THRESH (Joseph, Roth, Ullman and Waggoner 2018) in the world that it was made for, beside snapshots.

    python -m bench.thresholds [--quick]

Everybody draws a new bit in every period, with a chance that is the same for all and changes twice.  An epoch
has many periods.  THRESH lets people vote whether the published estimate is out of date, and asks all of them
again if enough say so; its loss grows with the updates and not with the epochs.  A snapshot is one report in
a person's life, in a random epoch, with the whole epsilon.  Changes of a person's bits matter to neither.

THRESH runs twice: untuned, with constants after its theorem (compared with a public transcription of the
algorithm in R, where logarithms are to base 10 by mistake; the printed paper was not at hand), and with
constants that hindsight finds best (number of updates that epsilon pays for, and how far off an estimate must
be to vote), which favours it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import product
from math import exp, floor, log, log2, sqrt
from typing import TYPE_CHECKING

import numpy as np

from bench.result import Chart, Ratio, Result, Series, Table, options, say
from tidegauge.local import Collector, Survey
from tidegauge.local.simulate import simulated_tally

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEVELS = (0.2, 0.6, 0.4)
PERIODS = 400
"""Periods of an epoch."""
FAILURE = 0.05
"""THRESH's delta: the chance that its theorem does not hold."""


def means(epochs: int) -> Floats:
    """The common chance of a 1 in each epoch."""
    return np.repeat(LEVELS, -(-epochs // len(LEVELS)))[:epochs]


@dataclass(frozen=True)
class Constants:
    """Losses of a vote and of an estimate, and from how far off on people vote in an epoch."""

    vote: float
    estimate: float
    margins: tuple[float, ...]
    """Margin number b counts in every 2^(last - b)-th epoch."""


def printed(people: int, epochs: int) -> Constants | None:
    """After the theorem, for one group; None if there are too few people for it."""
    few = sqrt(people * log(12 * epochs / FAILURE))
    below = people - 3 / sqrt(2) * few
    if below <= 0:
        return None
    vote = 4 * sqrt(2) * few / below
    step = sqrt(log(12 * people * epochs / FAILURE) / (2 * PERIODS))
    noise = sqrt(log(12 * epochs / FAILURE) / (2 * people))
    estimate = sqrt(2) * noise / (log2(epochs) * step - noise)
    margins = tuple(2 * (b + 1) * step for b in range(floor(log2(epochs)) + 1))
    return Constants(vote, estimate, margins)


def tuned(epsilon: float, updates: int, margin: float, epochs: int) -> Constants:
    """So many updates, and one margin for every epoch."""
    each = epsilon / 4 / updates
    last = floor(log2(epochs))
    return Constants(each, each, tuple([float("inf")] * last + [margin]))


def thresh(local: Floats, epsilon: float, constants: Constants, random: Generator) -> Floats:
    """The published estimate in every epoch, from everybody's own means (epochs, people)."""
    epochs, people = local.shape
    a, b, last = constants.vote, constants.estimate, len(constants.margins) - 1
    base = 1 / (exp(a) + 1)
    enough = base + sqrt(log(10 * epochs / FAILURE) / (2 * people))
    spent_votes, spent_estimates = np.zeros(people), np.zeros(people)
    published, found = -1.0, []
    for epoch in range(1, epochs + 1):
        off = np.abs(local[epoch - 1] - published)
        wants = np.zeros(people, dtype=bool)
        for number, margin in enumerate(constants.margins):
            if epoch % 2 ** (last - number) == 0:
                wants |= off > margin
        votes = wants & (spent_votes < epsilon / 4)
        spent_votes[votes] += a
        said = random.random(people) < np.where(votes, 1 - base, base)
        if said.mean() > enough:
            sends = spent_estimates < epsilon / 4
            spent_estimates[sends] += b
            low = 1 / (exp(b) + 1)
            bits = random.random(people) < np.where(
                sends, (1 + local[epoch - 1] * (exp(b) - 1)) / (exp(b) + 1), low
            )
            published = float((bits.mean() - low) / (1 - 2 * low))
        found.append(published)
    return np.array(found)


def snapshots(local: Floats, epsilon: int, random: Generator) -> Floats:
    """Each person reports one bit in life, in a random epoch."""
    epochs, people = local.shape
    survey = Survey(
        answers=["no", "yes"], windows=epochs, changes=epochs, epsilon=epsilon, protocol="snapshots"
    )
    lives = (random.random((people, epochs)) < local.T).astype(np.int64)
    collector = Collector(survey)
    collector.tally = simulated_tally(survey, lives, random)
    return np.asarray(collector.histogram().value[:, 1] / people, dtype=np.float64)


def rmse(estimates: list[Floats], truth: Floats) -> float:
    """Over epochs and runs; shares are cut at 0 and 1."""
    return sqrt(float(np.mean([(np.clip(one, 0, 1) - truth) ** 2 for one in estimates])))


def errors(people: int, epochs: int, epsilon: int, runs: int) -> dict[str, float]:
    """Root mean squared error of the share, by protocol."""
    random, truth = np.random.default_rng(11), means(epochs)
    worlds = [random.binomial(PERIODS, truth[:, None], (epochs, people)) / PERIODS for _ in range(runs)]
    found = {"snapshots": rmse([snapshots(one, epsilon, random) for one in worlds], truth)}
    if constants := printed(people, epochs):
        found["THRESH untuned"] = rmse([thresh(one, epsilon, constants, random) for one in worlds], truth)
    found["THRESH tuned"] = min(
        rmse([thresh(one, epsilon, tuned(epsilon, count, margin, epochs), random) for one in worlds], truth)
        for count, margin in product((1, 2, 3, 4, 6), (0.08, 0.12, 0.2))
    )
    return found


def result(sizes: list[int], epochs: int, epsilons: tuple[int, ...], runs: int) -> Result:
    """Every number of people and epsilon."""
    cells = {(n, e): errors(n, epochs, e, runs) for e in epsilons for n in sizes}
    names = list(dict.fromkeys(name for row in cells.values() for name in row))
    ratios = [
        Ratio(f"snapshots, {n:,} people, epsilon = {e}", row["snapshots"], name, row[name])
        for (n, e), row in cells.items()
        for name in names
        if name != "snapshots" and name in row
    ]
    rows = [[f"{n:,}", str(e), *(f"{row[name]:.3g}" if name in row else "too few people" for name in names)]
            for (n, e), row in cells.items()]  # fmt: skip
    lines = [
        Series(name, [(n, cells[n, epsilons[-1]][name]) for n in sizes if name in cells[n, epsilons[-1]]])
        for name in names
    ]
    return Result(
        "THRESH in its own world",
        f"Everybody draws a fresh bit in each of {PERIODS} periods of an epoch, from one chance that "
        f"changes twice in {epochs} epochs. THRESH (Joseph, Roth, Ullman and Waggoner 2018) pays for "
        "updates and not for epochs; with hindsight it has the best of 15 settings of its constants. Root "
        f"mean squared error of the share, cut at 0 and 1, {runs} runs. The untuned constants were not "
        "compared with the printed paper.",
        ratios=ratios,
        tables=[Table("", ["people", "epsilon", *names], rows)],
        charts=[Chart(f"A share that changes twice in {epochs} epochs, epsilon = {epsilons[-1]}", "people",
                      "root mean squared error", lines, log_x=True, log_y=True)],
    )  # fmt: skip


def main() -> int:
    parser = options(__doc__)
    asked = parser.parse_args()
    found = result([2000], 16, (2,), 2) if asked.quick else result([5000, 20_000, 80_000], 64, (1, 4), 4)
    return say(found, as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())

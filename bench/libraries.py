"""Other libraries from PyPI, run as they are: errors of running counts and of surveys at equal privacy.

    python -m bench.libraries            1,024 readings
    python -m bench.libraries --quick    64 readings

Each library runs in an environment of its own (environments.py), which needs pip the first time.
"""

from __future__ import annotations

import sys
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from bench.accuracy import ours
from bench.environments import DPCRPY, JAX_PRIVACY, MULTI_FREQ, OPENDP, Absent, ask
from bench.peers import DAILY, Case
from bench.result import Chart, Ratio, Result, Series, Table, options, say
from tidegauge.local import Collector, Survey
from tidegauge.local.simulate import invent_lives, simulated_tally, true_histogram
from tidegauge.model.constraint import AtMost
from tidegauge.model.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable

CHANGES = (1, 4, 16)
COUNTED = "Tidegauge"


def opendp(bins: int, draws: int) -> dict[str, list[float]]:
    """OpenDP has no continual counter: a tree that is published at the end, and single counts."""
    found = ask(OPENDP, "opendp_counts.py",
                {"bins": bins, "changes": CHANGES, "branchings": [2, 4, 8, 16], "draws": draws})  # fmt: skip
    return {
        f"{OPENDP}, b-ary tree made consistent (after the last reading)": [
            found["tree"][str(k)] for k in CHANGES
        ],
        f"{OPENDP}, a count for each reading, budget divided": [found["one-shot"]] * len(CHANGES),
    }


def dpcrpy(bins: int, draws: int) -> dict[str, list[float]]:
    """Its counters are for one change of a unit; k changes need k times the noise."""
    found = ask(DPCRPY, "dpcrpy_counts.py", {"bins": bins, "draws": max(2, draws // 50)})
    return {
        f"{DPCRPY}, {name}": [k * one["worst"] for k in CHANGES]
        for name, one in found.items()
        if "worst" in one
    }


def jax_privacy(bins: int, draws: int) -> dict[str, list[float]]:
    """Its factorizations are for k changes of any sign; the costly searches are run up to 256 readings."""
    found = ask(
        JAX_PRIVACY,
        "jax_counts.py",
        {"bins": bins, "changes": CHANGES, "optimise": bins <= 256 and draws > 100},
    )
    return {f"{JAX_PRIVACY}, {name}": [one[str(k)] for k in CHANGES] for name, one in found.items()}


COUNTERS: dict[str, Callable[[int, int], dict[str, list[float]]]] = {
    str(OPENDP): opendp,
    str(DPCRPY): dpcrpy,
    str(JAX_PRIVACY): jax_privacy,
}


def counted(bins: int, draws: int, absent: dict[str, str]) -> tuple[list[Ratio], Table, Chart]:
    """Worst errors of a running count of so many readings."""
    rows: dict[str, list[float]] = {}
    for library, measure in COUNTERS.items():
        try:
            rows |= measure(bins, draws)
        except Absent as why:
            absent[library] = str(why)
    mine = [ours(Case(Schedule(0, DAILY, bins), AtMost(k)))[0].worst for k in CHANGES]
    ratios = []
    for library in COUNTERS:
        theirs = {name: errors for name, errors in rows.items() if name.startswith(library)}
        for at, (k, own) in enumerate(zip(CHANGES, mine, strict=True) if theirs else ()):
            best = min(theirs, key=lambda name: theirs[name][at])
            ratios.append(Ratio(f"running count, n = {bins:,}, k = {k}", own, best, theirs[best][at]))
    table = Table(
        f"Worst root mean squared error over {bins:,} readings, rho = 1/2",
        ["", *(f"k = {k}" for k in CHANGES)],
        [[name, *(f"{one:.3g}" for one in errors)] for name, errors in {**rows, COUNTED: mine}.items()],
    )
    lines = [
        Series(name, list(zip(map(float, CHANGES), errors, strict=True)))
        for name, errors in {COUNTED: mine, **rows}.items()
        if "BCRG" not in name and "BinMech" not in name
    ]
    chart = Chart(f"Running count, {bins:,} readings, rho = 1/2: other libraries", "changes of a unit (k)",
                  "worst root mean squared error", lines, log_x=True, log_y=True)  # fmt: skip
    return ratios, table, chart


def surveyed(people: int, windows: int, absent: dict[str, str]) -> tuple[list[Ratio], Table]:
    """Errors of shares without a trusted server; all are cut at 0 and divided by their sum, as its are."""
    answers, changes, rows, ratios = 4, 3, [], []
    random = np.random.default_rng(7)
    lives = invent_lives(people=people, windows=windows, answers=answers, changes=changes, random=random)
    truth = true_histogram(lives, answers) / people
    for epsilon in (1, 2, 4):
        question = {"lives": lives.tolist(), "answers": answers, "windows": windows, "epsilon": epsilon,
                    "states": changes + 1}  # fmt: skip
        try:
            found = ask(MULTI_FREQ, "ldpy_counts.py", question)
        except Absent as why:
            absent[str(MULTI_FREQ)] = str(why)
            break
        for protocol in ("snapshots+tilted", "memoized"):
            survey = Survey(answers=[f"answer {i}" for i in range(answers)], windows=windows, changes=changes,
                            epsilon=epsilon, protocol=protocol,
                            reveals_change_times=protocol == "memoized")  # fmt: skip
            squares = []
            for _ in range(10):
                collector = Collector(survey)
                collector.tally = simulated_tally(survey, lives, random)
                shares = np.clip(collector.histogram().value, 0, None)
                shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-9)
                squares.append(((shares - truth) ** 2).mean())
            own = sqrt(float(np.mean(squares)))
            rows.append([f"Tidegauge, {protocol}", str(epsilon), f"{own:.3g}"])
            for name, error in found.items():
                if ("kept" in name) == (protocol == "memoized"):
                    what = f"{protocol}, epsilon = {epsilon}"
                    ratios.append(Ratio(what, own, f"{MULTI_FREQ}, {name}", error))
        rows += [[f"{MULTI_FREQ}, {name}", str(epsilon), f"{error:.3g}"] for name, error in found.items()]
    title = f"Root mean squared error of a share, {people:,} people, {windows} windows, {changes} changes"
    return ratios, Table(title, ["protocol", "epsilon of the whole survey", "error"], rows)


def result(sizes: list[int], draws: int, people: int, windows: int) -> Result:
    """Running counts of these sizes, and a local survey."""
    absent: dict[str, str] = {}
    ratios, tables, charts = [], [], []
    for bins in sizes:
        found, table, chart = counted(bins, draws, absent)
        ratios += found
        tables.append(table)
        charts.append(chart)
    found, table = surveyed(people, windows, absent)
    return Result(
        "Other libraries, as they are on PyPI",
        "Each library runs in an environment of its own, with its own noise and its own accounting. OpenDP "
        "has no counter that publishes while data arrive: its tree is published once, after the last "
        "reading. dpcrpy's counters bound a unit that changes once, so k changes need k times the noise. "
        "jax-privacy bounds k changes of any sign; Tidegauge uses that changes of a running value "
        "alternate. In the surveys, estimates are cut at 0 and divided by their sum; reports that are kept "
        "for each answer reveal when an answer changes, so they are compared with Tidegauge's `memoized`, "
        "which reveals it too. Ratios are to the best that a library offers for each k.",
        ratios=[*ratios, *found],
        tables=[*tables, table],
        charts=charts,
        absent=absent,
    )


def main() -> int:
    parser = options(__doc__)
    asked = parser.parse_args()
    found = result([64], 40, 500, 8) if asked.quick else result([256, 1024], 200, 4000, 16)
    return say(found, as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())

"""The private choice of at_most: the law of its draw, sensitivity of scores, and that it is drawn once."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from fractions import Fraction
from itertools import permutations, product
from math import exp, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scipy import stats

from tidegauge.audit.findings import require
from tidegauge.audit.installed.exercises import COUNT, DISJOINT, GROUPED, PLAIN
from tidegauge.audit.readers.readers import opener
from tidegauge.audit.replay.transcript import Crashed
from tidegauge.audit.worlds.world import Random, Table, without
from tidegauge.mechanism.noise.samplers import DiscreteLaplace, SecureSampler
from tidegauge.mechanism.noise.selection import NoisyMinimum
from tidegauge.run.choose import choose
from tidegauge.run.gauge import Gauge
from tidegauge.scratch import ScratchFolder
from tidegauge.theory.choice import choice_sensitivity, choice_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidegauge.audit.worlds.world import Event
    from tidegauge.mechanism.noise.samplers import Noise
    from tidegauge.model.json import JsonObject
    from tidegauge.simulate.choice import Biases, Scores

_SCORES: Final = (300, 0, 1700, 700)
_MOVES: Final = 1000
_DRAWS: Final = 4000
_CANDIDATES: Final = ((1, "freeze"), (2, "freeze"), (2, "retire"), (4, "freeze"))
_EVERY: Final[dict[str, Any]] = {
    "start": "1970-01-01T00:00:00.000010Z", "every": "10 microseconds", "for": "70 microseconds",
    "strategy": DISJOINT
}  # fmt: skip


def check_draw(alpha: float, *, pure: bool) -> None:
    """The real draw has the probabilities of the exponential mechanism, or of permute and flip.  [T22]

    Computed from their definitions: e is the privacy loss, or sqrt(8 rho), and one unit moves a score by at
    most `_MOVES`.  Raises Discrepancy.
    """
    cost = Fraction(2) if pure else Fraction(1, 2)
    rate = float(cost) if pure else sqrt(8 * cost)
    heights = [exp(-rate * (score - min(_SCORES)) / (2 * _MOVES)) for score in _SCORES]
    law = _permute_and_flip(heights) if pure else [height / sum(heights) for height in heights]
    draw, sampler = NoisyMinimum(_MOVES, cost, pure), SecureSampler()
    seen = Counter(draw.draw(_SCORES, sampler) for _ in range(_DRAWS))
    counted = [seen[n] for n in range(len(law))]
    chance = stats.chisquare(counted, [_DRAWS * one for one in law]).pvalue
    require(chance >= alpha, "the choice of at_most is drawn with other probabilities")


def _permute_and_flip(heights: Sequence[float]) -> list[float]:
    """Candidates come in random order, and each is taken with its probability (McKenna and Sheldon 2020)."""
    orders = list(permutations(range(len(heights))))
    law = [0.0] * len(heights)
    for order in orders:
        left = 1 / len(orders)
        for n in order:
            law[n] += left * heights[n]
            left *= 1 - heights[n]
    return law


def _busy(keys: Sequence[str], *, others: int) -> list[Event]:
    """A unit whose rows change all the time, and some that do not."""
    table = Table("owner")
    for n in range(others):
        table.put((2, 2), f"o{n}", PLAIN | {"owner": f"w{n}", "s": "ab"[n % 2]})
    for at in range(3, 78, 5):
        for key in keys:
            if key in table.rows and at % 3 == 0:
                table.delete((at, at), key)
            else:
                table.put((at, at), key, PLAIN | {"owner": "u", "s": "ab"[at % 2]})
    return table.log


def _gauge(log: Sequence[Event], folder: Path, *, rows: int, more: JsonObject, **setting: Any) -> Gauge:
    """A gauge over files whose at_most is chosen."""
    source = opener("files", owner="owner")(folder, Random(0))
    source.write(log)
    return Gauge(
        source=source, budget={"rho": "1/2"}, constraint={"at_most": "auto", **more},
        releases={"r": {**GROUPED, **_EVERY}, "s": {**COUNT, **_EVERY}}, store=folder / "store.db",
        unit="owner", max_rows=rows, now=lambda: 90, **setting,
    )  # fmt: skip


def _scores(log: Sequence[Event], *, rows: int, more: JsonObject) -> Scores:
    from tidegauge.simulate.choice import biases, open_choice, scores  # noqa: PLC0415

    with ScratchFolder() as name:
        gauge = _gauge(log, Path(name.name), rows=rows, more=more)
        with gauge._source() as source:
            opened = open_choice(gauge.spec, source, now=90, candidates=_CANDIDATES)
            return scores(opened.choice, biases(opened, source, now=90))


def _require_steps() -> None:
    """Scores rounded to whole steps move by at most what is stated, and some by as much."""
    for weight, moves in product(map(Fraction, ("1", "5/2", "7/3")), map(Fraction, ("1", "3/2"))):
        stated, most = choice_sensitivity(moves**2, weight=weight), 0
        for start in (Fraction(n, 20) for n in range(60)):
            before, after = (
                choice_steps(size**2, readings=1, cells=1, weight=weight) for size in (start, start + moves)
            )
            most = max(most, after - before)
        require(most <= stated, "rounding moves a score by more than the draw assumes")
        require(most >= stated - 1, "the draw assumes that rounding moves scores further than it does")


def check_scores() -> None:
    """No unit moves a score by more than is stated, and some unit moves one nearly so far.

    Raises Discrepancy.
    """
    _require_steps()
    nearest = 0.0
    for rows, keys, others in ((1, "k", 0), (3, "klm", 0), (2, "klm", 6)):
        for more in ({}, {"renews": "30 microseconds"}):
            log = _busy(keys, others=others)
            whole, less = (_scores(one, rows=rows, more=more) for one in (log, without(log, "u")))
            require(whole.sensitivity == less.sensitivity, "how far a unit moves scores depends on the data")
            moved = max(abs(one - other) for one, other in zip(whole.values, less.values, strict=True))
            require(moved <= whole.sensitivity, "one unit moves a score by more than the draw assumes")
            nearest = max(nearest, moved / whole.sensitivity)
    require(nearest > 0.4, "the score does not depend on what a constraint leaves out")


def _biases(log: Sequence[Event], *, rows: int, more: JsonObject) -> list[Biases]:
    from tidegauge.simulate.choice import biases, open_choice  # noqa: PLC0415

    with ScratchFolder() as name:
        gauge = _gauge(log, Path(name.name), rows=rows, more=more)
        with gauge._source() as source:
            opened = open_choice(gauge.spec, source, now=90, candidates=_CANDIDATES)
            return biases(opened, source, now=90)


_LARGE: Final = {"choice_share": "999/1000"}
"""With nearly all of the budget a unit counts for all that it can be wrong by."""


def check_biases() -> None:
    """Rows beyond max_rows count as left out, and a unit that renews moves scores twice as far.  [T22]

    Raises Discrepancy.
    """
    table = Table("owner")
    for key in "klm":
        table.put((2, 2), key, PLAIN | {"owner": "u"})
    for rows, left in ((3, 0), (2, 1)):
        for one in _biases(table.log, rows=rows, more=_LARGE):
            require(
                set(one.squares) == {left * one.readings},
                "rows that do not count are not in the bias of a choice",
            )
            require(one.spread_squared == rows**2, "a unit counts for another part of the scores")
    for one in _biases(table.log, rows=2, more=_LARGE | {"renews": "30 microseconds"}):
        require(one.spread_squared == 4 * 2**2, "a unit in a term counts for another part of the scores")


class _Counting:
    """A sampler without noise that counts the draws of the choice, and is interrupted after the first."""

    simulated: Final = True

    def __init__(self) -> None:
        self.choices, self.interrupted = 0, False

    def draw(self, noise: Noise, count: int) -> list[int]:
        """Zeros, and for the choice a seed."""
        if noise == DiscreteLaplace(Fraction(2**40)):
            self.choices += 1
            return [7 + self.choices]
        if not self.interrupted:
            self.interrupted = True
            raise Crashed
        return [0] * count


def check_once() -> None:
    """The choice is reserved, drawn once and kept, even if the first run is killed.  Raises Discrepancy."""
    log, sampler = _busy("k", others=4), _Counting()
    with ScratchFolder() as name:
        folder = Path(name.name)
        gauge = _gauge(log, folder, rows=1, more={}, sampler=sampler)
        with gauge._file.open(write=True) as store, gauge._source() as source:
            for _ in range(2):  # a kill before the plan is committed
                choose(gauge.spec, source, store, sampler, now=90)
        for _ in range(3):
            gauge = _gauge(log, folder, rows=1, more={}, sampler=sampler)
            with suppress(Crashed), closing(gauge.run()) as readings:
                list(readings)
        plan = gauge.plan()
        with closing(sqlite3.connect(folder / "store.db")) as db:
            ledger = [(kind, json.loads(body)) for kind, body in db.execute("SELECT kind, body FROM ledger")]
    require(sampler.choices == 1, "the choice of at_most was drawn more than once")
    require([kind for kind, _ in ledger] == ["choice", "commit"], "the choice of at_most was not reserved")
    kept = [Fraction(body["reserved"]) for _, body in ledger]
    require(plan.choice is not None and kept[0] == plan.choice.cost, "the draw costs more than was reserved")
    require(sum(kept) <= Fraction(ledger[0][1]["budget"]), "the choice and the plan exceed the budget")


def choice_checks(alpha: float) -> dict[str, Callable[[], object]]:
    """All of them, by name; `alpha`: the chance of a false alarm that they may have together."""
    return {
        "a choice of at_most, Gumbel noise": lambda: check_draw(alpha / 2, pure=False),
        "a choice of at_most, exponential noise": lambda: check_draw(alpha / 2, pure=True),
        "scores of a choice of at_most": check_scores,
        "biases of a choice of at_most": check_biases,
        "a choice of at_most, interrupted": check_once,
    }

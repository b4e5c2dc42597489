"""What the best attacker who links all reports of one person can learn about when the answer changed.

The attacker knows that the person took part from the first window on and changed the answer once, in a
window that is as likely as any other.  From the exact distribution of the reports the attacker computes how
well each window explains them.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from math import comb, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.errors import LocalError
from tidegauge.local.design import response_law
from tidegauge.local.groups import Group, Memoized, Response, Snapshot, Tilted, oracle
from tidegauge.local.reporter import HEADER, IDLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidegauge.local.law import TiltedLaw
    from tidegauge.local.survey import Survey

    Floats = NDArray[np.float64]


def change_posterior(survey: Survey, reports: Sequence[bytes]) -> Floats:
    """The probability that the answer changed in each window, given all reports of one person.

    Raises LocalError unless there is one report for each window, in order.
    """
    heads = [HEADER.unpack_from(report) for report in reports]
    if [head[4] for head in heads] != list(range(survey.windows)):
        raise LocalError("the attack needs one person's reports, one for each window, in order")
    role = heads[0][3]
    group = survey.groups[survey.spec.roles[role][0]]
    bodies = [
        None if head[1] & IDLE else report[HEADER.size :] for head, report in zip(heads, reports, strict=True)
    ]
    likelihood = np.zeros(survey.windows)
    for change in permutations(range(len(survey.answers)), 2):
        likelihood += _explained(survey, group, role, bodies, change)
    likelihood[0] = 0
    return np.asarray(likelihood / likelihood.sum())


def guess_change(survey: Survey, reports: Sequence[bytes], *, within: int) -> int:
    """The window in whose neighbourhood (up to `within` windows away) the change most probably lies."""
    padded = np.pad(np.cumsum(change_posterior(survey, reports)), (within + 1, within), mode="edge")
    padded[: within + 1] = 0
    return int(np.argmax(padded[2 * within + 1 :] - padded[: -2 * within - 1]))


def _explained(
    survey: Survey, group: Group, role: int, bodies: Sequence[bytes | None], change: tuple[int, int]
) -> Floats:
    """For each window t: the likelihood of the reports if the answer changed in t, up to a common factor."""
    windows, (before, after) = survey.windows, change
    if isinstance(group, Snapshot):
        said = [(window, body) for window, body in enumerate(bodies) if body is not None]

        def likelihood(t: int) -> float:
            chances = (_chance(survey, group, body, before if w < t else after) for w, body in said)
            return prod(chances)

        return np.array([likelihood(t) for t in range(windows)])
    if isinstance(group, Memoized):
        return _memoized(survey, group, bodies, before, after)
    out = np.ones(windows)
    absent = len(survey.answers)
    layers = range(group.layers) if isinstance(group, Response) else range(1)
    for layer in layers:
        width = group.branching**layer if isinstance(group, Response) else 1 << group.level
        symbols = [
            None if body is None else int.from_bytes(body[2 * layer : 2 * layer + 2], "big")
            for body in bodies[width - 1 :: width]
        ]
        for t in range(windows):
            node = t // width
            lived = {0: (absent, before), node: (before, after)} if node else {0: (absent, after)}
            seen = [Seen(symbols[at], *change) for at, change in lived.items() if at < len(symbols)]
            if isinstance(group, Response):
                out[t] *= _response_ratio(survey, group, seen)
            else:
                out[t] *= _tilted_ratio(survey, group, role, seen)
    return out


def _memoized(
    survey: Survey, group: Memoized, bodies: Sequence[bytes | None], before: int, after: int
) -> Floats:
    first, last = bodies[0], bodies[-1]
    assert first is not None
    assert last is not None
    begins = next((t for t, body in enumerate(bodies) if body != first), len(bodies))
    ends = len(bodies) - next((t for t, body in enumerate(reversed(bodies)) if body != last), len(bodies))
    t = np.arange(survey.windows)
    both = _chance(survey, group, first, before) * _chance(survey, group, last, after)
    return np.where((t <= begins) & (t >= ends), both, 0.0)


def _chance(survey: Survey, group: Snapshot | Memoized, body: bytes, symbol: int) -> float:
    """The probability of an oracle's output."""
    z = len(survey.answers)
    law = oracle(group.oracle, epsilon=survey.loss(group), answers=z)
    if group.oracle == "grr":
        return law.p if int.from_bytes(body[:2], "big") == symbol else law.q
    bits = np.unpackbits(np.frombuffer(body, dtype=np.uint8))[:z]
    chance = np.where(np.arange(z) == symbol, law.p, law.q)
    return float(np.prod(np.where(bits, chance, 1 - chance)))


class Seen(NamedTuple):
    """The symbol of a report (None: no report), and the change that it is about."""

    symbol: int | None
    was: int
    now: int


def _response_ratio(survey: Survey, group: Response, seen: Sequence[Seen]) -> float:
    """The likelihood of the reports about these changes, relative to that without any change."""
    z, ratio = len(survey.answers), 1.0
    p, q = response_law(cells=(z + 1) ** 2, loss=survey.loss(group))
    for symbol, was, now in seen:
        ratio *= (p if symbol == was * (z + 1) + now else q) / (p if symbol == z * (z + 2) else q)
    return ratio


def _tilted_ratio(survey: Survey, group: Tilted, role: int, seen: Sequence[Seen]) -> float:
    """The density of the reports about the changes, relative to the base law.  [T11]"""
    row, data, matches, mismatches, used = survey.spec.roles[role][1], group.to_dict(), 0, 0, 0
    for symbol, was, now in seen:
        signal = survey.spec.signal(data, row, was, now)
        if signal is None or symbol is None or used == group.law.changes:
            continue
        used += 1
        matches += symbol == 1 + signal
        mismatches += symbol not in {0, 1 + signal}
    return _density(group.law, used, matches, mismatches)


@lru_cache(maxsize=4096)
def _density(law: TiltedLaw, used: int, matches: int, mismatches: int) -> float:
    """c times the mean of the tilt over all ways in which the pattern can go on."""
    left, nu, d = law.changes - used, law.nu, law.signals
    mean = Fraction(0)
    for i in range(left + 1):
        for j in range(left - i + 1):
            ways = comb(left, i) * comb(left - i, j)
            chance = ways * nu**i * ((d - 1) * nu) ** j * (1 - d * nu) ** (left - i - j)
            mean += chance * (law.tilt if (matches + i, mismatches + j) in law.good else 1)
    return float(law.c * mean)

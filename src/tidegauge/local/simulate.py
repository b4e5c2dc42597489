"""Simulated surveys: invented people, and tallies drawn from the distribution of their reports.

For trying a survey out and for measuring its error.  The code that runs on a person's device is reporter.py.
A life is the sequence of one person's answers, one for each window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.local.design import response_law
from tidegauge.local.groups import Group, Memoized, Response, Snapshot, Tilted, oracle, sign
from tidegauge.local.reporter import map_rows
from tidegauge.local.tally import Layout

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from tidegauge.local.survey import Survey

    Integers = NDArray[np.int64]


def invent_lives(*, people: int, windows: int, answers: int, changes: int, random: Generator) -> Integers:
    """(people, windows): all join in the first window and change in random ones, towards rarer answers."""
    common = np.arange(1, answers + 1) ** -0.8
    common /= common.sum()
    lives = np.empty((people, windows), dtype=np.int64)
    lives[:] = random.choice(answers, people, p=common)[:, None]
    later = min(changes - 1, windows - 1)
    if answers == 1 or later < 1:
        return lives
    times = np.sort(
        np.argpartition(random.random((people, windows - 1)), later - 1, axis=1)[:, :later] + 1, axis=1
    )
    now, at = lives[:, 0].copy(), np.arange(windows)
    for time in times.T:
        drifted = random.random(people) < time / windows
        new = np.where(
            drifted, random.choice(answers, people, p=common[::-1]), random.choice(answers, people, p=common)
        )
        now = np.where(new == now, (now + random.integers(1, answers, people)) % answers, new)
        np.copyto(lives, now[:, None], where=at >= time[:, None])
    return lives


def true_histogram(lives: Integers, answers: int) -> Integers:
    """(windows, answers): how many lives give each answer."""
    return np.stack([(lives == answer).sum(axis=0) for answer in range(answers)], axis=1)


def simulated_tally(survey: Survey, lives: Integers, random: Generator) -> Integers:
    """The tally of these lives; in a life, an answer is its index, and "not there" the number of answers."""
    layout, people = Layout(survey), len(lives)
    tally = np.zeros((survey.windows, layout.width), dtype=np.int64)
    tally[0, 0] = people
    shares = np.array([group.share for group in survey.groups], dtype=np.float64)
    member = random.choice(len(shares), people, p=shares / shares.sum())
    for at, group in enumerate(survey.groups):
        roles = [role for role, (g, _) in enumerate(survey.spec.roles) if g == at]
        row = random.integers(len(roles), size=people)[member == at]
        mine = lives[member == at]
        tally[:, layout.idle[roles]] += np.bincount(row, minlength=len(roles))
        for role, (windows, counts, reports) in zip(
            roles, _counts(survey, group, mine, row, random), strict=True
        ):
            tally[windows, layout.symbols[role] : layout.symbols[role + 1]] = counts
            tally[windows, layout.speaking[role]] = reports
            tally[windows, layout.idle[role]] -= reports
    return tally


class _Spoken(NamedTuple):
    """The windows in which a role speaks, the counts of its symbols there, and of its reports."""

    windows: Integers
    counts: Integers
    reports: Integers


def _counts(survey: Survey, group: Group, lives: Integers, row: Integers, random: Generator) -> list[_Spoken]:
    """What every role of a group says."""
    if isinstance(group, Tilted):
        return _tilted(survey, group, lives, row, random)
    everyone = np.full(survey.windows, len(lives), dtype=np.int64)
    if isinstance(group, Response):
        return [_Spoken(np.arange(survey.windows), _response(survey, group, lives, random), everyone)]
    if isinstance(group, Memoized):
        return [_Spoken(np.arange(survey.windows), _memoized(survey, group, lives, random), everyone)]
    when = random.integers(survey.windows, size=len(lives))
    seen = np.bincount(when, minlength=survey.windows)
    return [_Spoken(np.arange(survey.windows), _snapshot(survey, group, lives, when, random), seen)]


def _snapshot(
    survey: Survey, group: Snapshot, lives: Integers, when: Integers, random: Generator
) -> Integers:
    z = len(survey.answers)
    law = oracle(group.oracle, epsilon=survey.epsilon, answers=z)
    true = np.zeros((survey.windows, z + 1), dtype=np.int64)
    np.add.at(true, (when, lives[np.arange(len(lives)), when]), 1)
    if group.oracle == "grr":
        return _respond(true, law.p, law.q, random)
    others = true.sum(axis=1, keepdims=True) - true
    return np.asarray(random.binomial(true, law.p) + random.binomial(others, law.q))[:, :z]


def _respond(true: Integers, p: float, q: float, random: Generator) -> Integers:
    """Counts of a randomized response's outputs from the counts of its inputs."""
    size = true.shape[-1]
    out = np.zeros_like(true)
    for cell in np.flatnonzero(true.any(axis=0)):
        law = np.full(size, q)
        law[cell] = p
        out += random.multinomial(true[:, cell], law / law.sum())
    return out


def _memoized(survey: Survey, group: Memoized, lives: Integers, random: Generator) -> Integers:
    z, people = len(survey.answers), len(lives)
    law = oracle(group.oracle, epsilon=survey.loss(group), answers=z)
    held = frozen(lives, absent=z, changes=survey.changes)
    if group.oracle == "grr":
        other = (np.arange(z + 1) + random.integers(1, z + 1, (people, z + 1))) % (z + 1)
        permanent = np.where(random.random((people, z + 1)) < law.p, np.arange(z + 1), other)
        said = np.take_along_axis(permanent, held, axis=1)
        return np.stack([np.bincount(column, minlength=z + 1) for column in said.T])
    bits = random.random((people, z + 1, z)) < np.where(np.eye(z + 1, z, dtype=bool), law.p, law.q)
    return np.stack([bits[np.arange(people), column].sum(axis=0) for column in held.T])


def _response(survey: Survey, group: Response, lives: Integers, random: Generator) -> Integers:
    z, cells = len(survey.answers), (len(survey.answers) + 1) ** 2
    p, q = response_law(cells=cells, loss=survey.loss(group))
    held = frozen(lives, absent=z, changes=survey.changes)
    out = np.zeros((survey.windows, group.layers, cells), dtype=np.int64)
    for layer in range(group.layers):
        ends, before, after = _nodes(held, group.branching**layer, z)
        cell = np.where(before == after, cells - 1, before * (z + 1) + after)
        true = np.zeros((len(ends), cells), dtype=np.int64)
        for node in range(len(ends)):
            true[node] = np.bincount(cell[:, node], minlength=cells)
        out[ends, layer] = _respond(true, p, q, random)
    return out.reshape(survey.windows, -1)


def _nodes(lives: Integers, width: int, absent: int) -> tuple[Integers, Integers, Integers]:
    """Where the nodes of a width end, and every life's state before and after each."""
    ends = np.arange(1, lives.shape[1] // width + 1) * width - 1
    after = lives[:, ends]
    before = np.concatenate([np.full((len(lives), 1), absent), after[:, :-1]], axis=1)
    return ends, before, after


def frozen(lives: Integers, *, absent: int, changes: int) -> Integers:
    """The lives with every change after the last allowed one dropped."""
    _, before, after = _nodes(lives, 1, absent)
    allowed = np.cumsum(before != after, axis=1) <= changes
    last = np.where(allowed, np.arange(lives.shape[1]), 0)
    return np.take_along_axis(lives, np.maximum.accumulate(last, axis=1), axis=1)


def _tilted(
    survey: Survey, group: Tilted, lives: Integers, row: Integers, random: Generator
) -> list[_Spoken]:
    z, law = len(survey.answers), group.law
    d, roles = law.signals, map_rows(group.to_dict(), z)
    ends, before, after = _nodes(lives, 1 << group.level, z)
    signal = _signals(group, row[:, None], before, after, z)
    ordinal = np.cumsum(signal >= 0, axis=1) - 1
    client, node = np.nonzero((signal >= 0) & (ordinal < law.changes))
    says = _patterns(group, len(lives), random)[client, ordinal[client, node]]
    output = signal[client, node] + 1
    output = np.where(says == 1, (output - 1 + random.integers(1, d, len(output))) % d + 1, output)
    output = np.where(says == 2, 0, output)
    counts = np.zeros((len(ends), roles, d + 1), dtype=np.int64)
    np.add.at(counts, (node, row[client], output), 1)
    reports = np.bincount(row, minlength=roles)
    unchanged = reports - counts.sum(axis=2)
    nu = float(law.nu)
    base = np.array([max(1 - d * nu, 0.0)] + [nu] * d)
    counts += random.multinomial(unchanged, base / base.sum())
    return [_Spoken(ends, counts[:, r], np.full(len(ends), reports[r])) for r in range(roles)]


def _signals(group: Tilted, row: Integers, before: Integers, after: Integers, absent: int) -> Integers:
    """The signal of every change, -1 where the role sees none."""
    if group.map == "pair":
        return np.where(before == after, -1, before * absent + after - (after > before))
    if group.map == "coordinate":
        return np.where(before == after, -1, np.where(after == row, 0, np.where(before == row, 1, -1)))
    now = sign(row, after)
    return np.where(sign(row, before) == now, -1, np.where(now > 0, 0, 1))


def _patterns(group: Tilted, people: int, random: Generator) -> Integers:
    """(people, K): 0 match, 1 mismatch, 2 silent."""
    law = group.law
    types, chances = np.array(list(law.types)), np.array([float(each) for each in law.types.values()])
    match, mismatch = types[random.choice(len(types), people, p=chances / chances.sum())].T
    entry = np.arange(law.changes)
    pattern = np.where(entry < match[:, None], 0, np.where(entry < (match + mismatch)[:, None], 1, 2))
    return random.permuted(pattern, axis=1)

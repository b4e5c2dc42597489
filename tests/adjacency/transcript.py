"""What a gauge makes public, what it measures, and what the difference between two worlds costs.

Noise is replaced by labels: every draw is a random multiple of a number so large that the exact integer below it can be
read off.  So each measurement tells its exact value, which draws were added to it, and the law that each of them was
asked to have.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tidegauge.audit import ahead
from tidegauge.audit.transcript import drawn_ahead
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace
from tidegauge.plan.plan import Plan

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable
    from pathlib import Path

    from tidegauge.mechanism.encode import ComponentPlan
    from tidegauge.mechanism.noise.samplers import Noise

_LABEL: Final = 1 << 128
"""Exact values are smaller, labels are multiples."""


class Labels:
    """A sampler whose draws say who they are."""

    simulated: Final = True

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.laws: dict[int, Noise] = {}
        self.starts: list[int] = []

    def draw(self, noise: Noise, count: int) -> list[int]:
        found = []
        self.starts.append(len(self.laws))
        for _ in range(count):
            label = self._rng.getrandbits(62) + 1
            assert label not in self.laws
            self.laws[label] = noise
            found.append(label * _LABEL)
        return found


@dataclass(frozen=True)
class Drawn:
    """One measurement: its exact value, its own noise, and how often which shared draw was added."""

    exact: int
    noise: Noise
    shared: int
    veil: int | None
    """The label of the shared draw."""


Spot = tuple[str, int, int, int]
"""Release, component, number, cell."""


@dataclass
class Transcript:
    """All that one world led to."""

    public: dict[str, Any]
    measured: dict[Spot, Drawn]
    laws: dict[int, Noise]
    reserved: dict[str, Fraction]
    total: Fraction
    streams: frozenset[str]
    """Releases that are measured from a rounded state."""
    ahead: dict[tuple[str, int], ComponentPlan]
    """Releases and components whose noise is drawn ahead."""


class Told(logging.Handler):
    """Everything that is logged, with all that is attached to it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[tuple[Any, ...]] = []

    def emit(self, record: logging.LogRecord) -> None:
        plain = logging.makeLogRecord({}).__dict__.keys()
        extra = {
            name: value
            for name, value in record.__dict__.items()
            if name not in plain | {"message", "taskName"}
        }
        self.lines.append((record.name, record.levelname, record.getMessage(), sorted(extra.items())))


def transcript(folder: Path, labels: Labels, readings: Iterable[Any], told: Told) -> Transcript:
    """Read everything from the store, without asking the program that wrote it."""
    with closing(sqlite3.connect(f"file:{folder}/store.db?mode=ro", uri=True)) as db:
        journal = db.execute(
            "SELECT release, component, number, cell, value, bin, tick FROM journal ORDER BY 1, 2, 3, 4"
        ).fetchall()
        published = db.execute("SELECT release, number, cell, time FROM readings ORDER BY 1, 2, 3").fetchall()
        ticks = db.execute("SELECT seq, instant FROM ticks ORDER BY seq").fetchall()
        (body,) = db.execute("SELECT body FROM ledger").fetchone()
        record = dict(
            db.execute("SELECT key, value FROM meta WHERE key = 'plan' OR key LIKE 'next:%'").fetchall()
        )
    witness = json.loads((folder / "store.db.witness").read_text())
    plan = Plan.from_record(json.loads(record.pop("plan")))
    public = {
        "measurements": [(*row[:4], *row[5:]) for row in journal],
        "readings": published,
        "yielded": [(one.release, one.time, one.group) for one in readings],
        "ticks": ticks,
        "next": record,
        "witness": (
            sorted(witness),
            witness["ledger"],
            [one for one in witness.values() if isinstance(one, int)],
        ),
        "ledger": body,
        "log": told.lines,
        "files": sorted(one.name for one in folder.iterdir() if one.name.startswith("store.")),
        "draws": sorted(Counter(map(str, labels.laws.values())).items()),
    }
    ledger = json.loads(body)
    reserved = {name: Fraction(loss) for name, loss in ledger["releases"].items()}
    measured = _measured(plan, journal, labels)
    streams = frozenset(
        one.release.name for one in plan.releases if one.component_plans[0].strategy.stream is not None
    )
    total = Fraction(ledger["reserved"])
    return Transcript(public, measured, labels.laws, reserved, total, streams, drawn_ahead(plan))


def _measured(plan: Plan, journal: list[tuple[Any, ...]], labels: Labels) -> dict[Spot, Drawn]:
    found: dict[Spot, Drawn] = {}
    used: set[int] = set()
    shares = {
        (one.release.name, component): [
            row.shared for row in component_plan.strategy.measured(_last(journal, one.release.name))
        ]
        for one in plan.releases
        for component, component_plan in enumerate(one.component_plans)
    }
    veils: dict[tuple[str, int, int], int] = {}
    ahead_of = drawn_ahead(plan)
    for (release, component), component_plan in ahead_of.items():
        values = {(row[2], row[3]): int(row[4]) for row in journal if row[:2] == (release, component)}
        without = ahead.without_noise(component_plan, values, laws=labels.laws, starts=labels.starts)
        assert used.isdisjoint(without.draws), "one draw served two measurements"
        used |= without.draws
        found |= {
            (release, component, *spot): Drawn(exact, component_plan.noise, 0, None)
            for spot, exact in without.exact.items()
        }
    for release, component, number, cell, value, *_ in journal:
        if (release, component) in ahead_of:
            continue
        exact = (int(value) + _LABEL // 2) % _LABEL - _LABEL // 2
        label, shared, veil = (int(value) - exact) // _LABEL, shares[release, component][number], None
        if shared:
            place = release, component, cell
            if place not in veils:
                veils[place] = next(
                    one for one in labels.laws if label - shared * one in labels.laws and one != label
                )
            veil = veils[place]
            label -= shared * veil
        assert label in labels.laws, (
            "a measurement has no noise of its own, or another shared draw than those before"
        )
        assert label not in used, "one draw served two measurements"
        used.add(label)
        found[release, component, number, cell] = Drawn(exact, labels.laws[label], shared, veil)
    assert len(set(veils.values())) == len(veils), "two cells have one shared draw"
    assert used.isdisjoint(veils.values()), "a shared draw was shown"
    return found


def _last(journal: list[tuple[Any, ...]], release: str) -> int:
    return max((row[5] for row in journal if row[0] == release), default=-1)


def loss(one: Transcript, other: Transcript) -> dict[str, Fraction]:
    """What the difference between two worlds costs, by release, in the measure of its noise."""
    found: dict[str, Fraction] = {name: Fraction(0) for name in one.reserved}
    cells: dict[tuple[str, int, int], list[tuple[int, Drawn, Drawn]]] = {}
    assert one.measured.keys() == other.measured.keys()
    for spot, drawn in one.measured.items():
        release, component, _, cell = spot
        also = other.measured[spot]
        assert (drawn.noise, drawn.shared) == (also.noise, also.shared)
        cells.setdefault((release, component, cell), []).append((drawn.exact - also.exact, drawn, also))
    for (release, component, _), rows in cells.items():
        moved = [(difference, drawn) for difference, drawn, _ in rows if difference]
        if not moved:
            continue
        if (release, component) in one.ahead:
            differences = {number: difference for number, (difference, *_) in enumerate(rows)}
            found[release] += ahead.cost(one.ahead[release, component], differences)
            continue
        veils = {drawn.veil for _, drawn, _ in rows} - {None}
        assert len(veils) <= 1
        law = one.laws[next(iter(veils))] if veils else None  # type: ignore[index]
        shifts = [0] if law is None else _shifts([(difference, drawn) for difference, drawn, _ in rows], law)
        found[release] += min(
            sum(
                (_cost(drawn.noise, difference - shift * drawn.shared) for difference, drawn, _ in rows),
                Fraction(0),
            )
            + (Fraction(0) if law is None else _cost(law, shift))
            for shift in shifts
        )
    return found


def _shifts(rows: list[tuple[int, Drawn]], law: Noise) -> list[int]:
    """By how much the shared draw may be moved to meet the difference: the cost is convex, and least at one of these."""
    if isinstance(law, DiscreteLaplace):
        ends = [(Fraction(difference, drawn.shared)) for difference, drawn in rows if drawn.shared]
        return sorted({0, *(int(end // 1) for end in ends), *(int(-(-end // 1)) for end in ends)})
    top = sum((Fraction(d * w.shared) / _square(w.noise) for d, w in rows), Fraction(0))
    bottom = sum((Fraction(w.shared**2) / _square(w.noise) for _, w in rows), 1 / _square(law))
    return [0, int(top / bottom // 1), int(top / bottom // 1) + 1]


def _square(noise: Noise) -> Fraction:
    assert isinstance(noise, DiscreteGaussian)
    return noise.sigma_squared


def _cost(noise: Noise, difference: int) -> Fraction:
    if isinstance(noise, DiscreteLaplace):
        return abs(difference) / noise.scale
    return Fraction(difference**2) / (2 * _square(noise))

"""What a gauge makes public, what it measures, and what the difference between two worlds costs.

Noise is frozen: in its place come labels, random multiples of a number so large that the exact integer below
it can be read off.  So each measurement shows its exact value, which draws were added to it, and the
distribution that each draw was asked to have.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidegauge.audit.findings import require
from tidegauge.audit.replay import ahead
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tidegauge.audit.worlds.rehearsal import Messages
    from tidegauge.audit.worlds.world import Random
    from tidegauge.mechanism.encode import ComponentPlan
    from tidegauge.mechanism.noise.samplers import Noise
    from tidegauge.plan.plan import Plan

_LABEL: Final = 1 << 128
"""Exact values are smaller, labels are multiples."""


class Crashed(BaseException):
    """A replay is interrupted here, as by a kill; no code may catch it."""


class Labels:
    """A sampler whose draws say which draws they are; it can interrupt a tick between its draws.

    It passes for the real one, so that draws are made and handed out as those of a real gauge.
    """

    simulated: Final = False

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.laws: dict[int, Noise] = {}
        self.starts: list[int] = []
        """How many draws came before each call."""
        self.crash_in: int | None = None
        """Draws until the next crash; None: there is none."""

    def draw(self, noise: Noise, count: int) -> list[int]:
        """Labels in place of noise."""
        found = []
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                self.crash_in = None
                raise Crashed
        self.starts.append(len(self.laws))
        for _ in range(count):
            label = self._rng.getrandbits(62) + 1
            self.laws[label] = noise
            found.append(label * _LABEL)
        return found


@dataclass(frozen=True)
class Drawn:
    """One measurement: its exact value, its own noise, and how often which shared draw was added."""

    exact: int
    noise: Noise
    shared: int
    shared_draw: int | None


class _Row(NamedTuple):
    """A row of the journal."""

    release: str
    component: int
    number: int
    cell: int
    value: str
    bin: int
    tick: int


class _Moved(NamedTuple):
    """By how much a measurement differs between two worlds."""

    difference: int
    drawn: Drawn


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


class Journal:
    """Watches that what was measured once stays as it was."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[Any, ...], Any] = {}

    def look(self) -> None:
        """Raise Discrepancy where a measurement or a reading was replaced or removed."""
        found: dict[tuple[Any, ...], Any] = {}
        with closing(_open(self._folder)) as db:
            for *key, value in db.execute("SELECT release, component, number, cell, value FROM journal"):
                found["measured", *key] = value
            for release, number, cell, *rest in db.execute(
                "SELECT release, number, cell, value, stderr, low, high FROM readings"
            ):
                found["read", release, number, cell] = tuple(rest)
        for key, value in self._known.items():
            require(key in found, "after a restart a measurement or reading was missing")
            require(found[key] == value, "after a restart a measurement or reading had another value")
        self._known = found


def _open(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{folder}/store.db?mode=ro", uri=True)


def transcript(
    folder: Path, plan: Plan, labels: Labels, readings: Iterable[Any], messages: Messages
) -> Transcript:
    """Read everything from the store, without asking the code that wrote it."""
    with closing(_open(folder)) as db:
        rows = db.execute(
            "SELECT release, component, number, cell, value, bin, tick FROM journal ORDER BY 1, 2, 3, 4"
        )
        journal = [_Row(*row) for row in rows]
        published = db.execute("SELECT release, number, cell, time FROM readings ORDER BY 1, 2, 3").fetchall()
        ticks = db.execute("SELECT seq, instant FROM ticks ORDER BY seq").fetchall()
        ledger = [json.loads(body) for (body,) in db.execute("SELECT body FROM ledger ORDER BY seq")]
        notes = db.execute("SELECT key, value FROM meta WHERE key <> 'gauge' ORDER BY 1").fetchall()
    witness = json.loads((folder / "store.db.witness").read_text())
    public = {
        "the places of measurements": [(*row[:4], *row[5:]) for row in journal],
        "the readings' times and groups": published,
        "the order of readings": [(one.release, one.time, one.group) for one in readings],
        "the ticks": ticks,
        "the notes of the stores": notes,
        "the witness": (
            sorted(witness),
            witness["ledger"],
            [one for one in witness.values() if isinstance(one, int)],
        ),
        "the ledger": [{**body, "time": None} for body in ledger],
        "the messages": messages.lines,
        "the files": sorted(one.name for one in folder.iterdir() if one.name.startswith("store.")),
        "the number of draws": sorted(Counter(map(str, labels.laws.values())).items()),
    }
    reserved = {name: Fraction(loss) for body in ledger for name, loss in body["releases"].items()}
    total = sum((Fraction(body["reserved"]) for body in ledger), Fraction(0))
    require(total <= Fraction(ledger[0]["budget"]), "the ledger reserves more than the whole budget")
    streams = frozenset(
        one.release.name for one in plan.releases if one.component_plans[0].strategy.stream is not None
    )
    measured = _measured(plan, journal, labels)
    return Transcript(public, measured, labels.laws, reserved, total, streams, drawn_ahead(plan))


def drawn_ahead(plan: Plan) -> dict[tuple[str, int], ComponentPlan]:
    """Releases and components whose noise is drawn ahead."""
    return {
        (one.release.name, component): component_plan
        for one in plan.releases
        for component, component_plan in enumerate(one.component_plans)
        if component_plan.strategy.ahead is not None
    }


def _measured(plan: Plan, journal: list[_Row], labels: Labels) -> dict[Spot, Drawn]:
    found: dict[Spot, Drawn] = {}
    used: set[int] = set()
    shares = {
        (one.release.name, component): _shares(component_plan, journal, one.release.name)
        for one in plan.releases
        for component, component_plan in enumerate(one.component_plans)
    }
    shared_draws: dict[tuple[str, int, int], int | None] = {}
    ahead_of = drawn_ahead(plan)
    for (release, component), component_plan in ahead_of.items():
        values = {(row[2], row[3]): int(row[4]) for row in journal if row[:2] == (release, component)}
        without = ahead.without_noise(component_plan, values, laws=labels.laws, starts=labels.starts)
        require(used.isdisjoint(without.draws), "one draw served two measurements")
        used |= without.draws
        found |= {
            (release, component, *key): Drawn(exact, component_plan.noise, 0, None)
            for key, exact in without.exact.items()
        }
    for release, component, number, cell, value, _, _ in journal:
        if (release, component) in ahead_of:
            continue
        exact = (int(value) + _LABEL // 2) % _LABEL - _LABEL // 2
        shared, draw = shares[release, component].get(number, 0), None
        label = (int(value) - exact) // _LABEL
        if shared:
            place = release, component, cell
            if place not in shared_draws:
                shared_draws[place] = next(
                    (one for one in labels.laws if label - shared * one in labels.laws and one != label), None
                )
            draw = shared_draws[place]
            require(draw is not None, "a measurement has no shared noise where the strategy relies on it")
            label -= shared * (draw or 0)
        require(
            label in labels.laws,
            "a measurement has no noise of its own, or another shared draw than those before",
        )
        require(label not in used, "one draw served two measurements")
        used.add(label)
        found[release, component, number, cell] = Drawn(exact, labels.laws[label], shared, draw)
    require(len(set(shared_draws.values())) == len(shared_draws), "two cells have one shared draw")
    require(used.isdisjoint(shared_draws.values()), "a shared draw was published")
    return found


def _shares(component_plan: ComponentPlan, journal: list[_Row], release: str) -> dict[int, int]:
    """How often the shared draw is added to each row, where there is one."""
    if component_plan.shared_noise is None:
        return {}
    last = max((row.bin for row in journal if row.release == release), default=-1)
    return {n: row.shared for n, row in enumerate(component_plan.strategy.measured(last))}


def require_same(one: Transcript, other: Transcript) -> None:
    """Everything public is the same but for the noisy values."""
    for name, value in one.public.items():
        require(value == other.public[name], f"{name} differ between the two worlds")


def require_unit_local(
    whole: Transcript, other: Transcript, own: Transcript, less: Transcript | None = None
) -> None:
    """What a unit adds to the measurements is what it would add if there were no other unit.

    `own`: the world of this unit alone; `less`: the same as it is in the other world (None: empty).
    Strategies that round (streams) add up to the nearest integers only, and are left out.
    """
    for key, drawn in whole.measured.items():
        if key[0] not in whole.streams:
            added = drawn.exact - other.measured[key].exact
            alone = own.measured[key].exact - (0 if less is None else less.measured[key].exact)
            require(added == alone, "one unit had an effect on another unit's changes")


def loss(one: Transcript, other: Transcript) -> dict[str, Fraction]:
    """What the difference between two worlds costs, by release, in the measure of its noise."""
    found: dict[str, Fraction] = {name: Fraction(0) for name in one.reserved}
    cells: dict[tuple[str, int, int], list[_Moved]] = {}
    require(one.measured.keys() == other.measured.keys(), "the two worlds have other measurements")
    for key, drawn in one.measured.items():
        release, component, _, cell = key
        also = other.measured[key]
        require((drawn.noise, drawn.shared) == (also.noise, also.shared), "the noise depends on the data")
        cells.setdefault((release, component, cell), []).append(_Moved(drawn.exact - also.exact, drawn))
    for (release, component, _), rows in cells.items():
        if not any(difference for difference, _ in rows):
            continue
        if (release, component) in one.ahead:
            differences = {number: difference for number, (difference, _) in enumerate(rows)}
            found[release] += ahead.cost(one.ahead[release, component], differences)
            continue
        draws = {drawn.shared_draw for _, drawn in rows if drawn.shared_draw is not None}
        law = one.laws[draws.pop()] if draws else None
        shifts = [0] if law is None else _shifts(rows, law)
        found[release] += min(
            sum(
                (_cost(drawn.noise, difference - shift * drawn.shared) for difference, drawn in rows),
                Fraction(0),
            )
            + (Fraction(0) if law is None else _cost(law, shift))
            for shift in shifts
        )
    return found


def _shifts(rows: list[_Moved], law: Noise) -> list[int]:
    """By how much the shared draw may be moved to meet the difference.

    The cost is convex, and least at one of these.
    """
    if isinstance(law, DiscreteLaplace):
        ends = [Fraction(difference, drawn.shared) for difference, drawn in rows if drawn.shared]
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

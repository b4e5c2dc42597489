"""Gauges to which releases are added: one unit more or less changes nothing but what the noise
of both plans covers.

The loss of every release is compared with what its own plan reserved, and the sum with what the ledger
reserved.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from tests.adjacency.declared import Declared, declare
from tests.adjacency.play import Play, check, compare
from tests.adjacency.sources import Log
from tests.adjacency.world import Table, Times, random_table, without
from tests.shared_plans import SharedPlans, shared_plans
from tidegauge.audit.replay.terms import terms_between
from tidegauge.audit.replay.transcript import Labels, loss
from tidegauge.audit.worlds.world import without_term
from tidegauge.errors import SpecError
from tidegauge.model.program import Allowance
from tidegauge.model.quantity import instant, rfc3339
from tidegauge.plan.grow import program_of_all
from tidegauge.run.committed import committed
from tidegauge.run.gauge import Gauge
from tidegauge.store.store import Store
from tidegauge.testing import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.adjacency.play import Kind
    from tests.adjacency.world import Event
    from tidegauge.model.program import Program
    from tidegauge.plan.plan import Plan

QUICK: dict[Kind, range] = {"memory": range(2)}
MANY: dict[Kind, range] = {
    "memory": range(100, 500),
    "debezium": range(100, 160),
    "files": range(100, 160),
    "sqlite": range(100, 160),
}
TERMS: dict[Kind, range] = {"memory": range(100, 300), "sqlite": range(100, 140)}
CHUNK = 5


@dataclass(frozen=True)
class Grown(Play):
    """A gauge that is amended before some of its passes."""

    added: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Releases by the pass before which they are committed."""

    def opened(self, number: int, **given: Any) -> Gauge:
        """The gauge at this pass, amended if its time has come."""
        declared = dict(self.declared.gauge)
        for due, releases in sorted(self.added.items()):
            if due <= number:
                declared["releases"] = declared["releases"] | releases
                if due == number:
                    Gauge(**given, **declared).amend()
        return Gauge(**given, **declared)


def grown(seed: int, kind: Kind, *, renews: bool = False) -> Grown:
    """A gauge that is amended once or twice, and a table whose log this kind of source can state.

    `renews`: its constraint renews after a few bins, and the log is in the order of its times.
    """
    rng = random.Random(f"grown {kind} {seed}{' renews' if renews else ''}")
    while True:
        declared, more = declare(rng), declare(rng)
        if renews:
            _renew(rng, declared, more)
        passes = declared.times.passes
        if len(passes) < 2 or more.times.tick != declared.times.tick:
            continue
        gauge = declared.gauge
        gauge["budget"] = {**gauge["budget"], "reserve": rng.choice(("1/4", "1/2"))}
        before = sorted(rng.sample(range(1, len(passes)), rng.choice((1, min(2, len(passes) - 1)))))
        added = {due: _releases(more, passes[due - 1], declared, str(due)) for due in before}
        for releases in added.values():
            for release in releases.values():
                release["share"] = "1/16"
        log = Log(rng, owned=declared.owned, informed=False)
        plans = SharedPlans()
        one = Grown(declared, (), (), kind, rng.random() < 0.5, plans, added)
        try:
            with shared_plans(plans):
                Gauge(
                    source=log, now=Clock(declared.times.micros(passes[0])), sampler=Labels(rng), **gauge
                ).plan()
            _rehearse(one, rng)
        except SpecError:
            continue
        values = tuple(sorted({one for one in (*declared.values, *more.values) if one is not None}))
        table = random_table(
            rng, declared.times, owned=declared.owned, values=(*values, None), plain=kind == "files" or renews
        )
        if renews:
            table.log = _orderly(table.log)
        if table.units:
            return replace(one, log=tuple(table.log), units=tuple(table.units))


def _renew(rng: random.Random, declared: Declared, more: Declared) -> None:
    """Let the constraint renew, which is the gauge's and not a release's."""
    declared.gauge.setdefault("constraint", {"at_most": 2})
    declared.gauge["constraint"]["renews"] = (
        f"{rng.choice((15, 20, 25, 40)) * declared.times.tick} microseconds"
    )
    for gauge in (declared.gauge, more.gauge):
        for release in gauge["releases"].values():
            release.pop("constraint", None)
            release["strategy"] = "disjoint"


def _orderly(log: Sequence[Event]) -> list[Event]:
    """The same events, each at the time of its arrival, and one at a time."""
    found, last = [], -1
    for event in log:
        last = max(event.arrival, last + 1)
        found.append(replace(event, arrival=last, stamp=last))
    return found


def _releases(more: Declared, reached: int, declared: Declared, suffix: str) -> dict[str, Any]:
    """Releases of another gauge, which start after this pass of the clock and have a strategy
    of the planner."""
    found = {}
    for name, release in list(more.gauge["releases"].items())[:2]:
        own = {key: value for key, value in release.items() if key != "strategy"}
        after = reached + (26 if "window" in own else 4)
        later = instant(own["start"]) + declared.times.micros(after) - declared.times.origin
        found[f"{name}_{suffix}"] = own | {"start": rfc3339(later), "strategy": "disjoint"}
    return found


def _rehearse(one: Grown, rng: random.Random) -> None:
    """Raise SpecError where the gauge cannot be amended."""
    from pathlib import Path

    with TemporaryDirectory() as folder:
        found = one.run(Path(folder) / "empty", (), rng.getrandbits(30))
    first = set(one.declared.gauge["releases"])
    if {spot[0] for spot in found.measured} <= first:
        raise SpecError("nothing that was added is measured")


def chunks(counts: dict[Kind, range]) -> list[tuple[Kind, range]]:
    return [
        (kind, seeds[start : start + CHUNK])
        for kind, seeds in counts.items()
        for start in range(0, len(seeds), CHUNK)
    ]


@pytest.mark.parametrize(("kind", "part"), chunks(QUICK), ids=str)
def test_one_unit_more_or_less(tmp_path: Path, kind: Kind, part: range) -> None:
    for seed in part:
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert check(grown(seed, kind), folder, seed, most=1) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "part"), chunks(MANY), ids=str)
def test_one_unit_more_or_less_hundreds_of_times(tmp_path: Path, kind: Kind, part: range) -> None:
    for seed in part:
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert check(grown(seed, kind), folder, seed) >= 1


def check_terms(one: Grown, folder: Path, seed: int) -> int:
    """Remove a unit from one term: the noise covers the difference, and nothing outside of the term changes.

    Returns how many exact values outside of the term were compared.
    """
    rng, compared = random.Random(seed), 0
    whole = one.run(folder / "whole", one.log, seed)
    with Store(folder / "whole" / "store.db") as store:
        plan = committed(store.public)
    assert plan is not None
    assert plan.program.terms is not None
    terms = terms_between(plan.program.terms, one.log[0].arrival, one.log[-1].arrival)
    term, unit = rng.choice(terms), rng.choice(one.units)
    begins = one.log[0].arrival if term.begins is None else term.begins
    log = without_term(one.log, unit, begins, term.ends)
    other = one.run(folder / "other", sorted(log, key=lambda event: event.arrival), seed + 1)
    compare(whole, other)
    bins = {row[:4]: row[4] for row in whole.public["the places of measurements"]}
    schedules = {release.release.name: release.release for release in plan.releases}
    sums: dict[tuple[str, int, int], int] = {}
    for spot in sorted(whole.measured):
        name, part, _, cell = spot
        release, bin_ = schedules[name], bins[spot]
        difference = whole.measured[spot].exact - other.measured[spot].exact
        end, since = release.schedule.bin_end(bin_), release.schedule.bin_end(bin_ - 1)
        outside = end < begins or since >= term.ends
        if release.query.kind == "stock":  # measured as changes of its running value
            sums[name, part, cell] = difference = sums.get((name, part, cell), 0) + difference
            loaded = release.schedule.bin_end(0)
            outside = end < begins or (end >= term.ends and not begins <= loaded < term.ends)
        if outside:
            assert difference == 0, (name, bin_, end, begins, term.ends)
            compared += 1
    return compared


def check_every_seed(folder: Path, kind: Kind, part: range) -> None:
    compared = 0
    for seed in part:
        own = folder / str(seed)
        own.mkdir()
        compared += check_terms(grown(seed, kind, renews=True), own, seed)
    assert compared > 0


@pytest.mark.parametrize(("kind", "part"), chunks(QUICK), ids=str)
def test_one_term_more_or_less(tmp_path: Path, kind: Kind, part: range) -> None:
    check_every_seed(tmp_path, kind, part)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "part"), chunks(TERMS), ids=str)
def test_one_term_more_or_less_hundreds_of_times(tmp_path: Path, kind: Kind, part: range) -> None:
    check_every_seed(tmp_path, kind, part)


def test_a_unit_that_keeps_its_counters_from_one_term_to_the_next_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(plans: Sequence[Plan]) -> Program:
        return replace(program_of_all(plans), terms=None)

    for seed in range(6):  # what is enforced for the whole lifetime is different in every later term
        with monkeypatch.context() as patch:
            patch.setattr("tidegauge.run.tick.program_of_all", endless)
            folder = tmp_path / str(seed)
            folder.mkdir()
            try:
                check_terms(grown(seed, "memory", renews=True), folder, seed)
            except AssertionError:
                return
    pytest.fail("nothing was found")


def restless(most: int = 2) -> Grown:
    """One unit changes in every bin, before and after a second count begins;
    each counts two of its changes."""
    count = {
        "sql": "SELECT COUNT(*) FROM t WHERE s = 'a'",
        "every": "10 microseconds",
        "strategy": "disjoint",
    }
    first = {"r0": count | {"start": rfc3339(10), "for": "60 microseconds"}}
    added = {"r1": count | {"start": rfc3339(30), "for": "40 microseconds"}}
    gauge = {"budget": {"rho": "1/2", "reserve": "1/2"}, "constraint": {"at_most": most}, "releases": first}
    table = Table(owned=False)
    for time in range(1, 75):
        row = {"owner": None, "s": "ba"[(time + 5) // 10 % 2], "x": 0, "k": None}
        table.put((time, time), "p", row)
    declared = Declared(gauge, Times((22, 90), 10, 1, 0), owned=False, values=(0,))
    return Grown(declared, tuple(table.log), ("p/0",), "memory", added={1: added})


def test_a_restless_unit_costs_both_plans_what_each_reserved(tmp_path: Path) -> None:
    one = restless()
    whole = one.run(tmp_path / "whole", one.log, 1)
    other = one.run(tmp_path / "other", without(one.log, "p/0"), 2)
    compare(whole, other)
    cost = loss(whole, other)
    for name in ("r0", "r1"):  # two changes in two bins: the bound is reached
        assert 0.999 < cost[name] / whole.reserved[name] <= 1
    assert sum(whole.reserved.values()) == whole.total == Fraction(1, 2)


def test_an_added_release_whose_constraint_is_not_enforced_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lifted(plans: Sequence[Plan]) -> Program:
        program = program_of_all(plans)
        scopes = (
            program.scopes[0],
            *(replace(one, allowances=((None, Allowance(9)),)) for one in program.scopes[1:]),
        )
        return replace(program, scopes=scopes)

    monkeypatch.setattr("tidegauge.run.tick.program_of_all", lifted)
    one = restless()
    whole = one.run(tmp_path / "whole", one.log, 1)
    other = one.run(tmp_path / "other", without(one.log, "p/0"), 2)
    with pytest.raises(AssertionError, match="r1"):
        compare(whole, other)

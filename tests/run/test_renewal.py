"""Gauges whose constraint renews, and the whole error that the operator sees."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from tests.printed import printed
from tests.recovery.test_crashes import STEPS, published, survive
from tests.run.gauge_life import COLUMNS, gauge, life
from tests.simulate.test_real import accepted
from tests.stores.keep import opened, unpack
from tests.stores.worlds import DAYS_BEFORE
from tidegauge.errors import SpecError, StoreCorrupt
from tidegauge.mechanism.noise.samplers import DiscreteLaplace
from tidegauge.mechanism.strategies.levels import Levels
from tidegauge.model.constraint import AtMost, Both, Within
from tidegauge.model.quantity import HOUR, Span, instant
from tidegauge.model.schedule import Schedule
from tidegauge.plan.certify import certify, enforced, exposure
from tidegauge.plan.explain import explain
from tidegauge.plan.plan import Plan
from tidegauge.plan.renewal import stays
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Crashed, Script

if TYPE_CHECKING:
    from pathlib import Path

RENEWS = {"at_most": 1, "renews": "10 microseconds"}
EVERY = {"start": "1970-01-01T00:00:00.000005Z", "every": "5 microseconds", "for": "25 microseconds"}
FROZEN: list[tuple[Any, ...]] = [
    *[(2, f"p{n}", {"ward": "a", "age": 40}) for n in range(6)],
    *[(7, f"p{n}", {"ward": "b", "age": 50}) for n in range(4)],
]
NOISE = {"epsilon": 10**9}


def by_ward(folder: Path, log: list[tuple[Any, ...]], **changes: Any) -> Gauge:
    sql = {"sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward", "groups": {"ward": ["a", "b"]}}
    declared: dict[str, Any] = {
        "constraint": {"at_most": 1},
        "releases": {"wards": {**sql, **EVERY}},
        "budget": NOISE,
    }
    declared |= {"source": Script(COLUMNS, log), "store": folder / "store.db", "now": Clock(1000)}
    return Gauge(**(declared | changes))


def values(one: Gauge, ward: str) -> list[float]:
    readings = [reading for reading in one.published("wards") if reading.group == {"ward": ward}]
    return [round(reading.value or 0) for reading in readings]


def test_frozen_units_count_again_from_the_next_term_on(tmp_path: Path) -> None:
    one = by_ward(tmp_path, FROZEN, constraint=RENEWS | {"renews_from": "1970-01-01T00:00:00.000015Z"})
    list(one.run())
    assert values(one, "a") == [6, 6, 2, 2, 2, 2]
    assert values(one, "b") == [0, 0, 4, 4, 4, 4]


def test_the_operator_sees_the_bias_of_the_latest_reading_and_a_warning(tmp_path: Path) -> None:
    one = by_ward(tmp_path, FROZEN)
    list(one.run())
    report = one.status().whole_error
    assert report is not None
    assert report.since is None
    a, b = report.releases["wards"]
    assert (a.accepted, a.true, a.bias, a.units) == (6, 2, 4, 4)
    assert (b.accepted, b.true, b.bias, b.units) == (0, 4, -4, 4)
    assert report.warnings[0].startswith("wards (a) is 4 above the truth because 4 units passed at_most = 1;")
    shown = printed(one.status().as_json())["whole_error"]
    assert shown["secret"] is True
    assert [row["bias"] for row in shown["releases"]["wards"]] == [4, -4]
    assert json.dumps(shown)


def test_a_warning_about_an_older_reading_says_when_units_were_counted(tmp_path: Path) -> None:
    """One release is read less often than the other; two more units pass at_most after its latest reading."""
    sql = {"sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward", "groups": {"ward": ["a", "b"]}}
    often, rarely = ({**sql, **EVERY, "every": f"{n} microseconds"} for n in (1, 4))
    log = [*FROZEN, *((11, f"p{n}", {"ward": "b", "age": 50}) for n in (4, 5))]
    one = by_ward(tmp_path, log, releases={"often": often, "wards": rarely})
    list(one.run("1970-01-01T00:00:00.000012Z"))
    report = one.status().whole_error
    assert report is not None
    a, _ = report.releases["wards"]
    assert (a.time, a.accepted, a.true, a.units, a.counted) == (9, 6, 2, 6, 12)
    assert a.warning("wards") == (
        "wards (a) is 4 above the truth because units passed at_most = 1 "
        "(6 are off at 1970-01-01T00:00:00.000012Z); noise is ± " + f"{a.noise:,.4g}"
    )


def test_units_with_more_than_max_rows_are_off_too(tmp_path: Path) -> None:
    """Of four units one has rows that wait; of another such one has left; a third is frozen."""
    here, there = {"ward": "a", "age": 40}, {"ward": "b", "age": 40}
    log: list[tuple[Any, ...]] = [
        *((2, f"{unit}{n}", here, unit) for unit, rows in (("u", 4), ("v", 3), ("w", 2), ("x", 1))
          for n in range(rows)),
        (6, "v0", None, "v"),
        *((time, "x0", row, "x") for time, row in ((6, there), (7, here), (8, there))),
        (8, "u3", there, "u"),
    ]  # fmt: skip
    one = by_ward(tmp_path, log, constraint={"at_most": 3}, unit="person", max_rows=2)
    list(one.run())
    report = one.status().whole_error
    assert report is not None
    a, b = report.releases["wards"]
    assert (a.accepted, a.true, a.units) == (7, 7, 2), "u is one short, x one too many"
    assert (b.accepted, b.true, b.units) == (0, 2, 2)
    assert report.warnings[0].startswith(
        "wards (b) is 2 below the truth because 2 units passed at_most = 3 or max_rows = 2;"
    )


def test_means_flows_and_windows_have_a_whole_error_too(tmp_path: Path) -> None:
    releases = {
        "age": {"sql": "SELECT AVG(age) FROM t", "bounds": {"age": [0, 90]}, **EVERY},
        "moved": {"sql": "SELECT COUNT(*) FROM changes(t) WHERE before.ward = 'a'", **EVERY, "for": "ever"},
        "grown": {"sql": "SELECT SUM(age) FROM t", "bounds": {"age": [0, 90]}, **EVERY,
                  "window": "10 microseconds", "for": "ever"},
    }  # fmt: skip
    one = by_ward(tmp_path, FROZEN, releases=releases)
    list(one.run("1970-01-01T00:00:00.000010Z"))
    report = one.status().whole_error
    assert report is not None
    found: dict[str, list[float | None]] = {
        name: [cells[0].accepted, cells[0].true] for name, cells in report.releases.items()
    }
    mean = (4 * 50 + 2 * 40) / 6
    assert found == {"age": [40, mean], "moved": [0, 4], "grown": [6 * 40, 6 * 40 + 4 * 10]}


@pytest.mark.parametrize("name", ["rows_of_people", "encrypted"])
def test_what_an_older_store_dropped_is_not_known(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGAUGE_KEPT_KEY", "")
    unpack(name, tmp_path)
    before = opened(tmp_path / "real", DAYS_BEFORE)
    assert before.status().whole_error is None
    reached = before.status().processed_to
    one = opened(tmp_path / "real", DAYS_BEFORE + 3)
    list(one.run())
    report = one.status().whole_error
    assert report is not None
    assert report.since == reached
    assert one.verify().readings
    file = tmp_path / "real" / "tidegauge.toml"
    fresh = Gauge.from_file(file, store=tmp_path / "fresh.db", now=one._now)
    list(fresh.run())
    again = fresh.status().whole_error
    assert again is not None
    running = [plan.release.name for plan in fresh.plan().releases if plan.release.schedule.span is None]
    assert running
    for release in running:
        ours, theirs = report.releases[release], again.releases[release]
        assert [one.true for one in ours] == [one.true for one in theirs]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[0].__name__}.{step[1]}")
def test_dying_while_a_term_begins_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[type, str]
) -> None:
    constraint = {"at_most": 1, "renews": "7 microseconds"}
    calm = gauge(tmp_path / "calm", Script(COLUMNS, life()), constraint=constraint)
    calm.path.parent.mkdir()
    survive(calm)
    calls, (owner, name) = 0, step
    real = getattr(owner, name)

    def deadly(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        result = real(self, *args, **kwargs)
        if calls in {2, 4, 6, 9}:
            raise Crashed
        return result

    monkeypatch.setattr(owner, name, deadly)
    one = gauge(tmp_path, Script(COLUMNS, life(), size=10), constraint=constraint)
    assert survive(one) > 0
    assert published(one) == published(calm)
    assert one.verify().readings == len(published(calm))
    ours, theirs = one.status().whole_error, calm.status().whole_error
    assert ours is not None
    assert ours == theirs


def test_a_plan_is_certified_for_one_term_and_says_what_several_lose(tmp_path: Path) -> None:
    one = by_ward(tmp_path, FROZEN, constraint={"at_most": 3, "renews": "10 microseconds"}, budget={"rho": 1})
    plan = one.plan()
    assert enforced(plan.program, "wards") == Both(AtMost(5), Within("10 microseconds"))
    assert enforced(plan.program, "wards", terms=5) == Both(AtMost(21), Within("50 microseconds"))
    certify(plan)
    assert "in one term of 10 microseconds" in plan.protects
    assert "everything that it does in one term of 10 microseconds" in " ".join(str(plan).split())
    first, five, ten = stays(plan)
    assert (first.terms, first.loss) == (1, plan.needed)
    assert first.loss < five.loss <= 25 * first.loss
    assert five.loss <= ten.loss <= 100 * first.loss
    shown = printed(plan.as_json())["renewal"]
    assert [row["terms"] for row in shown["stays"]] == [1, 5, 10]
    assert "Renews    every 10 microseconds" in str(plan)


def test_a_running_value_without_an_end_has_an_error_that_does_not_grow(tmp_path: Path) -> None:
    """Also where another strategy has less noise in the first readings: terms of ten years."""
    endless = {"sql": "SELECT COUNT(*) FROM t", "start": "2026-01-01", "every": "1 day", "for": "ever"}
    for renews in ("1 month", "10 years"):
        constraint = {"at_most": 2, "renews": renews}
        one = by_ward(tmp_path, FROZEN, constraint=constraint, releases={"wards": endless}, budget={"rho": 1})
        plan = one.plan()
        certify(plan)
        chosen, *others = plan.releases[0].candidates
        assert chosen == plan.releases[0].chosen
        assert len({round(width, 9) for _, width in chosen.growth}) == 1
        better = [other for other in others if other.half_width_worst < chosen.half_width_worst]
        assert bool(better) == (renews == "10 years")
        assert "the noise never grows" in " ".join(str(plan).split())
        shown = explain(plan, why=True)
        assert "its error does not grow" in shown
        assert ("has less noise at first" in shown) == bool(better)
        assert all(one.lifetime_half_width is not None for stay in stays(plan) for one in stay.alternatives)
    with pytest.raises(SpecError, match="levels"):
        by_ward(tmp_path, FROZEN, releases={"wards": {**endless, "strategy": "levels"}}).plan()


@pytest.mark.parametrize("forged", ["none", "longer", "later"])
def test_forged_terms_are_refused(tmp_path: Path, forged: str) -> None:
    plan = by_ward(tmp_path, FROZEN, constraint=RENEWS, budget={"rho": 1}).plan()
    record = json.loads(json.dumps(plan.record()))
    terms = record["program"]["terms"]
    match forged:
        case "none":
            del record["program"]["terms"]
        case "longer":
            terms["every"] = {"months": 0, "micros": 5}
        case "later":
            terms["start"] += 1000
    with pytest.raises(StoreCorrupt):
        certify(Plan.from_record(record))


def test_a_plan_without_terms_has_the_record_that_it_always_had(tmp_path: Path) -> None:
    assert "terms" not in printed(by_ward(tmp_path, FROZEN).plan().record())["program"]
    assert Plan.from_record(by_ward(tmp_path, FROZEN).plan().record()).program.terms is None


def test_terms_are_committed_with_their_offsets(tmp_path: Path) -> None:
    days = {"sql": "SELECT COUNT(*) FROM t", "start": "2026-01-01", "every": "1 day", "for": "2 years"}
    one = by_ward(
        tmp_path, [], releases={"days": days}, constraint={"at_most": 2, "renews": "1 year"},
        time_zone="Europe/Berlin", budget={"rho": 1},
    )  # fmt: skip
    terms = Plan.from_record(one.plan().record()).program.terms
    assert isinstance(terms, Schedule)
    assert terms.zone is not None
    assert terms.every == Span.parse("1 year")
    assert {ahead // 3_600_000_000 for _, ahead in terms.zone.offsets} == {1, 2}


@pytest.mark.parametrize(
    ("constraint", "own", "said"),
    [
        ({"at_most": 1, "renews_from": "2026-01-01"}, None, "needs 'renews'"),
        ({"at_most": 1}, {"at_most": 2, "renews": "1 year"}, "belongs in"),
        ({"renews": "1 year"}, None, "give at_most"),
        ({"at_most": 1, "renews": "1 year", "renews_from": "2031-01-01"}, None, "must begin by"),
    ],
)
def test_what_cannot_renew_is_refused(
    tmp_path: Path, constraint: dict[str, Any], own: dict[str, Any] | None, said: str
) -> None:
    release = {"sql": "SELECT COUNT(*) FROM t", **EVERY} | ({} if own is None else {"constraint": own})
    with pytest.raises(SpecError, match=said):
        by_ward(tmp_path, FROZEN, constraint=constraint, releases={"wards": release}).plan()


def test_all_bins_of_a_release_by_the_month_can_end_in_one_term(tmp_path: Path) -> None:
    year = {"at_most": 20, "renews": "1 year"}
    months = {"sql": "SELECT COUNT(*) FROM t", "start": "2026-01-01", "every": "1 month", "for": "2 months"}
    plan = by_ward(tmp_path, [], constraint=year, releases={"n": months}, budget={"epsilon": 1}).plan()
    (release,) = plan.releases
    (part,) = release.release.query.components
    found = exposure(release.release, part, enforced(plan.program, "n"), plan.program)
    assert plan.program.terms is not None
    assert release.release.schedule.bin_end(2) < plan.program.terms.bin_end(1)  # all three, in the first year
    assert found.returns_after == release.release.schedule.bins == 3
    assert Levels().sensitivity(found).l1 == 3


def test_levels_of_local_months_count_every_bin_of_a_term(tmp_path: Path) -> None:
    """July and August have 62 days, also where terms begin on the last day of a month in UTC."""
    hours = {"sql": "SELECT COUNT(*) FROM t", "start": "2026-04-20", "every": "6 hours", "for": "200 days"}
    one = by_ward(
        tmp_path, [], releases={"hours": hours}, constraint={"at_most": 2, "renews": "2 months"},
        time_zone="Europe/Berlin", budget={"rho": 1},
    )  # fmt: skip
    plan = one.plan()
    (release,), terms = plan.program.releases, plan.program.terms
    assert terms is not None
    seen = exposure(
        release, release.query.components[0], enforced(plan.program, release.name), plan.program
    ).returns_after
    ends = [release.schedule.bin_end(at) for at in range(release.schedule.bins or 0)]
    most = max(sum(terms.bin_end(n) <= end < terms.bin_end(n + 1) for end in ends) for n in range(3))
    assert seen is not None
    assert most == 62 * 4 <= seen


def test_a_clip_counts_again_in_every_term_of_a_bin(tmp_path: Path) -> None:
    """One change in each of five terms, all in one bin: the stay for five terms costs at least as much."""
    log: list[tuple[Any, ...]] = [(0, "p", {"ward": "a", "age": 40})]
    log += [(10 * n + 3, "p", {"ward": "a", "age": 41 + n}) for n in range(1, 6)]
    flow = {
        "sql": "SELECT COUNT(*) FROM changes(t) WHERE before.age >= 0", "clip": 1, "every": "50 microseconds",
        "start": "1970-01-01T00:00:00.000010Z", "for": "100 microseconds",
    }  # fmt: skip
    constraint = {"at_most": 4, "renews": "10 microseconds"}
    one = by_ward(tmp_path, log, releases={"wards": flow}, constraint=constraint)
    assert [round(reading.value or 0) for reading in one.run()] == [0, 5, 0]
    plan = one.plan()
    (part,) = plan.releases[0].component_plans
    assert isinstance(part.noise, DiscreteLaplace)
    five = next(stay for stay in stays(plan) if stay.terms == 5)
    assert five.loss >= 5 * part.refine / part.noise.scale


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"], ids=["a day of 23 hours", "of 25 hours"])
@pytest.mark.parametrize(("renews", "most", "retire"), [("1 day", 1, False), ("2 days", 2, True)])
@pytest.mark.parametrize("within", [None, "20 days"], ids=["plain", "within longer than a term"])
def test_terms_begin_at_local_midnights_when_the_clock_changes(
    tmp_path: Path, day: str, renews: str, most: int, *, retire: bool, within: str | None
) -> None:
    """Against plain loops over every row.  Changes come at,
    just before and just after local midnights, too."""
    zone, rng = ZoneInfo("Europe/Berlin"), random.Random(f"{day} {renews}")
    first = datetime.fromisoformat(day).replace(tzinfo=zone) - timedelta(days=4)
    midnights = [instant((first + timedelta(days=n)).astimezone(UTC)) for n in range(9)]
    assert len({later - earlier for earlier, later in pairwise(midnights)}) == 2
    log: list[tuple[Any, ...]] = []
    for key in range(12):
        times = {rng.randrange(midnights[0], midnights[-1]) for _ in range(25)}
        times |= {rng.choice(midnights) + rng.choice((-1, 0, 1, HOUR)) for _ in range(6)}
        log += [
            (time, f"p{key}", rng.choice((None, {"ward": "a", "age": 1}, {"ward": "b", "age": 2})))
            for time in times
        ]
    log.sort(key=lambda one: one[:2])
    release = {"sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward", "groups": {"ward": ["a", "b"]},
               "start": f"{first:%Y-%m-%dT%H:%M}", "every": "1 hour", "for": "9 days"}  # fmt: skip
    constraint: dict[str, Any] = {"at_most": most, "renews": renews}
    constraint |= {"renews_from": f"{first:%Y-%m-%dT%H:%M}"} if renews == "2 days" else {}
    constraint |= {"on_excess": "retire"} if retire else {}
    constraint |= {} if within is None else {"within": within}
    one = by_ward(tmp_path, log, releases={"wards": release}, constraint=constraint,
                  time_zone="Europe/Berlin",
                  now=Clock(midnights[-1]))  # fmt: skip
    list(one.run())
    terms = midnights[:: 1 if renews == "1 day" else 2]
    wanted: Counter[tuple[int, str]] = Counter()
    readings = range(midnights[0], midnights[-1] + 1, HOUR)
    for key in {name for _, name, _ in log}:
        life: list[tuple[float, str | None]] = []
        for time, name, row in log:
            if name == key and (row or {}).get("ward") != (life[-1][1] if life else None):
                life.append((time, None if row is None else row["ward"]))
        path = list(accepted(life, most, inf, retire, terms))
        for reading in readings:
            ward = [None, *(cell for time, cell in path if time <= reading)][-1]
            if ward is not None:
                wanted[reading, ward] += 1
    found = {
        (instant(each.time), each.group["ward"]): round(each.value or 0)
        for each in one.published("wards")
        if each.group is not None
    }
    assert found == {(reading, ward): wanted[reading, ward] for reading in readings for ward in "ab"}
    assert any(found.values())

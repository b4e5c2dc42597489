"""Gauges whose constraint renews, and the whole error that the operator sees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.printed import printed
from tests.recovery.test_crashes import STEPS, published, survive
from tests.run.gauge_life import COLUMNS, gauge, life
from tests.stores.keep import opened, unpack
from tests.stores.worlds import DAYS_BEFORE
from tidegauge.errors import SpecError, StoreCorrupt
from tidegauge.mechanism.strategies.levels import Levels
from tidegauge.model.constraint import AtMost, Both, Within
from tidegauge.model.quantity import Span
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
    return Gauge(
        source=Script(COLUMNS, log), store=folder / "store.db", now=Clock(1000), **(declared | changes)
    )


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


def test_units_with_more_than_max_rows_are_off_too(tmp_path: Path) -> None:
    """Of four units one has rows that wait; of another such one has left; a third is frozen."""
    here, there = {"ward": "a", "age": 40}, {"ward": "b", "age": 40}
    log: list[tuple[Any, ...]] = [
        *((2, f"{unit}{n}", here, unit) for unit, rows in (("u", 4), ("v", 3), ("w", 2), ("x", 1)) for n in range(rows)),
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

"""Other windows of what a release measures: declared, planned, published and proved, at no further loss."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.printed import printed
from tidegauge.errors import PlanChanged, SpecError, StoreCorrupt
from tidegauge.mechanism.noise.samplers import SimulationSampler
from tidegauge.plan.explain import explain
from tidegauge.plan.plan import Plan
from tidegauge.plan.planner import make_plan
from tidegauge.plan.spec.declaration import GaugeSpec
from tidegauge.publish.journal import decodings, measured_rows
from tidegauge.run.gauge import Gauge
from tidegauge.store.store import Store
from tidegauge.testing import Clock, Crash, Crashed, Script

EXACT: dict[str, Any] = {"epsilon": 10**9}
PURE: dict[str, Any] = {"epsilon": 1}
GAUSSIAN: dict[str, Any] = {"rho": "0.5"}
START, EVERY, READINGS = 4, 2, 12
"""The first reading, how far apart they are, and how many there are; in microseconds."""
TIMES: dict[str, Any] = {
    "start": f"1970-01-01T00:00:00.00000{START}Z",
    "every": f"{EVERY} microseconds",
    "for": f"{(READINGS - 1) * EVERY} microseconds",
}
WARDS: dict[str, Any] = {
    "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward",
    "groups": {"ward": ["a", "b"]},
    **TIMES,
}
COUNT: dict[str, Any] = {"sql": "SELECT COUNT(*) FROM t", **TIMES}
AGES: dict[str, Any] = {"sql": "SELECT SUM(age) FROM t", "bounds": {"age": [0, 90]}, **TIMES}
MEAN: dict[str, Any] = {"sql": "SELECT AVG(age) FROM t", "bounds": {"age": [0, 90]}, **TIMES}
MOVED: dict[str, Any] = {
    "sql": "SELECT COUNT(*) FROM changes(t) WHERE before.ward = 'a' AND after.ward = 'b'",
    **TIMES,
}


def over(of: str, micros: int) -> dict[str, Any]:
    return {"of": of, "window": f"{micros} microseconds"}


def life() -> list[tuple[Any, ...]]:
    """One mutation after the other: who comes, moves between wards and goes."""
    rng, log = random.Random(4), []
    for n in range(90):
        ward = rng.choice(["a", "a", "b", None])
        row = None if ward is None else {"ward": ward, "age": (n * 31) % 90}
        log.append((n // 3, f"p{n * 7 % 5}", row))
    return log


def gauge(folder: Path, budget: dict[str, Any], *, script: list[Any] | None = None, **releases: Any) -> Gauge:
    folder.mkdir(exist_ok=True)
    return Gauge(
        source=Script({"ward": "VARCHAR", "age": "BIGINT"}, life() if script is None else script, size=10),
        constraint={"at_most": 40},
        budget=budget,
        releases=releases,
        store=folder / "store.db",
        now=Clock(1000),
        sampler=SimulationSampler(3),
    )


class World:
    """What is true at any time, by hand."""

    def __init__(self) -> None:
        self.people: list[dict[str, Any]] = []
        self.moved: list[int] = []
        rows: dict[str, Any] = {}
        moved, log = 0, life()
        for time in range(START + READINGS * EVERY):
            for _, who, row in (item for item in log if item[0] == time):
                before = rows.get(who)
                moved += bool(before and row and before["ward"] == "a" and row["ward"] == "b")
                rows[who] = row
            self.people.append({who: row for who, row in rows.items() if row})
            self.moved.append(moved)

    def count(self, time: int, ward: str | None = None) -> int:
        return sum(row["ward"] == (ward or row["ward"]) for row in self.at(self.people, time, {}).values())

    def ages(self, time: int) -> int:
        return sum(row["age"] for row in self.at(self.people, time, {}).values())

    def flow(self, time: int) -> int:
        return int(self.at(self.moved, time, 0))

    @staticmethod
    def at(series: list[Any], time: int, before: Any) -> Any:
        return series[time] if time >= 0 else before


TRUTH = World()


def said(one: Gauge, release: str, ward: str | None = None) -> dict[int, float | None]:
    """Values by their time."""
    group = None if ward is None else {"ward": ward}
    return {r.time.microsecond: r.value for r in one.published(release) if r.group == group}


def due(window: int, *, measured_from: int = START) -> list[int]:
    """Reading times whose window lies inside what was measured."""
    times = [START + EVERY * n for n in range(READINGS)]
    return [time for time in times if time - window >= measured_from]


# -- what is published ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [EXACT, {"rho": 10**12}], ids=["pure", "gaussian"])
def test_without_noise_derived_readings_are_the_exact_changes(tmp_path: Path, budget: dict[str, Any]) -> None:
    one = gauge(
        tmp_path,
        budget,
        wards=WARDS,
        two={"of": "wards", "window": "2 microseconds"},
        six=over("wards", 6),
        longest=over("wards", (READINGS - 1) * EVERY),
        ages=AGES,
        ages_change=over("ages", 4),
        moved=MOVED,
        moved_in_6=over("moved", 6),
        moved_so_far={"of": "moved"},
    )
    yielded = list(one.run())
    for name, window in (("two", 2), ("six", 6), ("longest", 22)):
        for ward in ("a", "b"):
            wanted = {t: TRUTH.count(t, ward) - TRUTH.count(t - window, ward) for t in due(window)}
            assert said(one, name, ward) == pytest.approx(wanted, abs=1e-4)
    assert len(due(22)) == 1
    assert said(one, "ages_change") == pytest.approx(
        {t: TRUTH.ages(t) - TRUTH.ages(t - 4) for t in due(4)}, abs=0.1
    )
    assert said(one, "moved_in_6") == pytest.approx(
        {t: TRUTH.flow(t) - TRUTH.flow(t - 6) for t in due(6)}, abs=1e-4
    )
    assert said(one, "moved_so_far") == pytest.approx({t: TRUTH.flow(t) for t in due(0)}, abs=1e-4)
    assert TRUTH.flow(26) > TRUTH.flow(4) > 0
    assert sorted(map(str, yielded)) == sorted(map(str, one.published()))
    assert one.readings("six").num_rows == 2 * len(due(6))
    assert one.verify().readings == len(yielded)


@pytest.mark.parametrize("window", [1, 2, 3, 5, 8])
def test_of_a_sliding_release_other_windows_can_be_told(tmp_path: Path, window: int) -> None:
    """Bins of one microsecond, from a window before the start on."""
    one = gauge(
        tmp_path,
        EXACT,
        five={**COUNT, "window": "5 microseconds"},
        other=over("five", window + 5 * (window == 5)),
    )
    window += 5 * (window == 5)
    list(one.run())
    wanted = {t: TRUTH.count(t) - TRUTH.count(t - window) for t in due(window, measured_from=START - 5)}
    assert said(one, "other") == pytest.approx(wanted, abs=1e-4)
    assert one.verify().readings == READINGS + len(wanted)


def test_of_an_endless_release_and_of_one_whose_window_is_its_period(tmp_path: Path) -> None:
    ever = {key: value for key, value in COUNT.items() if key != "for"}
    one = gauge(
        tmp_path,
        EXACT,
        now=ever,
        now_change=over("now", 6),
        each={**ever, "window": "2 microseconds"},
        each_so_far={"of": "each"},
        each_change=over("each", 8),
    )
    last = START + (READINGS - 1) * EVERY
    list(one.run(until=f"1970-01-01T00:00:00.0000{last}Z"))
    assert said(one, "now_change") == pytest.approx(
        {t: TRUTH.count(t) - TRUTH.count(t - 6) for t in due(6)}, abs=1e-4
    )
    assert said(one, "each_change") == pytest.approx(
        {t: TRUTH.count(t) - TRUTH.count(t - 8) for t in due(8)}, abs=1e-4
    )
    assert said(one, "each_so_far") == pytest.approx({t: TRUTH.count(t) for t in due(0)}, abs=1e-4)
    assert "at no further privacy loss (errors over the first 1,000 readings):" in explain(
        one.plan(), why=True
    )
    chosen = printed(one.plan().as_json())["releases"]["now_change"]["chosen"]
    assert [reading for reading, _ in chosen["growth"]] == [1, 10, 100, 1000]
    state = printed(one.status().as_json())["releases"]
    assert state["now"]["readings"] == READINGS
    assert state["now_change"] == {
        "readings": READINGS - 3,
        "readings_total": None,
        "next": state["now"]["next"],
    }


STRATEGIES = [
    (GAUSSIAN, "disjoint"),
    (GAUSSIAN, "hierarchy"),
    (GAUSSIAN, "toeplitz"),
    (GAUSSIAN, "damped"),
    (GAUSSIAN, "buffered"),
    (GAUSSIAN, "epochs"),
    (PURE, "disjoint"),
    (PURE, "hierarchy"),
    (PURE, "autoregressive"),
    (PURE, "epochs"),
]


@pytest.mark.parametrize(("budget", "strategy"), STRATEGIES, ids=str)
def test_a_change_is_the_difference_of_what_is_known_by_then(
    tmp_path: Path, budget: dict[str, Any], strategy: str
) -> None:
    ends = {"for": "ever"} if strategy == "epochs" else {}
    one = gauge(tmp_path, budget, wards={**WARDS, "strategy": strategy, **ends}, six=over("wards", 6))
    list(one.run(until="1970-01-01T00:00:00.000026Z"))
    plan = one.plan()
    own, six = plan.series["wards"], plan.series["six"]
    component_plan = own.plan.component_plans[0]
    with Store(one.path) as store:
        measured = decodings(own.plan, measured_rows(store.public, own.plan))
        published = {(p.number, p.cell): p for p in store.public.readings("six")}
        plain = {(p.number, p.cell): p.value or 0.0 for p in store.public.readings("wards")}
    assert sorted(published) == [(number, cell) for number in range(3, READINGS) for cell in (0, 1)]
    for number in range(3, READINGS):
        now = own.decoder.estimates(own.windows([number]), measured).values[0]
        before = own.decoder.estimates(own.windows([number - 3], through=number), measured).values[0]
        spread = (
            component_plan.strategy.variances(np.array([number]), six.span)[0] * component_plan.noise.variance
        )
        for cell in (0, 1):
            reading = published[number, cell]
            assert reading.value == pytest.approx(now[cell] - before[cell])
            assert reading.stderr == pytest.approx(np.sqrt(spread) / component_plan.refine, rel=1e-3)
            assert reading.low < (reading.value or 0) < reading.high
            if strategy != "hierarchy" and own.plan.chosen.parameters.get("branching", 0) == 0:
                # each level is decoded once and for all, so published changes are differences of published
                # levels
                assert reading.value == pytest.approx(plain[number, cell] - plain[number - 3, cell])


def test_smoothed_changes_are_nearer_and_consistent_ones_stay(tmp_path: Path) -> None:
    one = gauge(
        tmp_path,
        GAUSSIAN,
        wards={**WARDS, "strategy": "hierarchy"},
        six=over("wards", 6),
        moved=MOVED,
        so_far={"of": "moved"},
    )
    list(one.run())
    online, smoothed = one.published("six"), one.published("six", smoothed=True)
    assert [(r.time, r.group) for r in online] == [(r.time, r.group) for r in smoothed]
    assert all((s.stderr or 0) <= (o.stderr or 0) * (1 + 1e-9) for o, s in zip(online, smoothed, strict=True))
    assert any((s.stderr or 0) < (o.stderr or 0) * 0.99 for o, s in zip(online, smoothed, strict=True))
    consistent = one.published("six", consistent=True)
    assert [(r.value, r.bias) for r in consistent] == [(r.value, 0.0) for r in online]
    assert any((r.value or 0) < 0 for r in consistent)
    assert all((r.value or 0) >= 0 for r in one.published("so_far", consistent=True))


# -- what it costs, and what is committed --------------------------------------------------------------------


def test_nothing_is_spent_or_measured_for_what_is_derived(tmp_path: Path) -> None:
    plain = gauge(tmp_path / "plain", GAUSSIAN, wards=WARDS, moved=MOVED)
    also = gauge(
        tmp_path / "also", GAUSSIAN, wards=WARDS, moved=MOVED, six=over("wards", 6), so_far={"of": "moved"}
    )
    for one in (plain, also):
        list(one.run())
    bare, more = plain.plan(), also.plan()
    assert more.needed == bare.needed == more.total
    assert more.program == bare.program
    assert more.releases == bare.releases
    assert [entry.body.releases for entry in also.ledger()] == [
        entry.body.releases for entry in plain.ledger()
    ]
    with Store(plain.path) as one_store, Store(also.path) as other:
        assert one_store.public.measured("wards", 1) == other.public.measured("wards", 1)
        assert other.public.measured("six", 1) == ((),)
        assert one_store.public.readings("wards") == other.public.readings("wards")
    assert also.verify().measurements == plain.verify().measurements


def test_the_plan_tells_how_well_it_is_told(tmp_path: Path) -> None:
    one = gauge(tmp_path, GAUSSIAN, wards=WARDS, six=over("wards", 6), moved=MOVED, so_far={"of": "moved"})
    plan = one.plan()
    shown = printed(plan.as_json())["releases"]
    assert list(shown) == ["wards", "six", "moved", "so_far"]
    six = shown["six"]
    assert six["of"] == "wards"
    assert six["promise"] == shown["wards"]["promise"]
    assert six["schedule"].endswith(
        "from 1970-01-01T00:00:00.000010Z, 9 readings, change over 6 microseconds"
    )
    assert set(six["chosen"]) == set(shown["wards"]["chosen"])
    assert [c["strategy"] for c in six["candidates"]] == [c["strategy"] for c in shown["wards"]["candidates"]]
    assert {c["rho"] for c in six["candidates"]} == {0.0}
    for key in ("strategy", "parameters", "noise", "memory", "adaptive"):
        assert six["chosen"][key] == shown["wards"]["chosen"][key]
    halves = [plan.series["six"].decoder.error(0, bin_).half_width(0.95) for bin_ in range(3, READINGS)]
    assert six["chosen"]["half_width_worst"] == pytest.approx(max(halves), rel=1e-3)
    assert six["chosen"]["half_width_mean"] == pytest.approx(sum(halves) / len(halves), rel=1e-3)
    text = explain(plan, why=True)
    text = text[text.index("wards: running value") :]
    line = next(line for line in text.splitlines() if line.lstrip().startswith("six "))
    assert "change over 6 microseconds" in line
    assert f"± {max(halves):,.4g}" in line
    assert text.index("wards:") < text.index(line) < text.index("moved:")
    assert "running total" in text
    why = explain(plan, why=True)
    assert "six would have a worst error so many times as large: " in why
    assert "The strategy is chosen for the error of wards; derived series count half as much." in why


def test_a_plan_goes_through_its_record_and_an_old_one_is_still_read(tmp_path: Path) -> None:
    plan = gauge(
        tmp_path, GAUSSIAN, wards=WARDS, six=over("wards", 6), moved=MOVED, so_far={"of": "moved"}
    ).plan()
    record = json.loads(json.dumps(plan.record(), sort_keys=True))
    again = Plan.from_record(record)
    assert again.hash == plan.hash
    assert again.derived == plan.derived
    old = Plan.from_record({key: value for key, value in record.items() if key != "derived"})
    assert old == replace(plan, derived=(), releases=old.releases, declaration=old.declaration)
    assert "derived" not in old.record()
    assert list(old.series) == ["wards", "moved"]


def test_what_is_derived_cannot_be_changed_later(tmp_path: Path) -> None:
    list(gauge(tmp_path, EXACT, wards=WARDS, six=over("wards", 6)).run())
    cases: list[tuple[dict[str, Any], str]] = [
        ({"six": over("wards", 8)}, r"release\.six\.window: was changed from 6 microseconds to 8"),
        ({}, r"release\.six: was removed"),
        ({"six": over("wards", 6), "two": over("wards", 2)}, r"release\.two: was added"),
    ]
    for releases, changed in cases:
        with pytest.raises(PlanChanged, match=changed):
            list(gauge(tmp_path, EXACT, wards=WARDS, **releases).run())


def test_a_restart_publishes_each_once_and_the_same(tmp_path: Path) -> None:
    script: list[Any] = [
        item for n, row in enumerate(life()) for item in ([Crash()] if n % 20 == 7 else []) + [row]
    ]
    releases: dict[str, Any] = {
        "wards": WARDS,
        "six": over("wards", 6),
        "moved": MOVED,
        "so_far": {"of": "moved"},
    }
    one = gauge(tmp_path, PURE, script=script, **releases)
    seen: list[dict[str, Any]] = []
    deaths = 0
    while True:
        try:
            list(one.run())
            break
        except Crashed:
            deaths += 1
            now = [reading.as_json() for reading in one.published()]
            assert [row for row in now if row in seen] == seen
            wards, six = ({row["time"] for row in now if row["release"] == name} for name in ("wards", "six"))
            assert len(six) == max(0, len(wards) - 3)
            seen = now
    assert deaths == 4
    assert any(row["release"] == "six" for row in seen)
    calm = gauge(tmp_path / "calm", PURE, **releases)
    list(calm.run())
    places = [[(r.release, r.time, r.group, r.stderr) for r in which.published()] for which in (one, calm)]
    assert places[0] == places[1]
    assert one.verify().readings == len(places[0])


def test_a_derived_reading_that_was_altered_is_found(tmp_path: Path) -> None:
    one = gauge(tmp_path, PURE, wards=WARDS, six=over("wards", 6))
    list(one.run())
    one.verify()
    with Store(one.path, write=True) as store:
        store._file.connection.execute(
            "UPDATE readings SET value = value + 1 WHERE release = 'six' AND number = 5"
        )
        store._file.connection.commit()
    with pytest.raises(StoreCorrupt, match="readings of 'six' do not follow from the journal"):
        one.verify()


# -- what is refused -----------------------------------------------------------------------------------------

KEYS: dict[str, Any] = {
    "sql": "SELECT COUNT(*) FROM t",
    "groups": {"ward": ["a"]},
    "bounds": {"age": [0, 1]},
    "grid": {"age": 1},
    "start": "2026-01-01",
    "for": "ever",
    "share": "0.5",
    "weight": 2,
    "minimise": "mean",
    "parts_of": "now",
    "strategy": "hierarchy",
    "clip": 2,
    "constraint": {"at_most": 2},
}


def refused(**releases: Any) -> str:
    with pytest.raises(SpecError) as refusal:
        GaugeSpec.parse({"source": {"kind": "object", "table": "t"}, "budget": PURE, "release": releases})
    return str(refusal.value)


@pytest.mark.parametrize("key", KEYS)
def test_no_other_key_goes_with_of(key: str) -> None:
    message = refused(now=COUNT, six={**over("now", 6), key: KEYS[key]})
    assert message == (
        f"release.six.{key}: does not go with 'of': what is derived is decoded from what another release "
        "measures, and takes 'of', 'window' and 'every' alone"
    )


def test_every_key_of_a_release_is_refused_beside_of() -> None:
    from tidegauge.plan.spec.declaration import ReleaseSpec

    assert {field.alias or name for name, field in ReleaseSpec.model_fields.items()} == {
        *KEYS,
        "window",
        "every",
    }


@pytest.mark.parametrize(
    ("releases", "message"),
    [
        ({"six": over("wards", 6)}, "release.six.of: there is no release 'wards'; there is 'now'"),
        (
            {"six": over("now", 6), "two": over("six", 2)},
            "release.two.of: 'six' is derived itself; name a release with an sql of its own",
        ),
        ({"six": over("six", 6)},
         "release.six.of: 'six' is derived itself; name a release with an sql of its own"),
        (
            {"six": over("now", 6), "parts": {**WARDS, "parts_of": "six"}},
            "release.parts.parts_of: 'six' is derived itself; name a release with an sql of its own",
        ),
        ({"six": {"of": "now", "windw": "6 days"}},
         "release.six.windw: is not a key here; did you mean 'window'?"),
        ({"six": {**COUNT, "off": "now"}}, "release.six.off: is not a key here; did you mean 'of'?"),
        ({"six": {"of": ""}}, "release.six.of: is empty; fill it in"),
        ({"six": {"of": 6}}, "release.six.of: must be a text in quotes"),
        (
            {"six": {"of": "now", "window": "soon"}},
            "release.six.window: 'soon' is not a duration (write '1 day', '90 minutes', '2 years')",
        ),
    ],
)  # fmt: skip
def test_what_a_declaration_may_not_say(releases: dict[str, Any], message: str) -> None:
    assert refused(now=COUNT, **releases) == message


SLIDING = {**COUNT, "window": "5 microseconds"}
MONTHLY = {"sql": "SELECT COUNT(*) FROM t", "start": "2026-01-01", "every": "1 month", "for": "1 year"}


@pytest.mark.parametrize(
    ("of", "derived", "message"),
    [
        (
            MEAN,
            over("it", 6),
            "release.six.of: 'it' is a mean, and the change of a mean does not follow from changes of its "
            "sum and count over "
            "a window. Derive from a release whose aggregate adds up, such as COUNT or SUM",
        ),
        (
            COUNT,
            {"of": "it"},
            "release.six.window: the running value is what 'it' itself publishes; name another window",
        ),
        (
            MOVED,
            over("it", 2),
            "release.six.window: the change over 2 microseconds is "
            "what 'it' itself publishes; name another window",
        ),
        (
            SLIDING,
            {"of": "it"},
            "release.six.window: is missing, and 'it' has no running value: it measures changes, and not "
            "what was there before the first. Name a window, or derive from a release without one",
        ),
        (
            COUNT,
            over("it", 5),
            "release.six.window: must be a whole multiple of 2 microseconds, in which the release is "
            "measured: '4 microseconds' or '6 microseconds' would fit",
        ),
        (
            COUNT,
            over("it", 1),
            "release.six.window: must be a whole multiple of 2 microseconds, in which the "
            "release is measured: '2 microseconds' would fit",
        ),
        (
            COUNT,
            {"of": "it", "window": "1 month"},
            "release.six.window: must be a whole multiple of 2 microseconds, in which the release is "
            "measured",
        ),
        (
            MONTHLY,
            {"of": "it", "window": "7 days"},
            "release.six.window: must be a whole multiple of 1 month, in which the release is measured",
        ),
        (
            MONTHLY,
            {"of": "it", "window": "13 months"},
            "release.six.window: 13 months is longer than all that 'it' measures; at most '1 year' fits",
        ),
        (
            COUNT,
            over("it", 24),
            "release.six.window: 24 microseconds is longer than all that "
            "'it' measures; at most '22 microseconds' fits",
        ),
        (
            SLIDING,
            over("it", 28),
            "release.six.window: 28 microseconds is longer than all that "
            "'it' measures; at most '27 microseconds' fits",
        ),
        (
            {**COUNT, "for": "1 microsecond"},
            over("it", 2),
            "release.six.window: 2 microseconds is longer than all "
            "that 'it' measures, which is a single reading",
        ),
        (
            {**SLIDING, "strategy": "sliding"},
            over("it", 6),
            "release.six.of: strategy 'sliding' measures the windows of 'it' alone and no other. Pin "
            "another strategy there, or leave it to the planner",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_derived(
    tmp_path: Path, of: dict[str, Any], derived: dict[str, Any], message: str
) -> None:
    one = gauge(tmp_path, PURE, it=of, six=derived)
    with pytest.raises(SpecError) as refusal:
        one.plan()
    assert str(refusal.value) == message
    assert not one.path.exists()


def test_the_longest_window_of_a_sliding_release_can_be_told(tmp_path: Path) -> None:
    plan = gauge(tmp_path, PURE, it=SLIDING, longest=over("it", 27)).plan()
    assert plan.series["longest"].timetable.count == 1


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
def test_a_strategy_that_cannot_tell_it_is_not_considered(tmp_path: Path, budget: dict[str, Any]) -> None:
    alone = gauge(tmp_path, budget, it=SLIDING).plan().releases[0]
    both = gauge(tmp_path, budget, it=SLIDING, six=over("it", 6)).plan().releases[0]
    assert "sliding" in {one.strategy for one in alone.candidates}
    kept = [one for one in alone.candidates if one.strategy != "sliding"]
    assert list(both.candidates) == kept
    assert both.chosen == min(both.candidates, key=lambda one: one.half_width_worst)


def test_an_optimum_for_one_window_is_not_taken_where_it_tells_nothing_of_another() -> None:
    """Four weeks have the least error with a matrix that is bad at six."""
    weekly = {"sql": "SELECT COUNT(*) FROM t", "start": "2026-01-01", "every": "1 week", "for": "30 weeks"}
    release = {**weekly, "window": "4 weeks"}

    def plan(**releases: Any) -> Plan:
        spec = {
            "source": {"kind": "object", "table": "t"},
            "budget": {"rho": "0.01"},
            "constraint": {"at_most": 2},
            "release": releases,
        }
        return make_plan(GaugeSpec.parse(spec), table="t", columns={"c": "VARCHAR"}, now=0)

    assert plan(four=release).releases[0].chosen.strategy == "dense"
    both = plan(four=release, six={"of": "four", "window": "6 weeks"})
    chosen, derived = both.releases[0].chosen, both.derived[0]
    assert chosen.strategy != "dense"
    least = min(one.half_width_worst for one in both.releases[0].candidates)
    assert chosen.half_width_worst < 1.1 * least
    assert derived.chosen.half_width_worst < 2 * min(one.half_width_worst for one in derived.candidates)

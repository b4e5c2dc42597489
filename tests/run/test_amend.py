"""Gauges that grow: releases that are added against a reserve, and everything that is refused."""

from __future__ import annotations

import shutil
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from tests.recovery.test_crashes import STEPS, published, survive
from tests.run.growing import ADDED, BY_WARD, COLUMNS, FIRST, OLD, RESERVE, at, growing, moves, old_people
from tidegauge.errors import BudgetExceeded, PlanChanged, QueryError, SpecError, StoreBehind, StoreCorrupt
from tidegauge.plan.grow import all_certified
from tidegauge.store.public.ledger import Ledger
from tidegauge.store.public.shared import SharedLedger, Terms
from tidegauge.store.store import Store
from tidegauge.testing import Crashed, Script

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.run.gauge import Gauge

LOG = moves()
BOTH = FIRST | ADDED
NOISY = {"rho": "1/2", "reserve": "0.4"}


def amended(folder: Path, added: dict[str, Any] = ADDED, *, when: int = 22, **changes: Any) -> Gauge:
    """A gauge that ran until then and to which releases were added."""
    list(growing(folder, LOG, when, **changes).run())
    growing(folder, LOG, when, releases=FIRST | added, **changes).amend()
    return growing(folder, LOG, 60, releases=FIRST | added, **changes)


def values(one: Gauge, release: str) -> list[int]:
    return [round(reading.value or 0) for reading in one.published(release)]


def test_an_added_release_begins_with_the_rows_as_they_are(tmp_path: Path) -> None:
    one = amended(tmp_path)
    list(one.run())
    assert values(one, "old") == old_people(LOG, range(25, 51, 5), since=25)
    assert one.verify().ledger_entries == 2
    assert one.status().releases["old"].readings == 6


def test_the_first_releases_go_on_as_if_nothing_had_been_added(tmp_path: Path) -> None:
    (tmp_path / "calm").mkdir()
    calm = growing(tmp_path / "calm", LOG, 60)
    list(calm.run())
    one = amended(tmp_path)
    list(one.run())
    assert [row for row in published(one) if row["release"] == "wards"] == published(calm)


@pytest.mark.parametrize("size", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_batches_may_be_cut_anywhere(tmp_path: Path, size: int) -> None:
    amended(tmp_path)
    one = growing(tmp_path, LOG, 60, releases=BOTH, source=Script(COLUMNS, LOG, size=size))
    list(one.run())
    assert values(one, "old") == old_people(LOG, range(25, 51, 5), since=25)


@pytest.mark.parametrize(
    "passes",
    [(23, 24, 25, 26, 60), *(pytest.param(one, marks=pytest.mark.slow) for one in [(24, 60), (25, 60)])],
)
def test_the_clock_may_be_read_anywhere(tmp_path: Path, passes: tuple[int, ...]) -> None:
    amended(tmp_path)
    for now in passes:
        one = growing(tmp_path, LOG, now, releases=BOTH)
        list(one.run())
    assert values(one, "old") == old_people(LOG, range(25, 51, 5), since=25)


def test_changes_of_an_added_release_are_counted_from_its_own_beginning(tmp_path: Path) -> None:
    log = [(n, "p", {"ward": "a", "age": 40 + 20 * (n % 2)}) for n in range(1, 40)]
    list(growing(tmp_path, log, 22, constraint={"at_most": 2}).run())
    growing(tmp_path, log, 22, releases=BOTH, constraint={"at_most": 2}).amend()
    one = growing(tmp_path, log, 60, releases=BOTH, constraint={"at_most": 2})
    list(one.run())
    assert values(one, "old") == old_people(log, range(25, 51, 5), since=25, most=2)


def test_several_amendments_each_from_what_is_left(tmp_path: Path) -> None:
    list(growing(tmp_path, LOG, 22, budget=NOISY).run())
    declared = dict(FIRST)
    for n, share in enumerate(("0.1", "0.25")):
        # the second is committed later and begins earlier
        declared[f"old{n}"] = {**OLD, **at(40 - 10 * n, lasting=10), "share": share}
        growing(tmp_path, LOG, 23, releases=dict(declared), budget=NOISY).amend()
    one = growing(tmp_path, LOG, 60, releases=dict(declared), budget=NOISY)
    plan = one.plan()
    assert [float(part.needed) for part in plan.parts] == [0.3, 0.05, 0.125]
    assert plan.held_back == Fraction(1, 40)
    declared["more"] = {**OLD, **at(50, lasting=5), "share": "0.06"}
    with pytest.raises(BudgetExceeded, match=r"needs rho = 3/100; the ledger has 1/40 left") as refused:
        growing(tmp_path, LOG, 23, releases=declared, budget=NOISY).amend()
    assert refused.value.left == Fraction(1, 40)
    list(one.run())
    assert len(one.published("old0")) == len(one.published("old1")) == 3
    assert one.verify().ledger_entries == 3


def test_the_plan_that_begins_first_comes_first_in_the_state(tmp_path: Path) -> None:
    list(growing(tmp_path, LOG, 22).run())
    late = {"late": {**OLD, **at(40, lasting=10), "share": "0.1"}}
    soon = {"soon": {**OLD, **at(30, lasting=20), "share": "0.1"}}
    growing(tmp_path, LOG, 22, releases=FIRST | late).amend()
    list(growing(tmp_path, LOG, 25, releases=FIRST | late).run())
    growing(tmp_path, LOG, 25, releases=FIRST | late | soon).amend()
    for now in (33, 60):
        one = growing(tmp_path, LOG, now, releases=FIRST | late | soon)
        list(one.run())
    assert values(one, "soon") == old_people(LOG, range(30, 51, 5), since=30)
    assert values(one, "late") == old_people(LOG, range(40, 51, 5), since=40)


def test_releases_without_shares_take_what_is_left_and_then_nothing_is(tmp_path: Path) -> None:
    one = amended(tmp_path, budget=NOISY)
    assert one.plan().held_back == 0
    more = BOTH | {"more": {**OLD, **at(50, lasting=5)}}
    with pytest.raises(BudgetExceeded, match="more needs a part of the budget, and nothing is left"):
        growing(tmp_path, LOG, 22, releases=more, budget=NOISY).amend()


def test_the_first_plan_leaves_the_reserve(tmp_path: Path) -> None:
    plan = growing(tmp_path, LOG, 22, budget=NOISY).plan()
    assert (plan.total, plan.needed, plan.held_back) == (Fraction(1, 2), Fraction(3, 10), Fraction(1, 5))
    wards = {"wards": {**FIRST["wards"], "share": "0.7"}}
    with pytest.raises(BudgetExceeded, match=r"needs share = 7/10; the ledger has 3/5 left"):
        growing(tmp_path, LOG, 22, budget=NOISY, releases=wards).plan()
    assert "40% is held back for releases that are added later" in str(plan).replace("\n          ", " ")


def test_a_declared_share_is_one_of_the_whole_budget(tmp_path: Path) -> None:
    wards = {"wards": {**FIRST["wards"], "share": "0.5"}}
    assert growing(tmp_path, LOG, 22, budget=NOISY, releases=wards).plan().needed == Fraction(1, 4)


def test_a_release_that_has_ended_is_declared_again_under_another_name(tmp_path: Path) -> None:
    list(growing(tmp_path, LOG, 60).run())
    longer = {"wards": {**FIRST["wards"], **at(5, lasting=90)}}
    with pytest.raises(PlanChanged, match=r"has ended, or .* declare it again under another name"):
        growing(tmp_path, LOG, 60, releases=longer).amend()
    again = FIRST | {"wards_again": {**BY_WARD, **at(60, lasting=10)}}
    growing(tmp_path, LOG, 60, releases=again).amend()
    one = growing(tmp_path, [*LOG, (65, "new", {"ward": "a", "age": 1})], 80, releases=again)
    list(one.run())
    counts = [reading.value for reading in one.published("wards_again")]
    last = {entry: row for _, entry, row in LOG}
    true = [sum(1 for row in last.values() if row is not None and row["ward"] == ward) for ward in "ab"]
    assert counts == pytest.approx([*true, true[0] + 1, true[1], true[0] + 1, true[1]])


def test_without_a_declared_start_it_is_the_next_round_time(tmp_path: Path) -> None:
    list(growing(tmp_path, LOG, 22).run())
    added = {
        "soon": {**OLD, "every": "10 microseconds", "for": "20 microseconds"},
        "window": {**OLD, "every": "5 microseconds", "window": "10 microseconds", "for": "10 microseconds"},
    }
    one = growing(tmp_path, LOG, 22, releases=FIRST | added)
    schedules = {release.release.name: release.release.schedule for release in one.amendment().releases}
    assert (schedules["soon"].start, schedules["soon"].bin_end(0)) == (30, 30)
    assert (schedules["window"].start, schedules["window"].bin_end(0)) == (35, 25)
    one.amend()
    one = growing(tmp_path, LOG, 60, releases=FIRST | added)
    list(one.run())
    count = dict(zip(range(25, 46, 5), old_people(LOG, range(25, 46, 5), since=25), strict=True))
    assert values(one, "window") == [count[35] - count[25], count[40] - count[30], count[45] - count[35]]


def test_flows_and_windows_means_and_rows_of_people_can_be_added(tmp_path: Path) -> None:
    """All of it the same as a gauge gives that starts with the rows of that moment."""
    log = [(time, key, row, f"u{hash_of(key)}") for time, key, row in LOG]
    owned = {"unit": "who", "max_rows": 2, "constraint": {"at_most": 3, "on_excess": "retire"}}
    added = {
        "moved": {"sql": "SELECT COUNT(*) FROM changes(t) WHERE after.ward = 'b'", **at(25, lasting=25)},
        "mean": {"sql": "SELECT AVG(age) FROM t", "bounds": {"age": [0, 99]}, **at(25, lasting=25)},
        "by": {**BY_WARD, **at(25, lasting=25), "constraint": {"by": "ward", "cases": {"a": {"at_most": 2}}}},
    }
    (tmp_path / "fresh").mkdir()
    list(growing(tmp_path, log, 22, **owned).run())
    growing(tmp_path, log, 22, releases=FIRST | added, **owned).amend()
    one = growing(tmp_path, log, 60, releases=FIRST | added, **owned)
    list(one.run())
    fresh = growing(tmp_path / "fresh", loaded(log, 25), 60, releases=added, **owned)
    list(fresh.run())
    for name in added:
        first = 1 if name == "moved" else 0  # rows that are there already are no changes of a flow
        assert values(one, name)[first:] == values(fresh, name)[first:], name
    assert values(one, "moved")[0] == 0
    assert one.verify().readings == len(one.published())


def hash_of(key: str) -> int:
    return sum(map(ord, key)) % 4


def loaded(log: list[tuple[Any, ...]], when: int) -> list[tuple[Any, ...]]:
    """The log with everything before `when` as one load at that instant, in the order of the keys."""
    last = {one[1]: one for one in log if one[0] < when}
    rows = [(when, *one[1:]) for _, one in sorted(last.items()) if one[2] is not None]
    return [*rows, *(one for one in log if one[0] >= when)]


def test_constraints_that_renew_renew_together(tmp_path: Path) -> None:
    renews: dict[str, Any] = {"constraint": {"at_most": 1, "renews": "20 microseconds"}}
    one = amended(tmp_path, **renews)
    list(one.run())
    (tmp_path / "fresh").mkdir()
    first, second = one.plan().parts
    assert first.program.terms == second.program.terms
    terms = first.program.terms
    assert terms is not None
    begins = {"constraint": {**renews["constraint"], "renews_from": f"1970-01-01T00:00:00.{terms.start:06}Z"}}
    fresh = growing(tmp_path / "fresh", loaded(LOG, 25), 60, releases=ADDED, **begins)
    list(fresh.run())
    assert values(one, "old") == values(fresh, "old")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "nothing to add"),
    ({"releases": {"old": ADDED["old"]}}, r"release\.wards: was removed"),
    (
        {"releases": {"wards": {**FIRST["wards"], "share": "0.5"}, **ADDED}},
        r"release\.wards\.share: was added",
    ),
    ({"releases": BOTH, "constraint": {"at_most": 4}}, r"constraint\.at_most: was changed from 3 to 4"),
    ({"releases": BOTH, "budget": {**RESERVE, "epsilon": 10**10}}, r"budget\.epsilon: was changed"),
    ({"releases": BOTH, "budget": {**RESERVE, "reserve": "0.5"}}, r"budget\.reserve: was changed"),
]


@pytest.mark.parametrize(("changes", "why"), REFUSED)
def test_only_added_releases_can_be_committed(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    list(growing(tmp_path, LOG, 22).run())
    with pytest.raises(PlanChanged, match=why):
        growing(tmp_path, LOG, 22, **changes).amend()
    assert len(growing(tmp_path, LOG, 22).ledger()) == 1


@pytest.mark.parametrize(
    ("added", "why"),
    [
        ({"x": {**OLD, **at(20)}}, "must be after 1970-01-01T00:00:00.000020Z"),
        ({"x": {**OLD, **at(25), "window": "10 microseconds"}}, "less its window of 10 microseconds"),
        ({"x": {"of": "wards", "window": "10 microseconds"}}, "'wards' is committed"),
        ({"x": {"sql": "SELECT COUNT(*) FROM t WHERE height > 1", **at(25)}}, "height"),
    ],
)
def test_releases_that_cannot_be_added(tmp_path: Path, added: dict[str, Any], why: str) -> None:
    list(growing(tmp_path, LOG, 22).run())
    with pytest.raises(SpecError, match=why):
        growing(tmp_path, LOG, 22, releases=FIRST | added).amend()
    assert len(growing(tmp_path, LOG, 22).ledger()) == 1


def test_a_store_without_a_reserve_says_what_to_do(tmp_path: Path) -> None:
    plain = {"budget": {"epsilon": 10**9}}
    list(growing(tmp_path, LOG, 22, **plain).run())
    with pytest.raises(PlanChanged, match=r"without \[budget\] reserve(.|\n)*a store of its own"):
        growing(tmp_path, LOG, 22, releases=BOTH, **plain).amend()
    with pytest.raises(PlanChanged, match=r"release\.old: was added"):
        list(growing(tmp_path, LOG, 22, releases=BOTH, **plain).run())


def test_before_the_first_run_there_is_nothing_to_add_to(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no plan is committed yet.* tidegauge run"):
        growing(tmp_path, LOG, 22, releases=BOTH).amend()
    with pytest.raises(SpecError, match="no plan is committed yet"):
        growing(tmp_path, LOG, 22, releases=BOTH).amendment()


def test_run_asks_for_amend(tmp_path: Path) -> None:
    list(growing(tmp_path, LOG, 22).run())
    with pytest.raises(PlanChanged, match=r"old: declared, but not committed(.|\n)*tidegauge amend"):
        list(growing(tmp_path, LOG, 22, releases=BOTH).run())


def test_a_plan_that_a_run_has_gone_past_is_refused(tmp_path: Path) -> None:
    list(growing(tmp_path, LOG, 22).run())
    late = growing(tmp_path, LOG, 22, releases=BOTH)
    plan = late.amendment()
    list(growing(tmp_path, LOG, 31).run())
    with pytest.raises(SpecError, match="a run has gone past"):
        late.amend(plan)
    assert len(late.ledger()) == 1


def test_only_kept_columns_can_be_used(tmp_path: Path) -> None:
    some = {"budget": {**RESERVE, "reserve_columns": ["ward"]}}
    list(growing(tmp_path, LOG, 22, **some).run())
    with pytest.raises(QueryError, match=r"no column age; there is ward\. The table has .*reserve_columns"):
        growing(tmp_path, LOG, 22, releases=BOTH, **some).amend()
    upper = FIRST | {"old": {"sql": "SELECT COUNT(*) FROM t WHERE AGE > 60", **at(25)}}
    with pytest.raises(QueryError, match=r"no column AGE; .*The table has this column"):
        growing(tmp_path, LOG, 22, releases=upper, **some).amend()
    missing = FIRST | {"in_x": {"sql": "SELECT COUNT(*) FROM t WHERE wards = 'a'", **at(25)}}
    with pytest.raises(QueryError, match=r"no column wards; did you mean ward\?$"):
        growing(tmp_path, LOG, 22, releases=missing, **some).amend()
    added = FIRST | {"in_a": {"sql": "SELECT COUNT(*) FROM t WHERE ward = 'a'", **at(25)}}
    growing(tmp_path, LOG, 22, releases=added, **some).amend()
    with pytest.raises(SpecError, match=r"budget\.reserve_columns: there is no column 'wards'"):
        growing(tmp_path / "x", LOG, 22, budget={**RESERVE, "reserve_columns": ["wards"]}).plan()


@pytest.mark.parametrize("reserve", ["0", "1"])
def test_a_reserve_is_a_part_of_the_budget(tmp_path: Path, reserve: str) -> None:
    with pytest.raises(SpecError, match=r"budget\.reserve"):
        growing(tmp_path, LOG, 22, budget={"epsilon": 1, "reserve": reserve})


def test_a_plan_that_was_put_between_others_is_found(tmp_path: Path) -> None:
    one = amended(tmp_path, budget=NOISY)
    with Store(tmp_path / "store.db") as store:
        first, second = store.public.plans
        bodies = [entry.body for entry in store.public.ledger.entries()]
    for plans in ([first, second, second], [second], [second, first]):
        with pytest.raises(StoreCorrupt):
            all_certified(plans, bodies)
    assert all_certified([first, second], bodies) == one.plan()


# -- dying ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "step", [(Ledger, "reserve"), (Store, "amend_plan"), (Store, "transaction")], ids=str
)
def test_dying_while_amending_leaves_the_old_plan_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[type, str], when: str
) -> None:
    list(growing(tmp_path, LOG, 22).run())
    owner, name = step
    real = getattr(owner, name)

    def deadly(*given: Any, **options: Any) -> Any:
        if when == "before":
            raise Crashed
        found = real(*given, **options)
        if name == "transaction":
            with found:
                raise Crashed
        raise Crashed

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, deadly)
        with pytest.raises(Crashed):
            growing(tmp_path, LOG, 22, releases=BOTH).amend()
    new = (name, when) == ("amend_plan", "after")
    plans = growing(tmp_path, LOG, 22, releases=BOTH if new else FIRST).plan().parts
    assert len(plans) == (2 if new else 0)
    if not new:
        growing(tmp_path, LOG, 22, releases=BOTH).amend()
    one = growing(tmp_path, LOG, 60, releases=BOTH)
    list(one.run())
    assert values(one, "old") == old_people(LOG, range(25, 51, 5), since=25)
    assert one.verify().ledger_entries == 2


SAMPLE = {"commit"}
BEGINNING = [
    pytest.param(
        step, id=f"{step[0].__name__}.{step[1]}", marks=() if step[1] in SAMPLE else pytest.mark.slow
    )
    for step in [*STEPS, (Store, "widen_state"), (Store, "transaction")]
]


@pytest.mark.parametrize("step", BEGINNING)
@pytest.mark.parametrize("when", ["before", "after"])
def test_dying_at_every_step_of_a_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[type, str], when: str
) -> None:
    """Every step dies at every one of its first passes after the amendment, until the run gets through."""
    one = amended(tmp_path)
    owner, name = step
    real, passes = getattr(owner, name), 0

    def deadly(*given: Any, **options: Any) -> Any:
        nonlocal passes
        passes += 1
        dies = passes in {1, 3, 6}
        if dies and when == "before":
            raise Crashed
        found = real(*given, **options)
        if dies:
            if name == "transaction":
                with found:
                    pass
            raise Crashed
        return found

    monkeypatch.setattr(owner, name, deadly)
    assert survive(one) > 0
    monkeypatch.undo()
    assert values(one, "old") == old_people(LOG, range(25, 51, 5), since=25)
    assert one.verify().readings == len(one.published()) == 26


def test_an_encrypted_store_is_amended_and_dies_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROWING_KEY", "a7" * 32)
    one = amended(tmp_path, key="env:GROWING_KEY")
    real, passes = Store.commit, 0

    def deadly(*given: Any) -> None:
        nonlocal passes
        passes += 1
        if passes == 2:
            raise Crashed
        real(*given)

    monkeypatch.setattr(Store, "commit", deadly)
    assert survive(one) == 1
    assert values(one, "old") == old_people(LOG, range(25, 51, 5), since=25)
    assert one.verify().ledger_entries == 2


# -- a shared ledger -----------------------------------------------------------------------------------------


def test_a_shared_ledger_holds_the_reserve_from_the_first_commit_on(tmp_path: Path) -> None:
    terms = Terms("rho", Fraction(3, 5), "row of t")
    ledger = SharedLedger.create(tmp_path / "all.ledger", terms, time="2026-01-01T00:00:00Z")
    real: dict[str, Any] = {"budget": NOISY, "ledger": {"path": "all.ledger"}, "base": tmp_path}
    list(growing(tmp_path, LOG, 22, **real).run())
    assert sum(entry.reserved for entry in ledger.entries()) == Fraction(1, 2)
    (tmp_path / "other").mkdir()
    with pytest.raises(BudgetExceeded, match="the ledger has 1/10 left"):
        list(growing(tmp_path / "other", LOG, 22, **real).run())
    growing(tmp_path, LOG, 22, releases=BOTH, **real).amend()
    kinds = [entry.kind for entry in ledger.entries()]
    assert kinds == ["terms", "reserve", "commit", "commit"]
    one = growing(tmp_path, LOG, 60, releases=BOTH, **real)
    list(one.run())
    assert [entry.kind for entry in ledger.entries()] == kinds
    assert len(one.published("old")) == 6


def test_a_kill_before_the_shared_ledger_is_told_is_made_up_for_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = Terms("rho", Fraction(1, 2), "row of t")
    ledger = SharedLedger.create(tmp_path / "all.ledger", terms, time="2026-01-01T00:00:00Z")
    real: dict[str, Any] = {"budget": NOISY, "ledger": {"path": "all.ledger"}, "base": tmp_path}
    list(growing(tmp_path, LOG, 22, **real).run())

    confirm = SharedLedger.confirm

    def deadly(ledger: SharedLedger, gauge: str, plans: list[str], *needed: Any, **time: Any) -> None:
        if len(plans) > 1:
            raise Crashed
        confirm(ledger, gauge, plans, *needed, **time)

    with monkeypatch.context() as patch:
        patch.setattr(SharedLedger, "confirm", deadly)
        with pytest.raises(Crashed):
            growing(tmp_path, LOG, 22, releases=BOTH, **real).amend()
    list(growing(tmp_path, LOG, 60, releases=BOTH, **real).run())
    assert [entry.kind for entry in ledger.entries()] == ["terms", "reserve", "commit", "commit"]


def test_a_store_from_before_its_amendment_is_refused_by_the_shared_ledger(tmp_path: Path) -> None:
    terms = Terms("rho", Fraction(1, 2), "row of t")
    ledger = SharedLedger.create(tmp_path / "all.ledger", terms, time="2026-01-01T00:00:00Z")
    real: dict[str, Any] = {"budget": NOISY, "ledger": {"path": "../all.ledger"}}
    one, old = tmp_path / "one", tmp_path / "old"
    one.mkdir()
    list(growing(one, LOG, 22, base=one, **real).run())
    shutil.copytree(one, old)  # the witness as well
    growing(one, LOG, 22, releases=BOTH, base=one, **real).amend()
    list(growing(one, LOG, 60, releases=BOTH, base=one, **real).run())
    other = FIRST | {"more": ADDED["old"]}
    with pytest.raises(StoreBehind, match="has committed a plan that its store does not have"):
        growing(old, LOG, 22, releases=other, base=old, **real).amend()
    with pytest.raises(StoreBehind, match="old copy"):
        list(growing(old, LOG, 60, base=old, **real).run())
    assert len(growing(old, LOG, 22, base=old, **real).ledger()) == 1
    assert [entry.kind for entry in ledger.entries()] == ["terms", "reserve", "commit", "commit"]

"""at_most = "auto": reserved before it is drawn, drawn once, part of the plan; kills at every step."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tidegauge as tg
from tests.simulate.history import changes, write
from tidegauge.errors import PlanChanged, SpecError, StoreCorrupt, StoreError
from tidegauge.mechanism.noise.selection import NoisyMinimum
from tidegauge.model.quantity import instant
from tidegauge.plan.certify import certify
from tidegauge.plan.plan import Plan
from tidegauge.run import choose
from tidegauge.run.gauge import Gauge
from tidegauge.simulate import choice
from tidegauge.store.draw import Draw
from tidegauge.store.store import Store

NOW = instant("2026-01-15")
GRID = ((1, "freeze"), (2, "freeze"), (2, "retire"), (6, "freeze"), (6, "retire"))
STATE = """
[release.state]
sql = "SELECT s, COUNT(*) FROM t GROUP BY s"
groups.s = ["a", "b"]
start = "2026-01-02"
every = "1 day"
for = "20 days"
"""
TOTAL = """
[release.total]
sql = "SELECT SUM(x) FROM t"
bounds.x = [0, 10]
start = "2026-01-02"
every = "2 days"
window = "4 days"
for = "20 days"
"""
FLOW = """
[release.left]
sql = "SELECT COUNT(*) FROM changes(t) WHERE before.s = 'a' AND after.s = 'b'"
start = "2026-01-02"
every = "4 days"
for = "20 days"
clip = 1
"""


def declared(
    folder: Path,
    *,
    constraint: str = 'at_most = "auto"',
    budget: str = "rho = 1",
    releases: str = STATE + TOTAL + FLOW,
    unit: str = "",
    rows: list[dict[str, Any]] | None = None,
) -> Path:
    write(folder / "t.csv", changes(3) if rows is None else rows)
    path = folder / "tidegauge.toml"
    path.write_text(
        f"""
[source]
kind = "files"
path = "t.csv"
table = "t"
time = "time"
key = "key"
after = "after_"
types = {{ x = "integer" }}
{unit}
[constraint]
{constraint}
[budget]
{budget}
{releases}""",
        "utf-8",
    )
    return path


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small grid: plans of many candidates take seconds."""
    inner = choice.open_choice
    monkeypatch.setattr(
        choose, "open_choice", lambda spec, source, *, now: inner(spec, source, now=now, candidates=GRID)
    )


def gauge(file: Path) -> Gauge:
    return Gauge.from_file(file, now=lambda: NOW)


def test_the_choice_is_reserved_and_part_of_the_plan(tmp_path: Path) -> None:
    file = declared(tmp_path)
    before = gauge(file).plan()
    assert before.choice is not None
    assert before.choice.chosen is None
    assert "chosen privately at the first run" in str(before)
    list(gauge(file).run())
    after = gauge(file).plan()
    assert after.choice is not None
    assert after.choice.chosen is not None
    most, mode = after.choice.chosen
    assert f"at_most = {most}, on_excess = {mode}: chosen privately" in str(after)
    (scope,) = after.program.scopes
    assert [limit.at_most for _, limit in scope.allowances] == [most]
    assert scope.retire == (mode == "retire")
    entries = gauge(file).ledger()
    assert [entry.kind for entry in entries] == ["choice", "commit"]
    assert [entry.body.reserved for entry in entries] == [Fraction(1, 20), Fraction(19, 20)]
    assert after.reserved == 1
    assert json.loads(json.dumps(after.as_json()))["choice"]["at_most"] == most
    assert gauge(file).verify().ledger_entries == 2
    assert not list(gauge(file).run())


@pytest.mark.parametrize("budget", ["rho = 1", "epsilon = 1", "epsilon = 1\ndelta = 1e-6"])
def test_the_draw_costs_its_share_in_every_measure(tmp_path: Path, budget: str) -> None:
    file = declared(tmp_path, budget=budget, constraint='at_most = "auto"\nchoice_share = 0.1')
    list(gauge(file).run())
    first, second = (entry.body.reserved for entry in gauge(file).ledger())
    assert first * 9 == second


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("at", ["reserved", "scored", "drawn", "kept", "planned"])
def test_a_kill_at_any_step_leads_to_one_reservation_and_one_draw_that_is_kept(
    tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = declared(tmp_path)
    draws: list[int] = []
    kept: list[int] = []
    armed = True

    def kill_at(step: str) -> None:
        if armed and step == at:
            raise Killed

    reserve, keep, commit, draw = Draw.reserve, Draw.keep, Store.commit_plan, NoisyMinimum.draw
    score = choice.biases

    def reserving(store: Draw, reserved: Any, **named: Any) -> None:
        reserve(store, reserved, **named)
        kill_at("reserved")

    def scoring(*words: Any, **named: Any) -> Any:
        found = score(*words, **named)
        kill_at("scored")
        return found

    def drawing(law: NoisyMinimum, scores: Any, sampler: Any) -> int:
        draws.append(draw(law, scores, sampler))
        kill_at("drawn")
        return draws[-1]

    def keeping(store: Draw, number: int) -> None:
        keep(store, number)
        kept.append(number)
        kill_at("kept")

    def committing(store: Store, commitment: Any) -> None:
        kill_at("planned")
        commit(store, commitment)

    monkeypatch.setattr(Draw, "reserve", reserving)
    monkeypatch.setattr(choose, "biases", scoring)
    monkeypatch.setattr(NoisyMinimum, "draw", drawing)
    monkeypatch.setattr(Draw, "keep", keeping)
    monkeypatch.setattr(Store, "commit_plan", committing)
    with pytest.raises(Killed):
        list(gauge(file).run())
    assert [entry.kind for entry in gauge(file).ledger()] == ["choice"]
    armed = False
    list(gauge(file).run())
    assert len(kept) == 1
    assert len(draws) == (2 if at == "drawn" else 1)  # a draw that was not kept was never shown
    plan = gauge(file).plan()
    assert plan.choice is not None
    assert plan.choice.drawn == kept[0]
    assert [entry.kind for entry in gauge(file).ledger()] == ["choice", "commit"]


def test_another_declaration_cannot_take_over_a_reservation_or_a_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = declared(tmp_path)

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Store, "commit_plan", killed)
        with pytest.raises(Killed):
            list(gauge(file).run())
    declared(tmp_path, releases=STATE)
    with pytest.raises(PlanChanged, match="already reserved"):
        list(gauge(file).run())
    assert [entry.kind for entry in gauge(file).ledger()] == ["choice"]


def test_a_store_keeps_one_draw_and_only_a_reserved_one(tmp_path: Path) -> None:
    file = declared(tmp_path)
    list(gauge(file).run())
    with (
        Store(tmp_path / "tidegauge.db", write=True) as store,
        pytest.raises(StoreError, match="second time"),
    ):
        store.draw.keep(0)
    with (
        Store(tmp_path / "other.db", write=True) as store,
        pytest.raises(StoreError, match="nothing was reserved"),
    ):
        store.draw.keep(0)


def test_a_plan_that_enforces_another_constraint_than_drawn_is_refused(tmp_path: Path) -> None:
    file = declared(tmp_path)
    list(gauge(file).run())
    record = json.loads(json.dumps(gauge(file).plan().record()))
    certify(Plan.from_record(record))
    drawn = record["choice"]["drawn"]
    forged = record | {"choice": record["choice"] | {"drawn": 0 if drawn else 3}}
    with pytest.raises(StoreCorrupt, match="drawn"):
        certify(Plan.from_record(forged))
    with pytest.raises(StoreCorrupt, match="disagree"):
        certify(Plan.from_record({name: one for name, one in record.items() if name != "choice"}))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"releases": FLOW}, "needs a release of rows"),
        ({"constraint": 'at_most = "auto"\non_excess = "freeze"'}, "is chosen together with"),
        ({"constraint": 'at_most = 3\nchoose_from = "5 days"'}, "go with at_most = 'auto'"),
        ({"constraint": 'at_most = "auto"\nchoice_share = 1'}, "more than 0 and less than 1"),
        ({"releases": STATE.replace("2026-01-02", "2027-01-01")}, "no reading lies in the past"),
        ({"releases": STATE + 'constraint.at_most = "auto"\n'}, "belongs to [constraint] alone"),
        ({"constraint": 'at_most = "many"'}, "constraint.at_most"),
    ],
)
def test_what_is_refused_before_anything_is_spent(
    tmp_path: Path, changed: dict[str, str], message: str
) -> None:
    file = declared(tmp_path, **changed)  # type: ignore[arg-type]
    with pytest.raises(SpecError) as refused:
        list(gauge(file).run())
    assert message in str(refused.value)


def test_a_short_past_is_warned_of(tmp_path: Path) -> None:
    file = declared(tmp_path, constraint='at_most = "auto"\nchoose_from = "5 days"')
    assert "at_most is chosen from 25 % of the planned duration" in str(gauge(file).plan())
    file = declared(tmp_path, constraint='at_most = "auto"\nchoose_from = "12 days"')
    assert "at_most is chosen from" not in str(gauge(file).plan())


def test_a_draw_with_much_noise_is_warned_of(tmp_path: Path) -> None:
    """From public numbers alone: the share of the budget is too small to tell the candidates apart."""
    warning = "at_most is chosen with much noise: even if no unit changed too often, "
    for share, much in (("0.5", False), ("0.0001", True)):
        file = declared(
            tmp_path, constraint=f'at_most = "auto"\nchoice_share = {share}', releases=STATE, rows=changes(4)
        )
        warned = [one for one in gauge(file).plan().warnings if one.startswith(warning)]
        assert len(warned) == much
    before = str(gauge(file).plan())
    write(tmp_path / "t.csv", changes(5)[:3])
    assert str(gauge(file).plan()) == before  # other data, the same warning


def test_the_end_of_the_grid_is_warned_of(tmp_path: Path) -> None:
    file = declared(tmp_path, budget="rho = 1e6", releases=STATE)
    list(gauge(file).run())
    plan = gauge(file).plan()
    assert plan.choice is not None
    assert plan.choice.chosen is not None
    assert plan.choice.chosen[0] == GRID[-1][0]
    assert any("The largest at_most that can be chosen was drawn, 6." in one for one in plan.warnings)


@pytest.mark.parametrize("unit", ["", 'unit = "person"\nmax_rows = 2\n'])
def test_one_unit_moves_every_score_by_at_most_the_sensitivity(tmp_path: Path, unit: str) -> None:
    rows = changes(8)
    column = "person" if unit else "key"
    file = declared(tmp_path, unit=unit, rows=rows)
    everyone = _scores(file)
    moves = set()
    for one in sorted({row[column] for row in rows})[:6]:
        write(tmp_path / "t.csv", [row for row in rows if row[column] != one])
        without = _scores(file)
        assert without.sensitivity == everyone.sensitivity
        moves |= {a - b for a, b in zip(everyone.values, without.values, strict=True)}
    assert max(map(abs, moves)) <= everyone.sensitivity
    assert max(moves) > 0
    assert max(map(abs, moves)) > everyone.sensitivity / 4


def test_one_unit_in_one_term_moves_every_score_by_at_most_the_sensitivity(tmp_path: Path) -> None:
    """A unit that is not there in a term: it leaves when the term begins, and comes back as it was."""
    rows = changes(8)
    text = 'at_most = "auto"\nrenews = "7 days"'
    file = declared(tmp_path, rows=rows, constraint=text)
    everyone = _scores(file)
    begin, end = "2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"  # Mondays
    moves = set()
    for key in sorted({row["key"] for row in rows})[:6]:
        others = [row for row in rows if row["key"] != key]
        mine = [row for row in rows if row["key"] == key]
        outside = [row for row in mine if not begin <= row["time"] < end]
        before = [row for row in mine if row["time"] < begin]
        until = [row for row in mine if row["time"] <= end]
        away = [{**before[-1], "time": begin, "after_s": None, "after_x": None}] if before else []
        back = [{**until[-1], "time": end}] if until and until[-1]["after_s"] is not None else []
        kept = [row for row in outside if row["time"] != end]
        write(tmp_path / "t.csv", sorted([*others, *kept, *away, *back], key=lambda row: row["time"]))
        without = _scores(file)
        assert without.sensitivity == everyone.sensitivity
        moves |= {a - b for a, b in zip(everyone.values, without.values, strict=True)}
    assert 0 < max(map(abs, moves)) <= everyone.sensitivity


@pytest.mark.parametrize("begins", ["", 'renews_from = "2026-01-03T12:00"'])
def test_a_gauge_that_renews_enforces_what_was_drawn_in_its_terms(tmp_path: Path, begins: str) -> None:
    file = declared(tmp_path, constraint=f'at_most = "auto"\nrenews = "7 days"\n{begins}')
    readings = list(gauge(file).run())
    assert readings
    plan = gauge(file).plan()
    assert plan.program.terms is not None
    assert str(plan.program.terms.every) == "7 days"
    if begins:
        assert (instant("2026-01-03T12:00") - plan.program.terms.start) % (7 * 86_400_000_000) == 0
    assert list(gauge(file).run()) == []


def _scores(file: Path) -> choice.Scores:
    spec = tg.open(file).spec
    with gauge(file)._source() as source:
        opened = choice.open_choice(spec, source, now=NOW, candidates=GRID)
        return choice.scores(opened.choice, choice.biases(opened, source, now=NOW))


def test_much_budget_chooses_the_best(tmp_path: Path) -> None:
    file = declared(tmp_path, budget="rho = 1e6", releases=STATE)
    list(gauge(file).run())
    found = _scores(file)
    plan = gauge(file).plan()
    assert plan.choice is not None
    assert plan.choice.drawn is not None
    assert found.values[plan.choice.drawn] == min(found.values)
    assert plan.choice.chosen is not None
    assert plan.choice.chosen[0] == 6

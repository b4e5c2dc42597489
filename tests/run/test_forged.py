"""A plan that was changed after it was committed is refused, also if every hash was computed again."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from tests.forger import commit_again, forge
from tests.printed import printed
from tests.run.gauge_life import COLUMNS, gauge, life
from tidegauge.errors import StoreCorrupt
from tidegauge.store.store import Store
from tidegauge.testing import Clock, Script

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tidegauge.run.gauge import Gauge

    Edit = Callable[[dict[str, Any]], object]

EVERY = {"start": "1970-01-01T00:00:00.000005Z", "every": "5 microseconds", "for": "145 microseconds"}
STOCK = {"sql": "SELECT COUNT(*) FROM t", **EVERY}
WARDS = {"sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward", "groups": {"ward": ["a", "b", "c"]}, **EVERY}
AGE = {"sql": "SELECT SUM(age) FROM t", "bounds": {"age": [-10, 90]}, **EVERY}
FLOW = {"sql": "SELECT COUNT(*) FROM changes(t) WHERE after.ward = 'b'", "clip": 2, **EVERY}
SLIDING = {**STOCK, "window": "15 microseconds"}
EVER = {**STOCK, "for": "ever"}
GAUSS, PURE = {"rho": "0.5"}, {"epsilon": 1}
STRATEGIES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("disjoint", GAUSS, STOCK),
    ("disjoint", PURE, WARDS),
    ("hierarchy", GAUSS, AGE),
    ("hierarchy", PURE, WARDS),
    ("sliding", GAUSS, SLIDING),
    ("sliding", PURE, SLIDING),
    ("toeplitz", GAUSS, STOCK),
    ("toeplitz", GAUSS, SLIDING),
    ("damped", GAUSS, AGE),
    ("damped", GAUSS, WARDS),
    ("buffered", GAUSS, WARDS),
    ("buffered", GAUSS, FLOW),
    ("dense", GAUSS, STOCK),
    ("autoregressive", PURE, STOCK),
    ("autoregressive", PURE, AGE),
    ("epochs", GAUSS, EVER),
    ("epochs", PURE, EVER),
]


def committed(folder: Path, budget: dict[str, Any], release: dict[str, Any], **changes: Any) -> Gauge:
    """One release, of which a few readings are published."""

    def at(now: int) -> Gauge:
        made = Script(COLUMNS, life())
        return gauge(
            folder, made, releases={"it": release}, budget=budget, now=Clock(now),
            **{"constraint": {"at_most": 3}, **changes}
        )  # fmt: skip

    list(at(20).run())
    return at(1000)


def refused(do: Callable[[], object]) -> bool:
    try:
        do()
    except StoreCorrupt:
        return True
    return False


def channel(plan: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = plan["releases"]["it"]["channels"][0]
    return found


def times(factor: Fraction, *path: str) -> Edit:
    """Multiply a number that is written as text in the channel."""

    def edit(plan: dict[str, Any]) -> None:
        at = channel(plan)
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = str(Fraction(at[path[-1]]) * factor)

    return edit


def noise(factor: Fraction) -> Edit:
    def edit(plan: dict[str, Any]) -> None:
        law = channel(plan)["noise"]
        name = "scale" if law["kind"] == "laplace" else "sigma_squared"
        law[name] = str(Fraction(law[name]) * factor)

    return edit


def program(plan: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = plan["program"]
    return found


def release(plan: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = plan["program"]["releases"][0]
    return found


def parameter(name: str, value: Any) -> Edit:
    return lambda plan: channel(plan)["strategy"].update({name: value})


LESS = 1 - Fraction(2, 10**9)
ALWAYS: dict[str, Edit] = {
    "a hair less noise": noise(LESS),
    "half the noise": noise(Fraction(1, 2)),
    "another kind of noise": lambda plan: channel(plan).update(
        noise={"kind": "laplace", "scale": "1"}
        if channel(plan)["noise"]["kind"] == "gaussian"
        else {"kind": "gaussian", "sigma_squared": "1"}
    ),
    "a finer grid": lambda plan: channel(plan).update(refine=2 * channel(plan)["refine"]),
    "a grid of negative steps": lambda plan: channel(plan).update(refine=-channel(plan)["refine"]),
    "a grid of no steps": lambda plan: channel(plan).update(refine=0),
    "half a grid step": lambda plan: channel(plan).update(refine=0.5),
    "no channel": lambda plan: plan["releases"]["it"].update(channels=[]),
    "two channels": lambda plan: plan["releases"]["it"].update(
        channels=2 * plan["releases"]["it"]["channels"]
    ),
    "a smaller stated loss": lambda plan: plan["releases"]["it"].update(
        loss=str(Fraction(plan["releases"]["it"]["loss"]) * LESS)
    ),
    "a larger stated loss": lambda plan: plan["releases"]["it"].update(
        loss=str(2 * Fraction(plan["releases"]["it"]["loss"]))
    ),
    "a larger loss in a larger budget": lambda plan: (
        plan["releases"]["it"].update(loss=str(2 * Fraction(plan["releases"]["it"]["loss"]))),
        plan.update(total=str(2 * Fraction(plan["total"]))),
    ),
    "a larger budget": lambda plan: plan["budget"].update(dict.fromkeys(plan["budget"], "100")),
    "another measure": lambda plan: plan.update(measure="rho" if plan["measure"] == "epsilon" else "epsilon"),
    "more changes": lambda plan: program(plan)["scopes"][0]["limits"][0][1].update(at_most=400),
    "no constraint": lambda plan: program(plan)["scopes"][0]["limits"][0][1].update(at_most=None),
    "another label with more changes": lambda plan: program(plan)["scopes"][0]["limits"].append(
        ["vip", {"at_most": 400, "within": None}]
    ),
    "a limit that no unit is held to": lambda plan: (
        program(plan)["scopes"][0]["limits"][0].__setitem__(0, "vip")
    ),
    "no scope": lambda plan: program(plan).update(scopes=[]),
    "two scopes": lambda plan: program(plan).update(scopes=2 * program(plan)["scopes"]),
    "more rows": lambda plan: program(plan).update(max_rows=5),
    "another unit": lambda plan: program(plan).update(owner="ward", max_rows=1),
    "a wider range": lambda plan: release(plan)["query"]["components"][0].update(
        upper=2 * release(plan)["query"]["components"][0]["upper"]
    ),
    "a range on the other side": lambda plan: release(plan)["query"]["components"][0].update(
        lower=-3 * release(plan)["query"]["components"][0]["upper"]
    ),
    "more components": lambda plan: release(plan)["query"].update(
        components=2 * release(plan)["query"]["components"]
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "budget", "declared"), STRATEGIES, ids=lambda value: value if isinstance(value, str) else None
)
def test_whatever_was_forged_is_refused(
    tmp_path: Path, name: str, budget: dict[str, Any], declared: dict[str, Any]
) -> None:
    honest = committed(tmp_path, budget, {**declared, "strategy": name})
    honest.verify()
    before = honest.path.read_bytes()
    with Store(honest.path) as store:
        assert store.public.plan is not None
        strategy = printed(store.public.plan)["releases"]["it"]["channels"][0]["strategy"]
        published = len(store.public.readings())
    assert strategy["name"] == name
    for what, edit in {**ALWAYS, **SPECIAL.get(name, {})}.items():
        forge(honest.path, edit)
        for do in (honest.verify, lambda: list(honest.run())):
            assert refused(do), f"{name}: {what}"
        with Store(honest.path) as store:
            assert len(store.public.readings()) == published, what
        honest.path.write_bytes(before)
    list(honest.run())
    honest.verify()


SPECIAL: dict[str, dict[str, Edit]] = {
    "hierarchy": {
        "less noise in every layer": lambda plan: channel(plan)["strategy"].update(scales=_halved(plan)),
        "fewer bins": parameter("bins", 2),
        "bins without end": parameter("bins", "ever"),
    },
    "sliding": {"longer windows": parameter("span", 30), "fewer readings": parameter("readings", 1)},
    "toeplitz": {
        "fewer bins": parameter("bins", 2),
        "a bin of a half": parameter("first", 0.5),
    },
    "damped": {
        "no offset": parameter("offset", 0.0),
        "fewer bins": parameter("bins", 2),
        "a later start": parameter("first", 1),
    },
    "buffered": {
        "buffers that forget nothing": parameter("buffers", "1:0"),
        "fewer bins": parameter("bins", 2),
    },
    "autoregressive": {
        "no memory": parameter("memory", 0),
        "less of the shared draw": times(Fraction(1, 3), "strategy", "shared_noise"),
        "fewer bins": parameter("bins", 2),
    },
    "dense": {"another start": parameter("first", 1)},
    "disjoint": {"another start": parameter("base", 1)},
}  # fmt: skip


def _halved(plan: dict[str, Any]) -> str:
    strategy = channel(plan)["strategy"]
    scales = str(strategy.get("scales", " ".join(["1"] * (strategy["height"] + 1)))).split()
    return " ".join(str(Fraction(scale) / 2) for scale in scales)


@pytest.mark.parametrize("budget", [GAUSS, PURE], ids=["gaussian", "pure"])
def test_more_readings_or_longer_lives_than_the_noise_is_for_are_refused(
    tmp_path: Path, budget: dict[str, Any]
) -> None:
    made = committed(
        tmp_path, budget, {**STOCK, "strategy": "disjoint"}, constraint={"within": "10 microseconds"}
    )
    before = made.path.read_bytes()
    edits: dict[str, Edit] = {
        "within": lambda plan: program(plan)["scopes"][0]["limits"][0][1].update(within=30),
        "both": lambda plan: program(plan)["scopes"][0]["limits"][0][1].update(within=None, at_most=8),
        "every": lambda plan: release(plan)["schedule"]["every"].update(micros=1),
        "window": lambda plan: release(plan)["schedule"].update(window={"months": 0, "micros": 2}),
    }
    for what, edit in edits.items():
        forge(made.path, edit)
        for do in (made.verify, lambda: list(made.run())):
            assert refused(do), what
        made.path.write_bytes(before)


def clipped(clip: int | None) -> Edit:
    return lambda plan: release(plan).update(clip=clip)


def test_a_flow_that_is_clipped_later_than_its_noise_is_for_is_refused(tmp_path: Path) -> None:
    made = committed(tmp_path, GAUSS, {**FLOW, "strategy": "disjoint"}, constraint={"at_most": 9})
    for clip in (9, None, -1):
        forge(made.path, clipped(clip))
        for do in (made.verify, lambda: list(made.run())):
            with pytest.raises(StoreCorrupt):
                do()


def test_a_ledger_that_reserved_less_than_the_plan_needs_is_refused(tmp_path: Path) -> None:
    made = committed(tmp_path, GAUSS, STOCK)
    for changes in ({"reserved": "1/1000"}, {"measure": "epsilon"}, {"reserved": "x"}):
        forge(made.path, lambda plan: plan)
        with closing(sqlite3.connect(made.path)) as db, db:
            (text,) = db.execute("SELECT value FROM meta WHERE key = 'plan'").fetchone()
            commit_again(db, json.loads(text), **changes)
        for do in (made.verify, lambda: list(made.run())):
            with pytest.raises(StoreCorrupt):
                do()


def test_whatever_an_expression_says_no_value_counts_beyond_the_declared_bounds(tmp_path: Path) -> None:
    """The loss is computed from the bounds, so a forged expression must not get past them."""
    days = [(1, f"p{n}", {"ward": "a", "age": 90}) for n in range(4)]
    made = gauge(tmp_path, Script(COLUMNS, days), releases={"it": AGE}, now=Clock(6))
    (first,) = made.run()
    assert first.value == pytest.approx(360, abs=0.01)

    def edit(plan: dict[str, Any]) -> None:
        release(plan)["query"]["components"][0]["value"] = "1000000000000"

    forge(made.path, edit)
    later = [*days, (12, "p9", {"ward": "a", "age": 0})]
    again = gauge(tmp_path, Script(COLUMNS, later), releases={"it": AGE}, now=Clock(16))
    values = [one.value for one in again.run()]
    assert values
    assert values[-1] == pytest.approx(450, abs=0.01)

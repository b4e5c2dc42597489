"""Plans and runs are as they were recorded.  A change that is meant to change them:
python -m tests.golden.update"""

from __future__ import annotations

import copy
import json
import shutil
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from tests.golden.compare import differences, plain, read
from tests.golden.plans import EXAMPLES, SCHEMAS
from tests.golden.record import RUNS, with_server
from tests.golden.sources import KINDS
from tests.golden.strategies import STRATEGIES
from tests.servers.postgres import Server, binaries
from tests.shared_plans import shared_plans
from tidegauge.cli import app
from tidegauge.mechanism import registry as mechanism
from tidegauge.model.kinds import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVED = (*(f"plans.{name}" for name in SCHEMAS), "sources.postgres")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if not binaries():
        pytest.skip("this machine has no PostgreSQL")
    one = Server(binaries()[0])
    yield one
    one.stop()


def same(file: str, name: str, found: object) -> None:
    changed = list(differences(read(file)[name], found))
    assert not changed, "\n".join([f"{len(changed)} differences:", *changed[:20]])


@pytest.mark.parametrize(("file", "name"), RUNS, ids=lambda part: part)
def test_a_run_is_as_recorded(file: str, name: str, tmp_path: Path) -> None:
    with shared_plans():
        same(file, name, RUNS[file, name](tmp_path))


@pytest.mark.parametrize("place", SERVED)
def test_a_run_with_a_server_is_as_recorded(place: str, server: Server, tmp_path: Path) -> None:
    file, name = place.split(".")
    same(file, name, with_server(server)[file, name](tmp_path))


def test_everything_recorded_is_compared() -> None:
    for file in ("plans", "strategies", "constraints", "sources"):
        served = {place.split(".")[1] for place in SERVED if place.startswith(file)}
        assert set(read(file)) == {name for kind, name in RUNS if kind == file} | served


def test_every_example_has_its_plan_recorded() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert set(read("plans")) == {"demo", *folders - {"paper"}}  # its scripts declare no gauge


def test_every_strategy_is_recorded() -> None:
    assert {str(one["name"]) for one, _, _ in STRATEGIES.values()} == set(mechanism.STRATEGIES.names())


def test_every_kind_of_source_is_recorded(tmp_path: Path) -> None:
    recorded = {"postgres"}
    for name, make in KINDS.items():
        (tmp_path / name).mkdir()
        declared = make(tmp_path / name).declared
        recorded |= {declared["kind"]} if isinstance(declared, dict) else set()
    assert recorded == set(SOURCES.names()) - {"spark"}  # tests/engine/spark compares it with files


def test_the_verb_prints_the_recorded_plan(tmp_path: Path) -> None:
    here = shutil.copytree(EXAMPLES / "hospital", tmp_path / "hospital")
    shown = CliRunner().invoke(app, ["plan", "--json", "--file", str(here / "tidegauge.toml")])
    found = plain(json.loads(shown.stdout))
    del found["hash"]
    same("plans", "hospital", found)


def test_every_kind_of_source_publishes_the_same() -> None:
    """But those that deliver changes of one moment in the order of their keys:
    which of too many rows count differs."""
    sources = read("sources")
    by_key = {"snapshots_csv", "snapshots_parquet", "snapshots_sqlite", "history"}
    for group in (by_key, sources.keys() - by_key - {"postgres"}):
        first, *others = sorted(group)
        for other in others:
            for part in ("readings", "exact", "ledger", "verified"):
                assert not list(differences(sources[first][part], sources[other][part])), (first, other, part)
    exact = sources["sqlite"]["exact"]  # two wards a day, then the mean of each day
    by_day = [[*exact[2 * day : 2 * day + 2], exact[12 + day]] for day in range(1, 6)]
    assert not list(differences(by_day, sources["postgres"]["exact_by_day"]))


def test_a_difference_is_seen() -> None:
    plan = read("plans")["hospital"]
    other = copy.deepcopy(plan)
    chosen = other["releases"]["in_ward"]["chosen"]
    chosen["half_width_worst"] *= 1 + 1e-9
    assert not list(differences(plan, other))
    chosen["half_width_worst"] *= 1 + 1e-5
    chosen["parameters"]["buffers"] = chosen["parameters"]["buffers"].replace("0.4", "0.5")
    other["releases"]["infected"]["promise"] += "."
    del other["releases"]["mean_age"]["schedule"]
    other["releases"]["in_ward"]["candidates"].pop()
    assert len(list(differences(plan, other))) == 5


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (3, 3.0, True),
        (3, 4, False),
        (None, 0, False),
        (True, 1, False),
        ("rho 0.5000000001 of 1/3", "rho 0.5 of 3333333334/10000000000", True),
        ("rho 0.50001", "rho 0.5", False),
        ("p1", "p2", False),
        (1e-12, 0.0, True),
        (1000000.0, 1000002.0, False),
        (10**9, 10**9 + 1, False),
    ],
)
def test_numbers_are_compared_in_proportion_and_counts_exactly(
    one: object, other: object, alike: bool
) -> None:
    assert alike == (not list(differences(one, other)))

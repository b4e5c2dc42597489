"""A simulation equals what really running each gauge gives, and what a plain computation gives."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tidegauge as tg
from tests.simulate.history import COLUMNS, changes, write
from tidegauge.cli import app
from tidegauge.errors import SpecError
from tidegauge.model.quantity import instant
from tidegauge.simulate.chart import chart
from tidegauge.simulate.simulation import Simulation

STATES = ("a", "b")
GRID = "1,2,3,5,none"

DECLARATION = """
[source]
kind = "files"
path = "{path}"
table = "t"
time = "time"
key = "key"
after = "after_"
types = {{ x = "integer" }}
{unit}
[constraint]
at_most = 2

[budget]
epsilon = {epsilon}
delta = 1e-6

[release.state]
sql = "SELECT s, COUNT(*) FROM t GROUP BY s"
groups.s = ["a", "b"]
start = "2026-01-02"
every = "1 day"
for = "20 days"
strategy = "disjoint"

[release.total]
sql = "SELECT SUM(x) FROM t"
bounds.x = [0, 10]
start = "2026-01-02"
every = "2 days"
for = "20 days"
strategy = "disjoint"

[release.mean]
sql = "SELECT AVG(x) FROM t"
bounds.x = [0, 10]
start = "2026-01-02"
every = "5 days"
for = "20 days"
strategy = "disjoint"

[release.left]
sql = "SELECT COUNT(*) FROM changes(t) WHERE before.s = 'a' AND after.s = 'b'"
start = "2026-01-02"
every = "4 days"
for = "20 days"
strategy = "disjoint"
clip = 1

[release.state_week]
of = "state"
window = "7 days"
"""


def declared(
    folder: Path, *, owned: bool, epsilon: str = "1", rows: list[dict[str, Any]] | None = None
) -> Path:
    write(folder / "t.csv", changes(5) if rows is None else rows)
    unit = 'unit = "person"\nmax_rows = 2\n' if owned else ""
    path = folder / "tidegauge.toml"
    path.write_text(DECLARATION.format(path="t.csv", unit=unit, epsilon=epsilon), "utf-8")
    return path


def simulated(file: Path, *words: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["simulate", "-f", str(file), "--json", *words])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.output)
    assert found["secret"] is True
    return found["releases"]  # type: ignore[no-any-return]


def really(file: Path, **constraint: Any) -> dict[tuple[str, Any, Any], float | None]:
    """The readings of a gauge whose budget is so large that there is no noise."""
    spec = tg.open(file).spec
    declared = {**constraint} or None
    changed = spec.model_copy(
        update={"constraint": None if declared is None else type(spec.constraint)(**declared)}  # type: ignore[misc]
    )
    name = "-".join(map(str, constraint.values())).replace(" ", "") or "free"
    gauge = tg.Gauge(
        changed, base=file.parent, store=file.parent / f"{name}.db", now=lambda: instant("2027-01-01")
    )
    return {
        (one.release, None if one.group is None else one.group["s"], one.time): one.value
        for one in gauge.run()
    }


@pytest.mark.parametrize("owned", [False, True])
def test_every_cell_of_a_grid_has_the_bias_of_really_running_it(tmp_path: Path, owned: bool) -> None:
    file = declared(tmp_path, owned=owned, epsilon="1e30")
    found = simulated(file, "--at-most", "1,2,4", "--within", "none,6 days", "--on-excess", "freeze,retire",
        "--until", "2026-02-01")  # fmt: skip
    text = file.read_text("utf-8").replace("clip = 1\n", "").replace("max_rows = 2", "max_rows = 50")
    plain = tmp_path / "plain" / "tidegauge.toml"
    plain.parent.mkdir()
    plain.write_text(text.replace('path = "t.csv"', f'path = "{tmp_path / "t.csv"}"'), "utf-8")
    truth = really(plain, at_most=200)
    for at_most in (1, 2, 4):
        for within in (None, "6 days"):
            for mode in ("freeze", "retire")[: 1 + (at_most > 1)]:
                ours = really(file, at_most=at_most, within=within, on_excess=mode)
                squares: dict[tuple[str, str | None], list[float]] = defaultdict(list)
                for (release, group, time), value in ours.items():
                    plain_value = truth[release, group, time]
                    if value is not None and plain_value is not None:
                        for cell in {None, group}:
                            squares[release, cell].append((value - plain_value) ** 2)
                for release, rows in found.items():
                    for row in rows:
                        if (row["at_most"], row["within"], row["on_excess"]) == (at_most, within, mode):
                            cell = None if row["group"] is None else row["group"]["s"]
                            values = squares[release, cell]
                            assert row["bias_rmse"] == pytest.approx(
                                sqrt(sum(values) / len(values)), rel=1e-4, abs=1e-3
                            ), (release, row)


@pytest.mark.parametrize("owned", [False, True])
def test_terms_of_a_grid_have_the_bias_of_really_running_them(tmp_path: Path, owned: bool) -> None:
    file = declared(tmp_path, owned=owned, epsilon="1e30")
    terms = {"none": None, "1 week": "7 days", "5 days": "5 days"}
    found = simulated(file, "--at-most", "1,3", "--renews", ",".join(terms), "--until", "2026-02-01")
    text = file.read_text("utf-8").replace("clip = 1\n", "").replace("max_rows = 2", "max_rows = 50")
    plain = tmp_path / "plain" / "tidegauge.toml"
    plain.parent.mkdir()
    plain.write_text(text.replace('path = "t.csv"', f'path = "{tmp_path / "t.csv"}"'), "utf-8")
    truth, compared, biases = really(plain, at_most=200), 0, set()
    for at_most, mode, renews in product((1, 3), ("freeze", "retire"), terms.values()):
        if (at_most, mode) == (1, "retire"):
            continue
        ours = really(file, at_most=at_most, on_excess=mode, renews=renews)
        squares: dict[tuple[str, str | None], list[float]] = defaultdict(list)
        for (release, group, time), value in ours.items():
            plain_value = truth[release, group, time]
            if value is not None and plain_value is not None:
                for cell in {None, group}:
                    squares[release, cell].append((value - plain_value) ** 2)
        for release, rows in found.items():
            for row in rows:
                if (row["at_most"], row["on_excess"], row["renews"]) == (at_most, mode, renews):
                    values = squares[release, None if row["group"] is None else row["group"]["s"]]
                    expected = sqrt(sum(values) / len(values))
                    assert row["bias_rmse"] == pytest.approx(expected, rel=1e-4, abs=1e-3), (release, row)
                    compared += 1
                    biases.add((release, at_most, mode, round(expected, 3)))
    assert compared == 3 * 3 * (3 + 1 + 1 + 1 + 3)  # cells of each release, and all of them together
    assert len(biases) > 3 * 3  # terms do change the bias


def test_a_declared_term_is_simulated_unless_others_are_asked_for(tmp_path: Path) -> None:
    file = declared(tmp_path, owned=False)
    tried = simulated(file, "--at-most", "2", "--renews", "none,7 days")["state"]
    text = file.read_text("utf-8").replace("at_most = 2\n", 'at_most = 2\nrenews = "7 days"\n')
    file.write_text(text, "utf-8")
    found = simulated(file, "--at-most", "2")["state"]
    assert {one["renews"] for one in found} == {"7 days"}
    assert [one for one in tried if one["renews"] == "7 days"] == found
    result = CliRunner().invoke(
        app, ["simulate", "-f", str(file), "--at-most", "2,4", "--renews", "none,7 days"]
    )
    assert "renews" in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_the_bias_follows_from_a_plain_computation(tmp_path: Path) -> None:
    rows = changes(9)
    file = declared(tmp_path, owned=False, rows=rows)
    found = simulated(file, "--at-most", "2", "--on-excess", "freeze", "--until", "2026-02-01")["state"]
    errors: dict[str | None, list[float]] = defaultdict(list)
    for day in range(21):
        end = instant("2026-01-02") + day * 86_400_000_000
        true: dict[str | None, int] = defaultdict(int)
        held: dict[str | None, int] = defaultdict(int)
        for key in {row["key"] for row in rows}:
            view, accepted, count = None, None, 0
            said: tuple[Any, ...] = ()
            for row in rows:
                if row["key"] == key and instant(row["time"]) <= end:
                    state = row["after_s"] if row["after_s"] in STATES else None
                    x = None if row["after_x"] is None else min(10, max(0, row["after_x"]))
                    now = state, x, row["after_s"]
                    changed = _contribution(now) != _contribution(said) or (
                        bool(said) and said[2] == "a" and row["after_s"] == "b"
                    )
                    said = now
                    view = state
                    if changed:
                        count += 1
                        if count <= 2:
                            accepted = state
            true[view] += 1
            held[accepted] += 1
        for state in STATES:
            errors[state].append((held[state] - true[state]) ** 2)
            errors[None].append((held[state] - true[state]) ** 2)
    for row in found:
        cell = None if row["group"] is None else row["group"]["s"]
        assert row["bias_rmse"] == pytest.approx(sqrt(sum(errors[cell]) / len(errors[cell])))


def _contribution(said: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a row adds to the stocks: its state, its clamped number, and whether it has one."""
    if not said or said[2] is None:
        return (None, 0, 0)
    return said[0], said[1] or 0, int(said[1] is not None)


def test_noise_is_that_of_the_plan_and_whole_error_adds_both(tmp_path: Path) -> None:
    file = declared(tmp_path, owned=False)
    found = simulated(file, "--at-most", GRID, "--epsilon", "0.5,1")
    (row,) = (
        one
        for one in found["state"]
        if (one["at_most"], one["epsilon"], one["on_excess"], one["group"]) == (2, 1.0, "freeze", None)
    )
    plan = tg.open(file).plan()
    chosen = next(one for one in plan.releases if one.release.name == "state").chosen
    assert chosen.half_width_mean / 1.97 < row["noise_rmse"] < chosen.half_width_worst / 1.95
    for rows in found.values():
        for one in rows:
            if one["rmse"] is None:  # the noise hides every mean
                continue
            assert one["rmse"] == pytest.approx(sqrt(one["noise_rmse"] ** 2 + one["bias_rmse"] ** 2))
            assert 0 <= one["coverage"] <= 1
            assert one["renews"] is None
    free = [one for one in found["state"] if one["at_most"] is None]
    assert free
    assert all(one["bias_rmse"] == 0 and one["coverage"] == pytest.approx(0.95) for one in free)


def test_another_period_is_the_bias_of_a_gauge_that_declares_it(tmp_path: Path) -> None:
    file = declared(tmp_path, owned=False)
    tried = simulated(file, "--at-most", "2", "--every", "1 day,7 days")["state"]
    file.write_text(file.read_text("utf-8").replace('every = "1 day"', 'every = "7 days"'), "utf-8")
    keys = ("group", "every", "at_most", "on_excess", "bias_rmse")
    known = [[one[key] for key in keys] for one in tried]
    for one in simulated(file, "--at-most", "2")["state"]:
        assert [one[key] for key in keys] in known


def test_the_table_is_eighty_columns_wide_and_marked_secret(tmp_path: Path) -> None:
    file = declared(tmp_path, owned=False)
    out = tmp_path / "errors.svg"
    result = CliRunner().invoke(
        app, ["simulate", "-f", str(file), "--groups", "--epsilon", "1,2", "--chart", str(out)]
    )
    assert result.exit_code == 0, result.output
    assert result.output.startswith("SECRET")
    assert max(map(len, result.output.splitlines())) <= 80
    assert "SECRET" in out.read_text("utf-8")
    assert not list(tmp_path.glob("*.db*"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--at-most", "0"], "--at-most: '0' is not a whole number of 1 or more, or none"),
        (["--on-excess", "stop"], "--on-excess: 'stop' is not one of freeze, retire"),
        (["--at-most", "1", "--on-excess", "retire"], "a unit would retire as it enters"),
        (["--start", "2030-01-01"], "--start: the history ends before this time"),
        (["--within", "1 month"], "--within: '1 month' has no fixed length"),
        (["--epsilon", "-1"], "--epsilon: must be greater than 0"),
        (["--chart", "a.png"], "--chart: must end in .svg"),
    ],
)
def test_what_is_refused(tmp_path: Path, words: list[str], message: str) -> None:
    file = declared(tmp_path, owned=False)
    result = CliRunner().invoke(app, ["simulate", "-f", str(file), *words])
    assert isinstance(result.exception, tg.errors.TidegaugeError)
    assert message in str(result.exception)


def test_a_history_of_its_own_takes_the_place_of_a_source_without_one(tmp_path: Path) -> None:
    file = declared(tmp_path, owned=False)
    expected = simulated(file, "--at-most", "2")
    text = file.read_text("utf-8").replace('path = "t.csv"', 'path = "missing.csv"')
    file.write_text(text, "utf-8")
    other = tmp_path / "history.toml"
    other.write_text(text.replace("missing.csv", "t.csv"), "utf-8")
    assert simulated(file, "--at-most", "2", "--history", str(other)) == expected


def test_a_table_of_versions_has_the_past_that_its_changelog_has(tmp_path: Path) -> None:
    rows = changes(5)
    file = declared(tmp_path, owned=False, rows=rows)
    expected = simulated(file, "--at-most", "1,2,4", "--until", "2026-02-01")
    ends: dict[str, str] = {}
    versions = []
    for row in reversed(rows):
        if row["after_s"] is not None:
            versions.append(
                [row["key"], row["after_s"], str(row["after_x"]), row["time"], ends.get(row["key"], "")]
            )
        ends[row["key"]] = row["time"]
    text = "\n".join(map(",".join, [["key", "s", "x", "valid_from", "valid_to"], *versions]))
    (tmp_path / "versions.csv").write_text(text, "utf-8")
    source = """[source]
kind = "snapshots"
of = "csv"
path = "versions.csv"
table = "t"
key = "key"
valid_from = "valid_from"
valid_to = "valid_to"
types = { x = "integer" }
"""
    release = file.read_text("utf-8")
    file.write_text(source + release[release.index("[constraint]") :], "utf-8")
    before = sorted(tmp_path.iterdir())
    assert simulated(file, "--at-most", "1,2,4", "--until", "2026-02-01") == expected
    assert sorted(tmp_path.iterdir()) == before, "a simulation leaves nothing"


def test_a_history_is_the_declared_table_where_the_declaration_names_none(tmp_path: Path) -> None:
    """The name is then that of the declared file, which the SELECTs have."""
    file = declared(tmp_path, owned=False)
    expected = simulated(file, "--at-most", "2")
    text = "\n".join(line for line in file.read_text("utf-8").splitlines() if not line.startswith("table"))
    file.write_text(text, "utf-8")
    (tmp_path / "t.csv").rename(tmp_path / "another name.csv")
    assert simulated(file, "--at-most", "2", "--history", str(tmp_path / "another name.csv")) == expected


def test_a_gauge_with_added_releases_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = declared(tmp_path, owned=False, epsilon="1\nreserve = 0.4")
    expected = simulated(file, "--at-most", "2")
    clock = instant("2026-01-10")
    gauge = tg.Gauge.from_file(file, now=lambda: clock)
    list(gauge.run())
    assert simulated(file, "--at-most", "2") == expected  # a store with one plan makes no difference
    first = file.read_text("utf-8")
    added = '[release.later]\nsql = "SELECT COUNT(*) FROM t"\nstart = "2026-01-12"\nevery = "1 day"\n'
    file.write_text(f'{first}\n{added}for = "5 days"\n', "utf-8")
    tg.Gauge.from_file(file, now=lambda: clock).amend()
    result = CliRunner().invoke(app, ["simulate", "-f", str(file), "--at-most", "2"])
    assert isinstance(result.exception, SpecError)
    assert "later was added to this gauge after it had begun" in str(result.exception)
    copy = tmp_path / "copy.toml"
    copy.write_text(first, "utf-8")
    assert simulated(copy, "--at-most", "2") == expected


def test_a_chart_needs_two_points() -> None:
    with pytest.raises(SpecError, match="--chart"):
        chart(Simulation({}, 0, 0))


def test_columns_are_those_of_the_history() -> None:
    assert set(changes(1)[0]) == set(COLUMNS)

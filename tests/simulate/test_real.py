"""simulate and status on real changelogs, against plain loops over the rows of the files."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from math import inf, sqrt
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import tidegauge as tg
from tests.real import FOLDER, needs_data, rows
from tidegauge.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

DAY = 86_400.0
"""In seconds."""
Life = list[tuple[float, str | None]]
"""The cell of a row from a time on; None: no cell."""


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def lives(file: str, column: str, cells: Sequence[str]) -> dict[str, Life]:
    """By key: the cell of a row whenever it changes; of several changes at one instant the last counts."""
    found: dict[str, Life] = defaultdict(list)
    for row in rows(file):
        time, value = seconds(row["ts"]), row[f"after_{column}"]
        cell = value if value in cells and row["op"] != "D" else None
        life = found[row["entry"]]
        if life and life[-1][0] == time:
            life.pop()
        life.append((time, cell))
    kept = {}
    for key, life in found.items():
        before: list[tuple[float, str | None]] = [(-inf, None), *life]
        kept[key] = [later for earlier, later in pairwise(before) if earlier[1] != later[1]]
    return kept


def accepted(
    life: Life, most: float, within: float, retire: bool, terms: Sequence[float]
) -> Iterator[tuple[float, str | None]]:
    """What is accepted of a row, term by term; `terms`: when they begin, after the first."""
    borders = [-inf, *terms, inf]
    for begin, end in pairwise(borders):
        at_begin = [None, *(cell for time, cell in life if time <= begin)][-1]
        if begin > -inf:
            yield begin, at_begin
        changes = [(time, cell) for time, cell in life if begin < time < end]
        if at_begin is None and not changes:
            continue
        first = begin if at_begin is not None else changes[0][0]
        leaves = inf
        if retire:
            leaves = first + within
            if len(changes) >= most:
                leaves = min(leaves, changes[int(most) - 1][0])
        for number, (time, cell) in enumerate(changes, 1):
            if time < leaves and number <= most and (retire or time - first <= within):
                yield time, cell
        if leaves < end:
            yield leaves, None


def rmse(
    worlds: dict[str, Life], cells: Sequence[str], readings: Sequence[float], **constraint: Any
) -> float:
    """Root mean square of accepted less true, over readings and cells."""
    moves: dict[tuple[str, float], int] = defaultdict(int)
    for life in worlds.values():
        for sign, path in ((-1, life), (1, list(accepted(life, **constraint)))):
            before: str | None = None
            for time, cell in path:
                for which, change in ((before, -sign), (cell, sign)):
                    if which is not None:
                        moves[which, time] += change
                before = cell
    squares = 0.0
    for cell in cells:
        mine = sorted((time, change) for (which, time), change in moves.items() if which == cell)
        off, at = 0, 0
        for reading in readings:
            while at < len(mine) and mine[at][0] <= reading:
                off += mine[at][1]
                at += 1
            squares += off**2
    return sqrt(squares / len(readings) / len(cells))


def declared(folder: Path, file: str, constraint: str, release: str, epsilon: str = "1") -> Path:
    path = folder / "tidegauge.toml"
    path.write_text(
        f"""
[source]
kind = "files"
path = {json.dumps(str(FOLDER / f"{file}.csv.gz"))}
table = "t"
time = "ts"
key = "entry"
op = "op"
before = "before_"
after = "after_"
[constraint]
{constraint}
[budget]
epsilon = {epsilon}
delta = 1e-6
{release}
""",
        "utf-8",
    )
    return path


PARTIES = ("majority", "minority")
SEATS = """
[release.seats]
sql = "SELECT party, COUNT(*) FROM t GROUP BY party"
groups.party = ["majority", "minority"]
start = "2012-12-01"
every = "7 days"
for = "4900 days"
strategy = "disjoint"
"""


@needs_data
def test_every_bias_of_a_grid_is_that_of_plain_loops_over_a_real_changelog(tmp_path: Path) -> None:
    constraint = 'at_most = 4\nrenews = "2 years"\nrenews_from = "2013-03-01T12:00"'
    file = declared(tmp_path, "congress_committees", constraint, SEATS)
    words = ["--at-most", "2,7,none", "--within", "none,500 days", "--renews", "none,2 years"]
    words += ["--every", "7 days,40 days", "--json"]
    result = CliRunner().invoke(app, ["simulate", "-f", str(file), *words])
    assert result.exit_code == 0, result.output
    found = {
        (one["at_most"], one["within"], one["on_excess"], one["renews"], one["every"]): one
        for one in json.loads(result.output)["releases"]["seats"]
        if one["group"] is None
    }
    worlds = lives("congress_committees", "party", PARTIES)
    last = seconds("2026-04-22T18:21:49")
    start = datetime(2012, 12, 1, tzinfo=UTC)
    years = [datetime(2013 + 2 * n, 3, 1, 12, tzinfo=UTC).timestamp() for n in range(7)]
    compared, biased = 0, set()
    for most, within, mode, renews, every in product(
        (2, 7, None), (None, 500), ("freeze", "retire"), (None, "2 years"), (7, 40)
    ):
        key = most, None if within is None else f"{within} days", mode, renews, f"{every} days"
        if key not in found:
            continue
        times = [(start + timedelta(days=every * n)).timestamp() for n in range(4900 // every + 1)]
        expected = rmse(
            worlds,
            PARTIES,
            [time for time in times if time <= last],
            most=inf if most is None else most,
            within=inf if within is None else within * DAY,
            retire=mode == "retire",
            terms=years if renews else [],
        )
        assert found[key]["bias_rmse"] == pytest.approx(expected, abs=1e-9), key
        compared += 1
        biased.add(round(expected, 6))
    assert compared == len(found) >= 38
    assert len(biased) > 20  # no two of them agree by chance


STATUS = ("Create Fine", "Send Fine", "Add penalty", "Payment")
FINES = f"""
[release.fines]
sql = "SELECT status, COUNT(*) FROM t GROUP BY status"
groups.status = {json.dumps(STATUS)}
start = "2000-02-01"
every = "365 days"
for = "4745 days"
"""


@needs_data
def test_status_shows_accepted_and_true_values_of_a_real_changelog_and_warns(tmp_path: Path) -> None:
    file = declared(tmp_path, "traffic_fines", "at_most = 4", FINES)
    ended = CliRunner().invoke(app, ["run", "-f", str(file), "--once", "--yes"])
    assert ended.exit_code == 0, ended.output
    shown = CliRunner().invoke(app, ["status", "-f", str(file)])
    assert shown.exit_code == 0, shown.output
    assert max(map(len, shown.output.splitlines())) <= 80
    end = (datetime(2000, 2, 1, tzinfo=UTC) + timedelta(days=4745)).timestamp()
    worlds = lives("traffic_fines", "status", STATUS)
    true: dict[str | None, int] = defaultdict(int)
    held: dict[str | None, int] = defaultdict(int)
    wrong: dict[str | None, int] = defaultdict(int)
    for life in worlds.values():
        past = [cell for time, cell in life if time <= end]
        kept = [cell for time, cell in accepted(life, 4, inf, False, []) if time <= end]
        now, then = (past[-1], kept[-1]) if past else (None, None)
        true[now] += 1
        held[then] += 1
        if now != then:
            for cell in (now, then):
                wrong[cell] += 1
    found = tg.Gauge.from_file(file).status().whole_error
    assert found is not None
    warned = 0
    cells = found.releases["fines"]
    assert [one.group["status"] for one in cells if one.group] == list(STATUS)
    for one in cells:
        assert one.group is not None
        name = str(one.group["status"])
        assert (one.accepted, one.true, one.units) == (held[name], true[name], wrong[name]), name
        warning = one.warning("fines")
        assert (warning is not None) == (abs(held[name] - true[name]) > one.noise)
        if warning is not None:
            warned += 1
            off = held[name] - true[name]
            assert f"fines ({name}) is {abs(off):,} {'above' if off > 0 else 'below'} the truth" in warning
            assert " ".join(warning.split()) in " ".join(shown.output.split())
    assert warned

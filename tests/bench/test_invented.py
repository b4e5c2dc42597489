"""The invented changelogs of the private choice: reproducible, and as their walks say."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from bench.invented import CUSTODY, Invented, family, written

if TYPE_CHECKING:
    from pathlib import Path


def small(seed: int = 5) -> Invented:
    """The persons in custody, with 200 rows."""
    one = next(one for one in family() if one.name.startswith("persons in custody"))
    return replace(one, rows=200, seed=seed)


def test_half_of_the_family_is_held_out_and_every_name_and_seed_is_there_once() -> None:
    cases = family()
    assert sum(one.case.held_out for one in cases) * 2 == len(cases)
    assert len({one.name for one in cases}) == len({one.seed for one in cases}) == len(cases)
    assert all(one.case.invented for one in cases)


def test_a_changelog_follows_from_its_seed(tmp_path: Path) -> None:
    found = []
    for seed in (5, 5, 6):
        written(small(seed), tmp_path)
        found.append((tmp_path / f"{small().case.file}.csv").read_bytes())
    assert found[0] == found[1] != found[2]


def test_rows_walk_as_they_may(tmp_path: Path) -> None:
    written(small(), tmp_path)
    with (tmp_path / f"{small().case.file}.csv").open(encoding="utf-8", newline="") as file:
        changes = list(csv.DictReader(file))
    assert [one["ts"] for one in changes] == sorted(one["ts"] for one in changes)
    number = {"": 0, **{name: n + 1 for n, name in enumerate(CUSTODY.states)}}
    owners, gone = set(), 0
    for _, group in groupby(sorted(changes, key=lambda one: one["entry"]), key=lambda one: one["entry"]):
        mine = list(group)
        states = [0, *(number[one["after_s"]] for one in mine)]
        assert len(mine) <= CUSTODY.most
        for state, after in pairwise(states):
            assert CUSTODY.moves[state][after] > 0
        for one in mine:
            assert (one["after_s"] == "") == (one["after_person"] == "") == (one["after_x"] == "")
            gone += one["after_s"] == ""
        owners.add(max(one["after_person"] for one in mine))
    assert gone > 20
    assert 20 < len(owners) < 200  # persons own several rows

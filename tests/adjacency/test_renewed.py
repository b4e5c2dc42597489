"""Random gauges whose constraints renew: a unit that is absent in one term changes nothing but
what noise covers.

The worlds are those of the audit: what one unit does in one term is removed, and its rows are as before
outside of it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.adjacency.declared import declare
from tests.adjacency.world import COLUMNS
from tidegauge.audit.replay.replay import replay
from tidegauge.audit.worlds.rehearsal import Subject
from tidegauge.errors import SpecError
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script

if TYPE_CHECKING:
    from pathlib import Path


def renewing(seed: int, folder: Path) -> Subject:
    """A gauge that can be planned, whose terms are a few bins long."""
    rng = random.Random(f"renewing {seed}")
    while True:
        declared = declare(rng)
        gauge, now = declared.gauge, declared.times.micros(declared.times.passes[0])
        gauge.setdefault("constraint", {"at_most": 2})
        gauge["constraint"]["renews"] = f"{rng.choice((15, 20, 25, 40)) * declared.times.tick} microseconds"
        for release in gauge["releases"].values():
            release.pop("constraint", None)
        try:
            made = Gauge(source=Script(COLUMNS, []), store=folder / "none.db", now=Clock(now), **gauge)
            return Subject(made.spec, made.plan())
        except SpecError:
            continue


def check(seeds: range, folder: Path, *, pairs: int) -> None:
    for seed in seeds:
        found = replay(renewing(seed, folder), seed=seed, random_pairs=pairs, progress=lambda done: None)
        assert found.found == [], seed
        assert found.worst_ratio > 0


def test_one_term_more_or_less(tmp_path: Path) -> None:
    check(range(2), tmp_path, pairs=2)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 60, 5))
def test_one_term_more_or_less_many_times(tmp_path: Path, start: int) -> None:
    check(range(100 + start, 105 + start), tmp_path, pairs=6)

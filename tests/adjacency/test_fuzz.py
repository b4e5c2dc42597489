"""Random gauges over random tables, with and without one unit: the same but for what the noise covers.

Each seed is one gauge and one log, run in the world as it is and in the worlds without one of the units.  The
batches are cut at random in every world.  A failure names the kind of source and the seed, which is all that
is needed to repeat it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.adjacency.play import check, play

if TYPE_CHECKING:
    from pathlib import Path

    from tests.adjacency.play import Kind

QUICK: dict[Kind, int] = {"memory": 5, "debezium": 2, "files": 2, "sqlite": 2}
REST: dict[Kind, int] = {"memory": 10, "debezium": 3, "files": 3, "sqlite": 3}
MANY: dict[Kind, int] = {"memory": 900, "debezium": 150, "files": 150, "sqlite": 150}
CHUNK = 5


def seeds(counts: dict[Kind, int], first: int) -> list[tuple[Kind, range]]:
    return [
        (kind, range(first + start, first + min(start + CHUNK, count)))
        for kind, count in counts.items()
        for start in range(0, count, CHUNK)
    ]


@pytest.mark.parametrize(("kind", "part"), seeds(QUICK, 0), ids=str)
def test_one_unit_more_or_less(tmp_path: Path, kind: Kind, part: range) -> None:
    for seed in part:
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert check(play(seed, kind), folder, seed, most=1) == 1, "no unit was removed"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "part"), [*seeds(REST, 0), *seeds(MANY, 1000)], ids=str)
def test_one_unit_more_or_less_thousands_of_times(tmp_path: Path, kind: Kind, part: range) -> None:
    for seed in part:
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert check(play(seed, kind, tuned=seed % 10 == 0), folder, seed) >= 1, "no unit was removed"

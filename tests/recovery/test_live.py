"""Live databases under load, and a loop that dies again and again:
what it publishes is what the database says."""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.recovery.deadly import POINTS
from tests.recovery.town import Load, Town, killed

if TYPE_CHECKING:
    import subprocess

EVERYWHERE = [(point, when) for point in POINTS for when in ("before", "after")]
WORST = [("commit plan", "after"), ("record", "after"), ("transaction", "after"), ("attest", "after"),
         ("acknowledge", "before")]  # fmt: skip


@pytest.mark.parametrize(
    "points", [WORST, pytest.param(EVERYWHERE, marks=pytest.mark.slow)], ids=["worst", "all"]
)
def test_dying_at_every_step_of_a_tick(town: Town, points: list[tuple[str, str]]) -> None:
    rng, deaths = random.Random(7), 0
    with Load(town, seed=1):
        for point, when in points:
            nth = 1 if point in {"reserve", "commit plan", "close"} else rng.randint(1, 4)
            process = town.start("run", crash=(point, when, nth))
            if point in {"reserve", "commit plan", "close"} and town.unchanged():
                time.sleep(3)
                process.terminate()
                process.wait(600)
            else:
                assert killed(process), (point, when, town.log()[-2000:])
                deaths += 1
            town.unchanged()
    town.settle()
    assert deaths >= len(points) - 5


@pytest.mark.parametrize("kills", [1, pytest.param(60, marks=pytest.mark.slow)])
def test_dying_at_random_times(town: Town, kills: int) -> None:
    rng = random.Random(kills)
    with Load(town, seed=2) as load:
        for _ in range(kills):
            process: subprocess.Popen[bytes] = town.start("run")
            time.sleep(rng.uniform(0.3, 4.0))
            process.send_signal(signal.SIGKILL)
            assert killed(process), town.log()[-2000:]
            town.unchanged()
        while load.transactions <= 20:
            time.sleep(0.1)
    town.settle()
    assert town.unchanged() > 3

"""What starting costs: CPU time beyond that of a bare interpreter, measured alternately.

python bench/startup.py [REPEATS]

Prints the median of each, and exits with 1 where one costs more than its target.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import tidegauge

VERB = "from tidegauge.cli import main; main()"
TOML = """
[source]
kind = "files"
path = "t.csv"
time = "time"
entry = "id"
after = ""

[constraint]
at_most = 4

[budget]
epsilon = 2
delta = 1e-6

[release.all]
sql = "SELECT COUNT(*) FROM t"
start = "2026-01-01"
every = "1 day"
for = "10 days"
"""


def cpu(arguments: list[str], folder: Path) -> float:
    """Seconds of CPU that one process takes."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def small_store(folder: Path) -> None:
    """A gauge with eleven readings."""
    (folder / "tidegauge.toml").write_text(TOML, "utf-8")
    lines = ["time,id,ward", *(f"2026-01-{day:02}T00:00:00Z,{day},a" for day in range(1, 12))]
    (folder / "t.csv").write_text("\n".join(lines) + "\n", "utf-8")
    list(tidegauge.open(folder / "tidegauge.toml").run())


def main(repeats: int) -> int:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        small_store(folder)
        ways = {
            "a bare interpreter": (["-c", "pass"], None),
            "import tidegauge": (["-c", "import tidegauge"], 0.25),
            "tidegauge --help": (["-c", VERB, "--help"], 0.25),
            "tidegauge readings": (["-c", VERB, "readings"], 0.6),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(repeats):
            for name, (arguments, _) in ways.items():
                times[name].append(cpu(arguments, folder))
    bare, missed = median(times["a bare interpreter"]), 0
    for name, (_, target) in ways.items():
        more = median(times[name]) - bare
        compared = "" if target is None else f"+{more:.2f} s, target +{target:.2f} s"
        missed += target is not None and more > target
        print(f"{name:20} {median(times[name]):.2f} s CPU  {compared}")
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 5))

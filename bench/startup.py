"""What starting costs: CPU time beyond that of a bare interpreter, measured alternately.

Every module has its bytecode, as `pip install` leaves it; the first process of each kind is not measured.

    python -m bench.startup [REPEATS]

Exits with 1 where one costs more than its target.  Other libraries are imported beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

import tidegauge
from bench.result import Chart, Ratio, Result, options, say

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
    keeping = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**keeping, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment
    )
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def small_store(folder: Path) -> None:
    """A gauge with eleven readings."""
    (folder / "tidegauge.toml").write_text(TOML, "utf-8")
    lines = ["time,id,ward", *(f"2026-01-{day:02}T00:00:00Z,{day},a" for day in range(1, 12))]
    (folder / "t.csv").write_text("\n".join(lines) + "\n", "utf-8")
    list(tidegauge.open(folder / "tidegauge.toml").run())


def result(repeats: int) -> Result:
    """CPU seconds of each way to start, over those of a bare interpreter."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        small_store(folder)
        bare = "a bare interpreter"
        ways = {
            bare: (["-c", "pass"], None),
            "import tidegauge": (["-c", "import tidegauge"], 0.25),
            "tidegauge --help": (["-c", VERB, "--help"], 0.25),
            "tidegauge readings": (["-c", VERB, "readings"], 0.6),
            "import opendp.prelude": (["-c", "import opendp.prelude"], None),
            "import pandas": (["-c", "import pandas"], None),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for arguments, _ in ways.values():
            cpu(arguments, folder)
        for _ in range(repeats):
            for name, (arguments, _) in ways.items():
                times[name].append(cpu(arguments, folder))
    medians = {name: median(each) for name, each in times.items()}
    ratios = [
        Ratio(name, medians[name], bare, medians[bare], "s CPU", (medians[bare] + target) / medians[bare])
        for name, (_, target) in ways.items()
        if target is not None
    ]
    peers = [
        Ratio("import tidegauge", medians["import tidegauge"], peer, medians[peer], "s CPU")
        for peer in ("import opendp.prelude", "import pandas")
    ]
    return Result(
        "Starting",
        "Processor seconds of a process, measured in turn. The ratio to reach allows 0.25 s more than a bare "
        "interpreter for an import and `--help`, and 0.6 s for `readings` of a small store.",
        ratios=[*ratios, *peers],
        charts=[Chart("What starting costs", "processor seconds, over those of a bare interpreter",
                      bars=[(name, one / medians[bare]) for name, one in medians.items()])],
    )  # fmt: skip


def main() -> int:
    parser = options("What starting costs.", quick="once")
    parser.add_argument("repeats", type=int, nargs="?", default=7)
    asked = parser.parse_args()
    return say(result(1 if asked.quick else asked.repeats), as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())

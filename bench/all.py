"""Run the benchmarks one after another, keep what each found, and write docs/benchmarks.md.

    python -m bench.all                  every script, except for those that ran with the same code
    python -m bench.all local audit      these alone; the page is written from everything that is kept
    python -m bench.all --quick          small sizes; the page goes to .bench/quick instead of docs
    python -m bench.all --render         write the page from what is kept, run nothing
    python -m bench.all --again          run again what is kept

Results are kept in bench/results, one file for each script: an interrupted run goes on where it stopped, and
a test compares the page with them.  Those of --quick, and the environments of peers, are kept in .bench.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bench.machine import machine
from bench.page import write
from bench.result import not_here

ROOT: Final = Path(__file__).parents[1]
KEPT: Final = ROOT / "bench" / "results"
QUICK: Final = ROOT / ".bench" / "quick"
ORDER: Final = (
    "accuracy", "libraries", "usefulness", "denoise", "excess", "growing", "local", "thresholds",
    "throughput", "oneshot", "scale", "spark", "files",
    "engine", "state", "live", "postgres", "decode", "api",
    "pages", "audit", "startup", "size",
)  # fmt: skip
"""The order on the page.  A script that is not named here comes last."""
PARTS: Final = {
    "__init__", "all", "bare", "charts", "environments", "invented", "local_peers", "looks", "machine",
    "page", "peers", "result", "series",
}  # fmt: skip
"""Modules that are parts of others, and no benchmarks."""


WORDS: Final = {"scale": ("--only", "sizes", "shapes"), "usefulness": ("--all",)}
"""More arguments of a script: the other parts of `scale` are scripts of their own, and `usefulness` takes the
series that were held out only with --all."""
OURS: Final = {"bench", "examples", "tests", "tidegauge"}


def scripts() -> list[str]:
    """Every benchmark in this folder."""
    found = {path.stem for path in Path(__file__).parent.glob("*.py")} - PARTS
    return [name for name in ORDER if name in found] + sorted(found - set(ORDER))


def code(name: str) -> str:
    """A hash of everything that the result of a script depends on: Tidegauge, the script and the parts."""
    found, home = hashlib.sha256(), Path(__file__).parent
    own = [home / f"{part}.py" for part in (name, *PARTS - {"all", "page", "charts"})]
    for path in sorted([*ROOT.glob("src/**/*.py"), *own, *home.glob("outside/*.py")]):
        found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"


def without(name: str, reason: str) -> dict[str, Any]:
    """Why there is no result: a library that is an extra and not installed, or a failure."""
    missing = re.fullmatch(r"ModuleNotFoundError: No module named '([^']+)'", reason)
    if missing and missing[1].partition(".")[0] not in OURS:
        return {"result": asdict(not_here(name.capitalize(), missing[1], "It is not installed."))}
    return {"failed": reason}


def run(name: str, *, quick: bool) -> dict[str, Any]:
    """Run a script in a process of its own: its JSON, or why it failed."""
    words = [sys.executable, "-m", f"bench.{name}", *WORDS.get(name, ()), "--json"]
    words += ["--quick"] if quick else []
    begin, load = time.perf_counter(), os.getloadavg()[0]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    found: dict[str, Any] = {"seconds": time.perf_counter() - begin, "load": load, "machine": machine()}
    try:
        return found | {"result": json.loads(last_line(done.stdout))}
    except json.JSONDecodeError:
        return found | without(name, last_line(done.stderr))


def keep(path: Path, found: dict[str, Any]) -> None:
    """Write a result so that a process that is stopped leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    part.replace(path)


def kept(folder: Path) -> dict[str, dict[str, Any]]:
    """What is kept, in the order of the page."""
    paths = {name: folder / f"{name}.json" for name in scripts()}
    return {name: json.loads(path.read_text("utf-8")) for name, path in paths.items() if path.exists()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(scripts())}")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--again", action="store_true", help="run again what is kept")
    parser.add_argument("--render", action="store_true", help="run nothing, write the page")
    asked = parser.parse_args(arguments)
    if unknown := sorted(set(asked.names) - set(scripts())):
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(scripts())}")
    folder = QUICK if asked.quick else KEPT
    failed = []
    for name in [] if asked.render else asked.names or scripts():
        before, now = kept(folder).get(name), code(name)
        if before and before["code"] == now and "failed" not in before and not asked.again:
            print(f"{name}: kept", flush=True)
            continue
        print(f"{name}: ", end="", flush=True)
        found = run(name, quick=asked.quick) | {"code": now}
        if "failed" not in found or before is None or "failed" in before:
            keep(folder / f"{name}.json", found)
        failed += [name] if "failed" in found else []
        print(f"{found['seconds']:.0f} s" + (f", failed: {found['failed']}" if "failed" in found else ""))
    page = folder / "benchmarks.md" if asked.quick else ROOT / "docs" / "benchmarks.md"
    if everything := kept(folder):
        write(page, everything, [name for name in scripts() if name not in everything])
        print(f"wrote {page.relative_to(ROOT)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

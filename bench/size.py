"""How much disk the base install takes, and what each extra adds.

    python -m bench.size            every extra, in environments of their own under a temporary folder
    python -m bench.size serve      the base and this extra

Needs the network (or pip's cache).  The total is that of the files that pip installed, without pip itself.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from bench.result import Chart, Ratio, Result, Table, options, say

ROOT = Path(__file__).parents[1]
MEGABYTE = 1_000_000
MOST = 770
"""Megabytes that the base install may take."""


def installed(folder: Path, extra: str) -> dict[str, int]:
    """Bytes by top folder of what pip installs for the project with this extra (empty: none)."""
    asked = f"{ROOT}[{extra}]" if extra else str(ROOT)
    target = folder / (extra or "base")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target",
         str(target), asked],
        check=True,
    )  # fmt: skip
    sizes: dict[str, int] = {}
    for path in target.rglob("*"):
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts:
            top = path.relative_to(target).parts[0].partition("-")[0]
            sizes[top] = sizes.get(top, 0) + path.stat().st_size
    return sizes


def result(asked: list[str] | None) -> Result:
    """The base install and what these extras add (None: all)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = sorted(project["optional-dependencies"]) if asked is None else asked
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = installed(folder, "")
        whole = sum(base.values())
        largest = sorted(base.items(), key=lambda one: -one[1])[:12]
        more = {extra: sum(installed(folder, extra).values()) - whole for extra in extras}
    tables = [
        Table(
            "What the base install is made of",
            ["package", "MB"],
            [[top, f"{size / MEGABYTE:,.1f}"] for top, size in largest],
        )
    ]
    if more:
        rows = [[extra, f"{size / MEGABYTE:,.1f}", f"{size / whole:.2f}"] for extra, size in more.items()]
        tables.append(Table("What each extra adds", ["extra", "MB", "over the base install"], rows))
    return Result(
        "Size of the install",
        "The files that pip installs, without pip itself. The limit is the size that the base install must "
        "not exceed.",
        ratios=[Ratio("base install", whole / MEGABYTE, "the limit", MOST, "MB", 1.0)],
        tables=tables,
        charts=[Chart("Where the base install goes", "part of the whole",
                      bars=[(top, size / whole) for top, size in largest[:8]])],
    )  # fmt: skip


def main() -> int:
    parser = options("Size of the base install and of each extra.", quick="the base install alone")
    parser.add_argument("extras", nargs="*", metavar="EXTRA")
    asked = parser.parse_args()
    return say(result([] if asked.quick else asked.extras or None), as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())

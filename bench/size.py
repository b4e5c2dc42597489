"""How much disk the base install takes, and what each extra adds.

    python bench/size.py            every extra, in environments of their own under a temporary folder
    python bench/size.py serve      the base and this extra

Needs the network (or pip's cache).  The total is that of the files that pip installed, without pip itself.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
MEGABYTE = 1_000_000


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


def main(asked: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = asked or sorted(project["optional-dependencies"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = installed(folder, "")
        print(f"base: {sum(base.values()) / MEGABYTE:,.0f} MB")
        for top, size in sorted(base.items(), key=lambda one: -one[1])[:12]:
            print(f"    {size / MEGABYTE:8,.1f} MB  {top}")
        for extra in extras:
            more = sum(installed(folder, extra).values()) - sum(base.values())
            print(f"{extra}: + {more / MEGABYTE:,.1f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])

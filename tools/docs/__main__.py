"""Build the documentation site: `python -m tools.docs [FOLDER]` (default: site)."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.docs.build import build

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve()
    problems = build(ROOT, target)
    print(*problems, sep="\n", end="\n" if problems else "")
    print(
        f"{target / 'index.html'}: " + (f"{len(problems)} problems." if problems else "every link resolves.")
    )
    sys.exit(bool(problems))

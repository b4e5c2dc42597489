"""The process of the controls: runs checks, or seeds bugs and runs the checks that must find them.

Reads JSON from standard input: {"checks": [names], "bugs": [names], "alpha": number}.  Writes a line of JSON
for each: {"check": name, "found": [sentences]} or {"bug": name, "caught": true or false, "why": text}.
"""

from __future__ import annotations

import json
import os
import sys

from tidegauge.audit.controls.bugs import BUGS
from tidegauge.audit.controls.seed import ALLOWED, NotSeeded, seeded
from tidegauge.audit.findings import noted
from tidegauge.audit.installed.checks import checks


def main() -> None:
    """Carry out what standard input asks for."""
    os.environ[ALLOWED] = str(os.getpid())
    asked = json.loads(sys.stdin.read())
    known = checks(asked["alpha"])
    for name in asked["checks"]:
        found: list[str] = []
        with noted(found, name):
            known[name]()
        _say({"check": name, "found": found})
    for bug in BUGS:
        if bug.name in asked["bugs"]:
            why = ""
            try:
                with seeded(bug):
                    for name in bug.caught_by:
                        found = []
                        with noted(found, name):
                            known[name]()
                        why = why or "".join(found)
            except NotSeeded as problem:
                _say({"bug": bug.name, "caught": False, "why": f"could not be seeded: {problem}"})
            else:
                _say({"bug": bug.name, "caught": bool(why), "why": why or "not found"})


def _say(line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

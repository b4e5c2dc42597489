"""docs/reference/json.md: every key of the JSON that verbs print,
from a small gauge that is run for this page."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

from tidegauge.cli import app
from tools.docs.reference.meanings import Meanings, table

DECLARED: Final = """
[source]
kind = "files"
path = "patients.csv"
time = "time"
key = "id"
types = { age = "integer" }

[constraint]
at_most = 1

[budget]
epsilon = 2
delta = 1e-6

[release.NAME]
sql = "SELECT ward AS COLUMN, COUNT(*) FROM patients GROUP BY ward"
groups.COLUMN = ["a"]
start = "2026-01-01"
every = "1 day"
for = "1 day"
strategy = "disjoint"

[release.MEAN]
sql = "SELECT AVG(age) FROM patients"
bounds.age = [0, 110]
start = "2026-01-01"
every = "1 day"
for = "1 day"
strategy = "disjoint"
"""
ROWS: Final = "time,id,ward,age\n2026-01-01,1,a,40\n"
TYPES: Final = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "null"}
OPEN: Final = ("parameters", "candidates", "body.releases", "operator_only", "examples")
"""What has other keys for every plan: they are not listed."""
VERBS: Final = (
    (
        "reading",
        "A reading",
        "`run --json` prints one a line, `readings --json` a list of them.",
        ["readings", "--json"],
    ),
    ("plan", "plan --json", "", ["plan", "--json"]),
    ("ledger", "ledger --json", "A list of entries.", ["ledger", "--json"]),
    ("status", "status --json", "", ["status", "--json"]),
    ("verify", "verify --json", "", ["verify", "--json"]),
    ("doctor", "doctor --json", "A list of checks.", ["doctor", "--json"]),
)


def shape(found: Any, path: str, kinds: dict[str, set[str]]) -> None:
    """Note the type of a value and of everything in it, under one name for all releases."""
    if isinstance(found, dict):
        kinds.setdefault(path, set()).add("object")
        if not path.endswith(OPEN):
            for key, one in found.items():
                name = "NAME" if key == "MEAN" else key
                shape(one, f"{path}.{name}" if path else name, kinds)
    elif isinstance(found, list):
        kinds.setdefault(path, set()).add("list")
        if not path.endswith(OPEN):
            for one in found:
                shape(one, f"{path}[]", kinds)
    else:
        kinds.setdefault(path, set()).add(TYPES[type(found)])


def outputs() -> dict[str, Any]:
    """What each verb prints for a gauge of one row."""
    here, runner, found = Path.cwd(), CliRunner(), {}
    with tempfile.TemporaryDirectory(prefix="tidegauge-reference-") as name:
        folder = Path(name)
        (folder / "tidegauge.toml").write_text(DECLARED, "utf-8")
        (folder / "patients.csv").write_text(ROWS, "utf-8")
        os.chdir(folder)
        try:
            runner.invoke(app, ["run", "--once", "--yes"], catch_exceptions=False)
            for key, _, _, words in VERBS:
                found[key] = json.loads(runner.invoke(app, words, catch_exceptions=False).stdout)
        finally:
            os.chdir(here)
    return found


def page() -> str:
    """The whole page."""
    parts = [
        "# JSON\n\nThis page is written from the code by `python -m tools.docs.reference`: it lists what "
        "the verbs\nprint for a small gauge. `NAME` is the name of a release, `COLUMN` that of a group. "
        'Numbers that must\nbe exact are texts like `"1/20"`. [HTTP](http.md) has the addresses that answer '
        "with JSON; readings\nhave this form there, too. [The audit](../audit.md#json) and "
        "[simulate](../choosing-k.md) describe\ntheir own.\n"
    ]
    for key, found in outputs().items():
        title, about = next((title, about) for name, title, about, _ in VERBS if name == key)
        kinds: dict[str, set[str]] = {}
        shape(found, "", kinds)
        listed, meanings = {}, Meanings("json", key)
        for path, types in kinds.items():
            name = re.sub(r"^\[\]\.?", "", path)
            if name and not re.fullmatch(r"(.*\.)?NAME(\[\])?|.*\[\]|.*\]\.group\.COLUMN", name):
                listed[name] = types
        rows: list[tuple[str, ...]] = [
            (f"`{name}`", " or ".join(sorted(types)), meanings.take(name)) for name, types in listed.items()
        ]
        meanings.close()
        parts.append(
            f"## {title}\n{about}\n\n".replace("\n\n\n", "\n\n") + table(("key", "type", "meaning"), rows)
        )
    return "\n".join(parts)

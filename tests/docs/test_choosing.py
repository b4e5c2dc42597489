"""The numbers of docs/choosing.md are those of the planner."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tidegauge.plan.planner import make_plan
from tidegauge.plan.spec.declaration import GaugeSpec
from tidegauge.plan.summary import rounded

PAGE = (Path(__file__).parents[2] / "docs" / "choosing.md").read_text("utf-8")
TABLES = {
    name: dict(zip(values.split(" | "), noise.split(" | "), strict=True))
    for name, values, noise in re.findall(
        r"^\| (\w+) \| (.+) \|\n\|[-|]+\|\n\| noise ± (?:of each )?\| (.+) \|$", PAGE, re.MULTILINE
    )
}
CASES = [(name, value, noise) for name, table in TABLES.items() for value, noise in table.items()]
QUICK = {("epsilon", "2"), ("groups", "1"), ("releases", "2"), ("delta", "none")}


def noise(name: str, value: str) -> float:
    """The noise of the page's release with one value changed."""
    groups = [str(one) for one in range(int(value) if name == "groups" else 5)]
    release: dict[str, Any] = {"start": "2026-01-01", "every": "1 day", "for": "1 year"}
    if name in ("every", "for"):
        release[name] = value
    if len(groups) > 1:
        release |= {"sql": "SELECT g, COUNT(*) FROM t GROUP BY g", "groups": {"g": groups}}
    else:
        release["sql"] = "SELECT COUNT(*) FROM t"
    budget = {"epsilon": value if name == "epsilon" else 1, "delta": value if name == "delta" else "1e-6"}
    source = {"kind": "object", "table": "t"}
    declared = {
        "source": source | ({"unit": "u", "max_rows": int(value)} if name == "max_rows" else {}),
        "constraint": {"at_most": int(value) if name == "at_most" else 4},
        "budget": {key: one for key, one in budget.items() if one != "none"},
        "release": {f"r{n}": release for n in range(int(value) if name == "releases" else 1)},
    }
    columns = {"g": "VARCHAR", "u": "VARCHAR"}
    return (
        make_plan(GaugeSpec.parse(declared), table="t", columns=columns, now=0)
        .releases[0]
        .chosen.half_width_worst
    )


def test_every_table_is_checked() -> None:
    assert set(TABLES) == {"epsilon", "delta", "releases", "at_most", "max_rows", "groups", "every", "for"}
    assert len(CASES) > 35


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [pytest.param(*case, marks=() if case[:2] in QUICK else pytest.mark.slow) for case in CASES],
)
def test_the_number_is_that_of_the_planner(name: str, value: str, shown: str) -> None:
    assert rounded(noise(name, value)) == shown

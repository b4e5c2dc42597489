"""The errors in docs/comparison.md are those of docs/accuracy.md, which a benchmark writes."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_errors_are_those_of_the_benchmark() -> None:
    accuracy = (DOCS / "accuracy.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| ([^|]+) \| ([\d.]+ \| [\d.]+ \| [\d.]+) \|$",
                           (DOCS / "comparison.md").read_text("utf-8"), re.MULTILINE))  # fmt: skip
    wanted: dict[str, list[str]] = {name: [] for name in ("paper, c = 2", "paper, best c", "limit", "ours")}
    for k in (1, 4, 16):
        for against in ("limit", "paper, c = 2", "paper, best c"):
            found = re.search(
                rf"\| running value, k = {k}, n = 1024 \| {against} \| ([\d.]+) \| ([\d.]+) ", accuracy
            )
            assert found
            wanted[against].append(found[2])
            if against == "limit":
                wanted["ours"].append(found[1])
    table = accuracy[accuracy.index("### Gaussian, running value, n = 1024, at most k changes") :]
    for name in ("OpenDP b-ary tree", "dpcrpy Honaker", "square root, generic k participations"):
        line = table[table.index(f"\n| {name}") + 1 :].partition("\n")[0]
        cells = [cell.split(" / ")[0].strip() for cell in line.split("|")[2:-1]]
        wanted[name] = [cells[0], cells[2], cells[4]]
    order = ["paper, c = 2", "paper, best c", "OpenDP b-ary tree", "dpcrpy Honaker",
             "square root, generic k participations", "ours", "limit"]  # fmt: skip
    assert list(rows.values()) == [" | ".join(wanted[name]) for name in order]

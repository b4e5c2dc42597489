"""Numbers in sentences and tables of the docs are those that a benchmark recorded in bench/results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from bench.result import put, result_from
from bench.usefulness import on_page

ROOT: Final = Path(__file__).parents[2]


def page(name: str) -> str:
    """The text of a page, on one line."""
    return " ".join((ROOT / "docs" / name).read_text("utf-8").split())


def recorded(name: str) -> dict[str, Any]:
    found = json.loads((ROOT / "bench" / "results" / f"{name}.json").read_text("utf-8"))
    result: dict[str, Any] = found["result"]
    return result


def ratio(name: str, what: str, against: str) -> float:
    """Ours over theirs, of one line of a script's result."""
    (one,) = (
        line for line in recorded(name)["ratios"] if line["what"] == what and line["against"] == against
    )
    return float(one["ours"] / one["theirs"])


def test_the_worst_error_beside_the_paper() -> None:
    found = re.search(
        r"At n = 256 and k = 1 the worst error is ([\d.]+) of the paper's", page("paper/README.md")
    )
    assert found
    assert float(found[1]) == pytest.approx(
        ratio("accuracy", "running value, k = 1, n = 256", "paper, c = 2"), abs=0.005
    )


def test_the_factor_of_the_local_default() -> None:
    said = re.search(r"lower by a factor of about ([\d,]+)", page("paper/README.md"))
    written = re.search(r"geometric mean over the grid: \*\*(\d+) times", page("local/results.md"))
    assert said
    assert written
    assert int(said[1].replace(",", "")) == pytest.approx(int(written[1]), rel=0.05)


def test_noise_without_delta() -> None:
    after = page("choosing.md").partition("| delta | 1e-4 | 1e-6 | 1e-9 | none |")[2]
    row = re.search(r"\| noise ± \| \d+ \| (\d+) \| \d+ \| (\d+) \|", after)
    assert row
    assert "Without delta the noise is more than twice as large" in page("choosing.md")
    assert "Without delta the noise is more than twice as large" in page("limitations.md")
    assert 2 < int(row[2]) / int(row[1]) < 3


def test_thresh_has_half_the_error() -> None:
    assert "about half the error of our local snapshots at epsilon = 4" in page("comparison.md")
    for people in ("5,000", "20,000", "80,000"):
        assert 1.5 < ratio("thresholds", f"snapshots, {people} people, epsilon = 4", "THRESH tuned") < 2.6


def test_what_the_canaries_certify() -> None:
    text = page("audit.md")
    assert (
        "about 90 % (shift) and 77 % (exact) of mu with 500 cells a world, and 96 % and 92 % with 5,000"
        in text
    )
    for line in recorded("audit")["ratios"]:
        assert line["ours"] == pytest.approx(line["theirs"], abs=0.05)


CHANGELOGS: Final = {
    "demo town, by kind of care": "demo town, by kind of care, daily",
    "committee seats by party": "congress_committees, seats by party, monthly",
    "course enrolments by module": "oulad, enrolments by module, monthly",
    "traffic fines by status": "traffic_fines, open fines by status, monthly",
}


def percents(text: str) -> list[float]:
    return [float(one) for one in re.findall(r"([-+]?[\d.]+) ?%", text)]


def test_the_bias_of_freeze_and_retire() -> None:
    """The table of choosing.md, line by line."""
    rows = {tuple(row[:3]): percents(" ".join(row[3:])) for row in recorded("excess")["tables"][0]["rows"]}
    table = (ROOT / "docs" / "choosing.md").read_text("utf-8").partition("| changelog | at_most |")[2]
    name, compared = "", 0
    for line in table.splitlines()[2:]:
        if not line.startswith("|"):
            break
        title, at_most, freeze, retire = (cell.strip() for cell in line.strip("|").split("|"))
        name = title or name
        for kind, said in (("freeze", percents(freeze)), ("retire", percents(retire))):
            known = rows[CHANGELOGS[name], at_most, kind]
            wanted = said if len(said) == 3 else said * 3
            assert wanted == pytest.approx(known, abs=0.051, rel=0.003), (line, known)
            compared += 1
    assert compared == 18


def test_the_tables_of_the_private_choice_are_those_that_are_kept() -> None:
    text = (ROOT / "docs" / "choosing-k.md").read_text("utf-8")
    kept = on_page(result_from(recorded("usefulness")))
    assert list(kept) == ["errors", "choices", "series", "beyond"]
    for name, table in kept.items():
        assert put(text, name, table.markdown()) == text, name

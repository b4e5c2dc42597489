"""Every number says what it covers: noise, or noise and bias; and what noise hides is too small to tell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from tidegauge.cli import app
from tidegauge.mechanism.noise.samplers import SimulationSampler
from tidegauge.model.reading import COVERS, TOO_SMALL
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from pathlib import Path

DECLARATION = """
[source]
kind = "files"
path = "people.csv"
time = "ts"
key = "id"
after = "after_"

[constraint]
at_most = 4

[budget]
epsilon = 1
delta = 1e-6

[release.people]
sql = "SELECT COUNT(*) FROM people"
start = "2026-01-01"
every = "1 day"
for = "9 days"
strategy = "disjoint"
"""
BOTH = "A smaller at_most or max_rows has less noise, but ignores more (bias)"
SAID: dict[tuple[str, ...], tuple[str, ...]] = {
    ("plan", "--store", "other.db"): ("± is the noise interval (95 %).", COVERS, BOTH),
    ("plan", "--explain"): (COVERS, "worst, mean: half-width of the noise interval (95 %)"),
    ("plan", "--store", "other.db", "--what-if", "epsilon=1", "at_most=2,4"): (
        "Noise interval (95 %) at the worst reading.",
        COVERS,
        BOTH,
    ),
    ("readings",): ("noise interval: 95 %.", COVERS, TOO_SMALL),
    ("readings", "--last", "1"): (COVERS, TOO_SMALL),
    ("readings", "--smoothed"): (COVERS, TOO_SMALL),
    ("readings", "--consistent"): (COVERS, "bias: how much too large a value is on average"),
    ("readings", "--denoised"): (COVERS, "MODEL: a model's estimate", TOO_SMALL),
    ("plot", "people"): ("noise interval (95 %)", f"{TOO_SMALL}: 10 of 10 readings, the latest among them"),
    ("status",): ("noise: noise interval (95 %), the noise alone.", "noise and bias"),
    ("simulate", "--at-most", "2,4"): ("noise interval (95 %, the noise alone)", "whole: noise and bias"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gauge whose noise hides its two people, carried out to its end."""
    here = tmp_path_factory.mktemp("labels")
    (here / "tidegauge.toml").write_text(DECLARATION, "utf-8")
    (here / "people.csv").write_text("ts,id,after_city\n2025-12-31,a,x\n2026-01-12,b,y\n", "utf-8")
    gauge = Gauge.from_file(here / "tidegauge.toml", sampler=SimulationSampler(seed=7))
    assert all(reading.too_small for reading in gauge.run())
    return here


def printed(folder: Path, words: tuple[str, ...]) -> str:
    file = str(folder / "tidegauge.toml")
    given = [str(folder / word) if word == "other.db" else word for word in words]
    done = CliRunner().invoke(app, [given[0], "--file", file, *given[1:]])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_sentence_names_what_is_covered_and_what_is_not() -> None:
    assert COVERS == "It covers the noise, not the bias of changes that are ignored."


@pytest.mark.parametrize("words", SAID, ids=" ".join)
def test_a_verb_says_what_its_numbers_cover(folder: Path, words: tuple[str, ...]) -> None:
    text = " ".join(printed(folder, words).split())
    for said in SAID[words]:
        assert said in text


@pytest.mark.parametrize("form", ["csv", "json"])
def test_files_keep_numbers_that_noise_hides(folder: Path, form: str) -> None:
    text = printed(folder, ("readings", "--format", form))
    assert TOO_SMALL not in text
    if form == "json":
        assert all(isinstance(one["value"], float | int) for one in json.loads(text))
    else:
        assert len([float(line.split(",")[2]) for line in text.splitlines()[1:]]) == 10

"""The demo: a small town from end to end, and the truth that it compares with."""

from __future__ import annotations

import io
import re
from collections import Counter
from datetime import timedelta
from pathlib import Path
from statistics import NormalDist
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from tidegauge.demo import make_demo
from tidegauge.demo.town import BEGIN, DAYS, KINDS, changelog
from tidegauge.demo.truth import Truth
from tidegauge.errors import SpecError
from tidegauge.run.gauge import Gauge


def shown(folder: Path, people: int) -> str:
    text = io.StringIO()
    make_demo(folder, people=people, console=Console(file=text, width=80, highlight=False))
    return text.getvalue()


def test_every_change_follows_from_the_one_before_and_counts_are_in_the_thousands() -> None:
    log = changelog(30_000)
    rows: dict[int, object] = {}
    for change in log:
        assert rows.get(change.person) == change.before
        assert change.before != change.after
        rows[change.person] = change.after
    assert [change.time for change in log] == sorted(change.time for change in log)
    assert BEGIN <= log[0].time <= log[-1].time < BEGIN + timedelta(days=DAYS)
    last = Counter(row.care for row in rows.values() if row is not None)  # type: ignore[attr-defined]
    assert set(last) == set(KINDS)
    assert sum(last.values()) > 30_000 * 0.15
    assert sorted(last.values())[1] > 30_000 * 0.02
    per_person = Counter(change.person for change in log)
    assert sum(count > 8 for count in per_person.values()) < len(per_person) / 1000


def test_from_end_to_end(tmp_path: Path) -> None:
    text = shown(tmp_path / "demo", 2000)
    assert max(map(len, text.splitlines())) <= 80 + len(str(tmp_path))
    assert "2,652 readings published." in text
    assert re.search(r"\d% of all noise intervals \(95 %\) contain the plain truth", text)
    (times,) = re.findall(r", (\d+) times the error", text)
    assert 8 <= int(times) <= 12
    root = ET.parse(tmp_path / "demo" / "infected_now.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    following = text.split("Next:\n")[1].splitlines()
    assert [line.strip() for line in following][1:] == [
        "tidegauge readings in_care --last 3",
        "tidegauge plan --store other.db --what-if epsilon=0.5,1,2 at_most=4,8",
        "tidegauge init YOUR.csv --file your.toml",
    ]
    before = Gauge.from_file(tmp_path / "demo" / "tidegauge.toml").readings()
    again = shown(tmp_path / "demo", 2000)
    assert "Published readings never change" in again
    assert Gauge.from_file(tmp_path / "demo" / "tidegauge.toml").readings() == before


@pytest.mark.slow
def test_noise_intervals_are_expected_to_cover_the_plain_truth(tmp_path: Path) -> None:
    """Without noise, what is left is the bias of dropped changes: small against the noise of the demo."""
    shown(tmp_path / "demo", 100_000)
    file = tmp_path / "demo" / "tidegauge.toml"
    declared = file.read_text().replace("epsilon = 2\ndelta = 1e-6", "epsilon = 1e9")
    (tmp_path / "demo" / "exact.toml").write_text(declared)
    (tmp_path / "demo" / "whole.toml").write_text(declared.replace("at_most = 8", "at_most = 99"))
    truth = Truth(changelog(100_000))
    for reading in Gauge.from_file(tmp_path / "demo" / "whole.toml").run():
        assert reading.value == pytest.approx(truth.of(reading), abs=1e-3)
    noisy = {
        (reading.release, reading.time, str(reading.group)): reading.stderr
        for reading in Gauge.from_file(file).published()
    }
    covered = []
    for reading in Gauge.from_file(tmp_path / "demo" / "exact.toml").run():
        spread = noisy[reading.release, reading.time, str(reading.group)]
        assert reading.value is not None
        assert spread is not None
        shift = (reading.value - truth.of(reading)) / spread
        normal = NormalDist(shift)
        covered.append(normal.cdf(1.96) - normal.cdf(-1.96))
    assert sum(covered) / len(covered) > 0.93


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(SpecError, match=r"is not empty\. Nothing was changed\. Name another folder"):
        shown(tmp_path, 1000)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]

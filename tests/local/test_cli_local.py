"""The verbs of `tidegauge local`, from a plan to readings."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import uvicorn
from typer.testing import CliRunner, Result

from tidegauge.cli.local import app
from tidegauge.errors import LocalError
from tidegauge.local import Collector, Reporter, Survey, report_to_json

PLAN = ["plan", "--answers", "north, south", "--windows", "6", "--changes", "2", "--epsilon", "4"]


def run(*arguments: str | Path, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments], input=stdin)


def planned(folder: Path, *more: str) -> Path:
    path = folder / "survey.json"
    assert run(*PLAN, "--out", path, *more).exit_code == 0
    return path


def reports(survey: Survey, people: int) -> list[bytes]:
    out = []
    for person in range(people):
        reporter = Reporter(survey, {})
        out += [reporter.report(window, survey.answers[person % 2]) for window in range(survey.windows)]
    return out


def test_plan_shows_every_protocol_and_what_it_promises(tmp_path: Path) -> None:
    text = run(*PLAN, "--out", tmp_path / "survey.json").output
    for name in ("snapshots+tilted", "snapshots", "tilted", "response-dcr", "response-hdcr"):
        assert f" {name} " in text
    assert "memoized" not in text
    assert "at most epsilon = 4" in text
    assert Survey.from_json((tmp_path / "survey.json").read_text()).answers == ("north", "south")


def test_plan_as_json(tmp_path: Path) -> None:
    shown = json.loads(run(*PLAN, "--json", "--reveals-change-times").output)
    assert {each["strategy"] for each in shown["candidates"]} >= {"memoized", "snapshots+tilted"}
    best = min(shown["candidates"], key=lambda each: each["half_width_mean"])
    assert shown["chosen"] == best
    assert {"epsilon", "parameters", "half_width_worst"} <= set(best)


def test_plan_takes_the_protocol_it_is_told(tmp_path: Path) -> None:
    path = planned(tmp_path, "--protocol", "tilted")
    assert Survey.from_json(path.read_text()).protocol == "tilted"
    refused = run(*PLAN, "--protocol", "telepathy")
    assert isinstance(refused.exception, LocalError)


def test_simulate_says_how_near_the_estimates_come(tmp_path: Path) -> None:
    path = planned(tmp_path)
    shown = json.loads(run("simulate", path, "--people", "3000", "--json").output)
    assert shown["rmse"] == pytest.approx(shown["predicted_rmse"], rel=0.6)
    assert shown["covered_95"] > 0.6
    assert "simulated" in run("simulate", path, "--people", "500").output


def test_collect_and_read(tmp_path: Path) -> None:
    path, store = planned(tmp_path), tmp_path / "collector.db"
    survey = Survey.from_json(path.read_text())
    sent = reports(survey, 200)  # enough that no window is without a report
    (tmp_path / "batch.bin").write_bytes(b"".join(sent[:500]))
    (tmp_path / "batch.jsonl").write_text("\n".join([*map(report_to_json, sent[490:1000]), "no report"]))
    done = run("collect", path, tmp_path / "batch.bin", tmp_path / "batch.jsonl", "--store", store, "--json")
    assert json.loads(done.output) == {
        "accepted": 1000,
        "malformed": 1,
        "other_survey": 0,
        "late": 0,
        "duplicate": 10,
    }
    assert "accepted 200" in run("collect", path, "-", "--store", store, stdin=b"".join(sent[1000:])).output

    table = run("readings", store).output.splitlines()
    assert len(table) == 1 + 6 * 2
    rows = json.loads(run("readings", store, "--json").output)
    assert set(rows[0]) == {"window", "answer", "value", "stderr", "low", "high"}
    assert len(run("readings", store, "--format", "csv").output.splitlines()) == 13
    run("readings", store, "--format", "csv", "--out", tmp_path / "r.csv")
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 13
    assert run("readings", store, "--format", "parquet", "--out", tmp_path / "r.parquet").exit_code == 0
    assert pyarrow.parquet.read_table(tmp_path / "r.parquet").num_rows == 12
    assert isinstance(run("readings", store, "--format", "parquet").exception, LocalError)
    positive = json.loads(run("readings", store, "--json", "--simplex").output)
    assert min(row["value"] for row in positive) >= 0


def test_collect_merges_and_closes(tmp_path: Path) -> None:
    path = planned(tmp_path)
    survey = Survey.from_json(path.read_text())
    for name in ("one", "two"):
        (tmp_path / f"{name}.bin").write_bytes(b"".join(reports(survey, 5)))
        run("collect", path, tmp_path / f"{name}.bin", "--store", tmp_path / f"{name}.db")
    assert (
        run(
            "collect", path, "--store", tmp_path / "one.db", "--merge", tmp_path / "two.db", "--close", "2"
        ).exit_code
        == 0
    )
    merged = Collector.load(tmp_path / "one.db")
    assert merged.histogram().roster[-1] == 10
    assert merged.closed == 3


def test_files_that_are_not_text(tmp_path: Path) -> None:
    """A file of another kind is no survey; a line that is not text is a malformed report."""
    path, store = planned(tmp_path), tmp_path / "collector.db"
    (tmp_path / "other.bin").write_bytes(b"\xff\x00\xd6")
    (tmp_path / "batch.jsonl").write_bytes(b"\xff\x00\n")
    for verb in (["simulate"], ["collect", "--store", str(store)]):
        assert isinstance(run(*verb, tmp_path / "other.bin").exception, LocalError)
    assert "malformed 1" in run("collect", path, tmp_path / "batch.jsonl", "--store", store).output


def test_nothing_known_is_said_so(tmp_path: Path) -> None:
    path, store = planned(tmp_path), tmp_path / "collector.db"
    run("collect", path, "--store", store)
    assert "unknown" in run("readings", store).output


def test_listening_wants_an_address_and_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, store = planned(tmp_path), tmp_path / "collector.db"
    refused = run("collect", path, "--store", store, "--listen", "8000")
    assert "HOST:PORT" in str(refused.exception)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    refused = run("collect", path, "--store", store, "--listen", "127.0.0.1:8000")
    assert "pip install '.[serve]'" in str(refused.exception)


def test_listening_serves_the_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, store = planned(tmp_path), tmp_path / "collector.db"
    seen: dict[str, Any] = {}
    monkeypatch.setattr(uvicorn, "run", lambda app, **how: seen.update(how, app=app))
    assert (
        run(
            "collect", path, "--store", store, "--listen", "127.0.0.1:8000", "--origin", "https://x.example"
        ).exit_code
        == 0
    )
    assert (seen["host"], seen["port"], seen["access_log"]) == ("127.0.0.1", 8000, False)

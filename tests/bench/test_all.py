"""The runner of benchmarks: what is kept, what is run again, and the page that is written."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench import all as runner
from bench import environments
from bench.machine import machine
from bench.page import write
from bench.result import Chart, Ratio, Result, Series, Table, markdown, not_here, number, result_from, say

BENCH = Path(__file__).parents[2] / "bench"
FOUND = Result(
    "Speed of things",
    "How fast things are.",
    ratios=[Ratio("ours", 3.0, "theirs", 2.0, "s", 1.2), Ratio("more", 9.0, "less", 3.0, "", 2.0, "higher")],
    tables=[Table("A table", ["a", "b"], [["1", "2"]])],
    charts=[
        Chart("Lines", "size", "seconds", [Series("one", [(1.0, 2.0), (10.0, 20.0)])], [], log_x=True),
        Chart("Bars", "over theirs", lines=[], bars=[("ours", 1.5), ("others", 0.2)]),
    ],
    absent={"a peer": "It has no wheel."},
)


def test_every_file_is_a_benchmark_or_a_part() -> None:
    names = {path.stem for path in BENCH.glob("*.py")}
    assert names >= runner.PARTS
    assert set(runner.scripts()) == names - runner.PARTS
    for name in runner.scripts():
        assert "def main" in (BENCH / f"{name}.py").read_text("utf-8"), name


def test_a_ratio_is_reached_or_not() -> None:
    assert not FOUND.ratios[0].reached
    assert FOUND.ratios[1].reached
    assert not Ratio("x", 1.0, "y", 1.0, "", 1.5, "higher").reached
    assert Ratio("x", 1.0, "y", 1.0).reached
    with pytest.raises(ValueError, match="better"):
        Ratio("x", 1.0, "y", 1.0, better="smaller")


def test_numbers_have_three_digits() -> None:
    assert [number(one) for one in (0, 0.00012, 0.12345, 12.345, 1234.5)] == [
        "0", "1.20e-04", "0.123", "12.3", "1,234",
    ]  # fmt: skip


def test_a_result_survives_json() -> None:
    assert result_from(json.loads(json.dumps(asdict(FOUND)))) == FOUND
    plain = result_from({"changes": 3, "seconds": 0.123456})
    assert plain.tables[0].rows == [["changes", "3"], ["seconds", "0.1235"]]


def test_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert say(FOUND, as_json=True) == 1
    assert result_from(json.loads(capsys.readouterr().out)) == FOUND
    assert say(Result("a", "b"), as_json=False) == 0
    assert capsys.readouterr().out == "# a\n\nb\n"
    assert "**missed**" in markdown(FOUND)
    assert "Not run: a peer. It has no wheel." in markdown(FOUND)


def kept(**more: Any) -> dict[str, Any]:
    return {
        "seconds": 2.0,
        "load": 0.5,
        "machine": {"processor": "Abacus", "cores": "2"},
        "code": "c",
        **more,
    }


def test_the_page(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    write(page, {
        "accuracy": kept(result=asdict(FOUND)),
        "live": kept(failed="PostgreSQL is not installed"),
        "api": kept(result=asdict(not_here("API", "wrk", "It is not installed."))),
    }, ["scale"])  # fmt: skip
    text = page.read_text("utf-8")
    assert "Machine: processor Abacus, cores 2." in text
    assert "| `bench.accuracy` | 2 s | 0.5 | 1 of 2 wanted ratios reached |" in text
    assert "| ours | 3 s | theirs | 2 s | 1.5 | at most 1.2 **missed** |" in text
    assert "Not measured: PostgreSQL is not installed" in text
    assert "Not run for this page: `bench.scale`." in text
    assert "| `bench.api` | 2 s | 0.5 | not run here |" in text
    assert "## API\n\nNot run: wrk. It is not installed." in text
    assert all(len(line) <= 110 for line in text.splitlines() if not line.startswith("|"))
    for figure in ("accuracy-1", "accuracy-2"):
        assert f"](benchmarks/{figure}.svg)" in text
        assert (tmp_path / "benchmarks" / f"{figure}.svg").read_text("utf-8").startswith("<svg")


def test_other_machines_are_named_apart(tmp_path: Path) -> None:
    other = kept(result=asdict(FOUND)) | {"machine": {"processor": "Slide rule"}}
    write(tmp_path / "b.md", {"accuracy": kept(result=asdict(FOUND)), "local": other})
    text = (tmp_path / "b.md").read_text("utf-8")
    assert "Machine of accuracy: processor Abacus" in text
    assert "Machine of local: processor Slide rule." in text


def test_a_figure_that_is_no_longer_drawn_is_removed(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "old.svg").write_text("<svg/>")
    write(tmp_path / "b.md", {"accuracy": kept(result=asdict(FOUND))})
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["accuracy-1.svg", "accuracy-2.svg"]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what was run, in a folder of its own."""
    names: list[str] = []

    def run(name: str, *, quick: bool) -> dict[str, Any]:
        names.append(name)
        one = {key: value for key, value in kept(quick=quick).items() if key != "code"}
        return one | ({"failed": "no"} if name == "live" else {"result": asdict(FOUND)})

    monkeypatch.setattr(runner, "run", run)
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "KEPT", tmp_path / "results")
    monkeypatch.setattr(runner, "QUICK", tmp_path / ".bench" / "quick")
    monkeypatch.setattr(runner, "code", lambda name: f"now {name}")
    return names


def test_an_interrupted_run_goes_on(ran: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert runner.main(["audit", "local"]) == 0
    assert runner.main(["audit", "local", "decode"]) == 0
    assert ran == ["audit", "local", "decode"]
    monkeypatch.setattr(runner, "code", lambda name: f"later {name}")
    runner.main(["audit"])
    runner.main(["--again", "audit"])
    assert ran[3:] == ["audit", "audit"]
    text = (tmp_path / "docs" / "benchmarks.md").read_text("utf-8")
    assert [line for line in text.splitlines() if line.startswith("| `bench.")] == [
        f"| `bench.{name}` | 2 s | 0.5 | 1 of 2 wanted ratios reached |"
        for name in ("local", "decode", "audit")
    ]


def test_a_result_depends_on_its_script_and_not_on_others() -> None:
    assert runner.code("audit") == runner.code("audit")
    assert runner.code("audit") != runner.code("decode")


def test_a_library_that_is_not_installed_is_no_failure() -> None:
    found = runner.without("spark", "ModuleNotFoundError: No module named 'pyspark'")
    assert found["result"]["absent"] == {"pyspark": "It is not installed."}
    for own in ("bench.charts", "tidegauge.run"):
        reason = f"ModuleNotFoundError: No module named '{own}'"
        assert runner.without("spark", reason) == {"failed": reason}


def test_a_failure_is_said_and_tried_again(ran: list[str], tmp_path: Path) -> None:
    assert runner.main(["live"]) == 1
    assert runner.main(["live"]) == 1
    assert ran == ["live", "live"]
    assert "Not measured: no" in (tmp_path / "docs" / "benchmarks.md").read_text("utf-8")


def test_quick_figures_never_reach_the_docs(ran: list[str], tmp_path: Path) -> None:
    runner.main(["--quick", "audit"])
    assert ran == ["audit"]
    assert not (tmp_path / "docs").exists()
    assert (tmp_path / ".bench" / "quick" / "benchmarks.md").exists()
    runner.main(["--render"])
    assert ran == ["audit"]


def test_an_unknown_name_is_refused(ran: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        runner.main(["acuracy"])
    assert "there is no benchmark acuracy; there are accuracy" in capsys.readouterr().err
    assert ran == []


def test_the_machine_has_no_name_and_no_path() -> None:
    words = " ".join(machine().values())
    assert machine()["Python"] == platform.python_version()
    assert platform.node() not in words.split()
    assert str(Path.home()) not in words


def test_a_library_that_does_not_install_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(environments.Absent, match=r"needs Python 2\.0"):
        environments.interpreter(("2.0",))
    said = environments.reason("Looking\nERROR: No matching distribution in https://a.b/c at /home/me/x\n")
    assert said == "ERROR: No matching distribution in ... at ..."
    library = environments.Library("nothing-of-this-name", "1")
    monkeypatch.setattr(environments, "HOME", tmp_path)
    home = tmp_path / "nothing-of-this-name-1"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").write_text("#!/bin/sh\necho 'cannot load /usr/lib/x' >&2\nexit 1\n")
    (home / "bin" / "python").chmod(0o755)
    (home / "installed").write_text("")
    with pytest.raises(environments.Absent, match=r"installed but failed: cannot load \.\.\."):
        environments.ask(library, "opendp_counts.py", {})


def test_the_page_has_the_results_that_are_kept_and_no_others(tmp_path: Path) -> None:
    """A number that was written by hand, on the page or in a figure, is found here."""
    docs, everything = BENCH.parent / "docs", runner.kept(runner.KEPT)
    write(tmp_path / "benchmarks.md", everything, [one for one in runner.scripts() if one not in everything])
    assert (docs / "benchmarks.md").read_text("utf-8") == (tmp_path / "benchmarks.md").read_text("utf-8")
    drawn = {path.name: path.read_text("utf-8") for path in (tmp_path / "benchmarks").glob("*.svg")}
    assert drawn == {path.name: path.read_text("utf-8") for path in (docs / "benchmarks").glob("*.svg")}

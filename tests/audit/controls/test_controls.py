"""Every seeded bug can be seeded, is found, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegauge.audit.controls.bugs import BUGS
from tidegauge.audit.controls.seed import ALLOWED, Bug, Edit, NotSeeded, _edited, function_of, seeded
from tidegauge.audit.installed.checks import checks

NAMED = {
    "the paper's MostSpan",
    "the paper's formula for hierarchies",
    "|b - a| on [50, 100]",
    "enforcement is skipped",
    "k + 1 changes are accepted",
    "noise is drawn again after a restart",
    "a change of group counts once",
    "a flow moves M instead of k M",
    "noise is 10 % small in drawing and error bars alike",
    "a renamed row starts with fresh counters",
    "a term that remembers the last one",
}


def run(names: list[str], bugs: list[str]) -> list[dict[str, object]]:
    asked = json.dumps({"checks": names, "bugs": bugs, "alpha": 1e-9})
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tidegauge.audit.controls.child"],
        input=asked, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_there_are_enough_and_each_is_still_in_the_code() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 30
    assert {bug.name for bug in BUGS} >= NAMED
    known = checks(1e-6)
    for bug in BUGS:
        assert bug.caught_by
        assert set(bug.caught_by) <= known.keys()
        for edit in bug.edits:
            assert _edited(edit) != function_of(edit.function).__code__, bug.name


def test_the_example_in_the_docs_has_their_number() -> None:
    text = Path(__file__).parents[3].joinpath("docs", "audit.md").read_text("utf-8")
    assert f'"seeded": {len(BUGS)}, "caught": {len(BUGS)}' in text


def test_a_bug_is_seeded_in_the_process_of_the_controls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bug = BUGS[0]
    before = function_of(bug.edits[0].function).__code__
    with pytest.raises(NotSeeded), seeded(bug):
        pass
    monkeypatch.setenv(ALLOWED, "1")  # as a child of the controls would inherit it
    with pytest.raises(NotSeeded), seeded(bug):
        pass
    assert function_of(bug.edits[0].function).__code__ is before


def test_the_code_is_as_it_was_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegauge.theory.folds import most_span

    monkeypatch.setenv(ALLOWED, str(os.getpid()))
    bug = next(bug for bug in BUGS if bug.name == "the paper's MostSpan")
    with seeded(bug):
        assert most_span([12], 13) == 0
    assert most_span([12], 13) == 1


def test_a_bug_whose_code_changed_cannot_be_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, str(os.getpid()))
    for function, old in (
        ("tidegauge.theory.folds:_most_span", "no such text"),
        ("tidegauge.theory.folds:gone", "x"),
        ("tidegauge.gone:gone", "x"),
    ):
        with pytest.raises(NotSeeded), seeded(Bug("b", (Edit(function, old, ""),), ())):
            pass


def test_some_are_caught_and_their_checks_pass_without_them() -> None:
    bugs = ["the paper's MostSpan", "|b - a| on [50, 100]", "enforcement is skipped"]
    names = ["windows that an interval touches", "values far from zero", "three changes, and two more"]
    said = run(names, bugs)
    assert [line["found"] for line in said if "check" in line] == [[], [], []]
    assert [line["caught"] for line in said if "bug" in line] == [True, True, True]


@pytest.mark.slow
def test_all_checks_pass_and_all_bugs_are_caught() -> None:
    said = run(list(checks(1e-6)), [bug.name for bug in BUGS])
    assert [line for line in said if line.get("found") or line.get("caught") is False] == []
    assert len(said) == len(checks(1e-6)) + len(BUGS)

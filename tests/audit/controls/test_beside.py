"""Checks of calendars, clocks, notations, erasure and what is served pass, and find their bugs."""

from __future__ import annotations

from tests.audit.controls.test_controls import run
from tidegauge.audit.audit import seedable
from tidegauge.audit.controls.beside import BESIDE
from tidegauge.audit.installed.checks import checks

QUICK = {
    "clocks of a zone",
    "a clock that jumps",
    "noise that a tick shares",
    "sums of many places",
    "shared noise is erased",
    "keys of several columns",
    "text in files",
    "values that events leave out",
    "rows that SQLite replaces",
    "padded text of PostgreSQL",
    "readings of a public file",
    "lost states of reporters",
    "lost states of reporters, browser",
    "reservations of a ledger",
    "strategy autoregressive, errors of its noise",
    "queries by a few lines of Python",
    "queries in the dialect of postgres",
    "queries in the dialect of sqlite",
    "the same bytes from the browser",
    "the probability of a false answer",
    "parts of an encrypted store",
    "keys that a row passes through",
    "a flow of all that comes and goes",
    "a flow of all that comes and goes, a whole history",
    "terms of a shared ledger",
}


def test_quick_checks_pass_and_find_their_bugs() -> None:
    there = checks(1e-6).keys() & QUICK
    bugs = [bug.name for bug in BESIDE if bug in seedable() and there >= set(bug.caught_by)]
    assert len(bugs) >= 25
    said = run(sorted(there), bugs)
    assert [line for line in said if line.get("found") or line.get("caught") is False] == []
    assert len(said) == len(there) + len(bugs)


def test_every_kind_of_strategy_is_decoded_by_its_rows() -> None:
    known = checks(1e-6)
    for name in ("hierarchy", "toeplitz", "ahead"):
        known[f"strategy {name}, kept sums"]()
    for name in ("hierarchy", "toeplitz", "levels", "buffered"):
        known[f"strategy {name}, errors of its noise"]()

"""What a user reads after a common mistake: the whole message of each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tidegauge.cli.carry_out import main

DECLARATION = """
[source]
kind = "files"
path = "people.csv"
time = "ts"
key = "id"

[constraint]
at_most = 4

[budget]
epsilon = 1

[release.people]
sql = "SELECT COUNT(*) FROM people"
start = "2026-01-01"
every = "1 day"
for = "9 days"
"""

HEAD = "SpecError: tidegauge.toml does not declare a gauge:\n  "
SQL = "QueryError: tidegauge.toml: release.people.sql: "
PERSONS = (
    "is refused: whether a row is the first of its kind depends on the other rows; to count persons who own "
    "several rows, declare the column as unit with max_rows = 1 in [source] and publish COUNT(*), which then "
    "counts each of them once; to count a few public values, declare them as groups\n"
)
MISTAKES = [
    (
        'start = "2026-01-01"',
        "start = 20260102",
        HEAD
        + "release.people.start: 20260102 is not a date or time: write 2026-01-31 or 2026-01-31T12:00:00Z\n",
    ),
    (
        'start = "2026-01-01"',
        'start = "01.02.2026"',
        HEAD + "release.people.start: '01.02.2026' is not a date or time "
        "(write 2026-01-31 or 2026-01-31T12:00:00Z)\n",
    ),
    ('start = "2026-01-01"', "start = 12:00:00", "12:00:00 is not a date or time: write 2026-01-31"),
    ("at_most = 4", "at_most = 0", HEAD + "constraint.at_most: must be 1 or more\n"),
    ("at_most = 4", 'at_most = "4"', HEAD + "constraint.at_most: must be a whole number, without quotes\n"),
    ("at_most = 4", "at_mots = 4", HEAD + "constraint.at_mots: is not a key here; did you mean 'at_most'?\n"),
    (
        "at_most = 4",
        'at_most = 4\non_excess = "drop"',
        HEAD + "constraint.on_excess: must be 'freeze' or 'retire'\n",
    ),
    ('key = "id"\n', "", HEAD + "source.key: is missing; add it to [source]\n"),
    ("[budget]\nepsilon = 1\n", "", HEAD + "[budget] is missing\n"),
    (
        'every = "1 day"',
        "every = 1",
        HEAD + "release.people.every: 1 is not a duration: write it with its unit ('1 day', "
        "'90 minutes', '2 years')\n",
    ),
    (
        'path = "people.csv"',
        "path = people.csv",
        "SpecError: tidegauge.toml is not valid TOML: Invalid value (at line 4, column 8). Texts are in "
        "quotes, lists in [ ], and every key is given once\n",
    ),
    ("COUNT(*)", "COUNT(DISTINCT id)", f"{SQL}COUNT(DISTINCT id) {PERSONS}"),
    ("COUNT(*)", "APPROX_COUNT_DISTINCT(id)", f"{SQL}APPROX_COUNT_DISTINCT(id) {PERSONS}"),
    (
        "FROM people",
        "FROM people JOIN towns ON towns.id = people.town",
        f"{SQL}a second table is refused: a release reads one table; copy the joined columns into that table "
        "(triggers or the application keep them up to date), or export the joined rows and follow "
        'the exports (kind = "snapshots")\n',
    ),
]


@pytest.fixture(autouse=True)
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("ts,id,town\n2026-01-01T08:00:00Z,p1,3\n")
    Path("tidegauge.toml").write_text(DECLARATION)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["tidegauge", *words])
        with pytest.raises(SystemExit) as end:
            main()
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "")
    return err


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES, ids=[new[:30] for _, new, _ in MISTAKES])
def test_a_mistake_in_the_declaration(
    capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    assert old in DECLARATION
    Path("tidegauge.toml").write_text(DECLARATION.replace(old, new, 1))
    shown = refused(capsys, "plan")
    assert shown == said if said.endswith("\n") else said in shown


def test_files_are_named_as_they_were_given(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "readings", "--store", "elsewhere/other.db")
    assert said.startswith("StoreError: elsewhere/other.db does not exist: nothing has been run here yet.")
    said = refused(capsys, "plan", "--file", "elsewhere/gauge.toml")
    assert said.startswith(
        "SpecError: elsewhere/gauge.toml is not here. Write one with: tidegauge init TABLE"
    )
    said = refused(capsys, "readings", "--store", "people.csv")
    assert said.startswith("StoreCorrupt: people.csv is not a usable store")


def test_install_is_a_verb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tidegauge", "install"])
    main()
    assert "tidegauge: " not in capsys.readouterr().err


def test_an_output_file_of_an_unknown_kind(capsys: pytest.CaptureFixture[str]) -> None:
    monkey = ["run", "--once"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["tidegauge", *monkey])
        main()
    capsys.readouterr()
    said = refused(capsys, "readings", "--output", "out.xlsx")
    assert said == (
        "SpecError: --output: 'out.xlsx' does not end in .csv, .json or .parquet; rename it or add --format\n"
    )

"""Reading always works: from the committed plan, whatever happened to the declaration since."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest

from tests.cli.called import called
from tidegauge.run.gauge import Gauge

DECLARATION = """
[source]
kind = "files"
path = "people.csv"
time = "ts"
key = "id"

[constraint]
at_most = 4

[budget]
epsilon = 1000000000

[release.people]
sql = "SELECT COUNT(*) FROM people"
start = "2026-01-01"
every = "1 day"
for = "9 days"

[release.by_city]
sql = "SELECT city, COUNT(*) FROM people GROUP BY city"
groups.city = ["north", "south"]
start = "2026-01-01"
every = "1 day"
for = "9 days"
parts_of = "people"
"""
READERS = (
    ("readings",),
    ("readings", "--json"),
    ("readings", "--smoothed"),
    ("readings", "--consistent"),
    ("plot", "by_city"),
    ("status",),
    ("ledger",),
    ("verify",),
)
CHANGED = {
    "another period": ('every = "1 day"', 'every = "2 days"', "release.by_city.every, release.people.every"),
    "another budget": ("epsilon = 1000000000", "epsilon = 3", "budget.epsilon"),
    "another name": ("[release.by_city]", "[release.by_town]", "release.by_town"),
    "a broken key": ("at_most = 4", "at_most = 0", "does not declare a gauge any more"),
    "broken TOML": ("at_most = 4", "at_most = ", "does not declare a gauge any more"),
    "an unknown kind": ('kind = "files"', 'kind = "telepathy"', "does not declare a gauge any more"),
    "no file": (None, None, "is not here"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [f"2026-01-0{1 + i % 5}T08:00:00Z,p{i},{'north' if i % 3 else 'south'}" for i in range(20)]
    Path("people.csv").write_text("ts,id,city\n" + "\n".join(lines) + "\n")
    Path("tidegauge.toml").write_text(DECLARATION)
    return tmp_path


def change(old: str | None, new: str | None) -> None:
    file = Path("tidegauge.toml")
    if old is None or new is None:
        file.unlink()
        return
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.usefixtures("folder")
def test_every_reading_verb_works_from_the_committed_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert called(capsys, "run", "--once")[0] == 0
    before = {words: called(capsys, *words)[1] for words in READERS}
    assert all(before.values())
    for name, (old, new, note) in CHANGED.items():
        Path("tidegauge.toml").write_text(DECLARATION)
        change(old, new)
        for words in READERS:
            code, out, err = called(capsys, *words)
            assert (code, out) == (0, before[words]), (name, words)
            assert note in err
            assert err.startswith("Note: tidegauge.toml ")
            assert err.count("\n") == 1
        code, _, err = called(capsys, "run", "--once")
        assert code == 2, name
        assert "Note" not in err
    assert len(Gauge.from_file(_restored()).ledger()) == 1


def _restored() -> Path:
    Path("tidegauge.toml").write_text(DECLARATION)
    return Path("tidegauge.toml")


@pytest.mark.usefixtures("folder")
def test_formatting_is_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert called(capsys, "run", "--once", "--until", "2026-01-03")[0] == 0
    text = DECLARATION.replace("SELECT COUNT(*) FROM people", "select  count( * )\\nfrom people")
    text = text.replace('start = "2026-01-01"', "start = 2026-01-01   # unquoted").replace("key =", "entry =")
    Path("tidegauge.toml").write_text(text)
    for words in (("readings",), ("status",), ("plan",), ("run", "--once")):
        code, _, err = called(capsys, *words)
        assert (code, err) == (0, ""), words


@pytest.mark.usefixtures("folder")
def test_a_release_is_known_by_its_committed_name(capsys: pytest.CaptureFixture[str]) -> None:
    called(capsys, "run", "--once")
    change("[release.by_city]", "[release.by_town]")
    assert called(capsys, "readings", "by_city")[0] == 0
    code, _, err = called(capsys, "readings", "by_town")
    assert code == 2
    assert "there is no release 'by_town'; there are: people, by_city" in err


@pytest.mark.usefixtures("folder")
def test_without_a_store_the_declaration_is_refused_as_always(capsys: pytest.CaptureFixture[str]) -> None:
    change("at_most = 4", "at_most = 0")
    for words in READERS:
        code, out, err = called(capsys, *words)
        assert (code, out) == (2, "")
        assert "constraint.at_most" in err


def test_an_encrypted_store_needs_the_key_that_the_file_names(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READING_KEY", secrets.token_hex(32))
    with Path("tidegauge.toml").open("a") as file:
        file.write('\n[store]\nkey = "env:READING_KEY"\n')
    assert called(capsys, "run", "--once")[0] == 0
    readings = called(capsys, "readings", "--json")[1]
    change("at_most = 4", "at_most = 0")  # the file still says where the key is
    code, out, err = called(capsys, "readings", "--json")
    assert (code, out) == (0, readings)
    assert "does not declare a gauge any more" in err
    (folder / "tidegauge.toml").unlink()
    code, out, err = called(capsys, "readings", "--json")
    assert (code, out) == (2, "")
    assert "tidegauge.toml is not here" in err
    assert "is encrypted, and no key was given" in err


@pytest.mark.usefixtures("folder")
def test_in_python_too(capsys: pytest.CaptureFixture[str]) -> None:
    called(capsys, "run", "--once")
    change("epsilon = 1000000000", "epsilon = 3")
    gauge = Gauge.from_file("tidegauge.toml")
    assert gauge.readings("people").num_rows == 10
    assert gauge.verify().readings == 30
    assert gauge.status().releases["people"].readings == 10
    assert json.loads(json.dumps(gauge.ledger()[0].as_json()))["body"]["reserved"] == "1000000000"

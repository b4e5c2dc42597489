"""A kind of source that is not part of Tidegauge: one class,
one registration, and every verb works with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pytest

from tests.cli.test_verbs import Shell
from tidegauge.model.declared import Name, SourceSpec
from tidegauge.model.kinds import SOURCES
from tidegauge.model.mutation import Batch
from tidegauge.model.quantity import instant
from tidegauge.model.source import Asked, Check, Claim, Draft, Location, OpenSource, SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COLUMNS = {"city": "VARCHAR"}
SHAPE = pa.struct([("city", pa.string())])
LINES = "2026-01-01T08:00:00 1 north\n2026-01-02T08:00:00 2 south\n2026-01-03T08:00:00 1 -\n"


class NotesSpec(SourceSpec):
    """Notes: one line a change, as TIME KEY CITY; '-' for a deletion."""

    REACH = frozenset({"pen"})
    PAST = True

    kind: Literal["notes"]
    path: Name
    pen: Name = "blue"


class Notes(OpenSource):
    installs = True

    def __init__(self, path: Path, table: str) -> None:
        self._path, self._table = path, table

    @property
    def table(self) -> str:
        return self._table

    @property
    def columns(self) -> Mapping[str, str]:
        return COLUMNS

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        lines = [line.split() for line in self._path.read_text().splitlines()]
        done = int(position or 0)
        due = [(instant(time), key, city) for time, key, city in lines[done:] if instant(time) <= until]
        rows = pa.table(
            {
                "time": pa.array([time for time, _, _ in due], pa.int64()),
                "entry": pa.array([key for _, key, _ in due], pa.string()),
                "unit": pa.nulls(len(due), pa.string()),
                "before": pa.nulls(len(due), SHAPE),
                "after": pa.array([None if city == "-" else {"city": city} for _, _, city in due], SHAPE),
                "informed": pa.array([False] * len(due)),
            }
        )
        yield Batch(rows, until, str(done + len(due)))

    def doctor(self, position: str | None = None) -> list[Check]:
        done = f"{position or 0} lines were read"
        return [Check("notes", self._marked.exists(), done, "tidegauge install")]

    @property
    def _marked(self) -> Path:
        return self._path.with_suffix(".marked")

    def install(self) -> str:
        self._marked.touch()
        return "The notes are marked."

    def uninstall(self, position: str | None = None) -> str:
        self._marked.unlink()
        return "The notes are as they were."


class NotesKind(SourceKind[NotesSpec]):
    spec = NotesSpec

    def open(self, spec: NotesSpec, where: Location) -> OpenSource:
        return Notes(where.base / spec.path, spec.table)

    def operator_counts(self, spec: NotesSpec, where: Location) -> Mapping[str, int]:
        return {"pages": len((where.base / spec.path).read_text().splitlines())}

    def claim(self, asked: Asked) -> Claim:
        return Claim.OWN if (asked.what or "").endswith(".notes") else Claim.NONE

    def template(self, asked: Asked) -> Draft:
        lines = ("[source]", 'kind = "notes"', f'path = "{asked.what}"', 'table = "people"', 'key = "id"')
        return Draft(lines, "people", (), {"city": ("north", "south")})


@pytest.fixture
def tidegauge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shell]:
    monkeypatch.chdir(tmp_path)
    Path("town.notes").write_text(LINES)
    SOURCES.register("notes", NotesKind())
    yield Shell(capsys)
    SOURCES.unregister("notes")


def declare(tidegauge: Shell, *words: str) -> None:
    """A declaration from `init`, with a budget so large that the noise rounds to zero."""
    assert "tidegauge plan" in tidegauge("init", "town.notes", *words)
    text = Path("tidegauge.toml").read_text()
    text = text.replace("epsilon = 1\n", "epsilon = 1e15\n").replace(
        'for = "1 year"', 'start = "2026-01-02"\nfor = "3 days"'
    )
    Path("tidegauge.toml").write_text(text)


def test_a_kind_from_elsewhere_goes_through_every_verb(tidegauge: Shell) -> None:
    declare(tidegauge)
    assert 'kind = "notes"' in Path("tidegauge.toml").read_text()
    assert "tidegauge install" in tidegauge.refused("run", "--once")
    assert "marked" in tidegauge("init", "--install")
    assert "0 lines were read" in tidegauge("doctor")
    assert "total" in tidegauge("plan")
    tidegauge("run", "--once")
    readings = json.loads(tidegauge("readings", "--json"))
    assert [round(reading["value"]) for reading in readings] == [1, 2, 1, 1]
    assert "3 lines were read" in tidegauge("doctor")
    assert json.loads(tidegauge("status", "--json"))["operator_only"]["pages"] == 3
    tidegauge("verify")
    assert "as they were" in tidegauge("uninstall")


def test_its_declaration_is_checked_and_committed_like_any_other(tidegauge: Shell) -> None:
    declare(tidegauge, "--kind", "notes")
    text = Path("tidegauge.toml").read_text()
    Path("tidegauge.toml").write_text(text.replace("path =", "pth ="))
    refusal = tidegauge.refused("plan")
    assert "source.path: is missing" in refusal
    assert "source.pth: is not a key here; did you mean 'path'?" in refusal
    Path("tidegauge.toml").write_text(text)
    tidegauge("init", "--install")
    tidegauge("run", "--once")
    reached = text.replace('kind = "notes"', 'kind = "notes"\npen = "red"')
    Path("tidegauge.toml").write_text(reached)
    tidegauge("run", "--once")
    Path("tidegauge.toml").write_text(text.replace('table = "people"', 'table = "others"'))
    assert "source.table: was changed" in tidegauge.refused("run", "--once")


def test_it_says_that_it_contains_its_past(tidegauge: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tidegauge)
    text = Path("tidegauge.toml").read_text()
    Path("tidegauge.toml").write_text(text.replace('start = "2026-01-02"\n', ""))
    tidegauge("init", "--install")
    assert "To publish the past, declare the first day" in " ".join(tidegauge("plan").split())
    monkeypatch.setattr(NotesSpec, "PAST", False)
    assert "To publish the past" not in " ".join(tidegauge("plan").split())


def test_without_registration_there_is_no_such_kind(tidegauge: Shell) -> None:
    declare(tidegauge)
    SOURCES.unregister("notes")
    assert "source.kind: there is no such kind; one of files, " in tidegauge.refused("plan")
    SOURCES.register("notes", NotesKind())


@pytest.mark.parametrize("name", ["key", "entry"])
def test_the_key_has_an_older_name(tidegauge: Shell, name: str) -> None:
    declare(tidegauge)
    tidegauge("init", "--install")
    file, text = Path("tidegauge.toml"), Path("tidegauge.toml").read_text()
    file.write_text(text.replace("key =", f"{name} ="))
    tidegauge("run", "--once")
    other = {"key": "entry", "entry": "key"}[name]
    file.write_text(text.replace("key =", f"{other} ="))
    tidegauge("run", "--once")
    file.write_text(text.replace('key = "id"', 'key = "id"\nentry = "id"'))
    assert "source.key: 'entry' is its older name; give one of them" in tidegauge.refused("plan")
    file.write_text(text.replace('key = "id"', 'key = "number"'))
    assert "source.entry: was changed" in tidegauge.refused("run", "--once")

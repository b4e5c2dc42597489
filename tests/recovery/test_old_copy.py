"""An old copy of a store would draw new noise for what is public:
it is found out, where anything shows it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.run.gauge_life import COLUMNS, gauge, life
from tidegauge.errors import SpecError, StoreBehind, StoreCorrupt, StoreError
from tidegauge.publish.registry import FORMATS, FilePublisher
from tidegauge.run.gauge import Gauge
from tidegauge.store.public.witness import Witness
from tidegauge.testing import Crash, Crashed, Script

NOISY = {"epsilon": 1}
HALF, WHOLE = "1970-01-01T00:00:00.000015Z", "1970-01-01T00:00:00.000030Z"


def world(folder: Path, **changes: Any) -> Gauge:
    folder.mkdir(exist_ok=True)
    return gauge(folder, Script(COLUMNS, life(), size=9), budget=NOISY, **changes)


def rows(one: Gauge) -> list[dict[str, Any]]:
    return [reading.as_json() for reading in one.published()]


def export(one: Gauge, folder: Path, name: str) -> None:
    """In every form in which readings are handed on."""
    for form in ("csv", "json", "parquet"):
        FilePublisher(FORMATS.named(form), folder / f"{name}.{form}").deliver(one.published())
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(one)))


@pytest.fixture
def restored(tmp_path: Path) -> Gauge:
    """A gauge that published everything, and whose store was then brought back from the middle."""
    one = world(tmp_path)
    list(one.run(HALF))
    shutil.copy(one.path, tmp_path / "backup")
    list(one.run())
    export(one, tmp_path, "all")
    shutil.copy(tmp_path / "backup", one.path)
    return one


def test_the_witness_shows_it(restored: Gauge) -> None:
    before = restored.path.read_bytes()
    for use in (lambda: list(restored.run()), restored.verify):
        with pytest.raises(StoreBehind, match=r"says that \d+ ends of bins .* has \d+: it is an old copy"):
            use()
    assert restored.path.read_bytes() == before
    assert len(rows(restored)) == 4 * 3 + 2 + 3  # what it remembers can still be read


def test_a_new_store_in_its_place_is_refused(restored: Gauge) -> None:
    restored.path.unlink()
    with pytest.raises(StoreBehind, match="is new"):
        list(restored.run())
    assert restored.plan().hash


def test_a_gauge_that_has_published_nothing_may_begin_again(tmp_path: Path) -> None:
    one = world(tmp_path, now=lambda: 1)
    assert list(one.run()) == []
    assert json.loads(Path(f"{one.path}.witness").read_text())["bins"] == 0
    one.path.unlink()
    assert len(list(world(tmp_path, constraint={"at_most": 2}).run())) == 38


def test_the_store_of_another_gauge_is_refused(restored: Gauge, tmp_path: Path) -> None:
    other = world(tmp_path / "other", constraint={"at_most": 5})
    list(other.run())
    shutil.copy(other.path, restored.path)
    with pytest.raises(StoreBehind, match="witness of another store"):
        list(restored.run())


def test_an_old_copy_that_was_run_on_is_found_later(restored: Gauge) -> None:
    witness = Path(f"{restored.path}.witness")
    kept = witness.read_text()
    witness.unlink()
    list(restored.run())  # nothing shows it here: documented
    witness.write_text(kept)
    with pytest.raises(StoreBehind, match="noise was drawn twice"):
        list(restored.run())


def test_a_witness_elsewhere_outlives_the_folder(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    one = world(tmp_path / "gauge", witness=elsewhere / "mark")
    list(one.run(HALF))
    shutil.copytree(tmp_path / "gauge", tmp_path / "backup")
    list(one.run())
    shutil.rmtree(tmp_path / "gauge")
    shutil.copytree(tmp_path / "backup", tmp_path / "gauge")
    with pytest.raises(StoreBehind, match="old copy"):
        list(world(tmp_path / "gauge", witness=elsewhere / "mark").run())
    assert sorted(path.name for path in elsewhere.iterdir()) == ["mark"]
    assert set(json.loads((elsewhere / "mark").read_text())) == {"ledger", "bins", "seal"}


@pytest.mark.parametrize("when", ["before", "after"])
def test_dying_beside_the_witness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """A store may be ahead of its witness: it goes on, and nothing is drawn again."""
    one, real, calls = world(tmp_path), Witness.attest, 0

    def deadly(self: Witness, db: Any) -> None:
        nonlocal calls
        calls += 1
        if when == "after":
            real(self, db)
        if calls in {2, 3, 7}:
            raise Crashed
        if when == "before":
            real(self, db)

    monkeypatch.setattr(Witness, "attest", deadly)
    seen: list[dict[str, Any]] = []
    deaths = 0
    while True:
        try:
            seen += [reading.as_json() for reading in one.run()]
            break
        except Crashed:
            deaths += 1
            assert [row for row in rows(one) if row in seen] == seen or not seen
    assert deaths == 3
    assert [row for row in rows(one) if row not in seen]  # committed, and not handed on before the end
    assert all(row in rows(one) for row in seen)
    assert one.verify().readings == len(rows(one)) == 38


def test_a_witness_that_cannot_be_written(tmp_path: Path) -> None:
    one = world(tmp_path, witness=tmp_path / "nowhere" / "mark")
    with pytest.raises(StoreError, match="cannot be written"):
        list(one.run())
    (tmp_path / "nowhere").mkdir()
    list(one.run())
    (tmp_path / "nowhere" / "mark").write_text("[1, 2]")
    with pytest.raises(StoreError, match="not a witness"):
        list(one.run())


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "jsonl"])
def test_readings_that_were_handed_on_show_it(restored: Gauge, tmp_path: Path, form: str) -> None:
    Path(f"{restored.path}.witness").unlink()
    whole, known = tmp_path / f"all.{form}", tmp_path / f"known.{form}"
    export(restored, tmp_path, "known")
    assert restored.verify(known).compared == len(rows(restored))
    with pytest.raises(StoreBehind, match=r"21 of 38 readings in all\..* are not in the store"):
        restored.verify(whole)
    list(restored.run())
    with pytest.raises(StoreCorrupt, match="noise was drawn twice"):
        restored.verify(whole)
    assert restored.verify(known).compared == 17


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "[{}]", "[1]", "{",
                                  "release,time,value,stderr,low,high\nx,y,1,1,1,1\n"])  # fmt: skip
def test_files_that_are_no_readings(tmp_path: Path, text: str) -> None:
    one = world(tmp_path)
    list(one.run())
    path = tmp_path / "file.csv"
    path.write_text(text)
    if text:
        with pytest.raises(SpecError, match="is not what 'tidegauge readings' writes"):
            one.verify(path)
    with pytest.raises(SpecError, match="cannot be read"):
        one.verify(tmp_path / "nowhere.csv")


def test_crashes_that_are_values_leave_store_and_witness_in_step(tmp_path: Path) -> None:
    script = [item for n, row in enumerate(life()) for item in ([Crash()] if n % 17 == 3 else []) + [row]]
    one = gauge(tmp_path, Script(COLUMNS, script, size=9), budget=NOISY)
    for _ in range(20):
        try:
            list(one.run())
            break
        except Crashed:
            one.verify()
    assert one.verify().readings == 38


def test_a_store_that_is_run_while_it_is_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The witness is read first: a tick that is committed and witnessed meanwhile does not make the store an
    old copy."""
    one = world(tmp_path)
    run = one.run()
    for _ in range(7):
        next(run)
    read = Witness._read
    ended: list[int] = []

    def meanwhile(self: Witness) -> Any:
        found = read(self)
        if not ended:
            ended.append(len(list(run)))
        return found

    monkeypatch.setattr(Witness, "_read", meanwhile)
    assert one.verify().readings == 38
    assert ended == [31]

"""An encrypted store reveals nothing without its key, and is otherwise as any other."""

from __future__ import annotations

import base64
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.run.gauge_life import COLUMNS, gauge, life
from tidegauge.errors import SpecError, StoreCorrupt, StoreError
from tidegauge.model.program import Total
from tidegauge.run.gauge import Gauge
from tidegauge.store.cipher import Cipher, parse_key
from tidegauge.store.database import Database
from tidegauge.store.secret.part import SecretPart
from tidegauge.store.secret.rows import RowDigests
from tidegauge.store.secret.secrets import Secrets
from tidegauge.store.secret.sums import Sums
from tidegauge.testing import Crash, Crashed, Script

KEY = "4f" * 32
MARKS = ("marked-entry", "marked-unit", "marked-ward", "marked-place")
AGE = 7_712_345_678_901
"""A number that turns up nowhere by chance."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", KEY)
    monkeypatch.setenv("OTHER", "50" * 32)
    monkeypatch.setattr("tempfile.tempdir", None)


class Marked(Script):
    """Its positions, too, are recognisable."""

    def read(self, position: str | None, until: int) -> Any:
        inner = None if position is None else position.removeprefix("marked-place ")
        for batch in super().read(inner, until):
            yield type(batch)(batch.rows, batch.upto, f"marked-place {batch.position}")


def marked(folder: Path, **changes: Any) -> Gauge:
    """Everything secret about it has a mark: keys, units, values, positions."""
    rows: list[Any] = [
        (n // 4 + 1, f"marked-entry-{n % 13}",
         None if n % 5 == 4 else {"ward": f"marked-ward-{n}", "age": AGE + n}, f"marked-unit-{n % 13 % 7}")
        for n in range(120)
    ]  # fmt: skip
    every = {"start": "1970-01-01T00:00:00.000005Z", "every": "5 microseconds", "for": "25 microseconds"}
    releases = {
        "moved": {
            "sql": "SELECT COUNT(*) FROM changes(t) WHERE before.ward <> after.ward",
            "clip": 2,
            **every,
        },
        "ages": {"sql": "SELECT SUM(age) FROM t", "bounds": {"age": [0, 10**13]}, **every},
        "present": {"sql": "SELECT COUNT(*) FROM t", **every},
    }
    retire = {"at_most": 30, "within": "12 microseconds", "on_excess": "retire"}
    declared = {
        "releases": releases,
        "unit": "unit",
        "max_rows": 3,
        "constraint": retire,
        "budget": {"epsilon": 10**30},
    }
    return gauge(folder, Marked(COLUMNS, rows, size=10), **(declared | changes))


def leaks(folder: Path) -> set[str]:
    """The marks that some file shows now."""
    needles = {mark: mark.encode() for mark in MARKS}
    found = set()
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        found |= {mark for mark, needle in needles.items() if needle in data}
        for n in range(120):
            if str(AGE + n).encode() in data or (AGE + n).to_bytes(6, "big") in data:
                found.add("age")
    return found


@pytest.mark.parametrize("key", [None, "env:KEY"])
def test_nothing_secret_is_in_any_file_at_any_time(
    tmp_path: Path, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: set[str] = set()
    one = marked(tmp_path, key=key, budget={"epsilon": 10**9})
    empty_log = Database.empty_log

    def looked_into(self: Database) -> None:
        nonlocal found
        assert Path(f"{one.path}-wal").stat().st_size > 0
        found |= leaks(tmp_path)
        empty_log(self)

    monkeypatch.setattr(Database, "empty_log", looked_into)
    for _ in one.run():
        assert Path(f"{one.path}-wal").stat().st_size == 0
        found |= leaks(tmp_path)
    found |= leaks(tmp_path)
    assert found == (set() if key else {*MARKS, "age"})
    assert len(one.published()) == 3 * 6


def test_the_same_readings_as_in_the_clear(tmp_path: Path) -> None:
    for name in ("plain", "sealed"):
        (tmp_path / name).mkdir()
    plain, sealed = marked(tmp_path / "plain"), marked(tmp_path / "sealed", key="env:KEY")
    for one in (plain, sealed):
        list(one.run())
        assert one.verify().readings == 18
    assert [r.as_json() for r in plain.published()] == [r.as_json() for r in sealed.published()]
    assert plain.status() == sealed.status()
    assert plain.status().operator_only["dropped"] > 0


@pytest.mark.parametrize("constraint", [{"at_most": 4},
                                        {"at_most": 9, "within": "8 microseconds",
                                         "on_excess": "retire"}])  # fmt: skip
def test_through_crashes(tmp_path: Path, constraint: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "calm").mkdir()
    calm = gauge(tmp_path / "calm", Script(COLUMNS, life()), constraint=constraint)
    list(calm.run())
    script = [item for n, row in enumerate(life()) for item in ([Crash()] if n % 30 == 4 else []) + [row]]
    hard = gauge(tmp_path, Script(COLUMNS, script, size=15), constraint=constraint, key="env:KEY")
    real, calls, deaths = SecretPart.set_clock, 0, 0

    def deadly(self: SecretPart, clock: Any) -> None:
        nonlocal calls
        calls += 1
        if calls in {2, 5, 6}:
            raise OSError("the process goes on, the tick does not")
        real(self, clock)

    monkeypatch.setattr(SecretPart, "set_clock", deadly)
    while True:
        try:
            list(hard.run())
            break
        except (Crashed, OSError):
            deaths += 1
    assert deaths == 3 + 4
    assert [r.as_json() for r in hard.published()] == [r.as_json() for r in calm.published()]


def contents(folder: Path) -> dict[str, bytes]:
    """The store; a log that is empty says nothing, and an index into it neither."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {name: data for name, data in files.items() if data and not name.endswith("-shm")}


@pytest.mark.parametrize(
    ("made", "asked", "finding"),
    [
        ("env:KEY", "env:OTHER", "encrypted with another key"),
        ("env:KEY", None, "encrypted, and no key was given"),
        (None, "env:KEY", "is not encrypted, but"),
        ("env:KEY", "env:NOWHERE", "environment variable NOWHERE is not set"),
        ("env:KEY", "env:HOME", "32 random bytes"),
    ],
)
def test_another_key_is_refused_and_nothing_changes(
    tmp_path: Path, made: str | None, asked: str | None, finding: str
) -> None:
    list(marked(tmp_path, key=made).run())
    before = contents(tmp_path)
    one = marked(tmp_path, key=asked)
    for use in (lambda: list(one.run()), one.published, one.plan, one.status, one.verify, one.ledger):
        with pytest.raises((StoreError, SpecError), match=finding) as refusal:
            use()
        assert KEY not in str(refusal.value)
    assert contents(tmp_path) == before
    assert len(marked(tmp_path, key=made).published()) == 18


def test_a_key_is_never_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="env:NAME") as refusal:
        marked(tmp_path, key=KEY)
    assert KEY not in str(refusal.value)


def test_the_name_of_the_key_is_no_part_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list(marked(tmp_path, key="env:KEY").run())
    monkeypatch.setenv("RENAMED", base64.b64encode(bytes.fromhex(KEY)).decode())
    assert len(marked(tmp_path, key="env:RENAMED").published()) == 18


def test_keys_as_people_write_them() -> None:
    raw = bytes(range(223, 255))
    forms = [
        raw.hex(),
        raw.hex().upper(),
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
    ]
    assert {parse_key(f" {form}\n") for form in forms} == {raw}
    for wrong in ("", "hunter2", "00" * 31, "00" * 33, "x" * 64):
        with pytest.raises(SpecError, match="openssl rand") as refusal:
            parse_key(wrong)
        assert not wrong or wrong not in str(refusal.value)


@pytest.mark.parametrize(
    "swap",
    [
        "UPDATE pages SET content = (SELECT content FROM pages o WHERE o.number <> pages.number LIMIT 1)",
        "UPDATE pages SET number = 1000 - number",
        "UPDATE pages SET content = substr(content, 1, 5)",
        "UPDATE pages SET content = 'plain text'",
        "UPDATE pages SET content = (SELECT value FROM secrets WHERE key = 'state')",
    ],
)
def test_nothing_can_be_moved_to_another_place(tmp_path: Path, swap: str) -> None:
    one = marked(tmp_path, key="env:KEY")
    for number, _ in enumerate(one.run(until="1970-01-01T00:00:00.000015Z")):
        assert number < 9
    with sqlite3.connect(one.path) as raw:
        assert raw.execute(swap).rowcount > 0
    raw.close()
    with pytest.raises(StoreCorrupt, match=r"altered"):
        list(one.run())
    assert len(one.published()) == 9


def test_sums_and_tokens_of_one_store_mean_nothing_in_another() -> None:
    key = bytes.fromhex(KEY)
    one, other = Cipher.fresh(key), Cipher.fresh(key)
    assert one.token("entries.entry", "a") != other.token("entries.entry", "a")
    assert one.token("a", "bc") != one.token("ab", "c")
    sealed = one.seal(b"here", [1, None, "x"])
    assert one.open(b"here", sealed) == [1, None, "x"]
    assert len(sealed) == len(one.seal(b"here", [1, None, "longer"]))
    assert sealed != one.seal(b"here", [1, None, "x"])
    for cipher, place in ((other, b"here"), (one, b"there")):
        with pytest.raises(StoreCorrupt):
            cipher.open(place, sealed)


def test_exact_sums_add_up_sealed_and_not() -> None:
    for cipher in (None, Cipher.fresh(bytes(32))):
        db = sqlite3.connect(":memory:")
        db.execute("CREATE TABLE totals (release, component, bin, cell, amount, PRIMARY KEY (release, "
                   "component, bin, cell))")  # fmt: skip
        sums = Sums(db, cipher, RowDigests(db, cipher, Secrets(db, cipher, version=4), version=4))
        sums.add(
            [
                Total("a", 0, 1, 2, 5),
                Total("a", 1, 1, 2, 10**30),
                Total("b", 0, 1, 2, 7),
                Total("a", 0, 1, 2, -7),
            ]
        )
        sums.add([Total("a", 1, 3, 0, 1), Total("a", 1, 1, 2, 1)])
        assert sums.since("a", 1) == {(0, 1, 2): -2, (1, 1, 2): 10**30 + 1, (1, 3, 0): 1}
        sums.drop("a", 3)
        sums.tidy()
        assert sums.since("a", 0) == {(1, 3, 0): 1}
        if cipher is not None:
            sums.add([Total("a", 1, 3, 1, 1)])
            db.execute("UPDATE totals SET amount = (SELECT amount FROM totals o WHERE o.cell <> totals.cell)")
            with pytest.raises(StoreCorrupt, match="moved"):
                sums.since("a", 0)
            db.execute("UPDATE totals SET amount = '17'")
            with pytest.raises(StoreCorrupt, match="not encrypted"):
                sums.add([Total("a", 1, 3, 0, 1)])
        db.close()


def test_temporary_files_go_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    from tidegauge import scratch
    from tidegauge.scratch import temporary_folder

    mounts = tmp_path / "mounts"
    monkeypatch.setattr(scratch, "_MOUNTS", mounts)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    mounts.write_text(f"a / ext4 rw 0 0\nb {tmp_path} tmpfs rw 0 0\n")
    scratch.use_memory()
    assert temporary_folder() == str(tmp_path)
    mounts.write_text("a / ext4 rw 0 0\nb /dev/shm tmpfs rw 0 0\n")
    scratch.use_memory()
    assert temporary_folder() == "/dev/shm"
    assert tempfile.gettempdir() == str(tmp_path)  # a host process makes its own files where it always did
    mounts.write_text("a / ext4 rw 0 0\nb /dev tmpfs rw 0 0\nc /dev/shm ext4 rw 0 0\n")
    with pytest.raises(SpecError, match="TMPDIR"):
        scratch.use_memory()

"""Stamped changelogs of encrypted stores: they are encrypted as well, and begin the same gauge."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.run.test_stamp import KINDS, gauge, rows, write
from tidegauge.errors import SourceError, StoreCorrupt
from tidegauge.store.cipher import Cipher
from tidegauge.store.secret import sealed_tables
from tidegauge.store.secret import stamped as folders
from tidegauge.store.store import Store
from tidegauge.testing import Clock

if TYPE_CHECKING:
    from pathlib import Path

KEY = "5b" * 32
SEALED = {"key": "env:STAMP_TEST_KEY"}
FILES = ("bins.sealed", "changes.sealed", "rows.sealed", "stamp.json", "units.sealed",
         "used.sealed", "views.sealed")  # fmt: skip


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAMP_TEST_KEY", KEY)


def everything(folder: Path) -> tuple[Any, ...]:
    with Store(folder / "store.db", key=bytes.fromhex(KEY)) as store:
        state = store.secret.state()
        tables = (sorted(state.all_of(name).to_pylist(), key=str) for name in ("entries", "units", "used"))
        return (*tables, store.secret.clock, store.secret.counts(), store.progress)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gauge_is_the_same_as_without_the_folder(kind: str, tmp_path: Path) -> None:
    lines, more = rows(3, 80), rows(4, 30, since=20, until=95)
    raw, again = tmp_path / "raw", tmp_path / "again"
    found = []
    for folder in (raw, again):
        write(folder, lines)
        clock = Clock(57)
        one = gauge(folder, clock, **SEALED, **KINDS[kind])
        first = list(one.run(stamped=one.stamp() if folder is again else None))
        begun = everything(folder)
        write(folder, [*lines, *more])
        clock.now = 200
        found.append((first, begun, list(one.run()), everything(folder)))
    assert found[0] == found[1]
    assert found[0][0]


def test_without_the_key_only_the_plan_can_be_seen(tmp_path: Path) -> None:
    lines = [line.replace(",p", ",Zanzibar").replace("k", "Timbuktu") for line in rows(5, 60)]
    write(tmp_path, lines)
    source = {**KINDS["persons"]}
    clear = gauge(tmp_path, Clock(70), **source).stamp(tmp_path / "clear")
    one = gauge(tmp_path, Clock(70), **SEALED, **source)
    folder = one.stamp()
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    words = (b"Zanzibar", b"Timbuktu", KEY.encode(), bytes.fromhex(KEY), b"PAR1", b"arrivals", b"counts")
    for path in folder.iterdir():
        content = path.read_bytes()
        assert not any(word in content for word in words)
    open_ = b"".join(path.read_bytes() for path in clear.iterdir())
    assert all(word in open_ for word in words if word not in (KEY.encode(), bytes.fromhex(KEY)))
    said = json.loads((folder / "stamp.json").read_text("utf-8"))
    assert sorted(said) == ["encryption", "format", "name", "plan", "sealed", "secret"]
    assert said["plan"] == one.plan().hash


def test_two_folders_have_nothing_in_common(tmp_path: Path) -> None:
    write(tmp_path, rows(5, 60))
    one = gauge(tmp_path, Clock(70), **SEALED)
    folders_ = [one.stamp(tmp_path / name) for name in ("a", "b")]
    contents = [{(path / file).read_bytes()[:64] for file in FILES[:3]} for path in folders_]
    assert not contents[0] & contents[1]


def said(folder: Path) -> dict[str, Any]:
    """Everything that stamp.json says."""
    shown = json.loads((folder / "stamp.json").read_text("utf-8"))
    cipher = Cipher.recognise(shown["encryption"], bytes.fromhex(KEY), store="")
    return sealed_tables.opened(cipher, shown["name"], shown["plan"], shown["sealed"])[1]


def refused(folder: Path, match: str, **changes: Any) -> None:
    with pytest.raises(SourceError, match=match):
        list(gauge(folder, Clock(70), **changes).run(stamped=folder / "store.stamped"))
    assert not gauge(folder, Clock(70), **changes).committed


def test_other_keys_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, rows(1, 30))
    gauge(tmp_path, Clock(70), **SEALED).stamp()
    refused(tmp_path, "is encrypted, and the declaration has no")
    assert not (tmp_path / "store.db").exists()
    monkeypatch.setenv("STAMP_TEST_KEY", "6c" * 32)
    refused(tmp_path, "encrypted with another key than the one", **SEALED)
    assert not (tmp_path / "store.db").exists()
    monkeypatch.setenv("STAMP_TEST_KEY", KEY)
    assert list(gauge(tmp_path, Clock(70), **SEALED).run(stamped=tmp_path / "store.stamped"))


def test_a_folder_in_the_clear_is_refused_for_an_encrypted_store(tmp_path: Path) -> None:
    write(tmp_path, rows(1, 30))
    gauge(tmp_path, Clock(70)).stamp()
    refused(tmp_path, "is not encrypted, and the store is", **SEALED)


def test_changed_files_are_refused(tmp_path: Path) -> None:
    write(tmp_path, rows(1, 30))
    one = gauge(tmp_path, Clock(70), **SEALED)
    folder, plan, key = one.stamp(), one.plan().hash, bytes.fromhex(KEY)
    layout = said(folder)["layout"]
    for name in FILES:
        path = folder / name
        content = path.read_bytes()
        middle = len(content) // 2
        changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        for damaged in (changed, content[:middle], b"", None):
            path.unlink() if damaged is None else path.write_bytes(damaged)
            with pytest.raises(SourceError, match="missing" if damaged is None else "changed or cut short"):
                folders.open_stamped(folder, plan=plan, layout=layout, key=key)
        path.write_bytes(content)


def test_pieces_are_bound_to_their_folder_file_and_number(tmp_path: Path) -> None:
    """Also where all hashes are right, because a person with the hashes could not make the pieces."""
    write(tmp_path, rows(1, 30))
    one = gauge(tmp_path, Clock(70), **SEALED)
    folder, other = one.stamp(), one.stamp(tmp_path / "other")
    shown = json.loads((folder / "stamp.json").read_text("utf-8"))
    cipher = Cipher.recognise(shown["encryption"], bytes.fromhex(KEY), store="")
    tables, _ = sealed_tables.opened(cipher, shown["name"], shown["plan"], shown["sealed"])
    assert sum(one.num_rows for one in tables.pieces(folder, "changes")) > 0
    sizes = tables.sizes["changes"]
    assert len(sizes) > 1
    content = (folder / "changes.sealed").read_bytes()
    swapped = replace(tables, sizes={**tables.sizes, "changes": [sizes[1]]})
    (folder / "changes.sealed").write_bytes(content[sizes[0] :])
    with pytest.raises(StoreCorrupt):
        list(swapped.pieces(folder, "changes"))
    (folder / "changes.sealed").write_bytes((other / "changes.sealed").read_bytes())
    with pytest.raises(StoreCorrupt):
        list(tables.pieces(folder, "changes"))
    (folder / "changes.sealed").write_bytes((folder / "rows.sealed").read_bytes())
    moved = replace(tables, sizes={**tables.sizes, "changes": tables.sizes["rows"]})
    with pytest.raises(StoreCorrupt):
        list(moved.pieces(folder, "changes"))

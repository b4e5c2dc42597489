"""Locks and files that are replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegauge.durable import lock_file, lock_folder, private_file, put_in_place, replacing


def test_one_lock_at_a_time(tmp_path: Path) -> None:
    held = lock_file(tmp_path / "lock")
    with pytest.raises(BlockingIOError):
        lock_file(tmp_path / "lock")
    os.close(held)
    os.close(lock_file(tmp_path / "lock"))
    with pytest.raises(FileNotFoundError):
        lock_file(tmp_path / "missing" / "lock")


def test_a_folder_is_locked_like_a_file(tmp_path: Path) -> None:
    held = lock_folder(tmp_path)
    with pytest.raises(BlockingIOError):
        lock_folder(tmp_path)
    os.close(held)
    os.close(lock_folder(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        lock_folder(tmp_path / "file")


def test_a_finished_file_takes_the_place_of_another(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "new").write_text("new")
    put_in_place(tmp_path / "new", tmp_path / "old")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("old", "new")]


@pytest.mark.parametrize("prefix", [None, "part-"])
def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, prefix: str | None) -> None:
    path = tmp_path / "file"
    (tmp_path / "file.new").write_text("a longer rest of a crash")
    with replacing(path, prefix=prefix) as file:
        file.write(b"first")
        assert not path.exists()
    assert path.read_bytes() == b"first"
    with pytest.raises(ValueError, match="closed"), replacing(path, prefix=prefix) as file:
        file.close()
    assert path.read_bytes() == b"first"
    assert path.stat().st_mode & 0o777 == 0o600
    assert {one.name for one in tmp_path.iterdir()} <= {"file", "file.new"}


def test_the_content_and_the_name_are_both_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = []

    def fsync(handle: int) -> None:
        flushed.append(os.fstat(handle).st_ino)

    monkeypatch.setattr(os, "fsync", fsync)
    with replacing(tmp_path / "file") as file:
        file.write(b"content")
    assert flushed == [(tmp_path / "file").stat().st_ino, tmp_path.stat().st_ino]


def test_a_private_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    (tmp_path / "there").touch(mode=0o644)
    before = os.umask(0o377)
    try:
        for name in ("there", "fresh"):
            os.close(private_file(tmp_path / name))
    finally:
        os.umask(before)
    assert {one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {0o600}

"""Hashes of whole files."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from tidegauge.content import content_of

BLOCK = 1 << 23


@pytest.mark.parametrize("size", [0, 1, 1 << 18, (1 << 18) + 1, BLOCK, BLOCK + 1, 2 * BLOCK + (1 << 18) + 7])
def test_a_hash_over_the_hashes_of_blocks(tmp_path: Path, size: int) -> None:
    data = (bytes(range(251)) * (size // 251 + 1))[:size]
    (tmp_path / "file").write_bytes(data)
    hashes = b"".join(sha256(data[at : at + BLOCK]).digest() for at in range(0, size, BLOCK))
    assert content_of(tmp_path / "file") == (size, sha256(hashes).hexdigest())


@pytest.mark.parametrize("place", [0, (1 << 18) - 1, 1 << 18, BLOCK - 1, BLOCK, BLOCK + 5])
def test_every_byte_counts(tmp_path: Path, place: int) -> None:
    data = bytearray(BLOCK + 6)
    (tmp_path / "file").write_bytes(data)
    before = content_of(tmp_path / "file")
    data[place] = 1
    (tmp_path / "file").write_bytes(data)
    assert content_of(tmp_path / "file") != before

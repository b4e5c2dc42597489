"""A store with one wrong byte, anywhere: it is refused, or it goes on as if the byte were right.

No message quotes what lies in the store, and nothing that was measured gets a second value.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.store.worlds import COLUMNS, EVERY, EXACT, HALF
from tidegauge.errors import StoreCorrupt, TidegaugeError
from tidegauge.run.gauge import Gauge
from tidegauge.store.store import Store
from tidegauge.testing import Clock, Script

if TYPE_CHECKING:
    from pathlib import Path

Journal = dict[tuple[Any, ...], str]
RELEASES: dict[str, dict[str, Any]] = {
    "moved": {"sql": "SELECT COUNT(*) FROM changes(t) WHERE before.note <> after.note", "clip": 2, **EVERY},
    "ages": {"sql": "SELECT SUM(age) FROM t", "bounds": {"age": [0, 100]}, **EVERY},
    "level": {
        "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward",
        "groups": {"ward": ["a", "b"]},
        "strategy": {"name": "autoregressive", "bins": 6, "memory": 32768, "shared_noise": "3/2", "first": 0},
        **EVERY,
    },
}
NOISE = 10**5
"""More than the noise of `level`, and less than any other sum differs from it."""
SECRET = ("zz-note", "zz-unit", "zz-key")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGAUGE_KEY", "7e" * 32)


def opened(folder: Path, key: str | None) -> Gauge:
    log: list[tuple[Any, ...]] = []
    for n in range(40):
        row = {"ward": "ab"[n % 2], "note": f"zz-note {n % 7}", "age": 20 + n % 50, "weight": None}
        log.append((1 + n * 3 // 4, f"zz-key{n % 12}", None if n % 9 == 8 else row, f"zz-unit{n % 5}"))
    return Gauge(
        source=Script(COLUMNS, log, size=4),
        releases=RELEASES,
        constraint={"at_most": 9, "renews": "12 microseconds"},
        budget=EXACT,
        unit="unit",
        max_rows=2,
        store=folder / "store.db",
        now=Clock(1000),
        key=key,
    )


def journal(folder: Path) -> Journal:
    with closing(sqlite3.connect(folder / "store.db")) as db:
        rows = db.execute("SELECT release, component, number, cell, value FROM journal").fetchall()
    return {tuple(row[:4]): row[4] for row in rows}


def require_noticed_or_harmless(
    folder: Path, key: str | None, *, before: Journal, wanted: Journal, where: object
) -> bool:
    """Whether the damage was noticed."""
    try:
        list(opened(folder, key).run())
        opened(folder, key).verify()
    except (TidegaugeError, sqlite3.Error) as error:  # the command line hides the text of SQLite's errors
        said = str(error)
    else:
        found = journal(folder)
        assert found.keys() == wanted.keys(), where
        assert all(abs(int(found[spot]) - int(value)) < NOISE for spot, value in wanted.items()), where
        assert all(found[spot] == value for spot, value in before.items()), where
        return False
    assert not any(text in said for text in SECRET), where
    return True


def check(folder: Path, key: str | None, seed: int, count: int) -> None:
    rng, half = random.Random(seed), folder / "half"
    half.mkdir()
    list(opened(half, key).run(HALF))
    shutil.copytree(half, folder / "whole")
    list(opened(folder / "whole", key).run())
    before, wanted, noticed = journal(half), journal(folder / "whole"), 0
    store, witness = (half / name for name in ("store.db", "store.db.witness"))
    content = store.read_bytes()
    used = [place for place, byte in enumerate(content) if byte]
    places = [(store.name, rng.choice(used)) for _ in range(count)]
    places += [(witness.name, rng.randrange(len(witness.read_bytes()))) for _ in range(count // 10)]
    for name, place in places:
        shutil.copytree(half, folder / "damaged")
        file = folder / "damaged" / name
        damaged = bytearray(file.read_bytes())
        damaged[place] ^= rng.choice((1, 2, 4, 8, 16, 32, 64, 128))
        file.write_bytes(damaged)
        noticed += require_noticed_or_harmless(
            folder / "damaged", key, before=before, wanted=wanted, where=(name, place)
        )
        shutil.rmtree(folder / "damaged")
    assert noticed > count // 4


@pytest.mark.parametrize("key", [None, "env:TIDEGAUGE_KEY"], ids=["plain", "encrypted"])
def test_a_wrong_byte_is_noticed_or_harmless(tmp_path: Path, key: str | None) -> None:
    check(tmp_path, key, seed=1, count=20)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 20))
@pytest.mark.parametrize("key", [None, "env:TIDEGAUGE_KEY"], ids=["plain", "encrypted"])
def test_many_wrong_bytes_are_noticed_or_harmless(tmp_path: Path, key: str | None, seed: int) -> None:
    check(tmp_path, key, seed, count=150)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE secrets SET key = replace(key, 'shared_noise', 'shared_noisf')",
        "UPDATE secrets SET value = replace(value, '[', '[1') WHERE key GLOB 'shared_noise:*'",
        "UPDATE meta SET value = value - 1 WHERE key GLOB 'next:*'",
        "UPDATE totals SET amount = amount + 1",
        "UPDATE pages SET content = CAST(x'00' || substr(content, 2) AS BLOB)",
        "UPDATE pages SET content = CAST(substr(content, 1, 4091) || x'01' AS BLOB)",
    ],
)
def test_damage_in_a_store_without_a_key_is_refused(tmp_path: Path, damage: str) -> None:
    """A shared draw that is lost would be drawn again,
    and a counter that is lost would let more changes count."""
    list(opened(tmp_path, None).run(HALF))
    before = journal(tmp_path)
    with closing(sqlite3.connect(tmp_path / "store.db")) as db, db:
        assert db.execute(damage).rowcount > 0
    with pytest.raises(StoreCorrupt):
        opened(tmp_path, None).verify()
    with pytest.raises(StoreCorrupt, match="is not as its gauge left it"):
        list(opened(tmp_path, None).run())
    assert journal(tmp_path) == before


def test_a_store_without_checksums_goes_on_and_gets_them(tmp_path: Path) -> None:
    """As an earlier version left it."""
    list(opened(tmp_path, None).run(HALF))
    with closing(sqlite3.connect(tmp_path / "store.db")) as db, db:
        assert db.execute("DELETE FROM secrets WHERE key IN ('checksum', 'row_digests')").rowcount == 2
    list(opened(tmp_path, None).run())
    with Store(tmp_path / "store.db") as store:
        assert {"checksum", "row_digests"} <= store.secret.secrets.names()
    opened(tmp_path, None).verify()

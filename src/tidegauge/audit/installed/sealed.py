"""Encrypted stores: the same readings, nothing that can be read or moved, and no nonce twice."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidegauge.audit.findings import require, require_refused
from tidegauge.audit.installed.exercises import COLUMNS, SHARED
from tidegauge.audit.installed.published import Silent
from tidegauge.audit.worlds.rehearsal import MemoryLog, SetClock
from tidegauge.audit.worlds.world import Random, Table
from tidegauge.errors import StoreError
from tidegauge.run.gauge import Gauge
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidegauge.audit.worlds.world import Event, Row

_VARIABLE: Final = "TIDEGAUGE_AUDIT_KEY"
_NEEDLE: Final = "needle"
"""In every key, unit and text that a store must not show."""
_PASSES: Final = (13, 24, 37, 44)
_EVERY: Final = {"start": "1970-01-01T00:00:00.000010Z", "every": "10 microseconds", "for": "50 microseconds"}
_RELEASES: Final[dict[str, dict[str, Any]]] = {
    "mean": {"sql": "SELECT AVG(x) FROM t", "bounds": {"x": [0, 9]}, "grid": {"x": 1}, **_EVERY},
    "often": {"sql": "SELECT SUM(x) FROM t", "bounds": {"x": [0, 9]}, "grid": {"x": 1}, **_EVERY,
              "every": "6 microseconds"},
    "coming": {"sql": "SELECT COUNT(*) FROM changes(t) WHERE after.s LIKE '% a'", **_EVERY, "clip": 2},
    "shared": {"sql": "SELECT COUNT(*) FROM t", **_EVERY, "strategy": SHARED},
}  # fmt: skip
_NONCE: Final = 12
_SEALED: Final = _NONCE + 16
"""Bytes of the shortest sealed value; tokens, by which rows are found, are shorter."""
_SIGNED: Final = {"journal", "meta", "ticks"}
"""Public tables that a run relies on."""


def _log() -> list[Event]:
    rng, table = Random(7), Table("owner")
    for at in range(3, 57):
        key = f"{_NEEDLE} k{rng.randrange(6)}"
        if key in table.rows and rng.random() < 0.2:
            table.delete((at, at), key)
        elif key in table.rows and rng.random() < 0.2:
            table.rename((at, at), key, f"{_NEEDLE} r{at}", table.rows[key][1])
        else:
            row: Row = {"s": f"{_NEEDLE} {rng.choice('ab')}", "k": "p", "x": rng.choice((1, 4, 9, None))}
            table.put((at, at), key, row | {"owner": f"{_NEEDLE} {rng.choice('uv')}"})
    return table.log


class _World:
    """A gauge and its store, opened again at every pass."""

    def __init__(self, folder: Path, *, sealed: bool) -> None:
        self.store, self._sealed, self._log, self._since = folder / "store.db", sealed, _log(), -1
        self._source = MemoryLog("t", COLUMNS, Random(0), owner="owner", informed=True)

    def run(self, until: int) -> list[tuple[object, ...]]:
        """Bring the gauge up to an instant; returns its readings."""
        self._source.write([event for event in self._log if self._since < event.arrival <= until])
        self._since = until
        gauge = Gauge(
            source=self._source, budget={"epsilon": 10**6}, constraint={"at_most": 9}, unit="owner",
            max_rows=3, releases=_RELEASES, store=self.store, now=SetClock(until), sampler=Silent(),
            key=f"env:{_VARIABLE}" if self._sealed else None,
        )  # fmt: skip
        return [(one.release, one.time, one.value) for one in gauge.run()]

    @property
    def content(self) -> bytes:
        """All files of the store."""
        return b"".join(one.read_bytes() for one in sorted(self.store.parent.glob("store.db*")))

    def values(self) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of every table."""
        with closing(sqlite3.connect(self.store)) as db:
            names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            return {name: db.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}


@contextmanager
def _key(byte: int) -> Iterator[None]:
    """The key that the variable of the environment has."""
    known = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = bytes([byte] * 32).hex()
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE)
        if known is not None:
            os.environ[_VARIABLE] = known


def check_sealed() -> None:
    """With a key readings are the same, rows cannot be read, and no nonce is used twice.

    Raises Discrepancy.
    """
    with ScratchFolder() as plain_name, ScratchFolder() as name, _key(1):
        plain, sealed = _World(Path(plain_name.name), sealed=False), _World(Path(name.name), sealed=True)
        nonces: dict[bytes, bytes] = {}
        for at in _PASSES:
            require(plain.run(at) == sealed.run(at), "an encrypted store leads to other readings")
            require(_NEEDLE.encode() in plain.content, "rows are not kept")
            require(_NEEDLE.encode() not in sealed.content, "an encrypted store shows a row")
            for rows in sealed.values().values():
                for value in (value for row in rows for value in row):
                    if isinstance(value, bytes) and len(value) >= _SEALED and value.strip(b"\0"):
                        nonce = value[:_NONCE]
                        require(nonces.setdefault(nonce, value) == value, "a nonce is used twice")


def check_exchanged() -> None:
    """Nothing sealed can be exchanged or put back, and no other key opens a store.  Raises Discrepancy."""
    with ScratchFolder() as name, _key(1):
        world = _World(Path(name.name), sealed=True)
        world.run(_PASSES[0])
        older = world.values()
        world.run(_PASSES[1])
        files = [one for one in world.store.parent.iterdir() if one.is_file()]
        copies = {one: one.read_bytes() for one in files}

        def again() -> None:
            _World(Path(name.name), sealed=True).run(_PASSES[2])

        def restore() -> None:
            for one in world.store.parent.glob("store.db*"):
                one.unlink()
            for one, content in copies.items():
                one.write_bytes(content)

        newer = world.values()
        exchanged = 0
        for table, rows in newer.items():
            for changed in _changed(table, rows, older[table]):
                _write(world.store, table, changed)
                exchanged += 1
                require_refused(f"a table '{table}' that was exchanged", again, StoreError)
                restore()
        require(exchanged >= 8, "too little of a store is sealed")
        with _key(2):
            require_refused("another key", again, StoreError)
        restore()
        again()


def _changed(
    table: str, rows: list[tuple[Any, ...]], older: list[tuple[Any, ...]]
) -> list[list[tuple[Any, ...]]]:
    """What someone without the key could make of a table: as it was, less, or with two values exchanged."""
    sealed = [n for n, value in enumerate(rows[0]) if isinstance(value, bytes)] if rows else []
    if not sealed and table not in _SIGNED:
        return []
    found = [older, rows[:-1]]
    if sealed and len(rows) > 1:
        (one, other), last = rows[:2], sealed[-1]
        exchanged = [(*a[:last], b[last], *a[last + 1 :]) for a, b in ((one, other), (other, one))]
        found.append([*exchanged, *rows[2:]])
    return [changed for changed in found if changed != rows]


def _write(store: Path, table: str, rows: list[tuple[Any, ...]]) -> None:
    """Put these rows in the place of those of a table."""
    with closing(sqlite3.connect(store)) as db:
        db.execute(f'DELETE FROM "{table}"')
        for row in rows:
            marks = ", ".join("?" * len(row))
            db.execute(f'INSERT INTO "{table}" VALUES ({marks})', tuple(row))
        db.commit()


def sealed_checks() -> dict[str, Callable[[], None]]:
    """All of them, by name; none where stores cannot be encrypted."""
    if find_spec("cryptography") is None:
        return {}
    return {"an encrypted store": check_sealed, "parts of an encrypted store": check_exchanged}

"""PostgreSQL's log without a server: changes as messages of pgoutput, and the real decoder on their bytes.

The messages are encoded here from PostgreSQL's documentation (protocol 1, logical replication message
formats); nothing of the decoder is used.  A table has the default replica identity, or all of its columns.
"""

from __future__ import annotations

import struct
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from tidegauge.audit.installed.exercises import COLUMNS
from tidegauge.model.mutation import Batch
from tidegauge.model.source import FollowedSource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from tidegauge.audit.worlds.world import Event, Random, Row

_RELATION: Final = 77
_OTHER: Final = 78
_TYPES: Final = {"VARCHAR": 25, "BIGINT": 20}
_EPOCH: Final = 946_684_800_000_000
"""Microseconds from 1970 to 2000, from which the server counts."""


def installed() -> bool:
    """Whether the library is installed that the reader of PostgreSQL needs."""
    return find_spec("psycopg") is not None


def _value(value: object) -> bytes:
    if value is None:
        return b"n"
    text = str(value).encode()
    return b"t" + struct.pack("!I", len(text)) + text


def _tuple(row: Row, *, only_key: bool = False, unchanged: Collection[str] = ()) -> bytes:
    """A TupleData: each column as text, as null, or as unchanged."""
    values = (
        b"u" if name in unchanged else b"n" if only_key and name != "id" else _value(row.get(name))
        for name in COLUMNS
    )
    return struct.pack("!H", len(COLUMNS)) + b"".join(values)


def _relation(number: int, name: str, *, full: bool) -> bytes:
    columns = b"".join(
        bytes([full or column == "id"]) + column.encode() + b"\0" + struct.pack("!Ii", _TYPES[kind], -1)
        for column, kind in COLUMNS.items()
    )
    identity = b"f" if full else b"d"
    head = struct.pack("!I", number) + b"public\0" + name.encode() + b"\0" + identity
    return b"R" + head + struct.pack("!H", len(COLUMNS)) + columns


def _change(event: Event, known: Row | None, *, full: bool) -> bytes:
    """Insert, Update, Delete or Truncate; `known`: the row before the change, None: there is none."""
    head = struct.pack("!I", _RELATION)
    if event.key is None:
        return b"T" + struct.pack("!IB", 1, 0) + head
    if event.row is None:
        old = (known or {}) | {"id": event.key}
        return b"D" + head + (b"O" + _tuple(old) if full else b"K" + _tuple(old, only_key=True))
    new = event.row | {"id": event.key}
    if known is None:
        return b"I" + head + b"N" + _tuple(new)
    old = known | {"id": event.previous or event.key}
    before = b""
    if full:
        before = b"O" + _tuple(old)
    elif event.previous is not None:
        before = b"K" + _tuple(old, only_key=True)
    kept = () if full or event.previous is not None else ("s", "owner")
    same = [name for name in kept if old.get(name) == new.get(name) and new.get(name) is not None]
    return b"U" + head + before + b"N" + _tuple(new, unchanged=same)


class WalLog(FollowedSource):
    """A table whose changes are read from the bytes of PostgreSQL's log, a transaction for each change.

    Every read is given the whole log, as by a server that was restarted: what was read before is skipped.
    """

    leaves_out = 0

    def __init__(self, *, owner: str | None, full: bool) -> None:
        self._owner, self._full = owner, full
        self._rows: dict[str, Row] = {}
        self._messages = [_relation(_OTHER, "other", full=False), _relation(_RELATION, "t", full=full)]
        self._place = 1000
        self._selected = list(COLUMNS)

    @property
    def table(self) -> str:
        """Always t."""
        return "t"

    @property
    def columns(self) -> Mapping[str, str]:
        """All columns."""
        return COLUMNS

    def select(self, columns: Collection[str]) -> None:
        """Deliver these columns only."""
        self._selected = [name for name in COLUMNS if name in columns]

    def write(self, events: Sequence[Event]) -> None:
        """Append to the log; the changes of another table lie between ours."""
        for event in events:
            known = self._rows.pop(event.previous or event.key or "", None)
            self._write(_change(event, known, full=self._full), event.stamp)
            if event.key is None:
                self._rows.clear()
            elif event.row is not None:
                self._rows[event.key] = event.row

    def _write(self, change: bytes, stamp: int) -> None:
        end, elsewhere = self._place + 40, struct.pack("!I", _OTHER) + b"N" + _tuple({"id": "k", "s": "b"})
        begin = b"B" + struct.pack("!QqI", self._place, stamp - _EPOCH, 1)
        commit = b"C" + struct.pack("!BQQq", 0, self._place, end, stamp - _EPOCH)
        self._messages += [begin, b"I" + elsewhere, change, commit]
        self._place = end

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """What the decoder makes of the log after the position."""
        from tidegauge.source.postgres.follow import Place, Transactions  # noqa: PLC0415
        from tidegauge.source.postgres.messages import Messages  # noqa: PLC0415
        from tidegauge.source.postgres.rows import Layout  # noqa: PLC0415

        kinds = {name: [_TYPES[kind], -1] for name, kind in COLUMNS.items()}
        place = Place(1000, "server", _RELATION, kinds) if position is None else Place.parse(position)
        layout = Layout({name: COLUMNS[name] for name in self._selected}, ("id",), self._owner, frozenset())
        log = Transactions(
            layout, place, schema_name="public", table="t", base_type=lambda oid, mod: (oid, mod)
        )
        for start in range(0, len(self._messages), 7):  # deliveries of a network end anywhere
            yield from log.feed(Messages.of(self._messages[start : start + 7]), self._place)
        yield log.batch(until, self._place)


def wal(*, owner: str | None, full: bool) -> Callable[[Path, Random], WalLog]:
    """Opens an empty log; `full`: the replica identity is all columns."""

    def open_log(folder: Path, rng: Random) -> WalLog:
        del folder, rng
        return WalLog(owner=owner, full=full)

    return open_log

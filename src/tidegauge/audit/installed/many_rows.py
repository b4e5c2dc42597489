"""More rows than one block of the state holds: every row is found again, wherever it lies."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from tidegauge.audit.findings import require
from tidegauge.audit.installed.published import Silent, read_all
from tidegauge.audit.worlds.world import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegauge.audit.worlds.world import Row

_ROWS: Final = 70_000
_AT_MOST: Final = 3
_GROUPS: Final = "abc"
_LEFT: Final = "c, for a short time"
_RELEASE: Final = {
    "sql": "SELECT s, COUNT(*) FROM t GROUP BY s",
    "groups": {"s": list(_GROUPS)},
    "start": "1970-01-01T00:00:00.000010Z",
    "every": "10 microseconds",
    "for": "30 microseconds",
}


_SHORT: Final = 8
_LEAVING: Final = {
    "sql": "SELECT COUNT(*) FROM t WHERE s = 'c'",
    "start": _RELEASE["start"],
    "every": _RELEASE["every"],
    "for": _RELEASE["for"],
    "constraint": {"within": f"{_SHORT} microseconds", "on_excess": "retire"},
}
"""Rows of one group, each for a short time after it came there first."""


def _changes() -> Iterator[tuple[int, int, int | None]]:
    """(time, row, its group from then on; None: it is deleted)."""
    yield from ((5, n, n % 3) for n in range(_ROWS))
    yield from ((7, n, (n + 2) % 3) for n in range(0, _ROWS, 5))
    yield from ((15, n, (n + 1) % 3) for n in range(0, _ROWS, 13))
    yield from ((16, n, None) for n in range(0, _ROWS, 17))
    yield from ((25, n, (n + 2) % 3) for n in range(0, _ROWS, 13) if n % 17)
    yield from ((26, n, n % 3) for n in range(_ROWS, _ROWS + 1000))
    yield from ((27, n, (n + 1) % 3) for n in range(0, _ROWS, 19) if n % 17)
    yield from ((35, n, n % 3) for n in range(0, _ROWS, 17))
    yield from ((36, n, None) for n in range(0, _ROWS, 19) if n % 17)


def _expected() -> dict[int, Counter[str]]:
    """By time and group: the rows that count, where a row's first changes are accepted and no others."""
    accepted: dict[int, list[int | None]] = defaultdict(lambda: [None])
    true: dict[int, int | None] = {}
    begun: dict[int, int] = {}
    found, changes = {}, list(_changes())
    for end in (10, 20, 30, 40):
        for at, row, group in changes:
            if end - 10 < at <= end and true.get(row) != group:
                true[row] = group
                if group == 2:
                    begun.setdefault(row, at)
                if len(accepted[row]) <= _AT_MOST:
                    accepted[row].append(group)
        last = (one[-1] for one in accepted.values())
        found[end] = Counter(_GROUPS[group] for group in last if group is not None)
        found[end][_LEFT] = sum(true[row] == 2 and end < at + _SHORT for row, at in begun.items())
    return found


def check_many_rows() -> None:
    """Readings of many rows are exact without noise, over several passes.  Raises Discrepancy."""
    table, expected = Table(None), _expected()
    for at, row, group in _changes():
        key = f"row {row}"
        if group is None:
            table.delete((at, at), key)
        else:
            values: Row = {"s": _GROUPS[group], "k": "p", "x": row, "owner": None}
            table.put((at, at), key, values)
    constraint = {"at_most": _AT_MOST}
    readings = [
        one
        for releases in ({"r": _RELEASE}, {"s": _LEAVING})  # ticks of gauges in which units leave are others
        for one in read_all(
            releases, table.log, (12, 21, 33, 50), {"rho": 10**6}, sampler=Silent(), constraint=constraint
        )
    ]
    require(len(readings) == len(expected) * (len(_GROUPS) + 1), "another number of readings of many rows")
    for one in readings:
        value = -1 if one.value is None else one.value
        right = expected[one.time.microsecond][str(one.group["s"]) if one.group else _LEFT]
        require(abs(value - right) < 1e-6, "many rows are not counted as they should be")

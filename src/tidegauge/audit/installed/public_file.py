"""What a web process reads: every reading of a public file, for any period, groups and page."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.audit.findings import require
from tidegauge.audit.installed.exercises import COLUMNS, PLAIN
from tidegauge.audit.worlds.rehearsal import MemoryLog
from tidegauge.audit.worlds.world import Random, Table
from tidegauge.model.quantity import instant
from tidegauge.model.reading import noise_hides
from tidegauge.publish.public.reader import PublicFile
from tidegauge.run.gauge import Gauge
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_RELEASE: Final = {
    "sql": "SELECT s, k, COUNT(*) FROM t GROUP BY s, k",
    "groups": {"s": ["a", "b"], "k": ["p", "q", "r"]},
    "start": "1970-01-01T00:00:00.000010Z",
    "every": "10 microseconds",
    "for": "40 microseconds",
}
_LIMITS: Final = (None, 9, 10, 11, 29, 30, 31, 50, 51)
_ASKED: Final[tuple[Mapping[str, tuple[str, ...]], ...]] = (
    {}, {"s": ("b",)}, {"k": ("p", "r")}, {"s": ("a",), "k": ("q",)}, {"s": ("a", "b"), "k": ("r", "none")},
)  # fmt: skip


def _spot(at: int, group: Mapping[str, object] | None) -> tuple[int, object, object]:
    """The time and the group of a reading."""
    assert group is not None
    return at, group["s"], group["k"]


def check_public_file() -> None:
    """A public file gives the readings of a period and of groups, and no others.  Raises Discrepancy."""
    table = Table(None)
    for n, at in enumerate((3, 13, 14, 33)):
        table.put((at, at), f"k{n}", PLAIN | {"s": "ab"[n % 2], "k": "pqr"[n % 3]})
    source = MemoryLog("t", COLUMNS, Random(0), owner=None, informed=False)
    source.write(table.log)
    with ScratchFolder() as name:
        folder = Path(name.name)
        gauge = Gauge(
            source=source, budget={"rho": 1}, constraint={"at_most": 2}, releases={"r": _RELEASE},
            store=folder / "store.db", base=folder, now=lambda: 90,
            publish={"web": {"kind": "public", "path": "public.db"}},
        )  # fmt: skip
        known = {
            _spot(instant(one.time), one.group): (one.value, one.stderr, *one.interval(0.95))
            for one in gauge.run()
        }
        require(len(known) == 5 * 6, "another number of readings than are due")
        with PublicFile(folder / "public.db") as public:
            for since, until, asked in product(_LIMITS, _LIMITS, _ASKED):
                cells = public.cells("r", asked) if asked else None
                found = public.readings("r", since=since, until=until, cells=cells)
                right = {
                    key: value
                    for key, value in known.items()
                    if (since is None or key[0] >= since)
                    and (until is None or key[0] <= until)
                    and all(key[1 + "sk".index(group)] in some for group, some in asked.items())
                }
                shown = {
                    _spot(one.time, one.group): (one.value, one.stderr, one.low, one.high) for one in found
                }
                require(shown == right, "a public file gives other readings than were asked for")
                count = public.count("r", since=since, until=until, cells=cells)
                require(count == len(found) == len(right), "a public file counts other readings")
                pages = [
                    one
                    for offset in range(0, count, 4)
                    for one in public.readings(
                        "r", since=since, until=until, cells=cells, offset=offset, limit=4
                    )
                ]
                require(pages == list(found), "the pages of a public file are not all of its readings")


_HIDDEN: Final = (
    (None, 0.0, 9.0, True, True, True), (5.0, 5.0, 5.0, True, True, False),
    (5.0, -1.0, 11.0, True, False, True), (5.0, 1.0, 9.0, True, True, False),
    (5.0, -1.0, 11.0, False, False, False), (0.0, 0.0, 0.0, True, True, False),
    (-3.0, -9.0, -1.0, True, True, True), (-3.0, -9.0, -1.0, True, False, False),
    (5.0, 0.0, 9.0, False, True, True), (-5.0, -9.0, 0.0, True, False, True),
)  # fmt: skip
"""A value, its interval, whether 0 is nothing, whether it is never negative, and whether noise hides it."""


def check_hidden() -> None:
    """A value that noise hides is not shown.  Raises Discrepancy."""
    for value, low, high, nothing, never, hidden in _HIDDEN:
        found = noise_hides(value, low, high, zero_is_nothing=nothing, never_negative=never)
        require(found == hidden, "a value that noise hides is shown, or one that it does not hide is not")


PUBLIC_FILE: dict[str, Callable[[], None]] = {
    "readings of a public file": check_public_file,
    "values that noise hides": check_hidden,
}

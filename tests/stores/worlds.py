"""Gauges whose stores are kept: each with what its source holds when the store is written,
and what comes later."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

DAYS_BEFORE: Final = 8
DAYS: Final = 16
DAY: Final = 86_400_000_000
START: Final = 4_102_444_800_000_000
"""The first of January 2100: a clock that is injected shows it, whatever year it is."""
KEY: Final = "a2V5IG9mIHRoZSBrZXB0IHN0b3JlcywgMzIgYnl0ZXM="
"""What encrypts the store that is encrypted."""

_FILES: Final = """
[source]
kind = "files"
path = "changes.csv"
table = "t"
time = "time"
entry = "id"
before = "before_"
after = "after_"
"""
_BUDGET: Final = """
[budget]
epsilon = 2
delta = 1e-6
"""
_SCHEDULE: Final = 'start = "2100-01-01"\nevery = "1 day"\nfor = "15 days"\n'
_COUNT: Final = (
    '\n[release.by_ward]\nsql = "SELECT ward, COUNT(*) FROM t GROUP BY ward"\ngroups.ward = ["a", "b"]\n'
    + _SCHEDULE
)
_AT_MOST: Final = "\n[constraint]\nat_most = 4\n"


@dataclass(frozen=True)
class World:
    """One declaration; `live`: its source is an SQLite file with triggers."""

    toml: str
    live: bool = False


WORLDS: Final[dict[str, World]] = {
    "count": World(_FILES + _AT_MOST + _BUDGET + _COUNT),
    "spelled_out": World(
        _FILES
        + "\n[constraint]\nat_most = 4\non_excess = 'freeze'\n"
        + _BUDGET
        + _COUNT
        + 'share = 1.0\nweight = 2\nminimise = "worst"\n'
    ),
    "flow": World(
        _FILES + _AT_MOST + _BUDGET
        + "\n[release.moved]\nclip = 2\n"
        "sql = \"SELECT COUNT(*) FROM changes(t) WHERE before.ward = 'a' AND after.ward = 'b'\"\n" + _SCHEDULE
    ),
    "encrypted": World(_FILES + _AT_MOST + _BUDGET + _COUNT + '\n[store]\nkey = "env:TIDEGAUGE_KEPT_KEY"\n'),
    "buffered": World(
        _FILES + _AT_MOST + _BUDGET + _COUNT
        + '[release.by_ward.strategy]\nname = "buffered"\nbins = 16\nfirst = 0\noffset = 0.125\n'
        'buffers = "0.3:1 0.4:0.5 0.2:0.07 0.1:0"\n'
    ),
    "encrypted_buffered": World(
        _FILES + _AT_MOST + _BUDGET + _COUNT
        + '[release.by_ward.strategy]\nname = "buffered"\nbins = 16\nfirst = 0\noffset = 0.125\n'
        'buffers = "0.3:1 0.4:0.5 0.2:0.07 0.1:0"\n\n[store]\nkey = "env:TIDEGAUGE_KEPT_KEY"\n'
    ),
    "shared_noise": World(
        _FILES + _AT_MOST + "\n[budget]\nepsilon = 2\n" + _COUNT
        + '[release.by_ward.strategy]\nname = "autoregressive"\n'
          'bins = 16\nmemory = 62000\nveil = "3/4"\nfirst = 0\n'
    ),
    "hierarchy": World(
        _FILES + _AT_MOST + _BUDGET + _COUNT
        + '[release.by_ward.strategy]\nname = "hierarchy"\nbranching = 2\nheight = 4\n'
          'bins = 16\nload = "leaf"\n'
    ),
    "optimum": World(_FILES + "\n[constraint]\nat_most = 2\n" + _BUDGET + _COUNT + 'strategy = "dense"\n'),
    "several": World(
        _FILES + "\n[constraint]\nat_most = 3\non_excess = 'retire'\n" + _BUDGET + _COUNT
        + '\n[release.mean_age]\nsql = "SELECT AVG(age) FROM t"\nbounds.age = [0, 100]\n' + _SCHEDULE
        + '\n[release.old]\nsql = "SELECT SUM(age) FROM t WHERE age >= 65"\nbounds.age = [0, 100]\n'
        + _SCHEDULE
        + '\n[release.ward_change]\nof = "by_ward"\nwindow = "3 days"\n'
    ),
    "rows_of_people": World(
        _FILES + 'unit = "person"\nmax_rows = 2\n'
        "\n[constraint]\nat_most = 4\nwithin = '9 days'\n" + _BUDGET + _COUNT
    ),
    "cases": World(
        _FILES + "\n[constraint]\nby = 'kind'\ncases.x.at_most = 2\ncases.y.within = '6 days'\n" + _BUDGET
        + _COUNT
    ),
    "sqlite": World(
        '[source]\nkind = "sqlite"\npath = "app.db"\ntable = "t"\nunit = "person"\nmax_rows = 2\n'
        + _AT_MOST + _BUDGET + _COUNT,
        live=True,
    ),
    # kept since format 6 of the store
    "renewing": World(
        _FILES.replace("entry =", "key =") + "\n[constraint]\nat_most = 2\nrenews = '5 days'\n"
        + _BUDGET + "reserve = 0.25\n" + _COUNT
    ),
    "people_renewing": World(
        _FILES.replace("entry =", "key =") + 'unit = "person"\nmax_rows = 2\n'
        "\n[constraint]\nat_most = 3\nrenews = '6 days'\non_excess = 'retire'\n" + _BUDGET + _COUNT
    ),
    "encrypted_rows": World(
        _FILES.replace("entry =", "key =") + "\n[constraint]\nat_most = 3\nwithin = '9 days'\n"
        + _BUDGET + _COUNT + '\n[store]\nkey = "env:TIDEGAUGE_KEPT_KEY"\n'
    ),
}  # fmt: skip


def _changes() -> list[tuple[int, int, tuple[object, ...] | None, tuple[object, ...] | None]]:
    """(day, key, row before, row after): thirty rows of twelve people (ward,
    age); a row changes once a day at most."""
    table: dict[int, tuple[object, ...]] = {}
    log = []
    for day in range(DAYS):
        for key in range(30):
            if (key * 7 + day * 3) % 5:
                continue
            before = table.pop(key, None)
            if before is None or (key + day) % 4:
                table[key] = ("abc"[(key + day) % 3], (key * 17) % 99)
            if before != table.get(key):
                log.append((day, key, before, table.get(key)))
    return log


def write_files(folder: Path, days: range) -> None:
    """The changes of some days, at noon before each day's reading, at the end of the csv file."""
    path = folder / "changes.csv"
    lines = [] if path.exists() else ["time,id,person,kind,before_ward,before_age,after_ward,after_age"]
    for day, key, before, after in _changes():
        if day in days:
            time = "2099-12-31" if day == 0 else f"2100-01-{day:02}"
            sides = [*(before or ("", "")), *(after or ("", ""))]
            lines.append(
                ",".join(map(str, [f"{time}T12:00:00Z", key, f"n{key % 12}", "xy"[key % 2], *sides]))
            )
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def write_table(folder: Path, days: range) -> None:
    """The same in the table of an SQLite file."""
    with closing(sqlite3.connect(folder / "app.db")) as connection, connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, "
            "person TEXT NOT NULL, ward TEXT, age INTEGER)"
        )
        for day, key, _, after in _changes():
            if day in days:
                connection.execute("DELETE FROM t WHERE id = ?", (key,))
                if after is not None:
                    connection.execute("INSERT INTO t VALUES (?, ?, ?, ?)", (key, f"n{key % 12}", *after))

"""Small gauges of rows that come and go: keys that they take and leave, terms that they enter late, flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.audit.installed.exercises import COUNT, HERE, OWN, PLAIN, SHARED, Exercise, with_changes
from tidegauge.audit.installed.rare_exercises import EACH, FINER

if TYPE_CHECKING:
    from tidegauge.audit.worlds.world import Table


def _renamed_in_a_term(table: Table) -> None:
    table.put((13, 13), "z", PLAIN | {"x": 3})
    table.put((14, 14), "c", PLAIN | {"x": 1})
    table.rename((15, 15), "z", "a", PLAIN | {"x": 3})  # it is now the later one, until the next term


def _passes_through(table: Table) -> None:
    table.put((3, 3), "k", PLAIN)
    table.rename((13, 13), "k", "l", PLAIN)
    table.rename((14, 14), "l", "m", PLAIN)
    table.put((23, 23), "l", PLAIN)  # another row, at a key that the first has left
    table.delete((33, 33), "m")
    table.put((43, 43), "m", PLAIN)  # and one at the key at which it was deleted


def _replaced_in_a_later_term(table: Table) -> None:
    table.put((3, 3), "z", PLAIN)
    table.rename((13, 13), "z", "k", PLAIN)  # from the next term on it is the key's own row
    table.delete((33, 33), "k")
    table.put((35, 35), "k", PLAIN)  # one change too many, until the next term


KEYS_AND_TERMS: Final[dict[str, Exercise]] = {
    "a key that changes before a term begins": Exercise(
        _renamed_in_a_term,
        OWN,
        {"at_most": 9, "renews": "20 microseconds"},
        unit="u",
        rows=1,
        tight=False,
        least=0.0,
        passes=EACH,
        sums=(0, 1, 2, 0, 0, 0),
    ),
    "a key that changed in an earlier term": Exercise(
        _replaced_in_a_later_term,
        COUNT,
        {"at_most": 1, "renews": "20 microseconds"},
        unit=None,
        passes=EACH,
        sums=(1, 0, 0, -1, 1, 0),
    ),
    "keys that a row passes through": Exercise(
        _passes_through,
        COUNT,
        {"at_most": 2},
        local=True,
        tight=False,
        least=0.0,
        sums=(1, 0, 1, -1, 1, 0),
    ),
    "keys that a row of a unit passes through": Exercise(
        _passes_through,
        COUNT,
        {"at_most": 4},
        unit="u",
        rows=3,
        local=True,
        tight=False,
        least=0.0,
        sums=(1, 0, 1, -1, 1, 0),
    ),
    "a unit that enters late in a term": Exercise(
        with_changes((19, "k", HERE)),
        COUNT | FINER,
        {"within": "12 microseconds", "on_excess": "retire", "renews": "20 microseconds"},
        tight=False,
        least=0.0,
        sums=(1, 0, 1, -1, 1, 0, 0, -2, 2, 0),
    ),
    "retiring just when a bin ends": Exercise(
        with_changes((15, "k", HERE)),
        COUNT,
        {"within": "25 microseconds", "on_excess": "retire"},
        passes=EACH,
        tight=False,
        least=0.0,
        sums=(1, 1, -1, -1, 0, 0),
    ),
    "a mean with shared noise": Exercise(
        with_changes((5, "k", {"x": 9}), (15, "k", None)),
        {"sql": "SELECT AVG(x) FROM t", "bounds": {"x": [1, 9]}, "strategy": SHARED},
        {"at_most": 2},
        pure=True,
        tight=False,
    ),
    "a flow of all that comes and goes": Exercise(
        with_changes((15, "k", HERE), (25, "k", {"x": 2}), (35, "k", None), (45, "k", HERE)),
        {"sql": "SELECT COUNT(*) FROM changes(t)"},
        tight=False,
        least=0.0,
        sums=(1, 1, 0, 1, 1, 0),
    ),
    "a flow of all that comes and goes, of several rows": Exercise(
        with_changes((15, "k", HERE), (25, "k", {"x": 2}), (35, "k", None), (45, "k", HERE)),
        {"sql": "SELECT COUNT(*) FROM changes(t)"},
        unit="u",
        rows=2,
        tight=False,
        least=0.0,
        sums=(1, 1, 0, 1, 1, 0),
    ),
}

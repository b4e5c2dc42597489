"""More small gauges, worked out by hand: terms, added releases, and things that applications rarely do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.audit.installed.exercises import (
    BINS,
    BOTH,
    CASES,
    COUNT,
    FLOW,
    GROUPED,
    HERE,
    OWN,
    PLAIN,
    SHARED,
    Exercise,
    groups,
    hierarchy,
    hits,
    toggles,
    with_changes,
)

if TYPE_CHECKING:
    from tidegauge.audit.worlds.world import Table


def _renewed(table: Table) -> None:
    for at, x in ((3, 1), (5, 2), (13, 3), (23, 1), (33, 2), (43, -2), (53, 3)):
        table.put((at, at), "k", PLAIN | {"x": x})


def _labels_renewed(table: Table) -> None:
    changes = ((3, 1, "q"), (5, 2, "p"), (13, 3, "p"), (16, 1, "p"), (23, 2, "q"), (33, 3, "q"), (35, 1, "q"))
    for at, x, label in changes:
        table.put((at, at), "k", PLAIN | {"x": x, "k": label})


def _rows_renewed(table: Table) -> None:
    table.put((3, 3), "l", PLAIN | {"x": 1})
    table.put((4, 4), "k", PLAIN | {"x": 2})
    table.put((23, 23), "l", PLAIN | {"x": 3})


def _flow_renewed(table: Table) -> None:
    for at, s in ((13, "a"), (30, "b"), (35, "a"), (37, "b")):  # the second is at the beginning of a term
        table.put((at, at), "k", PLAIN | {"s": s})


def _unlabelled(table: Table) -> None:
    table.put((3, 3), "k", PLAIN | {"x": 1, "k": "p"})
    table.put((4, 4), "m", PLAIN | {"x": 3, "k": "?"})  # nothing is declared for it: it never counts
    table.put((13, 13), "m", PLAIN | {"x": 2, "k": "p"})
    table.put((23, 23), "m", PLAIN | {"x": 1, "k": None})
    table.put((33, 33), "n", PLAIN | {"x": 3, "k": None})


def _at_once(table: Table) -> None:
    for at, x in ((3, 1), (3, 2), (13, 2), (13, 3), (13, 1), (23, 2), (33, 3)):
        table.put((at, at), "k", PLAIN | {"x": x})
    table.put((43, 43), "l", PLAIN | {"x": 3})
    table.delete((43, 43), "l")


def _goes_on(table: Table) -> None:
    for at, x in ((3, 1), (13, 3), (16, 2), (23, 1), (26, 3), (36, 2)):
        table.put((at, at), "k", PLAIN | {"x": x})


def _same_again(table: Table) -> None:
    table.put((3, 3), "k", PLAIN | {"x": 1, "s": "a"})
    for at, s in ((6, "b"), (13, "a"), (16, "b"), (23, "a")):
        table.put((at, at), "k", PLAIN | {"x": 1, "s": s})  # nothing published changes
    table.put((33, 33), "k", PLAIN | {"x": 3})


def _handed_over(table: Table) -> None:
    table.put((3, 3), "k", PLAIN | {"x": 1, "owner": "u"})
    table.put((13, 13), "k", PLAIN | {"x": 3, "owner": "v"})  # the row ends in one unit, begins in another
    table.put((23, 23), "k", PLAIN | {"x": 2, "owner": "v"})
    table.put((33, 33), "k", PLAIN | {"x": 3, "owner": "u"})
    table.put((43, 43), "k", PLAIN | {"x": 2, "owner": None})  # a fourth change of u


def _shortened(table: Table) -> None:
    table.put((3, 3), "k", PLAIN | {"x": 1, "s": "a"})
    table.put((13, 13), "k", PLAIN | {"x": 3, "s": "a"}, kept=("s",))
    table.put((23, 23), "k", PLAIN | {"x": 2, "s": "b"})
    table.put((33, 33), "k", PLAIN | {"x": 3, "s": "b"}, kept=("s",))


def _comes_back(table: Table) -> None:
    table.put((3, 3), "k", PLAIN | {"x": 1})
    table.put((4, 4), "l", PLAIN | {"x": 2})
    table.delete((23, 23), "k")
    table.put((33, 33), "k", PLAIN | {"x": 3})  # it is now the later one of two, and waits
    table.put((45, 45), "k", PLAIN | {"x": -2})
    table.delete((55, 55), "l")


def _adds_nothing(table: Table) -> None:
    table.put((3, 3), "k", PLAIN | {"x": 0})  # takes no other row's place
    table.put((4, 4), "l", PLAIN | {"x": 2})
    table.put((13, 13), "k", PLAIN | {"x": 3})
    table.delete((25, 25), "l")


def _emptied_elsewhere(table: Table) -> None:
    table.put((3, 3), "k", PLAIN)
    table.rename((13, 13), "k", "l", PLAIN)
    table.truncate((23, 23))
    table.put((33, 33), "l", PLAIN)  # another row: that of the key l


def _first_come_in_a_term(table: Table) -> None:
    for at, key, x in ((13, "l", 1), (23, "k", 2), (33, "l", 3), (43, "l", 2), (53, "l", 1)):
        table.put((at, at), key, PLAIN | {"x": x})


def _shortened_long(table: Table) -> None:
    table.put((3, 3), "k", PLAIN | {"x": 1, "s": _TEXT})
    table.put((13, 13), "k", PLAIN | {"x": 3, "s": _TEXT}, kept=("s",))


_TEXT: Final = "twenty characters..."


def _enter_together(table: Table) -> None:
    table.put((3, 3), "k", PLAIN | {"x": None, "k": "p"})
    table.put((13, 13), "l", PLAIN | {"x": 1, "k": "q"})  # before k in the log, and after it by its key
    table.put((13, 13), "k", PLAIN | {"x": 2, "k": "p"})
    table.put((23, 23), "l", PLAIN | {"x": 3, "k": "q"})


def _passed_on(table: Table) -> None:
    table.put((3, 3), "k", PLAIN | {"owner": "u"})
    table.put((13, 13), "k", PLAIN | {"owner": "v"})  # nothing else changes


def _many(table: Table) -> None:
    table.put((0, 0), "other", PLAIN | {"owner": "w"})
    for n in range(_MOST + 2):
        table.put((3, 3), f"k{n}", PLAIN)
    table.delete((15, 15), "k0")
    table.delete((25, 25), "k1")
    table.delete((25, 25), "k2")


_MOST: Final = 1001
"""Rows of a unit of which the engine finds the latest ends by sorting them."""


def _sliding(readings: int) -> dict[str, object]:
    """The change over two bins, each window measured as a whole."""
    strategy = {"name": "sliding", "span": 2, "stride": 1, "readings": readings}
    return {
        "window": "20 microseconds",
        "for": f"{10 * (readings - 1)} microseconds",
        "start": "1970-01-01T00:00:00.000030Z",
        "strategy": strategy,
    }


FINER: Final = {"every": "5 microseconds", "for": "45 microseconds"}
_FLOW_TO: Final = {
    "sql": "SELECT after.s, COUNT(*) FROM changes(t) GROUP BY after.s",
    "groups": {"s": ["a", "b"]},
}


def _leaves_in_a_term(table: Table) -> None:
    for at, x in ((13, 1), (15, 3), (27, 2), (55, 1)):
        table.put((at, at), "k", PLAIN | {"x": x})


def _leaves_last(table: Table) -> None:
    table.put((40, 40), "k", PLAIN | {"x": 3})
    table.put((55, 55), "k", PLAIN | {"x": 2})


_AVERAGE: Final = {"sql": "SELECT AVG(x) FROM t", "bounds": {"x": [1, 9]}}
EACH: Final = (12, 22, 32, 42, 52, 62)
"""Each bin has a pass of its own."""
_OFTEN: Final = (9, 16, 27, 200)
_LATER: Final = {"start": "1970-01-01T00:00:00.000030Z", "for": "30 microseconds"}
_LATEST: Final = {"start": "1970-01-01T00:00:00.000031Z", "for": "30 microseconds"}

RARE_EXERCISES: Final[dict[str, Exercise]] = {
    "a constraint that renews": Exercise(
        _renewed, OWN, {"at_most": 1, "renews": "20 microseconds"}, term=(10, 30), sums=(2, 1, -2, 1, -4, 5),
    ),
    "a term from its beginning to its end": Exercise(
        with_changes((10, "k", HERE), (15, "k", None), (25, "k", HERE), (28, "k", None)), COUNT,
        {"at_most": 2, "renews": "30 microseconds"},
    ),
    "a constraint that renews, retiring": Exercise(
        _renewed, OWN, {"at_most": 2, "within": "12 microseconds", "renews": "20 microseconds",
                         "on_excess": "retire"}, term=(10, 30), sums=(2, 1, -2, 1, -4, 5),
    ),
    "a label for a term": Exercise(
        _labels_renewed, OWN, CASES | {"renews": "20 microseconds"}, term=(10, 30),
        sums=(2, -1, 1, 1, -2, 0),
    ),
    "the order of rows in a term": Exercise(
        _rows_renewed, OWN, {"at_most": 2, "renews": "20 microseconds"}, unit="u", rows=1, term=(10, 30),
        sums=(2, 0, 0, 0, 0, 0),
    ),
    "the order of rows through a term": Exercise(
        _first_come_in_a_term, OWN, {"at_most": 9, "renews": "60 microseconds"}, unit="u", rows=1,
        tight=False, least=0.0, passes=EACH, sums=(0, 1, 0, 2, -1, -1),
    ),
    "a flow when a term begins": Exercise(
        _flow_renewed, {"sql": "SELECT COUNT(*) FROM changes(t) WHERE before.s = 'a' AND after.s = 'b'"},
        {"at_most": 1, "renews": "20 microseconds"}, pure=True, term=(10, 30), sums=(0, 0, 0, 1, 0, 0),
    ),
    "a change when a term begins": Exercise(
        with_changes((13, "k", {"x": 1}), (30, "k", {"x": 3}), (35, "k", {"x": 2})), OWN,
        {"at_most": 1, "renews": "20 microseconds"}, tight=False, least=0.0, sums=(1, 1, 2, -1, 0, 0),
    ),
    "a frozen unit that comes back": Exercise(
        with_changes((13, "k", {"x": 1}), (15, "k", {"x": 3})), OWN,
        {"at_most": 1, "renews": "20 microseconds"},
        tight=False, least=0.0, sums=(1, 1, 2, 0, 0, 0),
    ),
    "a flow between two rows": Exercise(
        with_changes((15, "k", {"s": "b"}), (25, "k", {"s": "a"}), (35, "k", {"s": "b"})),
        {"sql": "SELECT COUNT(*) FROM changes(t) WHERE before.s = 'a' AND after.s = 'b'"}, {"at_most": 3},
        tight=False, least=0.0, sums=(0, 0, 0, 1, 0, 0),
    ),
    "a flow whose unit retires": Exercise(
        hits(11, 12, 13), FLOW, {"at_most": 2, "on_excess": "retire"}, sums=(1, 2, 0, 0, 0, 0),
    ),
    "a label that is not declared": Exercise(
        _unlabelled, OWN, CASES, local=True, tight=False, least=0.0, sums=(1, 0, 0, 0, 0, 0),
    ),
    "several changes at one time": Exercise(
        _at_once, OWN, {"at_most": 3}, tight=False, sums=(2, -1, 1, 0, 0, 0),
    ),
    "several changes of a unit at one time": Exercise(
        _at_once, OWN, {"at_most": 3}, unit="u", rows=1, tight=False, sums=(2, -1, 1, 0, 0, 0),
    ),
    "a row that changes its unit": Exercise(
        _handed_over, OWN, {"at_most": 3}, unit="v", rows=1, local=True, tight=False,
        sums=(1, 2, -1, 1, 0, 0),
    ),
    "a row that leaves and comes back": Exercise(
        _comes_back, OWN, {"at_most": 3}, unit="u", rows=1, local=True, tight=False, passes=(24, 44, 200),
        sums=(1, 0, 1, 0, 0, -4),
    ),
    "a row that adds nothing": Exercise(
        _adds_nothing, OWN, {"at_most": 3}, unit="u", rows=1, local=True, tight=False,
        sums=(2, 0, 1, 0, 0, 0),
    ),
    "a clip over groups": Exercise(
        groups(3, 4, 11, 12, 21, 22, 31, 32, 41, 42, 51, 52), _FLOW_TO | {"clip": 1}, {"at_most": 40},
    ),
    "windows that slide, within a time": Exercise(
        toggles(40, 60, 80, 90), COUNT | _sliding(14), {"within": "40 microseconds"},
    ),
    "windows that slide, of several rows": Exercise(
        with_changes(*((at, key, None if at % 2 else HERE) for at in (26, 37) for key in "klm")),
        COUNT | _sliding(2), {"at_most": 1}, unit="u", rows=2,
    ),
    "windows that slide over a clip": Exercise(
        hits(15, 16, 25, 35, 38), FLOW | {"clip": 1} | _sliding(2), {"at_most": 4},
    ),
    "a clip that leaves a rest": Exercise(
        hits(11, 12, 13, 21, 22, 31), FLOW | {"clip": 3}, {"at_most": 5},
    ),
    "a clip that leaves a rest, in a hierarchy": Exercise(
        hits(11, 12, 13, 21, 22, 25), FLOW | {"clip": 3} | hierarchy(), {"at_most": 5},
    ),
    "a row before the first window of a hierarchy": Exercise(
        toggles(5, 15), COUNT | hierarchy(scales="4 4 1"), {"at_most": 1},
    ),
    "three groups in a hierarchy": Exercise(
        with_changes(*((at, "k", {"s": "abc"[n % 3]}) for n, at in enumerate((5, 15, 25, 35, 45, 55, 58)))),
        GROUPED | {"groups": {"s": ["a", "b", "c"]}} | hierarchy(), {"at_most": 6},
    ),
    "a label with more changes than the first": Exercise(
        with_changes(*((at, "k", {"x": x, "k": "q"}) for at, x in ((5, 3), (15, -2), (25, 3), (35, -2)))),
        OWN,
        {"by": "k", "cases": {"p": {"at_most": 1}, "q": {"at_most": 3}}},
    ),
    "a flow before the first window of a hierarchy": Exercise(
        hits(3, 4, 5, 15), FLOW | hierarchy(scales="4 4 1"), {"at_most": 3},
    ),
    "releases that draw together": Exercise(
        toggles(5, 15, 25, 35, 45), COUNT, also={"s": COUNT, "v": _AVERAGE}, tight=False,
        passes=EACH, sums=(2, -1, 1, 0, 0, 0), other_sums={"s": (2, -1, 1, 0, 0, 0)},
    ),
    "releases that draw together, and a tick that is interrupted": Exercise(
        toggles(5, 15, 25, 35, 45), COUNT, also={"s": COUNT, "v": _AVERAGE}, pure=True, tight=False,
        passes=EACH, crash=1, other_sums={"s": (2, -1, 1, 0, 0, 0)},
    ),
    "values that are left out": Exercise(
        _shortened, OWN | {"sql": "SELECT SUM(x) FROM t WHERE s = 'b'"}, {"at_most": 3}, left_out=0,
        tight=False, sums=(0, 0, 2, 1, 0, 0),
    ),
    "a value of twenty characters that is left out": Exercise(
        _shortened_long, OWN | {"sql": f"SELECT SUM(x) FROM t WHERE s = '{_TEXT}'"}, {"at_most": 3},
        left_out=20, tight=False, sums=(1, 2, 0, 0, 0, 0),
    ),
    "rows that enter at one time": Exercise(
        _enter_together, OWN, {"at_most": 3}, unit="u", rows=1, tight=False, sums=(0, 1, 2, 0, 0, 0),
    ),
    "labels that come at one time": Exercise(
        _enter_together, OWN, CASES, unit="u", rows=2, tight=False, least=0.0, sums=(0, 3, 0, 0, 0, 0),
    ),
    "at most and within, and changes after the first pass": Exercise(
        _goes_on, OWN, {"at_most": 3, "within": "20 microseconds"}, tight=False, sums=(1, 1, 0, 0, 0, 0),
    ),
    "a time that ends after the first pass": Exercise(
        _goes_on, OWN, {"within": "20 microseconds"}, tight=False, sums=(1, 1, -1, 0, 0, 0),
    ),
    "retiring after the first pass": Exercise(
        _goes_on, OWN, {"at_most": 4, "on_excess": "retire"}, tight=False, sums=(1, 1, -2, 0, 0, 0),
    ),
    "retiring in a term": Exercise(
        _leaves_in_a_term, OWN, {"at_most": 2, "renews": "40 microseconds", "on_excess": "retire"},
        tight=False, sums=(0, 0, 0, 0, 2, -1),
    ),
    "retiring when the last bin ends": Exercise(
        _leaves_last, OWN, {"within": "20 microseconds", "on_excess": "retire"}, local=True, tight=False,
        sums=(0, 0, 0, 3, 0, -3),
    ),
    "values of both signs in three groups of a hierarchy": Exercise(
        with_changes(*((at, "k", {"s": s, "x": 3}) for at, s in ((5, "a"), (15, "b"), (35, "c"), (45, "a")))),
        {"sql": "SELECT s, SUM(x) FROM t GROUP BY s", "groups": {"s": ["a", "b", "c"]}, "bounds": BOTH}
        | hierarchy(height=3), pure=True,
    ),
    "a hierarchy whose last node ends with it": Exercise(
        toggles(40, 50, 51), COUNT | hierarchy(height=3, load="leaf"), {"within": "10 microseconds"},
    ),
    "noise drawn ahead, and a change in every bin": Exercise(
        with_changes(*((5 + 10 * n, "k", {"s": "abc"[n % 3]}) for n in range(6))),
        GROUPED | {"groups": {"s": ["a", "b", "c"]},
                   "strategy": {"name": "ahead", "branching": 2, "height": 2, "bins": BINS, "first": 0}},
        {"at_most": 9}, pure=True,
    ),
    "a flow that fades": Exercise(
        hits(11, 12, 25), FLOW | {"strategy": SHARED}, {"at_most": 2}, pure=True, tight=False, least=0.6,
    ),
    "values of both signs in groups, without end": Exercise(
        with_changes((5, "k", {"x": 3}), (25, "k", {"x": -2}), (35, "k", {"x": 3})),
        {"sql": "SELECT s, SUM(x) FROM t GROUP BY s", "groups": {"s": ["a", "b"]}, "bounds": BOTH,
         "for": "ever", "strategy": {"name": "epochs", "start": 1, "branching": 0, "pure": 0}},
        {"at_most": 2}, tight=False, least=0.7,
    ),
    "a table that is emptied after a key changed": Exercise(
        _emptied_elsewhere, COUNT, {"at_most": 2}, local=True, tight=False, sums=(1, 0, -1, 1, 0, 0),
    ),
    "a row that changes its unit alone": Exercise(
        _passed_on, COUNT, {"at_most": 1}, unit="v", rows=1, local=True, tight=False,
        sums=(1, 1, 0, 0, 0, 0),
    ),
    "a thousand rows of one unit": Exercise(
        _many, COUNT, {"at_most": 3}, unit="u", rows=_MOST, tight=False, sums=(_MOST + 1, 0, -1, 0, 0, 0),
    ),
    "changes of what is not published": Exercise(
        _same_again, OWN, {"at_most": 2}, tight=False, sums=(1, 0, 0, 2, 0, 0),
    ),
    "bins of two widths": Exercise(
        toggles(5, 12, 18, 22, 33), COUNT, {"at_most": 4}, also={"s": COUNT | FINER},
        tight=False, passes=_OFTEN, sums=(2, 0, -1, 0, 0, 0),
        other_sums={"s": (2, -1, 1, -1, 0, 0, 0, 0, 0, 0)},
    ),
    "a clip in bins of two widths": Exercise(
        hits(12, 14, 17, 18, 22, 26, 28), FLOW | {"clip": 3}, {"at_most": 9}, also={"s": COUNT | FINER},
        tight=False, passes=_OFTEN, sums=(1, 3, 3, 0, 0, 0),
    ),
    "a release that is added": Exercise(
        toggles(5, 15, 25, 35, 45, 55), COUNT, {"at_most": 2}, added={"s": COUNT | _LATER},
        sums=(2, -1, 0, 0, 0, 0), other_sums={"s": (2, -1, 0, 0)},
    ),
    "a release that is added, and a change when it begins": Exercise(
        with_changes((5, "k", {"x": 1}), (30, "k", {"x": 3}), (35, "k", {"x": 2}), (45, "k", {"x": 1})), OWN,
        {"at_most": 2}, added={"s": {**OWN, **_LATER}}, tight=False,
        sums=(2, 0, 2, 0, 0, 0), other_sums={"s": (4, -1, 0, 0)},
    ),
    "a release that is added, and begins when a bin has ended": Exercise(
        with_changes((5, "k", {"x": 1}), (31, "k", {"x": 3}), (35, "k", {"x": 2}), (45, "k", {"x": 1})), OWN,
        {"at_most": 2}, added={"s": {**OWN, **_LATEST}}, tight=False,
        passes=(9, 30, 200), sums=(2, 0, 0, 2, 0, 0), other_sums={"s": (4, -1, 0, 0)},
    ),
}  # fmt: skip

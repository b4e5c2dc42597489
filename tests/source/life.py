"""The life of a table, as a script, and what it means: the oracle of every source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegauge.model.mutation import Batch

COLUMNS = {"id": "INTEGER", "person": "VARCHAR", "status": "VARCHAR", "age": "INTEGER"}
Row = dict[str, Any]


@dataclass(frozen=True)
class Insert:
    row: Row


@dataclass(frozen=True)
class Update:
    number: int
    to: Row


@dataclass(frozen=True)
class Delete:
    number: int


@dataclass(frozen=True)
class Rename:
    number: int
    to: int


@dataclass(frozen=True)
class Truncate:
    pass


Operation = Insert | Update | Delete | Rename | Truncate


@dataclass(frozen=True)
class Transaction:
    operations: list[Operation]
    commits: bool = True


@dataclass(frozen=True)
class Step:
    """What happens between two reads."""

    name: str
    transactions: list[Transaction] = field(default_factory=list)


def patient(number: int, person: str | None, status: str | None, age: int | None = None) -> Row:
    return {"id": number, "person": person, "status": status, "age": age}


def once(*operations: Operation) -> Transaction:
    return Transaction(list(operations))


def rolled_back(*operations: Operation) -> Transaction:
    return Transaction(list(operations), commits=False)


FIRST = [
    patient(1, "ann", "ill", 30),
    patient(2, "bob", "well"),
    patient(3, "ann", None, 31),
    patient(4, None, "", 0),
    patient(40, "", "ill", 90),
]
LIFE = [
    Step("nothing happens"),
    Step("an insertion, an update, a deletion", [
        once(Insert(patient(5, "eve", "ill", 40))), once(Update(1, {"status": "well"})), once(Delete(2)),
    ]),
    Step("one transaction with all of them, twice the same row", [
        once(Insert(patient(6, "fay", "ill")), Update(6, {"age": 50}), Update(6, {"age": 51}), Delete(3)),
    ]),
    Step("what is rolled back did not happen", [
        rolled_back(Insert(patient(7, "gus", "ill")), Delete(1)),
        once(Update(1, {"age": 32})), rolled_back(Truncate()),
    ]),
    Step("an update that changes nothing", [once(Update(1, {"age": 32}))]),
    Step("a row that comes and goes", [once(Insert(patient(8, "hal", "ill"))), once(Delete(8))]),
    Step("a key that comes back", [once(Insert(patient(2, "bob", "ill", 70)))]),
    Step("values to and from null, and awkward text", [
        once(Update(5, {"status": None, "age": None})),
        once(Update(4, {"status": 'a "quoted", \\N line\nand Ü\'s', "age": -1})),
    ]),
    Step("a row that changes hands", [once(Update(5, {"person": "zoe"})), once(Update(1, {"person": None})),
                                      once(Update(40, {"person": "moe"}))]),
    Step("a row that has no unit any more", [once(Update(40, {"person": ""}))]),
    Step("a key that is changed", [once(Rename(5, 50))]),
    Step("keys that are swapped through a third", [once(Rename(1, 99), Rename(2, 1), Rename(99, 2))]),
    Step("a truncation, and life goes on", [
        once(Truncate()), once(Insert(patient(1, "ann", "ill", 33)), Insert(patient(9, "ida", "ill"))),
    ]),
    Step("a truncation within a transaction",
         [once(Insert(patient(10, "jim", "ill")), Truncate(), Insert(patient(11, "kim", "ill")))]),
    Step("very many rows at once",
         [once(*(Insert(patient(n, f"p{n % 7}", "ill", n)) for n in range(1000, 1400)))]),
    Step("and they leave one by one", [once(Delete(n)) for n in range(1000, 1040)]),
]  # fmt: skip


class Table:
    """The table itself, as every database would have it."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}

    def apply(self, transactions: Iterable[Transaction]) -> None:
        for transaction in transactions:
            before = dict(self.rows)
            for operation in transaction.operations:
                self._apply(operation)
            if not transaction.commits:
                self.rows = before

    def _apply(self, operation: Operation) -> None:
        match operation:
            case Insert(row):
                assert row["id"] not in self.rows
                self.rows[row["id"]] = row
            case Update(number, to):
                self.rows[number] = self.rows[number] | to
            case Delete(number):
                del self.rows[number]
            case Rename(number, new):
                assert new not in self.rows
                self.rows[new] = self.rows.pop(number) | {"id": new}
            case Truncate():
                self.rows = {}

    @property
    def state(self) -> State:
        """An empty unit is none, whatever the source."""
        return {str(number): (row["person"] or None, row) for number, row in self.rows.items()}


State = dict[str, tuple[str | None, Row]]
"""entry -> (unit, row)"""
Net = dict[str, tuple[tuple[str | None, Row] | None, tuple[str | None, Row] | None]]


def applied(state: State, batch: Batch) -> State:
    """What a batch does to what is known, one mutation after the other: the meaning of the columns."""
    state = dict(state)
    for mutation in batch.rows.to_pylist():
        entry, after = mutation["entry"], mutation["after"]
        if entry is None:
            state = {}
            continue
        known = state.get(entry)
        if mutation.get("previous") is not None:
            known = state.pop(mutation["previous"])
        if mutation["informed"] and mutation["before"] is not None:
            assert known is not None
            assert mutation["before"] == known[1], "a before-image is the row as it was"
        if after is None:
            state.pop(entry, None)
            continue
        unit = mutation["unit"]
        for name in mutation.get("kept") or ():
            assert known is not None
            if name in after:
                after[name] = known[1][name]
            if name == "person":
                unit = known[0]
        state[entry] = unit, after
    return state


def net(before: State, after: State) -> Net:
    """What changed."""
    return {
        entry: (before.get(entry), after.get(entry))
        for entry in before.keys() | after.keys()
        if before.get(entry) != after.get(entry)
    }

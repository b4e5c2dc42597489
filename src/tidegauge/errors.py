"""Every refusal of Tidegauge, one tree.

TidegaugeError
├── SpecError            tidegauge.toml or an argument says something that cannot be
│   └── QueryError       the SELECT of a release is not a query that can be published
├── BudgetExceeded       the plan needs more than the ledger has left
├── PlanChanged          the file no longer says what was committed
├── SourceError          the data cannot be read as declared
├── StoreError           the store cannot be used
│   ├── StoreLocked      another process works on it
│   ├── StoreBehind      it does not remember what was published: it is an old copy
│   └── StoreCorrupt     it does not prove what it should
└── LocalError           a survey, a report or a reporter's state is not acceptable

A message says what was asked, what stopped it, what state is left behind and what to do next.
It never carries a data value, a connection string or an exact count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction


class TidegaugeError(Exception):
    """Root of the tree; the command line turns it into exit code 2."""


class SpecError(TidegaugeError):
    """What was declared cannot be: names the key."""

    def __init__(self, message: str, *, key: str | None = None) -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key


class QueryError(SpecError):
    """A SELECT that is not a linear query over one table, with the reason."""


class BudgetExceeded(TidegaugeError):
    """A plan that does not fit what is left."""

    def __init__(self, what: str, *, measure: str, needed: Fraction, left: Fraction) -> None:
        super().__init__(
            f"{what} needs {measure} = {needed}; the ledger has {left} left (short by {needed - left}).\n"
            "Nothing was read or spent. Publish less often, lower its share, or raise [budget]."
        )
        self.needed = needed
        self.left = left


class PlanChanged(TidegaugeError):
    """A committed plan is immutable; the message lists what differs."""


class SourceError(TidegaugeError):
    """Input that cannot be read as declared: names the file and, where there is one, the line."""

    def __init__(self, message: str, *, path: str | None = None, line: int | None = None) -> None:
        where = "" if path is None else path if line is None else f"{path}, line {line}"
        super().__init__(f"{where}: {message}" if where else message)
        self.path = path
        self.line = line


class StoreError(TidegaugeError):
    """The store cannot be opened, read or written."""


class StoreLocked(StoreError):
    """Another process holds the store."""


class StoreBehind(StoreError):
    """The store is an old copy: more was published than it remembers."""


class StoreCorrupt(StoreError):
    """The store fails its own proof."""


class LocalError(TidegaugeError):
    """A survey, report or reporter state that cannot be accepted."""

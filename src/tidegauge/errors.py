"""The exceptions of Tidegauge.

TidegaugeError
├── SpecError            tidegauge.toml or an argument is invalid
│   └── QueryError       the SELECT of a release cannot be published
├── BudgetExceeded       the plan needs more budget than the ledger has left
├── PlanChanged          tidegauge.toml differs from the committed declaration
├── SourceError          the source cannot be read as declared
├── StoreError           the store cannot be opened, read or written
│   ├── StoreLocked      another process uses the store
│   ├── StoreBehind      the store is an old copy: readings were published after it was made
│   ├── StoreCorrupt     the store fails its integrity checks
│   └── LedgerError      the shared ledger cannot be used by this gauge
├── PublishError         readings could not be handed on; they stay in the outbox
└── LocalError           a survey, a report or a reporter's state is invalid

A message says what was asked, what failed, what state is left and what to do next.
It never contains a data value, a connection string or an exact count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction


class TidegaugeError(Exception):
    """The base class; the command line prints its message and exits with code 2."""


class SpecError(TidegaugeError):
    """An invalid declaration or argument; `key` names it."""

    def __init__(self, message: str, *, key: str | None = None) -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key


class QueryError(SpecError):
    """A SELECT that is not a linear query over one table; the message gives the reason.

    `unknown`: the column that the SELECT names and the table does not have, if that is the reason.
    """

    def __init__(self, message: str, *, key: str | None = None, unknown: str | None = None) -> None:
        super().__init__(message, key=key)
        self.unknown = unknown


class BudgetExceeded(TidegaugeError):
    """A plan that needs more budget than is left."""

    def __init__(
        self,
        what: str,
        *,
        measure: str,
        needed: Fraction,
        left: Fraction,
        advice: str = "Publish less often, lower its share, or raise [budget].",
    ) -> None:
        parts = (_amount(needed), _amount(left), _amount(needed - left))
        short = "needs {} = {}; the ledger has {} left (short by {})".format(measure, *parts)
        if not needed:
            short = "needs a part of the budget, and nothing is left"
        super().__init__(f"{what} {short}.\nNothing was read or spent. {advice}")
        self.needed = needed
        self.left = left


def _amount(loss: Fraction) -> str:
    """Exact if that can be read at a glance; else with six digits, as `tidegauge ledger` prints it."""
    return str(loss) if loss.denominator <= 10_000 else f"{float(loss):.6g}"


class PlanChanged(TidegaugeError):
    """The declaration differs from the committed one; the message lists the differences."""


class SourceError(TidegaugeError):
    """Input that cannot be read as declared; `path` and `line` say where, if known."""

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
    """The store is an old copy: readings were published after it was made."""


class StoreCorrupt(StoreError):
    """The store fails its integrity checks.

    `advice`: what to do about it; None where the message says it.
    """

    def __init__(
        self,
        message: str,
        *,
        advice: str | None = (
            "The store was altered or damaged: do not publish from it. Bring back the newest copy that "
            "tidegauge verify accepts."
        ),
    ) -> None:
        super().__init__(message if advice is None else f"{message}\n{advice}")


class LedgerError(StoreError):
    """The shared ledger cannot be opened, read or written, or counts other units than the gauge."""


class PublishError(TidegaugeError):
    """Readings could not be handed on; they stay in the outbox and are delivered later."""


class LocalError(TidegaugeError):
    """An invalid survey, report or reporter state."""

"""The draw of at_most, before there is a plan: reserved durably, then drawn, then kept durably."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.errors import PlanChanged, StoreError
from tidegauge.store.public.ledger import CHOICE

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tidegauge.model.ledger import Reservation
    from tidegauge.store.database import Database
    from tidegauge.store.public.ledger import Ledger


class Draw:
    """The steps of a draw; each is durable when it returns, and none can be made twice."""

    def __init__(
        self, file: Database, ledger: Ledger, transaction: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._file, self._ledger, self._transaction = file, ledger, transaction

    def reserve(self, reservation: Reservation, *, time: str, simulated: bool) -> None:
        """Reserve the privacy loss of a draw, once: after a kill it is found reserved.

        Raises PlanChanged where another draw was reserved, and BudgetExceeded.
        """
        with self._transaction():
            known = [one.body.choice for one in self._ledger.entries() if one.kind == CHOICE]
            if known == [reservation.choice]:
                return
            if known:
                raise PlanChanged(
                    "at_most was already reserved to be chosen, or was chosen, for another declaration. Put "
                    "the declaration back as it was, or start another gauge with a store of its own; the "
                    "privacy losses of both gauges add up."
                )
            self._ledger.reserve(reservation, time=time)
            self._file.set("simulated", str(int(simulated)))

    @property
    def number(self) -> int | None:
        """The number of the candidate that was drawn; None before the draw."""
        text = self._file.get("drawn")
        return None if text is None else int(text)

    def keep(self, number: int) -> None:
        """Make the draw durable.  Raises StoreError if nothing is reserved for it, or it was drawn before."""
        with self._transaction():
            if not any(one.kind == CHOICE for one in self._ledger.entries()):
                raise StoreError("nothing was reserved for the choice of at_most")
            if self.number is not None:
                raise StoreError("at_most was already chosen here; it is never drawn a second time")
            self._file.set("drawn", str(number))

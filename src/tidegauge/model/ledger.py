"""What the ledger records: the privacy loss that is reserved for a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tidegauge.errors import SpecError, StoreCorrupt
from tidegauge.model.json import as_object, as_scalar, as_text
from tidegauge.model.quantity import fraction

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from tidegauge.model.json import Json, JsonObject


@dataclass(frozen=True)
class Reservation:
    """The whole loss of a plan, reserved when the plan was committed."""

    plan: str
    """The plan's hash."""
    measure: str
    """The measure of privacy loss: epsilon or rho."""
    budget: Fraction
    reserved: Fraction
    releases: Mapping[str, Fraction]
    """The loss of each release."""
    choice: str | None = None
    """The digest of what at_most is drawn from, if this reserves the draw; `plan` is empty then."""

    def as_json(self) -> dict[str, Json]:
        """The reservation as the ledger keeps it and `ledger --json` prints it."""
        if self.choice is not None:
            return {
                "budget": str(self.budget),
                "choice": self.choice,
                "measure": self.measure,
                "reserved": str(self.reserved),
            }
        return {
            "budget": str(self.budget),
            "measure": self.measure,
            "plan": self.plan,
            "releases": {name: str(loss) for name, loss in sorted(self.releases.items())},
            "reserved": str(self.reserved),
        }

    @classmethod
    def from_json(cls, record: JsonObject) -> Self:
        """The reservation that `as_json` wrote.  Raises StoreCorrupt for anything else."""
        try:
            return cls(
                plan="" if "choice" in record else str(record["plan"]),
                measure=str(record["measure"]),
                budget=fraction(as_scalar(record["budget"])),
                reserved=fraction(as_scalar(record["reserved"])),
                releases={
                    name: fraction(as_scalar(loss))
                    for name, loss in as_object(record.get("releases", {})).items()
                },
                choice=as_text(record["choice"]) if "choice" in record else None,
            )
        except (SpecError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
            raise StoreCorrupt("an entry of the ledger is not a reservation: the store was altered") from None


@dataclass(frozen=True)
class LedgerEntry:
    """One entry of the ledger, linked to the entry before by its hash."""

    seq: int
    time: str
    kind: str
    body: Reservation
    previous: str
    hash: str

    def as_json(self) -> dict[str, Json]:
        """The entry as `ledger --json` prints it."""
        return vars(self) | {"body": self.body.as_json()}

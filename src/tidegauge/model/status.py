"""How far a gauge has come, as `Gauge.status` returns it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegauge.model.quantity import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class ReleaseStatus:
    """How far one release has come."""

    readings: int
    """How many readings are published."""
    readings_total: int | None
    """How many there will be; None: no end was declared."""
    next: int | None
    """When the next reading is due; None: there is none."""

    def as_json(self) -> dict[str, Any]:
        """The same with times in RFC 3339."""
        return vars(self) | {"next": None if self.next is None else rfc3339(self.next)}


@dataclass(frozen=True)
class Status:
    """How far a gauge has come."""

    plan: str | None = None
    """The hash of the committed plan; None: no plan is committed."""
    simulated: bool = False
    processed_to: int | None = None
    """The end of the last measured bin."""
    releases: Mapping[str, ReleaseStatus] = field(default_factory=dict)
    publishers: Mapping[str, Any] = field(default_factory=dict)
    """What each publisher still has to deliver, by its name."""
    operator_only: Mapping[str, float] = field(default_factory=dict)
    """Exact counts of changes that did not count, by reason.  They are not private and never published."""

    def as_json(self) -> dict[str, Any]:
        """The status as `status --json` prints it."""
        return {
            "plan": self.plan,
            "simulated": self.simulated,
            "processed_to": None if self.processed_to is None else rfc3339(self.processed_to),
            "releases": {name: one.as_json() for name, one in self.releases.items()},
            **({"publishers": dict(self.publishers)} if self.publishers else {}),
            "operator_only": dict(self.operator_only),
        }

"""How far a gauge has come, as `Gauge.status` returns it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegauge.model.quantity import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.model.json import Json
    from tidegauge.model.query import Value


@dataclass(frozen=True)
class ReleaseStatus:
    """How far one release has come."""

    readings: int
    """How many readings are published."""
    readings_total: int | None
    """How many there will be; None: no end was declared."""
    next: int | None
    """When the next reading is due; None: there is none."""

    def as_json(self) -> dict[str, Json]:
        """The same with times in RFC 3339."""
        return vars(self) | {"next": None if self.next is None else rfc3339(self.next)}


@dataclass(frozen=True)
class CellError:
    """The whole error of one reading: noise, and the bias of the constraint.  Exact and secret."""

    time: int
    group: Mapping[str, Value] | None
    accepted: float | None
    """The value without noise; None: there is none (a mean of no rows)."""
    true: float | None
    """The value without noise and without any constraint."""
    noise: float
    """Half-width of the 95 % noise interval."""
    units: int
    """Units that are frozen or missing: they contribute something else than they truly would."""
    counted: int
    """When `units` was counted: the end of the last measured bin of any release."""
    cause: str

    @property
    def bias(self) -> float | None:
        """The accepted value less the true one."""
        return None if self.accepted is None or self.true is None else self.accepted - self.true

    def warning(self, release: str) -> str | None:
        """A sentence where the bias exceeds the noise."""
        if self.bias is None or abs(self.bias) <= self.noise:
            return None
        named = "" if not self.group else f" ({', '.join(map(str, self.group.values()))})"
        side = "above" if self.bias > 0 else "below"
        reason = "changes or rows of some units did not count"
        if self.counted > self.time:
            reason = f"units passed {self.cause} ({self.units:,} are off at {rfc3339(self.counted)})"
        elif self.units:
            reason = f"{self.units:,} unit{'s' if self.units != 1 else ''} passed {self.cause}"
        return (
            f"{release}{named} is {abs(self.bias):,.6g} {side} the truth because {reason}; "
            f"noise is ± {self.noise:,.4g}"
        )

    def as_json(self, release: str) -> dict[str, Json]:
        """The same with the time in RFC 3339, and with the bias."""
        return {
            "time": rfc3339(self.time),
            "group": None if self.group is None else dict(self.group),
            "units": self.units,
            "accepted": self.accepted,
            "true": self.true,
            "bias": self.bias,
            "noise": self.noise,
            "warning": self.warning(release),
        }


@dataclass(frozen=True)
class WholeError:
    """The whole error of the latest reading of each release, by cell.  Exact and secret."""

    since: int | None
    """Changes that were dropped before this instant are not known; None: all are known."""
    releases: Mapping[str, tuple[CellError, ...]]

    @property
    def warnings(self) -> list[str]:
        """A sentence for every reading whose bias exceeds its noise."""
        found = (one.warning(name) for name, cells in self.releases.items() for one in cells)
        return [one for one in found if one is not None]

    def as_json(self) -> dict[str, Json]:
        """The errors as `status --json` prints them."""
        return {
            "secret": True,
            "not_known_before": None if self.since is None else rfc3339(self.since),
            "releases": {name: [one.as_json(name) for one in cells] for name, cells in self.releases.items()},
        }


@dataclass(frozen=True)
class Status:
    """How far a gauge has come."""

    plan: str | None = None
    """The hash of the committed plan; None: no plan is committed."""
    simulated: bool = False
    processed_to: int | None = None
    """The end of the last measured bin."""
    releases: Mapping[str, ReleaseStatus] = field(default_factory=dict)
    publishers: Mapping[str, int] = field(default_factory=dict)
    """How many readings each publisher still has to deliver, by its name."""
    operator_only: Mapping[str, float] = field(default_factory=dict)
    """Exact counts of changes that did not count, by reason.  They are not private and never published."""
    whole_error: WholeError | None = None
    """For the operator alone; None: no plan is committed, or the store does not keep it."""

    def as_json(self) -> dict[str, Json]:
        """The status as `status --json` prints it."""
        return {
            "plan": self.plan,
            "simulated": self.simulated,
            "processed_to": None if self.processed_to is None else rfc3339(self.processed_to),
            "releases": {name: one.as_json() for name, one in self.releases.items()},
            **({"publishers": self._waiting()} if self.publishers else {}),
            "operator_only": dict(self.operator_only),
            "whole_error": None if self.whole_error is None else self.whole_error.as_json(),
        }

    def _waiting(self) -> dict[str, Json]:
        return {name: {"waiting": count} for name, count in self.publishers.items()}

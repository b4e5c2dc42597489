"""A reading: one published number of one release, time and group, with its error."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import instant, rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.model.json import Json
    from tidegauge.model.query import Value

COVERS: Final = "It covers the noise, not the bias of changes that are ignored."
"""What a noise interval covers, wherever one is shown."""
TOO_SMALL: Final = "too small to tell"
"""What people are shown in place of a value that noise hides."""


def noise_hides(
    value: float | None, low: float, high: float, *, zero_is_nothing: bool, never_negative: bool
) -> bool:
    """Whether a value with this interval is too small to tell: the rule of every table, chart and page.

    There is no value; or 0 means that there is nothing, and the interval contains 0; or the exact value
    cannot be below 0, and the interval begins there.  A value without noise is never too small.
    """
    if value is None:
        return True
    if high <= low:
        return False
    return (zero_is_nothing and low <= 0 <= high) or (never_negative and low <= 0)


@dataclass(frozen=True)
class ModelEstimate:
    """What a model of the series estimates; its interval (95 %) holds if the model holds."""

    uses: str
    """Which readings the estimate uses: all readings, or past readings."""
    value: float | None
    stderr: float | None
    low: float
    high: float

    def as_json(self) -> dict[str, Json]:
        """The columns of the model, in every format."""
        return {
            "model_value": self.value,
            "model_stderr": self.stderr,
            "model_low": self.low,
            "model_high": self.high,
            "model_uses": self.uses,
        }


@dataclass(frozen=True)
class Reading:
    """A published value.  `value` is None where the noise hides it (a mean over too few rows)."""

    release: str
    time: datetime
    group: dict[str, Value] | None
    value: float | None
    stderr: float | None
    _interval: Callable[[float], tuple[float, float]] = field(repr=False, compare=False)
    bias: float | None = None
    """How much too large the value is on average, where it was made consistent; None elsewhere."""
    model: ModelEstimate | None = None
    """The denoised estimate, where it was asked for."""
    never_negative: bool = False
    """Whether the exact value cannot be below 0: a count."""
    zero_is_nothing: bool = False
    """Whether 0 means that there is nothing: a count, a sum or a change, and not a mean."""

    @property
    def too_small(self) -> bool:
        """Whether noise hides the value; people are then shown "too small to tell"."""
        return self.hides(self.value, *self.interval(0.95))

    def hides(self, value: float | None, low: float, high: float) -> bool:
        """Whether a value of this release with this interval is too small to tell."""
        return noise_hides(
            value, low, high, zero_is_nothing=self.zero_is_nothing, never_negative=self.never_negative
        )

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The noise interval at this level.  It covers the noise, not the bias of dropped changes."""
        if not 0 < level < 1:
            raise ValueError("a level lies between 0 and 1")
        return self._interval(level)

    def as_json(self) -> dict[str, Json]:
        """The reading as every verb prints it; low and high are the noise interval (95 %)."""
        low, high = self.interval(0.95)
        return {
            "release": self.release,
            "time": rfc3339(instant(self.time)),
            "group": self.group,
            "value": self.value,
            "stderr": self.stderr,
            "low": low,
            "high": high,
            **({} if self.bias is None else {"bias": self.bias}),
            **({} if self.model is None else self.model.as_json()),
        }

"""SUM: the total of the values, between their bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from tidegauge.mechanism.aggregates.linear import Linear

if TYPE_CHECKING:
    from tidegauge.mechanism.aggregate import Part


class Sum(Linear):
    """SUM of an expression between declared bounds."""

    name: ClassVar[str] = "sum"
    parts: ClassVar[tuple[Part, ...]] = ("values",)
    unit: ClassVar[str] = "units of the values"


KIND: Final = Sum()

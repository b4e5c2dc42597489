"""COUNT: the number of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from tidegauge.mechanism.aggregates.linear import Linear

if TYPE_CHECKING:
    from tidegauge.mechanism.aggregate import Part


class Count(Linear):
    """COUNT(*), or COUNT of an expression."""

    name: ClassVar[str] = "count"
    parts: ClassVar[tuple[Part, ...]] = ("rows",)
    unit: ClassVar[str] = "rows"
    never_negative: ClassVar[bool] = True


KIND: Final = Count()

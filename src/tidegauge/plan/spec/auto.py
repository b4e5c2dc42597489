"""at_most = "auto": the keys of a private choice, and what is wrong with them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidegauge.plan.spec.declaration import ConstraintSpec

SHARE: Final = Fraction(1, 20)
"""The part of the budget that a choice takes unless another is declared."""


def with_auto(cls: type, data: Any) -> Any:  # noqa: ARG001  (pydantic passes the class)
    """A [constraint] as written, with at_most = "auto" as a key of its own."""
    if isinstance(data, dict) and data.get("at_most") == "auto":
        return {name: value for name, value in data.items() if name != "at_most"} | {"auto": True}
    return data


def require_choice(self: ConstraintSpec) -> ConstraintSpec:
    """The constraint.  Raises ValueError where the keys of a choice do not go together."""
    if not self.auto and (self.choose_from is not None or self.choice_share is not None):
        raise ValueError("choose_from and choice_share go with at_most = 'auto'")
    if self.auto and "on_excess" in self.model_fields_set:
        raise ValueError("on_excess: is chosen together with at_most = 'auto'; remove it")
    if self.auto and self.by is not None:
        raise ValueError("at_most: 'auto' cannot choose for the cases of 'by'; write a number in each")
    if self.choice_share is not None and not 0 < self.choice_share < 1:
        raise ValueError("choice_share: must be more than 0 and less than 1")
    return self

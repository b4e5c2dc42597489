"""What did not fit of one change, packed into one number; for the operator alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegauge.engine.spark.layout import OUTSIDE, WITH_BEFORE, WITHOUT_BEFORE

if TYPE_CHECKING:
    from collections.abc import Mapping

REASONS: Final = ("late", "unknown_before", "inserted_twice", "deleted_unknown")
"""What can be said of one change; for the operator alone.  Then: how many limits kept it out, and how many
releases have no cell for it."""
REFUSED: Final = 1 << len(REASONS)
"""In the packed reasons, one limit that kept the change out."""
WITHOUT_UNIT: Final = -1
"""In place of packed reasons: the new row has no unit."""
NO_RELEASE: Final = -1
"""The release of records that count such changes; their cell is the packed reasons."""


def packed(of: Mapping[str, str], late: str, *, scopes: int) -> str:
    """SQL: what did not fit, packed, without what the constraint refused.

    Of several changes at one instant nothing is said.  of: SQL of the columns that it depends on; late: SQL,
    whether the change is late.
    """
    found = [
        late,
        f"{of['alone']} AND {of['flags']} & {WITH_BEFORE} <> 0 AND NOT {of['was_alive']}",
        f"{of['alone']} AND {of['flags']} & {WITHOUT_BEFORE} <> 0 AND {of['alive']} AND {of['was_alive']}",
        f"{of['alone']} AND NOT {of['alive']} AND NOT {of['was_alive']}",
    ]
    code = " + ".join(f"CASE WHEN {one} THEN {1 << n}L ELSE 0L END" for n, one in enumerate(found))
    return code + f" + {of['flags']} DIV {OUTSIDE} * {REFUSED * (scopes + 1)}L"


def unpacked(code: int, scopes: int) -> dict[str, int]:
    """The reasons in a packed cell of a program with so many scopes."""
    if code == WITHOUT_UNIT:
        return {"without_unit": 1}
    found = {name: code >> n & 1 for n, name in enumerate(REASONS)}
    outside, refused = divmod(code >> len(REASONS), scopes + 1)
    return {**found, "dropped": refused, "outside_domain": outside}

"""Checks of the source before a plan is committed, which cannot be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.errors import SourceError
from tidegauge.model.mutation import Live
from tidegauge.source.batch.check import Rehearsing

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidegauge.model.mutation import Source


def require_ready(source: Source, used: Collection[str]) -> None:
    """Raise SourceError where the source could not be followed, or where its first read would fail."""
    if isinstance(source, Live):
        source.select(used)
    examine = (
        getattr(source, "doctor", None) if hasattr(source, "install") else None
    )  # events may begin to come later
    missing = [] if examine is None else [check for check in examine() if not check.ok]
    if missing:
        found = (f"  {one.name}: {one.detail}" + (f"\n    {one.fix}" if one.fix else "") for one in missing)
        raise SourceError(
            "the source cannot be followed yet:\n" + "\n".join(found) + "\n"
            "Nothing was read, committed or spent. Fix these, then run `tidegauge doctor` again."
        )
    if isinstance(source, Rehearsing):
        source.rehearse()

"""Checks of the source before a plan is committed, which cannot be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidegauge.model.source import OpenSource


def require_ready(source: OpenSource, used: Collection[str]) -> None:
    """Raise SourceError where the source could not be followed, or where its first read would fail."""
    source.select(used)
    checks = source.doctor() if source.installs else []  # other sources may begin to deliver later
    missing = [check for check in checks if not check.ok]
    if missing:
        found = (f"  {one.name}: {one.detail}" + (f"\n    {one.fix}" if one.fix else "") for one in missing)
        raise SourceError(
            "the source cannot be followed yet:\n" + "\n".join(found) + "\n"
            "Nothing was read, committed or spent. Fix these, then run `tidegauge doctor` again."
        )
    source.rehearse()

"""Checks of the source before a plan is committed, which cannot be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.errors import SourceError, SpecError

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidegauge.model.source import OpenSource
    from tidegauge.plan.plan import Plan


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


def hidden_by_noise(source: OpenSource, plan: Plan, now: int) -> list[str]:
    """The counts whose noise interval is wider than the number of all keys: no group can be seen.

    The answer is secret, and for the operator alone.  Reading ends as soon as there are more keys than the
    widest noise.
    """
    widths = {
        one.release.name: one.chosen.half_width_worst
        for one in plan.releases
        if one.release.query.aggregate == "count" and one.release.query.kind != "flow"
    }
    if not widths:
        return []
    source.select(plan.program.used)
    keys: set[object] = set()
    for batch in source.read(None, now):
        keys.update(batch.rows["entry"].unique().to_pylist())
        if len(keys) > max(widths.values()):
            break
    return [name for name, width in widths.items() if len(keys) <= width] if keys else []


def require_columns(plan: Plan, source: OpenSource) -> None:
    """Raise SpecError unless the columns of all queries are there, with the types that were committed."""
    for name in sorted(plan.program.used):
        if source.columns.get(name) != plan.columns[name]:
            found = (
                "is no longer there" if name not in source.columns else "has another type than was committed"
            )
            raise SpecError(
                f"column '{name}' {found}. Nothing was read or spent. Put it back as it was, or start "
                "another gauge with a store of its own; the privacy losses of both gauges add up",
                key="source",
            )

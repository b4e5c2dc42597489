"""The first rows of a file as changes, for the terminal of the operator alone: they are data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import rfc3339
from tidegauge.source.batch.workbench import scratch
from tidegauge.source.files.layout import Layout, Roles
from tidegauge.source.files.notation import MACROS
from tidegauge.source.files.tabular import numbered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegauge.source.files.sniff import Suggestion

_ROWS: Final = 5
_WIDTH: Final = 76


def preview(found: Suggestion) -> tuple[str, ...]:
    """One line per row: time, what happened, key and values.  Empty if there is nothing to show."""
    when = found.valid_from or found.time
    if when is None or found.key is None:
        return ()
    block = next(numbered(found.file), None)
    if block is None:
        return ()
    typed = {name: kind for name, kind in found.types.items() if kind != "text" and name != found.valid_to}
    roles = Roles(time=when, key=found.key, before=found.before, after=found.after or "", op=found.op,
                  types=typed, time_unit=found.time_unit, notation=found.notation)  # fmt: skip
    layout = Layout.of(roles, found.file)
    with scratch(MACROS) as engine:
        engine.register("block", block.slice(0, 4 * _ROWS))
        rows = engine.sql(
            f"SELECT * FROM ({layout.mutations(found.file)}) WHERE fault = 0 ORDER BY row LIMIT {_ROWS}"
        )
        changes = rows.to_arrow_table().to_pylist()
    return tuple(
        _shown(_Change(one["time"], one["entry"], one["before"], one["after"]), found) for one in changes
    )


@dataclass(frozen=True)
class _Change:
    time: int
    key: str
    before: Mapping[str, object] | None
    after: Mapping[str, object] | None


def _shown(change: _Change, found: Suggestion) -> str:
    old, new = change.before, change.after
    what = (
        "delete"
        if new is None
        else "update"
        if old is not None
        else "insert"
        if found.op or found.before
        else "set"
    )
    if found.valid_from is not None:
        what = "from"
    apart = (found.key, found.current)
    values = new if new is not None else old or {}
    cells = [f"{name}={value}" for name, value in values.items() if value is not None and name not in apart]
    shown = f"{rfc3339(change.time)}  {what:6}  {change.key}  {', '.join(cells)}"
    line = "".join(sign if sign.isprintable() else " " for sign in shown)  # no newline, no escape sequence
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."

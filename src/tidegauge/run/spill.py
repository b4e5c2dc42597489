"""Parts of a fold wait on disk until the tick is committed, so that memory holds one or two at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack

    import pyarrow as pa

    from tidegauge.model.program import Folded


def spilled(parts: Iterator[Folded], until: ExitStack) -> tuple[Folded, ...]:
    """All parts of a fold.  The tables of all but the last are mapped from files, which `until` removes.

    Most folds have one part, which stays in memory.  Sums and counts always stay in memory: their size
    depends on cells and bins, not on rows.
    """
    found: list[Folded] = []
    folder: Path | None = None
    for part in parts:
        if found:
            folder = folder or Path(until.enter_context(ScratchFolder()).name)
            found[-1] = _on_disk(found[-1], folder, len(found))
        found.append(part)
    return tuple(found)


def _on_disk(part: Folded, folder: Path, number: int) -> Folded:
    return replace(
        part,
        entries=_mapped(part.entries, folder / f"{number}.entries"),
        gone=_mapped(part.gone, folder / f"{number}.gone"),
        units=_mapped(part.units, folder / f"{number}.units"),
        used=_mapped(part.used, folder / f"{number}.used"),
    )


def _mapped(table: pa.Table, path: Path) -> pa.Table:
    """The same table, mapped from a new file."""
    import pyarrow as pa  # noqa: PLC0415  (slow to load)

    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
        return reader.read_all()

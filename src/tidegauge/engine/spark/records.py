"""Records of what changes do to sums, and the SQL that adds them up."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Record(NamedTuple):
    """SQL of one change of a cell: its true and its accepted amount.  spot: release and component."""

    spot: tuple[int, int]
    bin: str
    cell: str
    truly: str
    counted: str

    def columns(self, components: int) -> list[str]:
        """SQL of the columns of the record; components: more than any release has."""
        release, component = self.spot
        return [
            f"{release * components + component}L", f"CAST({self.bin} AS BIGINT)",
            f"CAST({self.cell} AS BIGINT)", self.truly, self.counted,
        ]  # fmt: skip


def summed(origin: str, records: Sequence[Record], *, large: bool) -> str:
    """SQL: the sums of these records, by release, component, bin and cell; some of them in several rows.

    large: sums are delivered in two halves.
    """
    sums: dict[str, str] = {}
    for name in ("truly", "counted"):
        halves = {f"{name}_high": f"sum({name} >> 32)", f"{name}_low": f"sum({name} & 4294967295L)"}
        sums |= halves if large else {name: f"sum({name})"}
    components = 1 + max(record.spot[1] for record in records)
    listed = ", ".join(column for record in records for column in record.columns(components))
    return f"""
        SELECT CAST(spot DIV {components} AS INT) AS release, CAST(spot % {components} AS INT) AS component,
               bin, cell, {", ".join(sums)}
        FROM (SELECT spot, bin, cell, {", ".join(f"{one} AS {name}" for name, one in sums.items())}
              FROM (SELECT stack({len(records)}, {listed}) AS (spot, bin, cell, truly, counted) FROM {origin})
              WHERE bin IS NOT NULL AND cell IS NOT NULL AND (truly <> 0 OR counted <> 0)
              GROUP BY spot, bin, cell)"""

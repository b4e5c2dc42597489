"""Records of what changes do to sums, and the SQL that adds them up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_FEW: Final = 8
"""Up to this many records, each is added up by its own scan: cheaper than an array of structs per row."""


class Record(NamedTuple):
    """SQL of one change of a cell: its true and its accepted amount.  spot: release and component."""

    spot: tuple[int, int]
    bin: str
    cell: str
    truly: str
    counted: str

    def columns(self) -> dict[str, str]:
        """The columns of the record, each with its SQL."""
        return {
            "release": str(self.spot[0]), "component": str(self.spot[1]),
            "bin": f"CAST({self.bin} AS BIGINT)", "cell": f"CAST({self.cell} AS BIGINT)",
            "truly": self.truly, "counted": self.counted,
        }  # fmt: skip


def summed(origin: str, records: Sequence[Record], *, large: bool) -> str:
    """SQL: the sums of these records, by release, component, bin and cell; some of them in several rows.

    large: sums are delivered in two halves.
    """
    sums = []
    for name in ("truly", "counted"):
        halves = [f"sum({name} >> 32) AS {name}_high", f"sum({name} & 4294967295L) AS {name}_low"]
        sums += halves if large else [f"sum({name}) AS {name}"]
    columns = [record.columns() for record in records]
    if len(records) <= _FEW:
        scans = [
            f"SELECT {', '.join(f'{value} AS {name}' for name, value in one.items())} FROM {origin}"
            for one in columns
        ]
    else:
        structs = [", ".join(f"'{name}', {value}" for name, value in one.items()) for one in columns]
        scans = [
            f"SELECT inline(array({', '.join(f'named_struct({one})' for one in structs)})) FROM {origin}"
        ]
    return " UNION ALL ".join(
        f"""SELECT release, component, bin, cell, {", ".join(sums)} FROM ({scan})
            WHERE bin IS NOT NULL AND cell IS NOT NULL AND (truly <> 0 OR counted <> 0)
            GROUP BY release, component, bin, cell"""
        for scan in scans
    )

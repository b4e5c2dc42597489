"""The demo: build the hospital, plan and run its gauge, and compare the readings with the truth."""

from __future__ import annotations

import shutil
from bisect import bisect_right
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from tidegauge.cli.show import progress_bar
from tidegauge.demo.hospital import Change, changelog, write
from tidegauge.errors import SpecError
from tidegauge.publish.plot import plot
from tidegauge.publish.table import number
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import Console

    from tidegauge.model.reading import Reading


def make_demo(folder: Path, *, patients: int, console: Console) -> None:
    """Make a folder with a declaration, a changelog and a store, and print what a gauge makes of them.

    Raises SpecError if the folder holds anything else.
    """
    if (folder / "tidegauge.db").exists():
        console.print(
            f"The demo in {folder} was published before, and published readings never change. They are:\n"
        )
    elif folder.exists() and any(folder.iterdir()) and not (folder / "patients.csv.gz").exists():
        raise SpecError(f"{folder} is not empty; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    console.print(f"1. An invented hospital with {patients:,} patients over a year, in {folder}/")
    log = changelog(patients)
    if not (folder / "tidegauge.db").exists():
        write(folder / "patients.csv.gz", log)
        shutil.copy(Path(__file__).with_name("tidegauge.toml"), folder / "tidegauge.toml")
    console.print(f"   {len(log):,} changes: admissions, transfers, discharges, re-admissions\n")
    gauge = Gauge.from_file(folder / "tidegauge.toml")
    console.print("2. The plan (tidegauge plan)\n")
    console.print(str(gauge.plan()), markup=False, soft_wrap=True)
    console.print("\n3. The run (tidegauge run --once)\n")
    with progress_bar("Publishing") as progress:
        count = sum(1 for _ in gauge.run(progress=progress))
    console.print(f"   {count:,} readings published\n")
    console.print("4. The last readings beside the truth, which only this demo can know\n")
    truth = Truth(log)
    readings = gauge.published()
    console.print(_comparison(readings, truth))
    inside = [
        low <= truth.of(r) <= high
        for r in readings
        if r.value is not None
        for low, high in [r.interval(0.95)]
    ]
    console.print(
        f"\n   {sum(inside) / len(inside):.1%} of all 95 % noise intervals contain the truth. They do not\n"
        "   cover the changes of a patient beyond at_most, which are dropped.\n"
    )
    infected = [reading for reading in readings if reading.release == "infected_now"]
    console.print(plot(infected, [truth.of(reading) for reading in infected]), markup=False)
    console.print(
        f"\nNext: cd {folder}; read tidegauge.toml; "
        "try tidegauge readings, status, ledger, verify, plot in_ward",
        markup=False,
    )


def _comparison(readings: list[Reading], truth: Truth) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("release", "time", "group"):
        table.add_column(name)
    for name in ("published", "95 %", "truth"):
        table.add_column(name, justify="right")
    last = {reading.release: reading.time for reading in readings}
    for reading in readings:
        if reading.time == last[reading.release]:
            low, high = reading.interval(0.95)
            group = ", ".join(str(value) for value in (reading.group or {}).values())
            band = "" if reading.value is None else f"± {number((high - low) / 2)}"
            table.add_row(
                reading.release,
                f"{reading.time:%Y-%m-%d}",
                group,
                number(reading.value),
                band,
                number(truth.of(reading)),
            )
    return table


class Truth:
    """The exact value of every reading, computed from the changelog."""

    def __init__(self, log: list[Change]) -> None:
        self._series: dict[tuple[str, str], tuple[list[datetime], list[float]]] = {}
        for at, _, before, after in log:
            for side, sign in ((before, -1), (after, 1)):
                if side:
                    self._add("in_ward", side.ward, at, sign)
                    self._add("people", "", at, sign)
                    self._add("ages", "", at, sign * side.age)
                    if side.infected == "yes":
                        self._add("infected_now", "", at, sign)
            if before and after and before.ward != "intensive care" and after.ward == "intensive care":
                self._add("into_intensive_care", "", at, 1)

    def _add(self, name: str, group: str, at: datetime, amount: float) -> None:
        times, totals = self._series.setdefault((name, group), ([], []))
        times.append(at)
        totals.append((totals[-1] if totals else 0) + amount)

    def _value(self, name: str, group: str, at: datetime) -> float:
        times, totals = self._series.get((name, group), ([], []))
        count = bisect_right(times, at)
        return totals[count - 1] if count else 0.0

    def of(self, reading: Reading) -> float:
        """The exact value that this reading estimates."""
        if reading.release == "mean_age":
            return self._value("ages", "", reading.time) / max(1.0, self._value("people", "", reading.time))
        group = str((reading.group or {}).get("ward", ""))
        changes = {"into_intensive_care": "into_intensive_care", "infected_change": "infected_now"}
        name = changes.get(reading.release, reading.release)
        value = self._value(name, group, reading.time)
        if reading.release in changes:
            value -= self._value(name, group, reading.time - timedelta(weeks=1))
        return value

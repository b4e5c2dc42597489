"""The demo: build the town, plan and run its gauge, and compare the readings with the truth."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.table import Table

from tidegauge.cli.show import progress_bar
from tidegauge.demo.town import changelog, write
from tidegauge.demo.truth import Truth
from tidegauge.errors import SpecError
from tidegauge.model.reading import TOO_SMALL
from tidegauge.publish.picture import picture
from tidegauge.publish.plot import plot
from tidegauge.publish.table import number, precision
from tidegauge.run.gauge import Gauge

if TYPE_CHECKING:
    from rich.console import Console

    from tidegauge.model.reading import Reading
    from tidegauge.plan.plan import Plan

DATA: Final = "care.csv.gz"
PICTURE: Final = "infected_now.svg"


def make_demo(folder: Path, *, people: int, console: Console) -> None:
    """Make a folder with a declaration, a changelog, a store and a picture, and print what they show.

    Raises SpecError if the folder holds anything else.
    """
    published = (folder / "tidegauge.db").exists()
    if not published and folder.exists() and any(folder.iterdir()) and not (folder / DATA).exists():
        raise SpecError(
            f"{folder} is not empty. Nothing was changed. Name another folder: tidegauge demo FOLDER"
        )
    folder.mkdir(parents=True, exist_ok=True)
    console.print(f"1. An invented town: the health service of {people:,} people over a year")
    log = changelog(people)
    if not published:
        write(folder / DATA, log)
        shutil.copy(Path(__file__).with_name("tidegauge.toml"), folder / "tidegauge.toml")
    console.print(f"   {len(log):,} changes of who is in which kind of care, in {folder / DATA}\n")
    gauge = Gauge.from_file(folder / "tidegauge.toml")
    plan = gauge.plan()
    console.print("2. What will be published, and how exactly (tidegauge plan)\n")
    console.print(str(plan), markup=False, soft_wrap=True)
    console.print("\n3. Publish the year, day by day (tidegauge run)\n")
    with progress_bar("Publishing") as progress:
        count = sum(1 for _ in gauge.run(progress=progress))
    was = " Published readings never change; these are from the first run." if published else ""
    console.print(f"   {count:,} readings published.{was}\n")
    console.print("4. The last readings beside the truth, which only a demo can know\n")
    truth, readings = Truth(log), gauge.published()
    console.print(_comparison(readings, truth))
    console.print()
    for line in _findings(plan, readings, truth):
        console.print(f"   {line}", markup=False)
    infected = [reading for reading in readings if reading.release == "infected_now"]
    exact = [truth.of(reading) for reading in infected]
    (folder / PICTURE).write_text(picture(infected, exact), "utf-8")
    console.print()
    console.print(plot(infected, exact), markup=False)
    console.print(f"\nThe same as a picture: {folder / PICTURE}", markup=False)
    console.print(f"\nNext:\n  cd {folder}", markup=False)
    console.print("  tidegauge readings in_care --last 3", markup=False)
    console.print("  tidegauge plan --store other.db --what-if epsilon=0.5,1,2 at_most=4,8", markup=False)
    console.print("  tidegauge init YOUR.csv --file your.toml", markup=False)


def _comparison(readings: list[Reading], truth: Truth) -> Table:
    """The last reading of every release and group, its noise, the truth and the relative error."""
    table = Table(box=None, pad_edge=False)
    for name in ("release", "group"):
        table.add_column(name, no_wrap=True)
    for name in ("published", "noise", "truth", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    last = {reading.release: reading.time for reading in readings}
    for reading in readings:
        if reading.time != last[reading.release]:
            continue
        low, high = reading.interval(0.95)
        group = ", ".join(str(value) for value in (reading.group or {}).values())
        digits, exact = precision(reading), truth.of(reading)
        off = "" if reading.value is None or not exact else f"{abs(reading.value / exact - 1):.1%}"
        table.add_row(
            reading.release,
            group,
            number(reading.value, digits),
            "" if reading.value is None else f"± {number((high - low) / 2, digits)}",
            number(exact, digits),
            TOO_SMALL if reading.too_small else "" if reading.release.endswith("_change") else off,
        )
    return table


def _findings(plan: Plan, readings: list[Reading], truth: Truth) -> list[str]:
    """How often the noise interval contains the truth, the typical error, and the simple alternative."""
    inside, errors = [], []
    for reading in readings:
        if reading.value is None:
            continue
        (low, high), exact = reading.interval(0.95), truth.of(reading)
        inside.append(low <= exact <= high)
        if reading.release == "in_care":
            errors.append(abs(reading.value / exact - 1))
    errors.sort()
    of_care = next(one for one in plan.releases if one.release.name == "in_care")
    simple = next(one for one in of_care.candidates if one.strategy == "disjoint")
    ratio = simple.half_width_worst / of_care.chosen.half_width_worst
    return [
        "noise: noise interval (95 %), the noise alone. error: noise and bias.",
        f"{sum(inside) / len(inside):.1%} of all noise intervals (95 %) contain the plain truth.",
        f"in_care: half of all readings are within {errors[len(errors) // 2]:.1%} of the truth,",
        f"nine of ten within {errors[len(errors) * 9 // 10]:.1%}.",
        f"Just adding up noisy daily changes, at the same privacy: ± {number(simple.half_width_worst, 0)}",
        f"instead of ± {number(of_care.chosen.half_width_worst, 0)}, {ratio:.0f} times the error.",
    ]

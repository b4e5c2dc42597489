"""An invented hospital as a public file would have it, made by hand:
no store, no noise, the same every time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import sin
from typing import TYPE_CHECKING

from tidegauge.model.quantity import instant
from tidegauge.model.tick import Seal
from tidegauge.publish.public.values import (
    About,
    Document,
    Guarantee,
    LedgerEntry,
    ModelReading,
    PublicReading,
    ReleaseInfo,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.json import Json

WARDS = ("emergency", "medicine", "surgery", "intensive care", "maternity")
PLAN = "a1b2c3d4e5f6" + "0" * 52

GUARANTEE = Guarantee(
    plan=PLAN,
    epsilon=2.0,
    delta=1e-6,
    rho=None,
    measure="rho",
    total=0.068,
    reserved=0.068,
    epsilon_at=2.0,
    delta_at=1e-6,
    table="patients",
    unit=None,
    max_rows=None,
    constraint={"at_most": 8, "on_excess": "freeze"},
    protects="one row of the table, identified by its 'patient', over its whole lifetime.",
    sentence="Everything published together reveals at most epsilon = 2, delta = 1e-06 about any one row.",
)

INFO = ReleaseInfo(
    name="infected_now",
    of=None,
    sql="SELECT COUNT(*) FROM patients WHERE infected = 'yes'",
    aggregate="count",
    what="running value",
    unit="rows",
    groups=(),
    cells=(None,),
    start=instant("2025-01-01"),
    every="1 day",
    window=None,
    count=365,
    level=True,
    never_negative=True,
    strategy="toeplitz",
    parameters={"size": 365},
    noise="discrete Gaussian",
    noise_scale=31.2,
    folds=8,
    loss=0.02,
    half_width_worst=48.3,
    half_width_mean=44.1,
    adaptive=True,
    promise="zero-concentrated (rho); holds also when the data react to what was published",
)


def grouped(name: str, column: str, values: tuple[str, ...]) -> ReleaseInfo:
    """A release with one group column."""
    sql = f"SELECT {column}, COUNT(*) FROM patients GROUP BY {column}"
    cells = tuple({column: value} for value in values)
    return replace(INFO, name=name, sql=sql, groups=((column, values),), cells=cells)


RELEASES = (
    grouped("in_ward", "ward", WARDS),
    INFO,
    replace(INFO, name="infected_change", of="infected_now", what="change over 7 days", level=False),
    replace(
        INFO,
        name="mean_age",
        aggregate="avg",
        sql="SELECT AVG(age) FROM patients",
        every="7 days",
        adaptive=False,
    ),
    replace(INFO, name="not_yet", start=instant("2027-01-01")),
)


ABOUT = About(
    title="St. Elsewhere",
    description="Patients of an invented hospital.",
    creator="St. Elsewhere",
    contact="data@example.org",
    license="https://creativecommons.org/licenses/by/4.0/",
)


@dataclass(frozen=True)
class Invented:
    """What a public file answers."""

    releases: tuple[ReleaseInfo, ...] = RELEASES
    days: int = 365
    about: About = ABOUT
    guarantee: Guarantee = GUARANTEE

    @cached_property
    def document(self) -> Document:
        """Everything but the readings."""
        body: dict[str, Json] = {
            "measure": "rho",
            "budget": "17/250",
            "reserved": "17/250",
            "plan": PLAN,
            "releases": {"in_ward": "17/500", "infected_now": "17/500"},
        }
        entry = LedgerEntry(1, "2025-01-01T00:00:00Z", "commit", body, "0" * 64, "ab" * 32)
        return Document(self.about, self.guarantee, self.releases, (entry,))

    @property
    def last_seal(self) -> Seal:
        """Depends on how much was published."""
        return Seal(self.days, None, f"{self.days:064x}")

    def _info(self, release: str) -> ReleaseInfo:
        return next(one for one in self.releases if one.name == release)

    def span(self, release: str) -> range:
        """One reading each period."""
        if release == "not_yet":
            return range(0)
        return range(self.days // 7 + 1 if self._info(release).every == "7 days" else self.days)

    def next_due(self, release: str) -> int | None:
        """One period after the last."""
        return self._info(release).time_of(self.span(release).stop)

    def latest(self, release: str) -> tuple[PublicReading, ...]:
        """The newest of each cell."""
        last = self.span(release)[-1:]
        return tuple(self._reading(release, number, cell) for number in last for cell in self._cells(release))

    def denoised(self, release: str) -> tuple[ModelReading, ...]:
        """Not published."""
        del release
        return ()

    def readings(
        self,
        release: str,
        *,
        since: int | None = None,
        until: int | None = None,
        cells: Sequence[int] | None = None,
    ) -> tuple[PublicReading, ...]:
        """By time and cell."""
        info = self._info(release)
        return tuple(
            self._reading(release, number, cell)
            for number in self.span(release)
            if (since is None or info.time_of(number) >= since)
            and (until is None or info.time_of(number) <= until)
            for cell in self._cells(release)
            if cells is None or cell in cells
        )

    def _cells(self, release: str) -> range:
        return range(len(self._info(release).cells))

    def _reading(self, release: str, number: int, cell: int) -> PublicReading:
        info = self._info(release)
        base, half = {"infected_change": (0, 49), "mean_age": (46, 1.4)}.get(release, (150 * (cell + 1), 48))
        wiggle = ((number * 7919 + cell * 104729) % 97) / 97 - 0.5
        value = base + (0.2 * base + 10) * sin(number / 40 + cell) + half * wiggle
        if release == "in_ward" and cell == 3:
            value = 21 + 10 * wiggle
        at = info.time_of(number)
        inner = 0.344 * half
        hidden = release == "mean_age" and number in (3, 4)
        return PublicReading(
            release,
            number,
            cell,
            at,
            info.cells[cell],
            None if hidden else value,
            None if hidden else half / 1.96,
            0.0 if hidden else value - half,
            110.0 if hidden else value + half,
            0.0 if hidden else value - inner,
            110.0 if hidden else value + inner,
        )

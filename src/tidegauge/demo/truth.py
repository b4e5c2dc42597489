"""The exact value of every reading of the demo, computed from its changelog."""

from __future__ import annotations

from bisect import bisect_right
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from tidegauge.demo.town import Change
    from tidegauge.model.reading import Reading


class Truth:
    """Running totals of everything that the demo publishes."""

    def __init__(self, log: Iterable[Change]) -> None:
        self._series: dict[tuple[str, str], tuple[list[datetime], list[float]]] = {}
        for at, _, before, after in log:
            for side, sign in ((before, -1), (after, 1)):
                if side:
                    self._add("in_care", side.care, at, sign)
                    self._add("people", "", at, sign)
                    self._add("ages", "", at, sign * side.age)
                    if side.infected == "yes":
                        self._add("infected_now", "", at, sign)
            if before is None:
                self._add("new_in_care", "", at, 1)

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
        group = str((reading.group or {}).get("care", ""))
        changes = {"new_in_care": "new_in_care", "infected_change": "infected_now"}
        name = changes.get(reading.release, reading.release)
        value = self._value(name, group, reading.time)
        if reading.release in changes:
            value -= self._value(name, group, reading.time - timedelta(weeks=1))
        return value

"""What `run` says on a terminal while it works: what was caught up, and each reading when it is published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from tidegauge.cli.ending import ENDING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.cli.show import Bar
    from tidegauge.model.reading import Reading

_MOST: Final = 12
"""Readings of one time that are shown; of more, only how many there are."""


class Narrator:
    """Counts the published readings and, if `aloud`, prints them to stderr."""

    def __init__(self, *, aloud: bool) -> None:
        self._aloud = aloud
        self.due: Callable[[], str] = lambda: ""
        """When the next reading is due, as a sentence."""
        self.bar: Bar | None = None
        """Taken away once everything that was due is published."""
        self.count = 0
        self.last: Reading | None = None
        self._new: list[Reading] = []
        self._waited = False

    def saw(self, reading: Reading) -> None:
        """Note a reading that was published."""
        self.count, self.last = self.count + 1, reading
        if not self._new or self._new[-1].time <= reading.time:
            self._new = [one for one in self._new if one.time == reading.time]
            self._new.append(reading)

    def sleep(self, seconds: float) -> None:
        """Wait for the next reading; what was published before is shown first."""
        if self.bar is not None and not self._waited:
            self.bar.stop()
        if self._aloud:
            if not self._waited:
                typer.echo(f"{self.summary()}\n{self.due()} Ctrl-C ends the run.", err=True)
            for line in self.newest():
                typer.echo(line, err=True)
        self._waited, self._new = True, []
        ENDING.sleep(seconds)

    def summary(self) -> str:
        """How many readings were published, and up to when."""
        if self.last is None:
            return "Nothing is due yet."
        number = f"{self.count:,} reading{'' if self.count == 1 else 's'}"
        return f"{number} published, up to {self.last.as_json()['time']}."

    def newest(self) -> list[str]:
        """The readings of the latest time, one a line, with their noise intervals."""
        from tidegauge.model.reading import TOO_SMALL  # noqa: PLC0415
        from tidegauge.publish.table import number, precision  # noqa: PLC0415

        if len(self._new) > _MOST:
            time = self._new[-1].as_json()["time"]
            return [f"  {time}  {len(self._new)} readings"]
        lines = []
        for reading in self._new:
            low, high = reading.interval(0.95)
            group = ", ".join(str(value) for value in (reading.group or {}).values())
            name = f"{reading.release} {group}".rstrip()
            time = reading.as_json()["time"]
            digits = precision(reading)
            if reading.too_small:
                interval = f"{number(low, digits)} to {number(high, digits)}"
                lines.append(f"  {time}  {name}: {TOO_SMALL} (noise interval {interval})")
                continue
            half = number((high - low) / 2, digits)
            lines.append(f"  {time}  {name}: {number(reading.value, digits)} (noise ± {half})")
        return lines

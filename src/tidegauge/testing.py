"""For tests: a clock that the test sets, and a source that crashes where the test says.

source = Script(columns={"ward": "VARCHAR"}, changes=[
    (10, "p1", {"ward": "a"}),
    Crash(),                        # the process dies here, before anything after it is read
    (20, "p1", {"ward": "b"}),
])
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegauge.model.mutation import Batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Crashed(BaseException):
    """Raised by a Crash.  No error handler may catch it."""


@dataclass(frozen=True)
class Crash:
    """Makes the source raise Crashed here, once."""


@dataclass
class Clock:
    """A clock that stops until the test moves it."""

    now: int = 0

    def __call__(self) -> int:
        """The time in microseconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Move the clock forward."""
        self.now += max(1, int(seconds * 1_000_000))


@dataclass
class Script:
    """A source in memory.

    changes: (time, key, new row or None[, unit]) in order of arrival, and crashes.  A crash happens once.
    size:    a batch ends after this many changes, at the end of an instant.
    """

    columns: Mapping[str, str]
    changes: Sequence[tuple[Any, ...] | Crash]
    table: str = "t"
    size: int = 1_000_000
    _crashed: set[int] = field(default_factory=set)

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Batches of the changes after the position, up to this time."""
        done, pending = 0 if position is None else int(json.loads(position)), []
        for place in range(done, len(self.changes)):
            item = self.changes[place]
            if isinstance(item, Crash):
                if place not in self._crashed:
                    self._crashed.add(place)
                    raise Crashed
                continue
            if item[0] > until:
                break
            pending.append(item)
            done, later = place + 1, self._time_after(place)
            if len(pending) >= self.size and later > item[0]:
                yield self._batch(pending, min(until, max(item[0], later - 1)), done)
                pending = []
        yield self._batch(pending, until, done)

    def _time_after(self, place: int) -> int:
        """The time of the next change."""
        times = [item[0] for item in self.changes[place + 1 :] if not isinstance(item, Crash)]
        return int(times[0]) if times else 2**62

    def _batch(self, items: list[tuple[Any, ...]], upto: int, done: int) -> Batch:
        kinds = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}
        row = pa.struct([(name, kinds[kind]) for name, kind in self.columns.items()])
        table = pa.table(
            {
                "time": pa.array([item[0] for item in items], pa.int64()),
                "entry": pa.array([item[1] for item in items], pa.string()),
                "unit": pa.array([item[3] if len(item) > 3 else None for item in items], pa.string()),
                "before": pa.array([None for _ in items], row),
                "after": pa.array([item[2] for item in items], row),
                "informed": pa.array([False for _ in items], pa.bool_()),
            }
        )
        return Batch(table, upto, json.dumps(done))

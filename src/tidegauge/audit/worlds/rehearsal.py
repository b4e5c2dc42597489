"""A plan carried out on invented rows in a folder of its own, by the code that carries out the real one."""

from __future__ import annotations

import logging
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from tidegauge.audit.findings import require
from tidegauge.model.mutation import Batch, Source
from tidegauge.model.source import FollowedSource
from tidegauge.run.gauge import Gauge
from tidegauge.source.batch.rows import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from tidegauge.audit.worlds.world import Event, Random
    from tidegauge.mechanism.noise.samplers import Sampler
    from tidegauge.model.reading import Reading
    from tidegauge.plan.plan import Plan
    from tidegauge.plan.spec.declaration import GaugeSpec
    from tidegauge.store.public.part import PublicPart


_ELSEWHERE: Final = frozenset({"store", "ledger", "publish"})
"""Parts of a declaration that reach files of the real gauge: a rehearsal has their defaults."""


@dataclass(frozen=True)
class Subject:
    """What is audited: a plan, and the declaration that it was made from."""

    spec: GaugeSpec
    plan: Plan


class Log(Source, Protocol):
    """A source to which invented events are written."""

    def write(self, events: Sequence[Event]) -> None:
        """Append to the log."""
        ...


class MemoryLog(FollowedSource):
    """A source in memory that delivers in batches of random length whatever was written to its log."""

    def __init__(
        self, table: str, columns: Mapping[str, str], rng: Random, *, owner: str | None, informed: bool
    ) -> None:
        self._table, self._columns, self._rng = table, dict(columns), rng
        self._owner, self._informed = owner, informed
        self._selected = dict(columns)
        self.events: list[Event] = []
        self.most = 8
        """The longest of the shorter batches."""
        self._forgotten = 0
        """How many events were acknowledged: a real source may have removed them."""

    @property
    def table(self) -> str:
        """The table's name."""
        return self._table

    @property
    def columns(self) -> Mapping[str, str]:
        """All columns that the plan knows."""
        return self._columns

    def select(self, columns: Collection[str]) -> None:
        """Deliver these columns only, as real sources do."""
        self._selected = {name: kind for name, kind in self._columns.items() if name in columns}

    def write(self, events: Sequence[Event]) -> None:
        """Append to the log."""
        self.events += events

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Everything in the log, cut at random."""
        done, end = int(position or 0), len(self.events)
        require(done >= self._forgotten, "a source may forget what was not committed")
        while done < end and self._rng.random() < 0.7:
            part = self.events[done : min(done + self._rng.randint(0, self.most), end)]
            done += len(part)
            yield Batch(rows=self._rows(part), position=str(done), upto=None)
        yield Batch(rows=self._rows(self.events[done:end]), position=str(end), upto=until)

    def acknowledge(self, position: str) -> None:
        """Forget everything up to this position."""
        self._forgotten = max(self._forgotten, int(position))

    def _rows(self, events: Sequence[Event]) -> pa.Table:
        known = [self._informed and event.key is not None for event in events]
        owner = self._owner
        afters = [event.row and event.row | dict.fromkeys(event.kept) for event in events]
        units = [str(row[owner]) if owner and row and row[owner] is not None else None for row in afters]
        befores = [event.before if one else None for event, one in zip(events, known, strict=True)]
        values: dict[str, list[Any]] = {
            "time": [event.stamp for event in events],
            "entry": [event.key for event in events],
            "unit": units,
            "before": befores,
            "after": afters,
            "informed": known,
            "previous": [event.previous for event in events],
            "kept": [list(event.kept) or None for event in events],
        }
        goal = schema(self._selected)
        return pa.table([pa.array(values[one.name], one.type) for one in goal], schema=goal)


class Rehearsal(Gauge):
    """The gauge of a plan that was made already, over another source and in another store."""

    def __init__(
        self, subject: Subject, source: Source, *, store: Path, now: Callable[[], int], sampler: Sampler
    ) -> None:
        plain = {
            name: field.get_default(call_default_factory=True)
            for name, field in type(subject.spec).model_fields.items()
            if name in _ELSEWHERE
        }
        spec = subject.spec.model_copy(update=plain)
        super().__init__(spec, source=source, store=store, base=store.parent, now=now, sampler=sampler)
        self._rehearsed = subject.plan

    def _make_plan(self, *, optimise: bool = False) -> Plan:
        del optimise
        return self._rehearsed

    def _committed(self, store: PublicPart) -> Plan:
        """The plan as it was given: the audit has certified it once."""
        del store
        return self._rehearsed


@dataclass
class SetClock:
    """The public clock of a rehearsal."""

    now: int = 0

    def __call__(self) -> int:
        """The time in microseconds."""
        return self.now


class Messages(logging.Handler):
    """Everything that is logged, with all that is attached to it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[tuple[Any, ...]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        plain = logging.makeLogRecord({}).__dict__.keys() | {"message", "taskName"}
        extra = sorted((name, value) for name, value in record.__dict__.items() if name not in plain)
        self.lines.append((record.name, record.levelname, record.getMessage(), extra))


@contextmanager
def listening() -> Iterator[Messages]:
    """Record what Tidegauge logs; nothing of it reaches the log of the process."""
    logger, messages = logging.getLogger("tidegauge"), Messages()
    level, handlers, propagates = logger.level, logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [messages], False
    logger.setLevel(logging.DEBUG)
    try:
        yield messages
    finally:
        logger.handlers, logger.propagate = handlers, propagates
        logger.setLevel(level)


def carry_out(
    subject: Subject,
    source: Log,
    log: Sequence[Event],
    *,
    folder: Path,
    passes: Sequence[int],
    sampler: Sampler,
    before_pass: Callable[[int], type[BaseException] | None] = lambda at: None,  # noqa: ARG005
    after_pass: Callable[[], None] = lambda: None,
    stamped: bool = False,
) -> tuple[list[Reading], Messages]:
    """Run the plan at every pass of the clock on what the log has by then, opened again at each pass.

    `before_pass`: may arrange for an error, and returns its type; the pass is then repeated.  `stamped`: the
    first pass stamps the log and begins with the stamped one.
    """
    clock, readings, written = SetClock(), [], 0
    with listening() as messages:
        for at in passes:
            clock.now = at
            fresh = [event for event in log[written:] if event.arrival <= at]
            source.write(fresh)
            written += len(fresh)
            crash = before_pass(at)
            for expected in (crash, None) if crash else (None,):
                gauge = Rehearsal(subject, source, store=folder / "store.db", now=clock, sampler=sampler)
                past = gauge.stamp(_new_folder(folder) / "stamped") if stamped and at == passes[0] else None
                with suppress(*(expected,) if expected else ()), closing(gauge.run(stamped=past)) as found:
                    readings += list(found)
            after_pass()
    return readings, messages


def _new_folder(folder: Path) -> Path:
    """A folder of its own inside of one that is in use."""
    found = folder / "past"
    found.mkdir(exist_ok=True)
    return found

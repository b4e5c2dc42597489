"""The outbox: what is committed and not yet delivered, for each publisher by itself.

Every publisher has a thread, a connection and a cursor of its own, so a slow one delays neither the others
nor the tick.  A batch is delivered at least once: the cursor moves after the publisher has returned, and what
failed is tried again, later and later.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
import traceback
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tidegauge.errors import PublishError, TidegaugeError
from tidegauge.mechanism.decoding.windows import Windows
from tidegauge.publish.batch import Batch
from tidegauge.publish.public.describe import describe, model_readings
from tidegauge.publish.public.kind import DescribedSpec
from tidegauge.publish.public.values import About, Document, ModelReading, PublicReading
from tidegauge.publish.reading import ends, nested
from tidegauge.store.public.outbox import Cursor, Cursors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from tidegauge.mechanism.decode import Decoder
    from tidegauge.model.declared import PublisherSpec
    from tidegauge.model.publisher import Delivery, Place, Publisher, PublisherKind
    from tidegauge.model.tick import Published
    from tidegauge.plan.plan import Plan
    from tidegauge.plan.series import Series
    from tidegauge.store.public.part import PublicPart

log = logging.getLogger("tidegauge")

MOST: Final = 10_000
"""Readings in a batch; an instant with more is one batch all the same."""
PATIENCE: Final = 600.0
"""Seconds that a gauge which has nothing more to publish waits for its publishers."""
LONGEST: Final = 300.0
"""Seconds between two attempts, at most."""


@dataclass(frozen=True)
class Opened:
    """What senders need of a gauge."""

    plan: Plan
    store: Path
    public: Callable[[], AbstractContextManager[PublicPart]]
    """Opens the public part of the store, for reading."""


class Sender:
    """One publisher and its way through the outbox; for one thread at a time."""

    def __init__(
        self, kind: PublisherKind[Any, Batch], spec: PublisherSpec, place: Place, gauge: Opened
    ) -> None:
        self.name, self._kind, self._spec, self._place = place.name, kind, spec, place
        self._gauge, self._target = gauge, kind.target(spec)
        self._publisher: Publisher[Batch] = kind.open(spec, place)
        self._described: tuple[str, Document, str] | None = None

    def step(self, until: int | None, *, stopped: Callable[[], bool] = lambda: False) -> Delivery | None:
        """Deliver the next batch and move the cursor; None where nothing was left to deliver.

        until: deliver no reading after this instant; None: everything that is committed.
        """
        with Cursors(self._gauge.store) as cursors:
            cursor = cursors.get(self.name, self._target)
            found = self._next(cursor, until)
            if found is None:
                return None
            batch, after = found
            if self._kind.keyed and cursor.pending is None:
                cursors.put(self.name, replace(cursor, pending=after.sent))
            delivery = self._publisher.deliver(batch)
            if not stopped():
                cursors.put(self.name, after)
            return delivery

    def waiting(self, part: PublicPart) -> int:
        """How many committed readings were not delivered; counts readings, which is public."""
        cursor = part.cursor(self.name)
        known = cursor is not None and cursor.target == self._target
        sent = cursor.sent if cursor is not None and known else {}
        return sum(
            (self._available(part, one) - sent.get(one.name, 0)) * len(one.plan.release.query.cells)
            for one in self._gauge.plan.series.values()
        )

    # -- the next batch --------------------------------------------------------------------------------------

    def _next(self, cursor: Cursor, until: int | None) -> tuple[Batch, Cursor] | None:
        """The next batch, and the cursor once it has been delivered."""
        held = self._kind.holds(self._spec, self._place)
        with self._gauge.public() as part, part.snapshot():
            if held is not None and any(held.get(name, 0) < n for name, n in cursor.sent.items()):
                low = {name: min(n, held.get(name, 0)) for name, n in cursor.sent.items()}
                cursor = Cursor(cursor.target, low)  # something was lost there
            document, digest = self._document(part)
            upto, reached = (
                (cursor.pending, None) if cursor.pending is not None else self._cut(part, cursor.sent, until)
            )
            readings = self._readings(part, cursor.sent, upto)
            if not readings and not (self._kind.documents and cursor.document != digest):
                return None
            reached = readings[-1].time if cursor.pending is not None and readings else reached
            seals = [
                seal
                for seal in part.seals(cursor.seal)
                if seal.time is None or reached is None or seal.time <= reached
            ]
            denoised = self._denoised(part, upto)
        first = document.ledger[0].hash if document.ledger else ""
        parts = (first, self.name, self._target, cursor.sent, upto, "" if readings else digest)
        batch = Batch(_digest(parts), tuple(readings), document, tuple(seals), denoised)
        last = seals[-1].seq if seals else cursor.seal
        return batch, Cursor(self._target, upto, None, digest, last)

    def _cut(
        self, part: PublicPart, sent: Mapping[str, int], until: int | None
    ) -> tuple[Mapping[str, int], int | None]:
        """How far the next batch goes: whole instants of all releases, and about MOST readings.

        Also the instant it reaches; None where that is all there is.
        """
        series = list(self._gauge.plan.series.values())
        ahead = max(1, MOST // sum(len(one.plan.release.query.cells) for one in series))
        ends: dict[str, int] = {}
        limits = [] if until is None else [until]
        for one in series:
            have, done = self._available(part, one), sent.get(one.name, 0)
            ends[one.name] = min(have, done + ahead)
            if ends[one.name] < have:
                limits.append(one.timetable.bin_end(one.timetable.bin_of_reading(ends[one.name] - 1)))
        reached = min(limits, default=None)
        upto = {one.name: max(sent.get(one.name, 0), _by(one, ends[one.name], reached)) for one in series}
        return upto, reached

    @staticmethod
    def _available(part: PublicPart, series: Series) -> int:
        last = part.last_number(series.name)
        return 0 if last is None else series.index_of(last) + 1

    def _readings(
        self, part: PublicPart, sent: Mapping[str, int], upto: Mapping[str, int]
    ) -> list[PublicReading]:
        """The readings from one cursor to the other, by time."""
        found = [
            public_reading(series, published)
            for series in self._gauge.plan.series.values()
            for first, stop in [(sent.get(series.name, 0), upto.get(series.name, 0))]
            if first < stop
            for published in part.readings_between(
                series.name, series.reading_of(first), series.reading_of(stop - 1) + 1
            )
        ]
        order = {name: at for at, name in enumerate(self._gauge.plan.series)}
        return sorted(found, key=lambda reading: (reading.time, order[reading.release], reading.cell))

    def _denoised(self, part: PublicPart, upto: Mapping[str, int]) -> tuple[ModelReading, ...]:
        """A model's estimate beside every reading, if the publisher asks for it and gets the newest."""
        plan = self._gauge.plan
        asks = isinstance(self._spec, DescribedSpec) and self._spec.denoised
        if not asks or any(
            upto.get(name, 0) < self._available(part, one) for name, one in plan.series.items()
        ):
            return ()
        return model_readings(plan, part)

    def _document(self, part: PublicPart) -> tuple[Document, str]:
        """Plan, guarantee and ledger as they are published, and what identifies them."""
        entries = part.ledger.entries()
        last = entries[-1].hash if entries else ""
        if self._described is None or self._described[0] != last:
            about = self._spec.about if isinstance(self._spec, DescribedSpec) else About()
            document = describe(self._gauge.plan, entries, about, simulated=part.simulated)
            self._described = last, document, _digest(asdict(document))
        return self._described[1:]


def public_reading(series: Series, published: Published) -> PublicReading:
    """A row of the store as it is handed on."""
    low, high = outer = ends(published.value, published.stderr, published.low, published.high)
    low_50, high_50 = outer
    if published.value is not None and published.stderr is not None:
        half = _half_50(series, published.number, published.stderr)
        low_50, high_50 = nested(published.value, half, outer)
    return PublicReading(
        release=series.name,
        number=series.index_of(published.number),
        cell=published.cell,
        time=published.time,
        group=series.plan.release.query.cells[published.cell],
        value=published.value,
        stderr=published.stderr,
        low=low,
        high=high,
        low_50=low_50,
        high_50=high_50,
    )


@lru_cache(maxsize=4096)
def _half_50_of(decoder: Decoder, bin_: int, span: int | None, stderr: float) -> float:
    return decoder.half_width(Windows.of(np.array([bin_]), span), stderr, 0.5)


def _half_50(series: Series, number: int, stderr: float) -> float:
    window = series.windows([number])
    return _half_50_of(series.decoder, int(window.last[0]), window.span(0), stderr)


def _by(series: Series, stop: int, at: int | None) -> int:
    """How many of the first `stop` readings are due at this instant or before it."""
    if at is None:
        return stop
    low, high, times = 0, stop, series.timetable
    while low < high:
        middle = (low + high) // 2
        if times.bin_end(times.bin_of_reading(middle)) <= at:
            low = middle + 1
        else:
            high = middle
    return low


def _digest(parts: Any) -> str:
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=dict)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


# -- many publishers --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """A publisher that could not deliver; the text is safe to print."""

    name: str
    reason: str


class Outbox:
    """All publishers of a gauge, each in a thread of its own.

    longest: seconds between two attempts, at most.
    """

    def __init__(self, senders: Sequence[Sender], *, longest: float = LONGEST) -> None:
        self.longest = longest
        self.until: int | None = None
        self.stopping = threading.Event()
        self._couriers = [_Courier(sender, self) for sender in senders]

    def start(self, until: int | None) -> None:
        """Begin to deliver what is committed, up to this instant."""
        self.until = until
        for one in self._couriers:
            one.start()

    def release(self, until: int) -> None:
        """Deliver what was committed up to this instant as well; returns at once."""
        self.until = until
        for one in self._couriers:
            one.due.set()

    def finish(self, patience: float = PATIENCE) -> list[Failure]:
        """Wait until every publisher has nothing left, or has failed once; returns those that failed.

        patience: seconds after which the gauge ends without them.
        """
        for one in self._couriers:
            one.last.set()
            one.due.set()
        end = time.monotonic() + patience
        for one in self._couriers:
            one.join(max(0.0, end - time.monotonic()))
        slow = {one.sender.name for one in self._couriers if one.is_alive()}
        self.stopping.set()
        return [
            Failure(one.sender.name, one.reason or f"did not end within {patience:g} seconds")
            for one in self._couriers
            if one.reason or one.sender.name in slow
        ]

    def abandon(self, patience: float = 0.5) -> None:
        """Stop: what was not delivered stays in the outbox."""
        self.stopping.set()
        for one in self._couriers:
            one.due.set()
        for one in self._couriers:
            if one.is_alive():
                one.join(patience)


class _Courier(threading.Thread):
    """Serves one publisher."""

    def __init__(self, sender: Sender, outbox: Outbox) -> None:
        super().__init__(name=f"publish-{sender.name}", daemon=True)
        self.sender, self._outbox = sender, outbox
        self.due, self.last = threading.Event(), threading.Event()
        self.failed, self.reason = 0, ""

    def run(self) -> None:
        """Deliver whenever something is due, until the outbox is stopped."""
        stop = self._outbox.stopping
        while not stop.is_set():
            self.due.clear()
            ending = self.last.is_set()
            if self._deliver_all() and not ending:
                self.due.wait()
            elif ending:
                return
            else:
                self._pause(stop)

    def _pause(self, stop: threading.Event) -> None:
        """Wait after a failure; a gauge that ends does not wait."""
        seconds = min(self._outbox.longest, 2.0 ** min(self.failed, 10) / 2)
        log.warning(
            "publisher failed",
            extra={
                "publisher": self.sender.name,
                "reason": self.reason,
                "attempt": self.failed,
                "again_in_seconds": seconds,
            },
        )
        waited = 0.0
        while waited < seconds and not (stop.is_set() or self.last.is_set()):
            stop.wait(min(0.2, seconds - waited))
            waited += 0.2

    def _deliver_all(self) -> bool:
        """Deliver until nothing is left; False where it failed."""
        stop = self._outbox.stopping
        try:
            while not stop.is_set():
                done = self.sender.step(self._outbox.until, stopped=stop.is_set)
                self.failed, self.reason = 0, ""
                if done is None:
                    return True
                log.info("delivered", extra={"publisher": self.sender.name, "readings": done.readings})
        except Exception as error:  # noqa: BLE001  (a publisher must not end the gauge)
            self.failed, self.reason = self.failed + 1, reason_of(error)
            return False
        return True


def reason_of(error: Exception) -> str:
    """Why a delivery failed, in words that may be logged: another library's text may quote addresses."""
    if isinstance(error, PublishError | TidegaugeError):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{type(error).__module__}.{type(error).__name__} at {where}"


def deliver_once(senders: Sequence[Sender]) -> tuple[int, list[Failure]]:
    """Deliver everything that is committed, one publisher after the other.

    Returns how many readings were delivered, and the publishers that failed.
    """
    delivered, failures = 0, []
    for sender in senders:
        try:
            while (done := sender.step(None)) is not None:
                delivered += done.readings
        except Exception as error:  # noqa: BLE001  (the next publisher gets its turn)
            failures.append(Failure(sender.name, reason_of(error)))
    return delivered, failures

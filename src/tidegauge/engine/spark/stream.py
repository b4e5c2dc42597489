"""Structured Streaming: micro-batches of a continuous query become batches of the gauge, exactly once.

The query writes each micro-batch into a folder of its own beside the store, named by the number of the
micro-batch.  A folder appears complete or not at all.  The gauge reads the folders in the order of their
numbers and commits the number of the last one with everything that came of it:

* A micro-batch that Spark repeats after a kill has the same number.  Its folder is there already and stays.
* A folder is read again if the tick was not committed, and is removed once a later one was committed.  The
  last one stays, because only the last micro-batch can be repeated.
* The checkpoint of the query lies in the same folder.  The position names the query and has a digest of the
  offsets of its last micro-batch, so a checkpoint of another query or an older copy is refused.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.durable import private_folder, sync_folder
from tidegauge.engine.spark import paths
from tidegauge.engine.spark.changes import Changes
from tidegauge.engine.spark.files import beside, make_durable, remove
from tidegauge.engine.spark.session import condition, settled, unlogged
from tidegauge.engine.spark.source import NOTHING, SessionSource, SparkFiles, numbered, qualified, readable
from tidegauge.errors import SourceError
from tidegauge.model.mutation import Batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidegauge.engine.spark.changes import Load
    from tidegauge.engine.spark.spec import SparkSpec

_AHEAD: Final = 32
"""So many micro-batches may wait for the gauge; then the query waits."""
_PATIENCE: Final = 60.0
"""Seconds after which a read ends although more changes arrive all the time."""
_STEP: Final = 0.1


@dataclass(frozen=True)
class Place:
    """How far a stream was read: the query, its last micro-batch, and a digest of that one's offsets."""

    stream: str
    batch: int = -1
    offsets: str = ""

    def __str__(self) -> str:
        return json.dumps([self.stream, self.batch, self.offsets])

    @classmethod
    def parse(cls, text: str) -> Place:
        """The position of a text."""
        return cls(*json.loads(text))


class SparkStream(SessionSource):
    """Files of a growing folder, a streaming table, or a view of a streaming frame."""

    follows = True

    def __init__(self, spec: SparkSpec, base: Path, store: Path) -> None:
        super().__init__(spec)
        self._files = None if spec.path is None else SparkFiles(spec, base)
        self._folder = beside(store, "stream")
        self._checkpoint = self._folder / "checkpoint"
        self._query: StreamingQuery | None = None
        self._drained: threading.Thread | None = None
        self._arrived, self._closing = threading.Condition(), threading.Event()
        self._read_to = -1
        """The number of the last micro-batch that was delivered."""

    def _load(self, spark: SparkSession) -> DataFrame:
        return self._files.static(spark) if self._files else spark.table(qualified(self._spec.table))

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """The micro-batches after this position, until all that there is has been read."""
        query = self._running(None if position is None else Place.parse(position))
        self._read_to = -1 if position is None else Place.parse(position).batch
        deadline = time.monotonic() + _PATIENCE
        drained = self._drain(query)
        while True:
            ended = not drained.is_alive()
            if fresh := self._complete(self._read_to):
                with self._arrived:
                    self._read_to = fresh[-1]
                    self._arrived.notify_all()
                changes = Changes(
                    self._loader(fresh), self._roles, "_time IS NOT NULL", in_order=False, rank="_batch"
                )
                yield Batch(NOTHING, None, str(self._place(fresh[-1])), changes)
            self._require_running(query)
            if not fresh and (ended or time.monotonic() > deadline):
                yield Batch(NOTHING, until, str(self._place(self._read_to)))
                return
            with self._arrived:
                self._arrived.wait(_STEP)

    def acknowledge(self, position: str) -> None:
        """Remove the micro-batches before the last one that is committed."""
        for number in self._numbers():
            if number < Place.parse(position).batch:
                remove(self._of(number))

    def close(self) -> None:
        """Stop the query; the next read starts it again where it was."""
        if self._query is not None:
            self._closing.set()
            with self._arrived:
                self._arrived.notify_all()
            self._query.stop()
            self._query = None
        if self._drained is not None:
            self._drained.join()
            self._drained = None

    # -- the query -------------------------------------------------------------------------------------------

    def _running(self, place: Place | None) -> StreamingQuery:
        if self._query is None:
            self._require_same(place)
            private_folder(self._folder)
            self._closing.clear()
            with settled(self._spark):  # the query goes on with the settings under which it starts
                writer = self._stream(self._spark).writeStream.foreachBatch(self._keep)
                writer = writer.option("checkpointLocation", paths.written(self._checkpoint))
                self._query = writer.trigger(processingTime=self._spec.trigger or "1 second").start()
        return self._query

    def _stream(self, spark: SparkSession) -> DataFrame:
        if self._files is not None:
            return self._files.stream(spark)
        frame = spark.table(qualified(self._spec.table))
        return frame if frame.isStreaming else spark.readStream.table(qualified(self._spec.table))

    def _keep(self, frame: DataFrame, number: int) -> None:
        """Write a micro-batch; called by the query, in its own order and one at a time."""
        place = self._of(number)
        with self._arrived:
            while number > self._read_to + _AHEAD and not self._closing.is_set():
                self._arrived.wait(_STEP)
        if place.is_dir():  # it was written before a kill
            return
        new = self._folder / "new"
        frame.selectExpr("*", f"{number}L AS _batch").write.mode("overwrite").parquet(paths.written(new))
        make_durable(new)
        new.rename(place)
        sync_folder(self._folder)
        with self._arrived:
            self._arrived.notify_all()

    def _drain(self, query: StreamingQuery) -> threading.Thread:
        """A thread that ends once the query has written everything there is."""
        if self._drained is None or not self._drained.is_alive():
            self._drained = threading.Thread(target=_wait, args=[query], daemon=True)
            self._drained.start()
        return self._drained

    def _require_running(self, query: StreamingQuery) -> None:
        with unlogged():
            error = query.exception()
        if error is not None or not query.isActive:
            self.close()
            why = "" if error is None else f" ({condition(error)})"
            raise SourceError(f"the stream has stopped{why}. What was committed stays; start the gauge again")

    # -- its folder ------------------------------------------------------------------------------------------

    def _of(self, number: int) -> Path:
        return self._folder / f"batch-{number:012d}"

    def _numbers(self) -> list[int]:
        return sorted(int(path.name.removeprefix("batch-")) for path in self._folder.glob("batch-*"))

    def _complete(self, after: int) -> list[int]:
        """The numbers of the micro-batches that were not read.  Raises SourceError if one is missing."""
        found = [number for number in self._numbers() if number > after]
        if found and found != list(range(after + 1, found[-1] + 1)):
            raise self._foreign()
        return found

    def _loader(self, numbers: list[int]) -> Load:
        places, order = [paths.read(self._of(number)) for number in numbers], numbered(str(self._spec.order))

        def load(spark: SparkSession) -> DataFrame:
            return readable(spark.read.parquet(*places), order)

        return load

    def _place(self, batch: int) -> Place:
        return Place(self._stream_id() or "", batch, self._offsets(batch) or "")

    def _stream_id(self) -> str | None:
        try:
            found: str = json.loads((self._checkpoint / "metadata").read_text("utf-8"))["id"]
        except FileNotFoundError:
            return None
        return found

    def _offsets(self, batch: int) -> str | None:
        """A digest of the offsets that a micro-batch ended with; None: Spark no longer has them."""
        try:
            return hashlib.sha256((self._checkpoint / "offsets" / str(batch)).read_bytes()).hexdigest()[:16]
        except FileNotFoundError:
            return None

    def _require_same(self, place: Place | None) -> None:
        """Raise SourceError unless the checkpoint is that of the position."""
        if place is None:
            self._complete(-1)
            return
        logged = self._checkpoint / "offsets"
        last = max((int(one.name) for one in logged.glob("[0-9]*") if one.name.isdecimal()), default=-1)
        known = self._offsets(place.batch)
        other = known is not None and place.offsets not in ("", known)
        if self._stream_id() != place.stream or last < place.batch or other:
            raise self._foreign()

    def _foreign(self) -> SourceError:
        return SourceError(
            f"the folder {self._folder.name} is not the one that this store has read: it belongs to another "
            "gauge or to an older copy. Nothing was read or spent. Bring back store and folder, both from "
            "the same copy; for a new store, remove the folder, and the stream is read from its beginning"
        )


def _wait(query: StreamingQuery) -> None:
    from pyspark.errors import PySparkException  # noqa: PLC0415  (loaded when first used)

    try:
        with unlogged():
            query.processAllAvailable()
    except PySparkException:  # `read` finds the reason
        return

"""A Structured Streaming query as a changelog: its micro-batches feed the ticks of the gauge, each once.

Spark writes down which files or offsets belong to a micro-batch before it delivers the batch, and that the
batch is done after `foreachBatch` has returned.  The number of the batch is the position of the source, which
the store commits with the changes.  A batch that is delivered again after a kill, because Spark did not come
to write down that it was done, has a number that the store knows, and is skipped.
"""

from __future__ import annotations

import json
import queue
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tidegauge.engine.spark.changes import Changes
from tidegauge.engine.spark.render import quote
from tidegauge.engine.spark.session import settled
from tidegauge.engine.spark.source import NOTHING, SessionSource, _qualified
from tidegauge.errors import SourceError
from tidegauge.model.mutation import Batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidegauge.engine.spark.spec import SparkSpec
    from tidegauge.model.source import Location


_VIEW: Final = "tidegauge_micro_batch"


@dataclass
class _Delivery:
    """A micro-batch on its way: Spark waits until it is committed."""

    number: int
    frame: DataFrame
    done: threading.Event = field(default_factory=threading.Event)
    failed: bool = False


class SparkStream(SessionSource):
    """Follows files or a table of the session through a streaming query."""

    follows = True

    def __init__(self, spec: SparkSpec, where: Location) -> None:
        super().__init__(spec)
        path = spec.path
        self._path = (
            path
            if path is None or "://" in path or path.startswith("/")
            else str(where.base.resolve() / path)
        )
        self._checkpoint = where.store.with_suffix(".stream").resolve()
        self._open: _Delivery | None = None

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Every micro-batch that is available now, then an empty batch."""
        last = -1 if position is None else int(json.loads(position))
        arrived: queue.Queue[_Delivery | None] = queue.Queue()
        query = self._start(arrived)
        watching = threading.Thread(target=self._watch, args=(query, arrived), daemon=True)
        watching.start()
        try:
            while (delivery := arrived.get()) is not None:
                if delivery.number > last:
                    last, self._open = delivery.number, delivery
                    yield Batch(NOTHING, None, json.dumps(last), self._changes(delivery.frame))
                delivery.done.set()
            failure = query.exception()
            if failure is not None:
                raise SourceError(
                    f"the streaming query failed ({failure.getCondition() or 'see the log of Spark'})"
                )
        finally:
            if self._open is not None:
                self._open.failed = not self._open.done.is_set()
                self._open.done.set()
            query.stop()
            watching.join()
        yield Batch(NOTHING, until, json.dumps(last))

    def acknowledge(self, position: str) -> None:
        """The micro-batch is committed: Spark may write down that it is done."""
        if self._open is not None and json.dumps(self._open.number) == position:
            self._open.done.set()

    @staticmethod
    def _watch(query: StreamingQuery, arrived: queue.Queue[_Delivery | None]) -> None:
        with suppress(Exception):  # the reader asks the query for its exception
            query.awaitTermination()
        arrived.put(None)

    def _start(self, arrived: queue.Queue[_Delivery | None]) -> StreamingQuery:
        def deliver(frame: DataFrame, number: int) -> None:
            delivery = _Delivery(number, frame)
            arrived.put(delivery)
            delivery.done.wait()
            if delivery.failed:
                raise RuntimeError("the tick was not committed")

        with settled(self._spark):
            stream = self._streamed(self._spark)
            writer = stream.writeStream.foreachBatch(deliver).trigger(availableNow=True)
            return writer.option("checkpointLocation", self._checkpoint.as_uri()).start()

    def _streamed(self, spark: SparkSession) -> DataFrame:
        if self._path is None:
            return spark.readStream.table(_qualified(self._spec.table))
        reader = spark.readStream.format(self._spec.file_format).schema(self._sample(spark).schema)
        if self._spec.file_format == "csv":
            reader = reader.option("header", "true").option("nullValue", "")
        return reader.options(**self._spec.options).load(self._path)

    def _sample(self, spark: SparkSession) -> DataFrame:
        """The rows that are there now, for their columns."""
        if self._path is None:
            return spark.table(_qualified(self._spec.table))
        reader = spark.read.format(self._spec.file_format)
        if self._spec.file_format == "csv":
            reader = reader.option("header", "true").option("nullValue", "")
        return reader.options(**self._spec.options).load(self._path)

    def _load(self, spark: SparkSession) -> DataFrame:
        return self._sample(spark)

    def _changes(self, frame: DataFrame) -> Changes:
        """Rows of one time in one micro-batch are put in the order of `order`, or else of their values."""
        if self._spec.order is not None:
            order = f"CAST({quote(self._spec.order)} AS BIGINT)"
        else:
            order = f"xxhash64({', '.join(quote(name) for name in frame.columns)})"
        frame.createOrReplaceGlobalTempView(_VIEW)  # the frame belongs to a session of the query's own
        return Changes(
            lambda spark: spark.table(f"global_temp.{_VIEW}").selectExpr("*", f"{order} AS _seq"),
            self._roles,
            "_time IS NOT NULL",
            in_order=False,
        )

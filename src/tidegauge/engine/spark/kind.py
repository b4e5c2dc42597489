"""The kind of source `spark`: what the Spark session can read, without a row in this process.

It lies beside the engine because both are one thing to the session: the source says what to read, the engine
reads it.
"""

from __future__ import annotations

from typing import Final

from tidegauge.engine.spark.spec import SparkSpec
from tidegauge.model.source import Location, OpenSource, SourceKind


class SparkKind(SourceKind[SparkSpec]):
    """Reads files or tables of the session."""

    spec = SparkSpec

    def open(self, spec: SparkSpec, where: Location) -> OpenSource:
        """Open the source; the session starts when the columns are first needed."""
        from tidegauge.engine.spark.source import SparkFiles, SparkTable  # noqa: PLC0415
        from tidegauge.engine.spark.stream import SparkStream  # noqa: PLC0415

        if spec.stream:
            return SparkStream(spec, where.base, where.store)
        return SparkTable(spec) if spec.path is None else SparkFiles(spec, where.base)


KIND: Final = SparkKind()

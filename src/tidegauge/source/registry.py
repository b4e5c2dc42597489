"""The kinds of source that come with Tidegauge, one line each."""

from __future__ import annotations

from tidegauge.model.kinds import SOURCES

SOURCES.register("files", "tidegauge.source.files.kind")
SOURCES.register("postgres", "tidegauge.source.postgres.kind")
SOURCES.register("sqlite", "tidegauge.source.sqlite.kind")
SOURCES.register("debezium", "tidegauge.source.debezium.kind")
SOURCES.register("snapshots", "tidegauge.source.snapshots.kind")
SOURCES.register("spark", "tidegauge.engine.spark.kind")  # beside its engine: both speak to one session

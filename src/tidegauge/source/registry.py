"""The kinds of source that come with Tidegauge, one line each."""

from __future__ import annotations

from tidegauge.model.kinds import register

register("files", "tidegauge.source.files.kind")
register("postgres", "tidegauge.source.postgres.kind")
register("sqlite", "tidegauge.source.sqlite.kind")
register("debezium", "tidegauge.source.debezium.kind")
register("snapshots", "tidegauge.source.snapshots.kind")
register("spark", "tidegauge.engine.spark.kind")  # beside its engine: both speak to one session

"""Rows change -> mutations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegauge.errors import SpecError
from tidegauge.source.batch.names import secret

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.model.mutation import Source


def open_source(declared: dict[str, Any], base: Path, *, beside: Path | None = None) -> Source:
    """The source that a [source] table declares; each kind is imported only where it is used.

    `beside` is the store: what a source has to remember lies beside it.
    """
    options = dict(declared)
    match options.pop("kind"):
        case "files":
            from tidegauge.source.files.source import Files  # noqa: PLC0415

            return Files(**options, base=base)
        case "postgres":
            return _postgres(options)
        case "sqlite":
            from tidegauge.source.sqlite.source import SQLite  # noqa: PLC0415

            return SQLite(base / options.pop("path"), options.pop("table"), **options)
        case "debezium":
            return _debezium(options, base, _quarantine(beside or base / "tidegauge.db"))
        case "snapshots":
            return _snapshots(options, base, beside or base / "tidegauge.db")
        case kind:
            raise AssertionError(kind)


def _postgres(options: dict[str, Any]) -> Source:
    try:
        from tidegauge.source.postgres.source import Postgres  # noqa: PLC0415
    except ModuleNotFoundError:
        raise _needs_postgres() from None
    return Postgres(secret(options.pop("dsn"), key="source.dsn"), options.pop("table"), **options)


def _needs_postgres() -> SpecError:
    return SpecError("PostgreSQL needs an extra: pip install 'tidegauge[postgres]'", key="source")


def operator_counts(declared: Any, base: Path, *, beside: Path) -> dict[str, int]:
    """What a declared source could not use, by the name it is shown under: for the operator alone."""
    if declared.kind != "debezium":
        return {}
    from tidegauge.source.debezium.index import refused  # noqa: PLC0415
    from tidegauge.source.debezium.quarantine import count  # noqa: PLC0415

    inbox = declared.inbox
    return {"quarantined": count(_quarantine(beside)), **({} if inbox is None else refused(base / inbox))}


def _quarantine(store: Path) -> Path:
    return store.with_suffix(".quarantine")


def _debezium(options: dict[str, Any], base: Path, quarantine: Path) -> Source:
    from tidegauge.source.debezium.kafka import Kafka  # noqa: PLC0415
    from tidegauge.source.debezium.source import Debezium  # noqa: PLC0415

    table, topic, inbox = options.pop("table"), options.pop("topic", None), options.pop("inbox", None)
    if topic is not None:
        options.pop("consume", None)
        config = {
            name: secret(value, key=f"source.kafka.{name}") for name, value in options.pop("kafka").items()
        }
        return Kafka(config, topic, table, **options, quarantine=quarantine)
    if inbox is not None:  # what proves a sender is for the process that receives
        for name in ("token", "signing_secret"):
            options.pop(name, None)
        return Debezium(base / inbox, table, **options, inbox=True, quarantine=quarantine)
    return Debezium(base / options.pop("path"), table, **options, quarantine=quarantine)


def _snapshots(options: dict[str, Any], base: Path, store: Path) -> Source:
    from tidegauge.source.snapshots import history, readers  # noqa: PLC0415
    from tidegauge.source.snapshots import source as snapshots  # noqa: PLC0415

    of, table, types = options.pop("of"), options.pop("table"), options.pop("types", {})
    reader: readers.Reader
    if of == "postgres":
        try:
            from tidegauge.source.postgres.reader import PostgresReader  # noqa: PLC0415
        except ModuleNotFoundError:
            raise _needs_postgres() from None
        dsn, schema = secret(options.pop("dsn"), key="source.dsn"), options.pop("schema", "public")
        reader = PostgresReader(dsn, table, schema=schema)
    else:
        path = base / options.pop("path")
        kinds = {"duckdb": readers.DuckDBReader, "parquet": readers.ParquetReader}
        reader = readers.SQLiteReader(path, table, types) if of == "sqlite" else kinds[of](path, table)
    images = options.pop("images", None)
    folder = store.with_suffix(".images") if images is None else base / images
    if "valid_from" in options:
        return history.History(reader, folder=folder, **options)
    return snapshots.Snapshots(reader, folder=folder, **options)


__all__ = ["open_source", "operator_counts", "secret"]

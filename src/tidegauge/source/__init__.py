"""Rows change -> mutations."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tidegauge.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.model.mutation import Source


def open_source(declared: dict[str, Any], base: Path) -> Source:
    """The source that a [source] table declares; each kind is imported only where it is used."""
    options = dict(declared)
    match options.pop("kind"):
        case "files":
            from tidegauge.source.files import Files  # noqa: PLC0415

            return Files(**options, base=base)
        case "postgres":
            return _postgres(options)
        case "sqlite":
            from tidegauge.source.sqlite import SQLite  # noqa: PLC0415

            return SQLite(base / options.pop("path"), options.pop("table"), **options)
        case "debezium":
            from tidegauge.source.debezium import Debezium  # noqa: PLC0415

            return Debezium(base / options.pop("path"), options.pop("table"), **options)
        case "snapshots":
            return _snapshots(options, base)
        case kind:
            raise AssertionError(kind)


def _postgres(options: dict[str, Any]) -> Source:
    try:
        from tidegauge.source.postgres import Postgres  # noqa: PLC0415
    except ModuleNotFoundError:
        raise SpecError(
            "a source of kind postgres needs: pip install 'tidegauge[postgres]'", key="source"
        ) from None
    return Postgres(secret(options.pop("dsn"), key="source.dsn"), options.pop("table"), **options)


def _snapshots(options: dict[str, Any], base: Path) -> Source:
    from tidegauge.source import history, readers, snapshots  # noqa: PLC0415

    of, table, schema = (options.pop(name) for name in ("of", "table", "schema"))
    reader: readers.Reader
    if of == "postgres":
        from tidegauge.source.postgres_reader import PostgresReader  # noqa: PLC0415

        reader = PostgresReader(secret(options.pop("dsn"), key="source.dsn"), table, schema=schema)
    else:
        kinds = {
            "sqlite": readers.SQLiteReader,
            "duckdb": readers.DuckDBReader,
            "parquet": readers.ParquetReader,
        }
        reader = kinds[of](base / options.pop("path"), table)
    folder = base / options.pop("images")
    if "valid_from" in options:
        return history.History(reader, folder=folder, **options)
    return snapshots.Snapshots(reader, folder=folder, **options)


def secret(reference: str, *, key: str) -> str:
    """What an env:NAME stands for; the value itself is never shown."""
    name = reference.removeprefix("env:")
    value = os.environ.get(name)
    if not value:
        raise SpecError(f"the environment variable {name} is not set", key=key)
    return value


__all__ = ["open_source", "secret"]

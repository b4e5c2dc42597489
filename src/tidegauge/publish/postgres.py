"""The kind `postgres`: a table in PostgreSQL, one row a reading."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator

from tidegauge.errors import PublishError, SpecError
from tidegauge.model.declared import PublisherSpec, Secret
from tidegauge.model.publisher import Delivery, Place, PublisherKind
from tidegauge.publish.batch import Batch

if TYPE_CHECKING:
    from tidegauge.publish.public.values import PublicReading


def _a_table(name: str) -> str:
    if not re.fullmatch(r"([A-Za-z_]\w*\.)?[A-Za-z_]\w*", name, re.ASCII):
        raise ValueError("write the table's name, or schema.table: letters, digits and underscores")
    return name


class PostgresSpec(PublisherSpec):
    """[publish.NAME] with kind = "postgres"."""

    kind: Literal["postgres"]
    dsn: Secret
    table: Annotated[str, AfterValidator(_a_table)] = "tidegauge_readings"


_COLUMNS: Final = (
    "release text NOT NULL, time timestamptz NOT NULL, groups text NOT NULL, group_values jsonb, "
    "value double precision, stderr double precision, low double precision NOT NULL, "
    "high double precision NOT NULL, PRIMARY KEY (release, time, groups)"
)
_INSERT: Final = (
    "INSERT INTO {} (release, time, groups, group_values, value, stderr, low, high) VALUES (%s, "
    "to_timestamp(%s::bigint / 1000000) + (%s::bigint %% 1000000) * interval '1 microsecond', %s, %s::jsonb, "
    "%s, %s, %s, %s) ON CONFLICT (release, time, groups) DO UPDATE SET group_values = EXCLUDED.group_values, "
    "value = EXCLUDED.value, stderr = EXCLUDED.stderr, low = EXCLUDED.low, high = EXCLUDED.high"
)
_PATIENCE: Final = 60
"""Seconds that one statement may take."""


@dataclass(frozen=True)
class PostgresPublisher:
    """Writes batches into a table, each in one transaction."""

    dsn: str = field(repr=False)
    table: str

    def deliver(self, what: Batch) -> Delivery:
        """Insert the readings; those that are there already are written again with the same values."""
        import psycopg  # noqa: PLC0415  (an extra)
        from psycopg import sql  # noqa: PLC0415

        table = sql.Identifier(*self.table.split("."))
        options = f"-c statement_timeout={_PATIENCE}s -c lock_timeout={_PATIENCE}s"
        try:
            with (
                psycopg.connect(self.dsn, connect_timeout=10, options=options) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute(_exists(sql, table))
                if not cursor.fetchone():
                    columns: Any = sql.SQL(_COLUMNS)
                    cursor.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(table, columns))
                cursor.executemany(sql.SQL(_INSERT).format(table), [_row(one) for one in what.readings])
        except psycopg.Error as error:  # its text may quote the connection string or a row
            code = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
            raise PublishError(f"PostgreSQL refused: {type(error).__name__}{code}") from None
        return Delivery(len(what.readings), self.table)


def _exists(sql: Any, table: Any) -> Any:
    """A statement that returns a row where the table exists: a role may write and not create tables."""
    return sql.SQL("SELECT 1 WHERE to_regclass({}) IS NOT NULL").format(sql.Literal(table.as_string(None)))


def _row(reading: PublicReading) -> tuple[Any, ...]:
    group = (
        "" if reading.group is None else json.dumps(dict(reading.group), sort_keys=True, ensure_ascii=False)
    )
    return (
        reading.release,
        reading.time,
        reading.time,
        group,
        group or None,
        reading.value,
        reading.stderr,
        reading.low,
        reading.high,
    )


class PostgresKind(PublisherKind[PostgresSpec, Batch]):
    """Writes a table in PostgreSQL."""

    spec = PostgresSpec

    def open(self, spec: PostgresSpec, place: Place) -> PostgresPublisher:
        """The publisher of this table."""
        from importlib.util import find_spec  # noqa: PLC0415

        if find_spec("psycopg") is None:
            raise SpecError(
                "needs the extra 'postgres': pip install '.[postgres]'", key=f"publish.{place.name}"
            )
        return PostgresPublisher(place.secret(spec.dsn, "dsn"), spec.table)

    def target(self, spec: PostgresSpec) -> str:
        """The variable that names the database, and the table."""
        return f"{spec.dsn}:{spec.table}"


KIND: Final = PostgresKind()

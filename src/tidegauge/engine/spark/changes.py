"""Changes that lie in the Spark session, and the SQL that reads a table or files as changes.

The form of the rows is that of the kind `files`: a time, a key, and the old and new values under prefixes, or
an operation.  No row passes through this process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tidegauge.engine.spark.digest import digest_sql
from tidegauge.engine.spark.first import TEXT
from tidegauge.engine.spark.render import quote
from tidegauge.engine.spark.session import REFUSED
from tidegauge.engine.spark.values import let, timestamp_of_text
from tidegauge.errors import SourceError, SpecError
from tidegauge.model.mutation import RemoteRows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.engine.spark.layout import Layout

    Load = Callable[[SparkSession], DataFrame]

INSERTS: Final = ("i", "insert", "c", "create", "r", "read", "inserted", "created", "add", "added")
UPDATES: Final = ("u", "update", "updated", "upsert", "modified", "changed")
DELETES: Final = ("d", "delete", "deleted", "remove", "removed")
TIME_UNITS: Final = {"seconds": 1_000_000, "milliseconds": 1000, "microseconds": 1}
INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_FIRST: Final = -62_135_596_800_000_000
_LAST: Final = 253_402_300_799_999_999
"""The years 1 to 9999."""


@dataclass(frozen=True)
class Roles:
    """What the columns of a table of changes are."""

    time: str
    key: str
    before: str | None = None
    after: str = ""
    op: str | None = None
    time_unit: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    order: str | None = None
    unit: str | None = None

    def columns(self, schema: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
        """The table's columns: name -> the columns with the old and the new value.

        Raises SourceError if a column is missing.
        """
        roles = {"time": self.time, "key": self.key, "op": self.op, "order": self.order}
        for role, name in roles.items():
            if name is not None and name not in schema:
                there = ", ".join(repr(one) for one in schema)
                raise SourceError(f"column {name!r} ({role}) is missing; the columns are {there}")
        found: dict[str, list[str | None]] = {self.key: [self.key, self.key]}
        if self.unit is not None and not self._units(schema):
            there = ", ".join(repr(one) for one in schema)
            raise SourceError(f"column {self.unit!r} (unit) is missing; the columns are {there}")
        apart = {*roles.values()}
        if self.unit is not None and self._alone(schema):
            found[self.unit] = [self.unit, self.unit]
            apart.add(self.unit)
        for name in schema:
            if name in apart:
                continue
            if self.before is not None and name.startswith(self.before):
                found.setdefault(name.removeprefix(self.before), [None, None])[0] = name
            elif name.startswith(self.after):
                found.setdefault(name.removeprefix(self.after), [None, None])[1] = name
        for name in schema:  # neither old nor new: the same on both sides
            old = self.before is not None and name.startswith(self.before)
            if name not in apart and not old and not name.startswith(self.after):
                found.setdefault(name, [name, name])
        for prefix, side in ((self.before, 0), (self.after, 1)):
            if prefix and not any((both[side] or "").startswith(prefix) for both in found.values()):
                raise SourceError(f"a column that begins with {prefix!r} is missing")
        for name in self.types:
            if name not in found:
                raise SpecError("is not a column of the table", key=f"source.types.{name}")
        return {name: (old, new) for name, (old, new) in found.items()}

    def _units(self, schema: Mapping[str, str]) -> list[str]:
        """The columns that can have the unit of a new row, in the order in which they are tried."""
        tried = dict.fromkeys((str(self.unit), f"{self.after}{self.unit}"))
        return [name for name in tried if name in schema]

    def _alone(self, schema: Mapping[str, str]) -> bool:
        """Whether the unit has one column for both rows: a deletion may keep its unit."""
        return not self.after and (self.before is None or f"{self.before}{self.unit}" not in schema)

    def unit_sql(self, schema: Mapping[str, str]) -> str:
        """SQL: the unit of a new row; NULL: it has none."""
        texts = ", ".join(f"nullif(CAST({quote(name)} AS STRING), '')" for name in self._units(schema))
        return f"coalesce({texts})" if texts else "CAST(NULL AS STRING)"


@dataclass(frozen=True)
class Changes(RemoteRows):
    """Changes of the session: how they are read, which of them, and what their columns are."""

    load: Load
    """Reads the rows; with the column `_seq`, their order among those of one time."""
    roles: Roles
    where: str
    """SQL: the rows that are delivered, over `_time` and the columns of the table."""
    in_order: bool = True
    """Whether the order of the log is that of the time stamps."""
    upto: int | None = None
    """Every change of the batch has happened by then; None: not known."""
    rank: str = "_time"
    """SQL: what orders the changes of the batch, before `_seq`."""

    def frame(self, spark: SparkSession, layout: Layout) -> DataFrame:
        """The changes, with the columns of the table that are used."""
        loaded = self.load(spark)
        schema = dict(loaded.dtypes)
        name = "tidegauge_source"
        loaded.createOrReplaceTempView(name)
        own = {column: kind for column, kind in schema.items() if column not in ("_seq", "_file", "_batch")}
        both = self.roles.columns(own)
        wanted = {one: kind for one, kind in layout.columns.items() if one in both}
        wanted |= {one: layout.columns[one] for one in layout.image if one not in layout.program.used}
        fields = [
            f"{self._value(schema, both.get(one, (None, None))[1], kind)} AS {quote(one)}"
            for one, kind in wanted.items()
        ]
        gone, fresh = self._absent(both, schema)
        after = f"CASE WHEN NOT _gone THEN struct({', '.join(fields) or 'TRUE AS _'}) END"
        number = schema[self.roles.key] in INTEGERS
        key = quote(self.roles.key) if number else f"coalesce(CAST({quote(self.roles.key)} AS STRING), '')"
        some = f"{key} IS NOT NULL" if number else f"{key} <> ''"
        digest = ""
        if layout.has_image:
            new = [quote(column) for _, column in both.values() if column is not None]
            digest = f", CASE WHEN NOT _gone AND {some} THEN {digest_sql(new)} END AS digest"
        unit = f"{self.roles.unit_sql(own)} AS unit, " if layout.owned else ""
        informed = "TRUE" if self.roles.before is not None else "FALSE"
        time = time_of(self.roles, schema)
        inner = f"SELECT *, {time} AS _time, {gone} AS _gone, {fresh} AS _fresh FROM {name}"
        return spark.sql(f"""
            SELECT _time AS time, {f"CAST({key} AS BIGINT)" if number else key} AS entry, {unit}
                   {informed} AND {some} AS informed,
                   NOT _fresh AS before, CASE WHEN {some} THEN {after} END AS after,
                   {self.rank} AS rank, _seq AS seq{digest}
            FROM ({inner}) WHERE {self.where}""")

    def _value(self, schema: Mapping[str, str], column: str | None, kind: str) -> str:
        if column is None:
            return f"CAST(NULL AS {kind})"
        if kind == "TIMESTAMP" and schema[column] == "string":
            return timestamp_of_text(quote(column))
        found = quote(column)
        return found if schema[column].upper() == kind else f"try_cast({found} AS {kind})"

    def _absent(
        self, both: Mapping[str, tuple[str | None, str | None]], schema: Mapping[str, str]
    ) -> tuple[str, str]:
        """SQL: whether there is no new row, and whether there is no old one."""
        roles = self.roles
        if roles.op is not None:
            op = f"lower(trim(CAST({quote(roles.op)} AS STRING)))"
            listed = [", ".join(f"'{one}'" for one in words) for words in (DELETES, INSERTS)]
            known = ", ".join(f"'{one}'" for one in (*INSERTS, *UPDATES, *DELETES))
            refused = f"raise_error('{REFUSED}column {plain(roles.op)} (op) contains no operation')"
            gone = f"CASE WHEN {op} IN ({known}) THEN {op} IN ({listed[0]}) ELSE {refused} END"
            return gone, "TRUE" if roles.before is None else f"coalesce({op} IN ({listed[1]}), TRUE)"
        del schema
        deciding = {name: pair for name, pair in both.items() if pair[0] != pair[1]}
        found = []
        for side in (1, 0):
            held = [pair[side] for pair in deciding.values() if pair[side] is not None]
            found.append(" AND ".join(f"{quote(str(one))} IS NULL" for one in held) or "FALSE")
        return f"({found[0]})", "TRUE" if roles.before is None else f"({found[1]})"


class Fresh(NamedTuple):
    """Changes of one batch that were valued and are neither written nor folded."""

    frame: DataFrame
    in_order: bool
    """Whether the order of the log is that of the time stamps."""
    upto: int | None
    """Every change has happened by then; None: not known."""

    @property
    def named(self) -> DataFrame:
        """The changes with texts as units."""
        if dict(self.frame.dtypes)["unit"] == "string":
            return self.frame
        return self.frame.selectExpr(*(TEXT if name == "unit" else name for name in self.frame.columns))


def time_of(roles: Roles, schema: Mapping[str, str]) -> str:
    """SQL: the time of a row in microseconds; NULL if it is none, or outside of the years 1 to 9999.

    Raises SourceError if the column cannot be a time.
    """
    column, kind = quote(roles.time), schema[roles.time]
    if roles.time_unit is not None:
        scaled = f"round(try_cast({column} AS DECIMAL(38, 9)) * {TIME_UNITS[roles.time_unit]})"
        found = f"try_cast({scaled} AS BIGINT)"
    elif kind in ("timestamp", "timestamp_ntz", "date"):
        found = f"unix_micros(CAST({column} AS TIMESTAMP))"
    elif kind == "string":
        found = f"unix_micros({timestamp_of_text(column)})"
    else:
        raise SourceError(
            f"column {roles.time!r} (time) is of type {kind}, not a time. If it counts from 1970, declare "
            f"time_unit ({', '.join(TIME_UNITS)}); else name another column"
        )
    what = f"column {plain(roles.time)} (time) is empty or contains no time of the years 1 to 9999"
    refused = f"raise_error('{REFUSED}{what}')"
    return let(
        found, lambda one: f"CASE WHEN {one} BETWEEN {_FIRST}L AND {_LAST}L THEN {one} ELSE {refused} END"
    )


def plain(name: str) -> str:
    """A column's name inside of a message in SQL."""
    return "".join(one if one.isalnum() or one in " _-." else "?" for one in name)


def where_of(covered: Sequence[str], until: int) -> str:
    """SQL: the rows up to `until` that nothing covers which was delivered before."""
    return f"_time <= {until}L" + "".join(f" AND NOT ({one})" for one in covered)

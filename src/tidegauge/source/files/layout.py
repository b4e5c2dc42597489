"""The meaning of the columns of a file, and the SQL that turns its rows into changes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.source.batch.names import quote
from tidegauge.source.batch.refusal import refusal
from tidegauge.source.files.affix import Affix
from tidegauge.source.files.notation import SQL_TYPES, Notation
from tidegauge.source.files.tabular import NO_OBJECT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tidegauge.errors import SourceError
    from tidegauge.source.files.tabular import Selectable

SIGNS: Final = {";": "semicolons", ",": "commas", "\t": "tabs", "|": "bars (|)"}
TIME_UNITS: Final = {"seconds": 1_000_000, "milliseconds": 1000, "microseconds": 1}
_INSERTS: Final = ("i", "insert", "c", "create", "r", "read", "inserted", "created", "add", "added")
_UPDATES: Final = ("u", "update", "updated", "upsert", "modified", "changed")
_DELETES: Final = ("d", "delete", "deleted", "remove", "removed")
INTEGERS: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
)
OPERATIONS: Final = (*_INSERTS, *_UPDATES, *_DELETES)


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What the user declares of the columns; checked without the data."""

    time: str
    key: str
    unit: str | None = None
    before: str | None = None
    after: str = ""
    op: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    time_unit: str | None = None
    notation: Notation = field(default_factory=Notation)

    def __post_init__(self) -> None:
        if self.before == "":
            raise SpecError(
                "must not be empty; leave it out if the file has no old values", key="source.before"
            )
        for side, affix in (("before", self.old), ("after", self.new)):
            if affix is not None and not affix.text:
                raise SpecError('a suffix follows the star, as in "*_before"', key=f"source.{side}")
        if self.old is not None and self.new is not None:
            if self.old.is_suffix != self.new.is_suffix:
                raise SpecError(
                    'must be a prefix like after ("before_"), or a suffix like after ("*_before")',
                    key="source.before",
                )
            if self.old.overlaps(self.new):
                place = "end" if self.old.is_suffix else "begin"
                raise SpecError(f"must not {place} like after, nor after like before", key="source.before")
        if self.unit == self.key:
            raise SpecError("leave it out if it is the key", key="source.unit")
        if self.time_unit is not None and self.time_unit not in TIME_UNITS:
            raise SpecError(f"must be one of {', '.join(TIME_UNITS)}", key="source.time_unit")
        for name, word in self.types.items():
            if name in (self.time, self.op):
                raise SpecError("is not a column of the table", key=f"source.types.{name}")
            if word not in SQL_TYPES:
                raise SpecError(f"must be one of {', '.join(SQL_TYPES)}", key=f"source.types.{name}")

    @property
    def old(self) -> Affix | None:
        """The affix of the columns with old values."""
        return Affix(self.before) if self.before else None

    @property
    def new(self) -> Affix | None:
        """The affix of the columns with new values."""
        return Affix(self.after) if self.after else None

    @property
    def affixes(self) -> tuple[Affix, ...]:
        """The declared affixes, that of the new values first."""
        return tuple(affix for affix in (self.new, self.old) if affix is not None)


@dataclass(frozen=True)
class Field:
    """A column of the table in SQL, and the columns of the file with its old and its new value."""

    name: str
    sql: str
    before: str | None
    after: str | None

    @property
    def decides(self) -> bool:
        """Whether an empty value can mean that there is no old or no new row."""
        return self.before != self.after

    @property
    def held(self) -> tuple[str, ...]:
        """The columns of the file that hold its values, each once."""
        return tuple(column for column in dict.fromkeys((self.before, self.after)) if column is not None)


@dataclass(frozen=True)
class Fault:
    """A row that is refused: the condition in SQL, and the message."""

    when: str
    message: str


@dataclass(frozen=True)
class Layout:
    """Roles, matched with the columns of a file."""

    roles: Roles
    fields: tuple[Field, ...]
    unit: tuple[str, ...]
    """The columns that may contain the unit, in the order in which they are tried."""

    @classmethod
    def of(cls, roles: Roles, file: Selectable) -> Layout:
        """Match roles and columns.  Raises SourceError if a column is missing; it names those that exist."""
        there = _there(roles, file)
        for role, column in (("time", roles.time), ("key", roles.key), ("op", roles.op)):
            if column is not None and column not in there:
                raise _missing(roles, file, f"column {column!r} ({role})")
        fields = tuple(_fields(roles, file, there))
        for name in roles.types:
            if name not in [each.name for each in fields]:
                raise _missing(roles, file, f"column {name!r} (in types)")
        unit = [roles.unit, *(one.column(roles.unit) for one in roles.affixes)] if roles.unit else []
        layout = cls(roles, fields, tuple(column for column in unit if column in there))
        if roles.unit and not layout.unit:
            raise _missing(roles, file, f"column {roles.unit!r} (unit)")
        return layout

    @property
    def columns(self) -> list[str]:
        """The columns of the file that are read."""
        held = [column for each in self.fields for column in each.held]
        read = [self.roles.time, self.roles.key, self.roles.op, *self.unit, *held]
        return list(dict.fromkeys(column for column in read if column is not None))

    def check(self, file: Selectable) -> None:
        """Raise SourceError unless the file has the columns of the first."""
        for column in () if file.loose else self.columns:
            if column not in file.schema:
                raise _missing(self.roles, file, f"column {column!r}, which the first file has,")
        kind = file.schema.get(self.roles.time, "VARCHAR")
        if kind not in {"VARCHAR", "TIMESTAMP", "DATE"} and not self.roles.time_unit:
            raise refusal(
                f"column {self.roles.time!r} (time) is of type {kind}, not a time. If it counts from 1970, "
                f"declare time_unit ({', '.join(TIME_UNITS)}); else name another column",
                path=file.name,
            )

    def faults(self) -> tuple[Fault, ...]:
        """The conditions under which a row is refused, each with its message."""
        roles = self.roles
        time = f"column {roles.time!r} (time)"
        how = (
            f"expected a number of {roles.time_unit}"
            if roles.time_unit
            else f"expected {roles.notation.example}; for another notation declare date_format or time_unit"
        )
        operations = "insert, update or delete, or one of i, c, r, u, d"
        return (
            Fault("NOT sound", NO_OBJECT),
            Fault("written IS NULL", f"{time} is empty; every change needs a time"),
            Fault("micros IS NULL", f"{time} does not contain a time; {how}, or name another column"),
            Fault("NOT in_calendar(micros)", f"{time} is outside the years 1 to 9999"),
            Fault(
                "gone IS NULL",
                f"column {roles.op!r} (op) contains no operation: {operations}. Correct the row, or name "
                "another column",
            ),
        )

    def key_type(self, file: Selectable) -> str:
        """The SQL type of the key: an integer type whose text is the key, or VARCHAR."""
        kind = file.schema.get(self.roles.key, "VARCHAR")
        return str(kind) if kind in INTEGERS else "VARCHAR"

    def owner_type(self, file: Selectable) -> str:
        """The SQL type of the unit of a new row: an integer type whose text is the unit, or VARCHAR."""
        kind, *others = [str(file.schema.get(column, "VARCHAR")) for column in self._new_unit] or ["VARCHAR"]
        return kind if kind in INTEGERS and not others else "VARCHAR"

    @property
    def _new_unit(self) -> list[str]:
        """The columns that may contain the unit of a new row."""
        old = self.roles.old
        return [one for one in self.unit if not old or one != old.column(self.roles.unit or "")]

    def mutations(self, file: Selectable, *, native: bool = False) -> str:
        """SQL over a numbered block of the file: row, time, entry, unit, before, after, fault (0 for none).

        A row without a key becomes the deletion of a row with the empty key, which never exists.  Only a
        deletion takes its unit from the old row: a new row without a unit has none.

        native: with what tidegauge.model.history has besides at the end: alive, existed, new, old, and `key`
        and `owner` (the unit of a new row) with their own types (see `key_type`, `owner_type`).
        """
        places = self._places()
        unit, new_unit = (_first([places[column] for column in some]) for some in (self.unit, self._new_unit))
        faults = " ".join(f"WHEN {one.when} THEN {code}" for code, one in enumerate(self.faults(), start=1))
        key, time = places[self.roles.key], places[self.roles.time]
        whole = self.key_type(file) != "VARCHAR"
        keyed = f"{key} IS NOT NULL" if whole else f"coalesce(CAST({key} AS VARCHAR), '') <> ''"
        text = file.schema.get(self.roles.time, "VARCHAR") == "VARCHAR"
        owner = "new_unit" if self.owner_type(file) == "VARCHAR" else places[self._new_unit[0]]
        more = f""", {key if whole else "entry"} AS key, {owner} AS owner, NOT gone AND keyed AS alive,
                NOT fresh AND keyed AS existed,
                {self._struct(file, "after")} AS new, {self._struct(file, "before")} AS old"""
        return f"""
            SELECT row, CASE WHEN in_calendar(micros) THEN CAST(micros AS BIGINT) END AS time, entry,
                CASE WHEN keyed THEN CASE WHEN gone THEN unit ELSE new_unit END END AS unit,
                CASE WHEN NOT fresh AND keyed THEN {self._struct(file, "before")} END AS before,
                CASE WHEN NOT gone AND keyed THEN {self._struct(file, "after")} END AS after,
                CASE {faults} ELSE 0 END AS fault{more if native else ""}
            FROM (
                SELECT *, {f"nullif({time}, '')" if text else time} AS written,
                    {self._micros(file)} AS micros, {keyed} AS keyed,
                    coalesce(CAST({key} AS VARCHAR), '') AS entry,
                    {unit} AS unit, {new_unit} AS new_unit,
                    {self._absent("before")} AS fresh, {self._absent("after")} AS gone
                FROM ({file.select(self.columns)}))"""

    @property
    def typed(self) -> tuple[Field, ...]:
        """The columns whose type was declared."""
        return tuple(each for each in self.fields if each.name in self.roles.types)

    def unread(self, file: Selectable) -> str:
        """SQL over a numbered block: for each declared type, values that do not parse, and all."""
        places = self._places()
        counts = [
            f"{_sum(f'count_if({self.is_unread(file, each, column)})' for column in each.held)} AS u{place}, "
            f"{_sum(f'count({places[column]})' for column in each.held)} AS n{place}"
            for place, each in enumerate(self.typed)
        ]
        return f"SELECT {', '.join(counts)} FROM ({file.select(self.columns)})"

    def first_unread(self, file: Selectable, each: Field) -> str:
        """SQL over a numbered block: the first row in which a value of the column does not parse."""
        bad = " OR ".join(self.is_unread(file, each, column) for column in each.held)
        return f"SELECT min(row) FROM ({file.select(self.columns)}) WHERE {bad}"

    def is_unread(self, file: Selectable, each: Field, column: str) -> str:
        """SQL: whether a value is there and is not of its declared type."""
        empty = self.roles.notation.is_empty(f"CAST({self._places()[column]} AS VARCHAR)")
        return f"(NOT {empty} AND {self._value(file, each, column)} IS NULL)"

    def _places(self) -> dict[str, str]:
        return {column: f"c{place}" for place, column in enumerate(self.columns)}

    def _micros(self, file: Selectable) -> str:
        roles = self.roles
        return instant_of(file, roles.time, self._places()[roles.time], roles.notation, roles.time_unit)

    def _absent(self, side: str) -> str:
        """SQL: whether there is no old (or new) row; NULL if the operation is unknown."""
        if side == "before" and self.roles.before is None:
            return "TRUE"
        if self.roles.op is not None:
            op = f"lower(trim(CAST({self._places()[self.roles.op]} AS VARCHAR)))"
            absent = _INSERTS if side == "before" else _DELETES
            return f"CASE WHEN {op} IN {OPERATIONS} THEN {op} IN {absent} END"
        held = [each.before if side == "before" else each.after for each in self.fields if each.decides]
        empty = [f"{self._places()[column]} IS NULL" for column in held if column is not None]
        return " AND ".join(empty) or "FALSE"

    def _struct(self, file: Selectable, side: str) -> str:
        values = [
            f"{quote(each.name)} := CAST({self._value(file, each, column)} AS {each.sql})"
            for each in self.fields
            for column in [each.before if side == "before" else each.after]
        ]
        return f"struct_pack({', '.join(values)})"

    def _value(self, file: Selectable, each: Field, column: str | None) -> str:
        if column is None:
            return "NULL"
        place = self._places()[column]
        if each.name in self.roles.types:
            return self.roles.notation.value(self.roles.types[each.name], f"CAST({place} AS VARCHAR)")
        return place if file.schema.get(column, "VARCHAR") == each.sql else f"TRY_CAST({place} AS {each.sql})"


def instant_of(file: Selectable, column: str, place: str, notation: Notation, time_unit: str | None) -> str:
    """SQL: the microseconds since 1970 of a column, which `place` names in SQL."""
    if time_unit is not None:
        return f"since_epoch(CAST({place} AS VARCHAR), {TIME_UNITS[time_unit]})"
    kind = file.schema.get(column, "VARCHAR")
    if kind == "VARCHAR":
        return notation.instant(place)
    if kind == "DATE":
        return notation.local(f"CAST({place} AS TIMESTAMP)")
    return f"epoch_us(TRY_CAST({place} AS TIMESTAMP))"


def _sum(counts: Iterable[str]) -> str:
    """SQL: the sum."""
    return " + ".join(counts)


def _first(places: Sequence[str]) -> str:
    """SQL: the first of these columns that is not empty."""
    texts = ", ".join(f"nullif(CAST({place} AS VARCHAR), '')" for place in places)
    return f"coalesce({texts})" if texts else "CAST(NULL AS VARCHAR)"


def _there(roles: Roles, file: Selectable) -> Mapping[str, str | None]:
    """The columns that can be read; if each row has its own, the declared ones are among them."""
    there = dict(file.schema)
    if not file.loose:
        return there
    if not there:
        if not roles.types:
            raise refusal(
                "there are no rows yet that show the columns; declare them in types", path=file.name
            )
        there = dict.fromkeys(filter(None, (roles.time, roles.key, roles.op)), "VARCHAR")
    for name in roles.types:
        if name not in there:
            held = [affix.column(name) for affix in roles.affixes] or [name]
            there |= dict.fromkeys(held, "VARCHAR")
    return there


def _fields(roles: Roles, file: Selectable, there: Mapping[str, str | None]) -> Iterator[Field]:
    """The table's columns.  One without an affix is old and new value, if no other one has its name."""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    both = {roles.key: roles.key}
    # A deletion may keep its unit, so a unit column without an old one does not decide.
    old_unit = roles.old and roles.unit and roles.old.column(roles.unit)
    lone_unit = roles.unit if roles.new is None and old_unit not in there else None
    for column in there:
        if column in (roles.time, roles.key, roles.op):
            continue
        if roles.old is not None and roles.old.fits(column):
            before[roles.old.without(column)] = column
        elif roles.new is None and column != lone_unit:
            after[column] = column
        elif roles.new is not None and roles.new.fits(column):
            after[roles.new.without(column)] = column
        else:
            both[column] = column
    for affix, found in ((roles.old, before), (roles.new, after)):
        if affix is not None and not found:
            place = "ends" if affix.is_suffix else "begins"
            raise _missing(roles, file, f"a column that {place} with {affix.text!r}")
        if affix is not None and "" in found:
            what = "suffix" if affix.is_suffix else "prefix"
            raise refusal(f"column {affix.text!r} is only a {what}; rename the column", path=file.name)
    spelled: dict[str, str] = {}
    for name in dict.fromkeys((*both, *after, *before)):
        if (other := spelled.setdefault(name.lower(), name)) != name:
            raise refusal(
                f"columns {other!r} and {name!r} are the same name in SQL; rename one of them", path=file.name
            )
        old, new = before.get(name), after.get(name)
        if old is None and new is None:
            old = new = both[name]
        kind = SQL_TYPES[roles.types[name]] if name in roles.types else there[str(new or old)]
        if kind is None:
            raise refusal(
                f"column {new or old!r} has a type that cannot be read; cast it to another", path=file.name
            )
        yield Field(name, kind, old, new)


def _missing(roles: Roles, file: Selectable, what: str) -> SourceError:
    """The refusal of a file without a declared column.

    The columns of the file are named only if one of them was declared: without a header, the first line is
    data.
    """
    sign = file.other_delimiter
    if sign is not None:
        return refusal(
            f"{what} is missing; the columns seem to be separated by {SIGNS.get(sign, repr(sign))}. "
            f"Declare it under [source]: delimiter = {json.dumps(sign)}",
            path=file.name,
        )
    if not {roles.time, roles.key, roles.op, roles.unit}.isdisjoint(file.schema):
        there = ", ".join(map(repr, file.schema))
        return refusal(f"{what} is missing; the columns are {there}. Correct [source]", path=file.name)
    return refusal(
        f"{what} is missing, and so are the other declared columns; the first line must name the columns",
        path=file.name,
    )

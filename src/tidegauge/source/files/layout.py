"""Which column of a file says what: the step from rows as they are stored to mutations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.source.batch.names import quote
from tidegauge.source.batch.refusal import refusal
from tidegauge.source.batch.workbench import TYPES
from tidegauge.source.files.tabular import NO_OBJECT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidegauge.errors import SourceError
    from tidegauge.source.files.tabular import Tabular

TIME_UNITS: Final = {"seconds": 1_000_000, "milliseconds": 1000, "microseconds": 1}
_INSERTS: Final = ("i", "insert", "c", "create", "r", "read")
_UPDATES: Final = ("u", "update")
_DELETES: Final = ("d", "delete")
OPERATIONS: Final = (*_INSERTS, *_UPDATES, *_DELETES)


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What the user declares of the columns; checked without a look at the data."""

    time: str
    entry: str
    unit: str | None = None
    before: str | None = None
    after: str = ""
    op: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    time_unit: str | None = None

    def __post_init__(self) -> None:
        if self.before == "":
            raise SpecError(
                "must not be empty; leave it out where there are no old values", key="source.before"
            )
        before, after = self.before or "", self.after
        if before and after and (before.startswith(after) or after.startswith(before)):
            raise SpecError("must not begin like after, nor after like before", key="source.before")
        if self.unit == self.entry:
            raise SpecError("leave it out where it is the key", key="source.unit")
        if self.time_unit is not None and self.time_unit not in TIME_UNITS:
            raise SpecError(f"must be one of {', '.join(TIME_UNITS)}", key="source.time_unit")
        for name, word in self.types.items():
            if name in (self.time, self.op):
                raise SpecError("is not a column of the table", key=f"source.types.{name}")
            if word not in TYPES:
                raise SpecError(f"must be one of {', '.join(TYPES)}", key=f"source.types.{name}")

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Those that are there, the new value's first."""
        return tuple(prefix for prefix in (self.after, self.before) if prefix)


@dataclass(frozen=True)
class Field:
    """A column of the table in SQL, and the columns of the file that hold its old and its new value."""

    name: str
    sql: str
    before: str | None
    after: str | None

    @property
    def telling(self) -> bool:
        """Whether its being empty tells that there is no old or no new row: not where one column serves both."""
        return self.before != self.after


@dataclass(frozen=True)
class Layout:
    """Roles, matched with the columns of a file."""

    roles: Roles
    fields: tuple[Field, ...]
    unit: tuple[str, ...]
    """Where the unit is looked for, in this order."""

    @classmethod
    def of(cls, roles: Roles, file: Tabular) -> Layout:
        """Match them, or say which column is missing and what is there."""
        there = _there(roles, file)
        for role in ("time", "entry", "op"):
            column = getattr(roles, role)
            if column is not None and column not in there:
                raise _missing(roles, file, f"column {column!r} ({role})")
        fields = tuple(_fields(roles, file, there))
        for name in roles.types:
            if name not in [each.name for each in fields]:
                raise _missing(roles, file, f"column {name!r} (in types)")
        unit = [prefix + roles.unit for prefix in ("", *roles.prefixes)] if roles.unit else []
        layout = cls(roles, fields, tuple(column for column in unit if column in there))
        if roles.unit and not layout.unit:
            raise _missing(roles, file, f"column {roles.unit!r} (unit)")
        return layout

    @property
    def columns(self) -> list[str]:
        """The file's columns that are read."""
        held = [column for each in self.fields for column in (each.before, each.after)]
        read = [self.roles.time, self.roles.entry, self.roles.op, *self.unit, *held]
        return list(dict.fromkeys(column for column in read if column is not None))

    def check(self, file: Tabular) -> None:
        """Refuse a file that does not have the columns of the first."""
        for column in () if file.loose else self.columns:
            if column not in file.schema:
                raise _missing(self.roles, file, f"column {column!r}")
        kind = file.schema.get(self.roles.time, "VARCHAR")
        if kind not in {"VARCHAR", "TIMESTAMP", "DATE"} and not self.roles.time_unit:
            said = f"column {self.roles.time!r} (time) is of type {kind}, not a time; if it counts from 1970, say what"
            raise refusal(f"{said} in time_unit ({', '.join(TIME_UNITS)})", path=file.name)

    def faults(self) -> list[tuple[str, str]]:
        """When a row cannot be taken, and what is said then."""
        roles = self.roles
        how = f"a number of {roles.time_unit}" if roles.time_unit else "2026-01-31 or 2026-01-31T12:00:00Z"
        known = ", ".join(OPERATIONS)
        return [
            ("NOT sound", NO_OBJECT),
            ("told IS NULL", f"column {roles.time!r} (time) is empty"),
            ("micros IS NULL", f"column {roles.time!r} (time) holds no time; write {how}"),
            ("NOT in_calendar(micros)", f"column {roles.time!r} (time) is outside the years 1 to 9999"),
            ("gone IS NULL", f"column {roles.op!r} (op) holds none of {known}"),
        ]

    def mutations(self, file: Tabular) -> str:
        """SQL over a numbered block of the file: row, time, entry, unit, before, after, fault (0 for none).

        What has no key is the deletion of a row with the empty key, which there never is: it counts nowhere.  Only a deletion
        takes its unit from the old row: a new row without a unit has none.
        """
        places = self._places()
        old = self.roles.before and self.roles.before + (self.roles.unit or "")
        unit, new_unit = (
            _first([places[column] for column in self.unit if column != without]) for without in (None, old)
        )
        faults = " ".join(f"WHEN {when} THEN {code}" for code, (when, _) in enumerate(self.faults(), start=1))
        return f"""
            SELECT row, CASE WHEN in_calendar(micros) THEN CAST(micros AS BIGINT) END AS time, entry,
                CASE WHEN entry <> '' THEN CASE WHEN gone THEN unit ELSE new_unit END END AS unit,
                CASE WHEN NOT fresh AND entry <> '' THEN {self._struct(file, "before")} END AS before,
                CASE WHEN NOT gone AND entry <> '' THEN {self._struct(file, "after")} END AS after,
                CASE {faults} ELSE 0 END AS fault
            FROM (
                SELECT *, nullif(CAST({places[self.roles.time]} AS VARCHAR), '') AS told, {self._micros(file)} AS micros,
                    coalesce(CAST({places[self.roles.entry]} AS VARCHAR), '') AS entry,
                    {unit} AS unit, {new_unit} AS new_unit,
                    {self._absent("before")} AS fresh, {self._absent("after")} AS gone
                FROM ({file.select(self.columns)}))"""

    def misfits(self, file: Tabular) -> str:
        """SQL over a numbered block of the file: for each declared type, how many values are not of it."""
        counts = []
        for each in self.fields:
            if each.name in self.roles.types:
                held = [column for column in dict.fromkeys((each.before, each.after)) if column is not None]
                misfit = [
                    f"{self._places()[it]} IS NOT NULL AND {self._value(file, each, it)} IS NULL"
                    for it in held
                ]
                counts.append(" + ".join(f"count_if({it})" for it in misfit) + f" AS {quote(each.name)}")
        return f"SELECT {', '.join(counts)} FROM ({file.select(self.columns)})"

    def _places(self) -> dict[str, str]:
        return {column: f"c{place}" for place, column in enumerate(self.columns)}

    def _micros(self, file: Tabular) -> str:
        place = self._places()[self.roles.time]
        if self.roles.time_unit:
            return f"since_epoch(CAST({place} AS VARCHAR), {TIME_UNITS[self.roles.time_unit]})"
        text = file.schema.get(self.roles.time, "VARCHAR") == "VARCHAR"
        return f"instant({place})" if text else f"epoch_us(TRY_CAST({place} AS TIMESTAMP))"

    def _absent(self, side: str) -> str:
        """Whether there is no old (or new) row; NULL where that cannot be told."""
        if side == "before" and self.roles.before is None:
            return "TRUE"
        if self.roles.op is not None:
            op = f"lower(trim(CAST({self._places()[self.roles.op]} AS VARCHAR)))"
            absent = _INSERTS if side == "before" else _DELETES
            return f"CASE WHEN {op} IN {OPERATIONS} THEN {op} IN {absent} END"
        telling = [getattr(each, side) for each in self.fields if each.telling and getattr(each, side)]
        return " AND ".join(f"{self._places()[column]} IS NULL" for column in telling) or "FALSE"

    def _struct(self, file: Tabular, side: str) -> str:
        values = [
            f"{quote(each.name)} := CAST({self._value(file, each, getattr(each, side))} AS {each.sql})"
            for each in self.fields
        ]
        return f"struct_pack({', '.join(values)})"

    def _value(self, file: Tabular, each: Field, column: str | None) -> str:
        if column is None:
            return "NULL"
        place = self._places()[column]
        if each.name in self.roles.types:
            return TYPES[self.roles.types[each.name]][1].format(f"CAST({place} AS VARCHAR)")
        return place if file.schema.get(column, "VARCHAR") == each.sql else f"TRY_CAST({place} AS {each.sql})"


def _first(places: Sequence[str]) -> str:
    """SQL: the first of these columns that is not empty."""
    texts = ", ".join(f"nullif(CAST({place} AS VARCHAR), '')" for place in places)
    return f"coalesce({texts})" if texts else "CAST(NULL AS VARCHAR)"


def _there(roles: Roles, file: Tabular) -> Mapping[str, str | None]:
    """The columns that can be read: where any row may have any, the declared ones are among them."""
    there = dict(file.schema)
    if not file.loose:
        return there
    if not there:
        if not roles.types:
            raise refusal(
                "there are no rows yet to see the columns in; declare them in types", path=file.name
            )
        there = dict.fromkeys(filter(None, (roles.time, roles.entry, roles.op)), "VARCHAR")
    for name in roles.types:
        if name not in there:
            there |= dict.fromkeys((prefix + name for prefix in roles.prefixes or ("",)), "VARCHAR")
    return there


def _fields(roles: Roles, file: Tabular, there: Mapping[str, str | None]) -> Iterator[Field]:
    """Sort the columns by prefix; one without a prefix serves both sides unless a prefixed one has its name."""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    both = {roles.entry: roles.entry}
    # A deletion may leave its unit in place, so a lone unit column does not tell; beside an old one it does.
    lone_unit = roles.unit if not roles.after and f"{roles.before}{roles.unit}" not in there else None
    for column in there:
        if column in (roles.time, roles.entry, roles.op):
            continue
        if roles.before is not None and column.startswith(roles.before):
            before[column.removeprefix(roles.before)] = column
        elif column.startswith(roles.after) and column != lone_unit:
            after[column.removeprefix(roles.after)] = column
        else:
            both[column] = column
    for prefix, found in ((roles.before, before), (roles.after, after)):
        if prefix and not found:
            raise _missing(roles, file, f"a column that begins with {prefix!r}")
        if "" in found:
            raise refusal(f"column {prefix!r} has nothing behind its prefix", path=file.name)
    spelled: dict[str, str] = {}
    for name in dict.fromkeys((*both, *after, *before)):
        if (other := spelled.setdefault(name.lower(), name)) != name:
            raise refusal(f"SQL cannot tell column {name!r} from {other!r}", path=file.name)
        old, new = before.get(name), after.get(name)
        if old is None and new is None:
            old = new = both[name]
        kind = TYPES[roles.types[name]][0] if name in roles.types else there[str(new or old)]
        if kind is None:
            raise refusal(
                f"column {new or old!r} has a type that cannot be read; cast it to another", path=file.name
            )
        yield Field(name, kind, old, new)


def _missing(roles: Roles, file: Tabular, what: str) -> SourceError:
    """Name what is there, unless nothing is as declared: then the first line may be a person's, not a header."""
    if not {roles.time, roles.entry, roles.op, roles.unit}.isdisjoint(file.schema):
        return refusal(f"{what} is missing; there are {', '.join(map(repr, file.schema))}", path=file.name)
    return refusal(
        f"{what} is missing, and so are the others that were declared; the first line must be a header",
        path=file.name,
    )

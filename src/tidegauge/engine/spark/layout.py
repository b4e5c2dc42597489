"""The columns of changes and of the state, for one program.

A change has been read and valued when it waits: the row itself is kept only where a flow looks at it.

    unit      the unit; where every row is its own unit, the row's name
    entry     where units own rows, the row's name
    time      its own time stamp, not later than the clock when it arrived
    place     the number of its batch; rank, seq: its order in the batch
    flags     1: the row exists after the change; 2: the old row was delivered as missing, 4: as existing;
              8 times the number of releases whose WHERE accepts it outside of every declared cell;
              2^40: the row goes on in another unit, or in none
    c{i}      its cell in release i; v{i}_{j}: the amount of component j, where it is not always the same
    label{n}  the value of the n-th column that names a limit
    image     the columns that flows look at or that are kept for added releases; digest: of all columns

The state has one row a unit: `alive`, the same columns, and

    m{s}      how many changes counted in scope s; NULL: none
    f{s}      the instant of the first; l{s}: the label of its limit; e{s}: when it must leave
    b{i}      the last bin in which a clipped flow used up n{i} changes
    a{i}      where constraints renew, the cell that is accepted in release i; a{i}_{j}: the amount

Where units own rows, a unit has one row of the state with its counters, whose `entry` is NULL, and one for
each of its rows that exist, without `alive`.  They lie in the same folder.  In place of a{i}:

    at{s}     since when the row contributes in scope s, and its place among those of the same instant
    x{s}      where constraints renew, the true contribution less the accepted one: spot (release and
              component), cell, and the amount in two halves of 32 bits

Releases that are added have the next numbers.  Files of before lack their columns: those of changes follow
from the image, and in the state a unit contributes nothing to them.
"""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, Final, NamedTuple

from tidegauge.engine.spark.render import Renderer, literal, quote
from tidegauge.errors import QueryError, SpecError
from tidegauge.model.engine import StateLayout
from tidegauge.model.expression import Column, Constant, call

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tidegauge.model.program import Program, Release, Scope

ALIVE: Final = 1
WITHOUT_BEFORE: Final = 2
WITH_BEFORE: Final = 4
OUTSIDE: Final = 8
EARLIEST: Final = -(2**62)
"""The time of changes that are as old as the state."""
_SMALL: Final = 2**20
"""Amounts up to this can be added up in 64 bits, however many there are."""
HANDED: Final = 2**40
_MARK: Final = "\\u001F"
"""The first character of names of rows that were renamed; a key that begins with it gets a longer name."""
_TYPES: Final = {
    "VARCHAR": "STRING", "BOOLEAN": "BOOLEAN", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "DOUBLE": "DOUBLE",
    "FLOAT": "FLOAT", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INTEGER": "INT", "BIGINT": "BIGINT",
    "UTINYINT": "SMALLINT", "USMALLINT": "INT", "UINTEGER": "BIGINT", "UBIGINT": "DECIMAL(20, 0)",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
}  # fmt: skip


def spark_type(kind: str, column: str) -> str:
    """The type that a column of the embedded engine's type has in Spark.  Raises QueryError."""
    if kind.startswith("DECIMAL("):
        return kind
    if kind not in _TYPES:
        raise QueryError(
            f"the engine 'spark' does not read columns of type {kind} ('{column}'); cast it in the source, "
            "or use kind = 'duckdb'",
            key="engine.kind",
        )
    return _TYPES[kind]


_AT: Final = "STRUCT<since: BIGINT, place: BIGINT, rank: BIGINT, seq: BIGINT>"
_EXCESS: Final = "ARRAY<STRUCT<spot: BIGINT, cell: BIGINT, high: BIGINT, low: BIGINT>>"


class Numbered(NamedTuple):
    """A release, and its number in the program."""

    number: int
    release: Release


class Layout:
    """What changes and state of one program consist of.

    Raises SpecError for a program that is not supported.
    """

    def __init__(self, program: Program, columns: Mapping[str, str]) -> None:
        _require_supported(program)
        self.program = program
        numbered = list(starmap(Numbered, enumerate(program.releases)))
        self.stocks = [one for one in numbered if one.release.query.kind == "stock"]
        self.flows = [one for one in numbered if one.release.query.kind == "flow"]
        named = {scope.by for scope in program.scopes if scope.by}
        self.labels = [*program.labels, *sorted(named - set(program.labels))]
        self.columns = {
            name: spark_type(columns[name], name)
            for name in sorted(program.wanted(columns))
            if name in columns
        }
        self.render = Renderer(self.columns)
        looked_at = {name for _, flow in self.flows for name in (*flow.query.before, *flow.query.after)}
        self.image = [name for name in self.columns if name in looked_at or name in program.keeps]
        """The columns that flows look at, or that are kept."""
        self.has_image = bool(self.flows or program.keeps)

    @property
    def owned(self) -> bool:
        """Whether units own rows."""
        return self.program.max_rows is not None

    def values(self, i: int, release: Release) -> list[str]:
        """The amounts of a stock's components: columns, or constants."""
        return [
            constant if (constant := _constant(release, j)) is not None else f"v{i}_{j}"
            for j in range(len(release.query.components))
        ]

    @property
    def large(self) -> bool:
        """Whether sums are delivered in two halves."""
        if self.owned:
            return True
        parts = [part for release in self.program.releases for part in release.query.components]
        return any(max(abs(part.lower), abs(part.upper)) > _SMALL for part in parts)

    def views(self) -> list[str]:
        """The columns of cells and amounts."""
        found = []
        for i, release in self.stocks:
            found += [f"c{i}", *(one for one in self.values(i, release) if one.startswith("v"))]
        return found

    def rest(self) -> list[str]:
        """The columns of a version of a row besides cells and amounts."""
        image = ["image", "digest"] if self.has_image else []
        return [*(f"label{n}" for n in range(len(self.labels))), *image]

    def in_scope(self, scope: Scope) -> list[Numbered]:
        """The stocks of a scope."""
        return [one for one in self.stocks if one.release.name in scope.releases]

    def flows_in(self, scope: Scope) -> list[Numbered]:
        """The flows of a scope."""
        return [one for one in self.flows if one.release.name in scope.releases]

    def clipped(self) -> list[Numbered]:
        """The flows with a clip."""
        return [one for one in self.flows if one.release.clip is not None]

    def counters(self) -> list[str]:
        """The columns of the state that count."""
        scopes = range(len(self.program.scopes))
        return [
            *(f"{name}{s}" for s in scopes for name in "mfle"),
            *(f"{name}{i}" for i, _ in self.clipped() for name in "bn"),
            *(name for scope in self.program.scopes for name in self.accepted(scope)),
            *(f"x{s}" for s in scopes if self.owned and self.program.terms is not None),
        ]

    def accepted(self, scope: Scope) -> dict[str, str]:
        """The columns of what is accepted in a scope, each with that of the row; only where terms begin."""
        if self.program.terms is None or self.owned:
            return {}
        found = {}
        for i, release in self.in_scope(scope):
            found[f"a{i}"] = f"c{i}"
            found |= {f"a{one[1:]}": one for one in self.values(i, release) if one.startswith("v")}
        return found

    def beginnings(self, watermark: int, reached: int) -> list[int]:
        """The instants after the watermark, up to `reached`, at which a term begins."""
        terms = self.program.terms
        if terms is None:
            return []
        return [end for _, end in terms.ends(terms.bin_at(watermark + 1), reached)]

    def state(self) -> list[str]:
        """The columns of the state."""
        if self.owned:
            places = [f"at{s}" for s in range(len(self.program.scopes))]
            return ["unit", "entry", *self.views(), *self.rest(), *places, *self.counters()]
        return ["unit", "alive", *self.views(), *self.rest(), *self.counters()]

    def changes(self) -> list[str]:
        """The columns of changes that wait."""
        named = ["unit", "entry"] if self.owned else ["unit"]
        return [*named, "time", "place", "rank", "seq", "flags", *self.views(), *self.rest()]

    def no_changes(self) -> str:
        """SQL: changes that wait, and there are none."""
        columns = (f"CAST(NULL AS {self.type_of(name)}) AS {name}" for name in self.changes())
        return f"SELECT {', '.join(columns)} WHERE FALSE"

    def type_of(self, name: str) -> str:
        """The type of a column of changes or of the state."""
        if name.startswith("at"):
            return _AT
        if name.startswith("x"):
            return _EXCESS
        if name == "image":
            return self._image_type()
        return "STRING" if name[0] == "l" or name in ("unit", "entry") else "BIGINT"

    def _image_type(self) -> str:
        fields = [f"{quote(name)}: {self.columns[name]}" for name in self.image] or ["`_`: BOOLEAN"]
        return f"STRUCT<{', '.join(fields)}>"

    def shape(self) -> str:
        """The type of a row in Spark, narrowed to the columns that are used."""
        fields = [f"{quote(name)}: {kind}" for name, kind in self.columns.items()] or ["`_`: BOOLEAN"]
        return f"STRUCT<{', '.join(fields)}>"

    def valued(self, view: str, *, now: int, place: int, digest: str, texts: bool) -> str:
        """SQL: changes as they wait, of a relation with time, entry, informed, before, after, rank and seq.

        before: whether an old row was delivered.  digest: SQL of the digest of the new row.
        texts: the column `entry` has texts, not integers.  Where units own rows, the view has `unit` as well.
        """
        given = f"CASE WHEN NOT informed THEN 0L WHEN before THEN {WITH_BEFORE}L ELSE {WITHOUT_BEFORE}L END"
        flags = f"CASE WHEN after IS NOT NULL THEN {ALIVE}L ELSE 0L END + {given}{self._outside(self.stocks)}"
        named = f"CASE WHEN startswith(entry, '{_MARK}') THEN concat('{_MARK}0{_MARK}', entry) ELSE entry END"
        names = [f"{named if texts else 'entry'} AS unit"]
        if self.owned:
            names = ["nullif(unit, '') AS unit", f"{named if texts else 'CAST(entry AS STRING)'} AS entry"]
        computed = [
            *names, f"least(time, {now}L) AS time", f"{place}L AS place",
            "rank", "seq",
            f"{flags} AS flags",
        ]  # fmt: skip
        computed += [f"{one} AS {name}" for name, one in self._computed().items()]
        if self.has_image:
            image = ", ".join(f"{literal(name)}, after.{quote(name)}" for name in self.image) or "'_', TRUE"
            computed += [
                f"CASE WHEN after IS NOT NULL THEN named_struct({image}) END AS image",
                f"{digest} AS digest",
            ]
        return f"SELECT {', '.join(computed)} FROM {view}"

    def _computed(self) -> dict[str, str]:
        """Cells, amounts and labels with their SQL, over the new row `after`."""
        found = {}
        for i, release in self.stocks:
            amounts = [self.render.amount(part) for part in release.query.components]
            some = " OR ".join(f"{one} <> 0" for one in amounts)
            cell = f"CAST({self.render(release.query.cell)} AS BIGINT)"
            found[f"c{i}"] = f"CASE WHEN after IS NOT NULL AND ({some}) THEN {cell} END"
            named = zip(self.values(i, release), amounts, strict=True)
            found |= {name: one for name, one in named if name.startswith("v")}
        for n, column in enumerate(self.labels):
            written = "time text" if self.columns[column] == "TIMESTAMP" else "text"
            text = self.render(call(written, Column("after", column)))
            found[f"label{n}"] = f"CASE WHEN after IS NOT NULL THEN coalesce({text}, '') END"
        return found

    def _outside(self, stocks: Sequence[Numbered]) -> str:
        """SQL to add to the flags: how many of these releases have no cell for the new row."""
        conditions = [one.query.outside for _, one in stocks if one.query.outside != Constant(False)]
        outside = " + ".join(f"CAST({self.render(one)} AS BIGINT)" for one in conditions)
        return f" + CASE WHEN after IS NOT NULL THEN {OUTSIDE}L * ({outside}) ELSE 0L END" if outside else ""

    # -- files of a program with fewer releases --------------------------------------------------------------

    def widened_changes(self, view: str, there: Collection[str]) -> str:
        """SQL: changes that wait, with all columns; `there`: the columns of the view."""
        computed = self._computed()
        columns = [name if name in there else f"{computed[name]} AS {name}" for name in self.changes()]
        return f"SELECT {', '.join(columns)} FROM (SELECT *, image AS after FROM {view})"

    def widened_state(self, view: str, there: Collection[str]) -> str:
        """SQL: the state with all columns; `there`: the columns of the view."""
        columns = [
            name if name in there else f"CAST(NULL AS {self.type_of(name)}) AS {name}"
            for name in self.state()
        ]
        return f"SELECT {', '.join(columns)} FROM {view}"

    def again(self, state: str, begun: Collection[str], *, every: bool) -> str:
        """SQL: the rows of the state as changes, before all other changes; `begun`: releases that begin.

        Every row has the digest that is stored, so no flow sees a change.  No release that had begun sees one
        either, because the row contributes what it did.  every: also units whose row does not exist.
        """
        fresh = [one for one in self.stocks if one.release.name in begun]
        new = {f"c{i}" for i, _ in fresh} | {one for i, release in fresh for one in self.values(i, release)}
        alive = "entry IS NOT NULL" if self.owned else "alive"
        values = {
            "time": f"{EARLIEST}L", "place": "-1L", "rank": "0L",
            "seq": "row_number() OVER (PARTITION BY unit ORDER BY entry) + 0L" if self.owned else "0L",
            "flags": f"CASE WHEN {alive} THEN {ALIVE}L ELSE 0L END{self._outside(fresh)}",
        }  # fmt: skip
        if begun:
            computed = self._computed().items()
            values |= {name: one for name, one in computed if name in new or name.startswith("label")}
        columns = [f"{values[name]} AS {name}" if name in values else name for name in self.changes()]
        origin = f"(SELECT *, image AS after FROM {state})" if begun else state
        some = "" if every and not self.owned else f" WHERE {alive}"
        return f"SELECT {', '.join(columns)} FROM {origin}{some}"

    def stored(self) -> StateLayout:
        """The tables of the store, which stay empty: the state lies in files of Spark."""
        return StateLayout(
            {"entry": "VARCHAR", "kept_by": "VARCHAR"},
            {"unit": "VARCHAR", "scope": "BIGINT", "expires": "BIGINT", "kept_by": "VARCHAR"},
            {"unit": "VARCHAR", "release": "BIGINT", "kept_by": "VARCHAR"},
        )


def _constant(release: Release, j: int) -> str | None:
    """The amount of a component that is the same for all rows."""
    part = release.query.components[j]
    value = part.value
    if isinstance(value, Constant) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return f"{max(min(value.value, max(part.upper, 0)), min(part.lower, 0))}L"
    return None


def _require_supported(program: Program) -> None:
    if program.partial:
        raise SpecError(
            "the engine 'spark' does not support sources that leave out values that did not change yet; "
            "use kind = 'duckdb'",
            key="source.kind",
        )

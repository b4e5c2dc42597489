"""The distributed engine: a fold is a few statements of Spark, and only sums come to this process."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidegauge.engine.spark.arrow import frame_of
from tidegauge.engine.spark.changes import Fresh
from tidegauge.engine.spark.files import StateFiles, Version, beside
from tidegauge.engine.spark.first import FirstFold, heavy_units
from tidegauge.engine.spark.fold import Fold
from tidegauge.engine.spark.folded import folded, only
from tidegauge.engine.spark.layout import Layout
from tidegauge.engine.spark.owners import latest, resolved
from tidegauge.engine.spark.sealed import Sealing, require_private
from tidegauge.engine.spark.session import session, settled
from tidegauge.engine.spark.stamps import PREFIX, copied, folder_of, state_of, sums
from tidegauge.engine.spark.terms import TermFold
from tidegauge.engine.spark.unit_terms import OwnedTermFold
from tidegauge.engine.spark.units import OwnedFold
from tidegauge.errors import QueryError
from tidegauge.model.engine import KeepingEngine
from tidegauge.model.history import Backfilled
from tidegauge.model.program import Arrived
from tidegauge.model.stamp import StampReader
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from tidegauge.engine.spark.changes import Changes
    from tidegauge.model.engine import StateLayout
    from tidegauge.model.mutation import RemoteRows
    from tidegauge.model.program import Folded, Program, State
    from tidegauge.model.stamp import Stamped

_SEGMENTS: Final = 8
"""So many folders of the state are read together before they become one."""
_engines: Final = count()


class SparkEngine(KeepingEngine, StampReader):
    """Enforces and folds one program in the active Spark session."""

    def __init__(self, program: Program, columns: Mapping[str, str]) -> None:
        self.program = program
        self._columns = Layout(program, columns)
        self._spark = session()
        self._name = f"tidegauge_{next(_engines)}"
        self._names: set[str] = set()
        self._own: ScratchFolder | None = None
        self._files: StateFiles | None = None
        self._version = Version()
        self._committed: str | None = None
        self._fresh: list[Fresh] = []
        self._checked = False
        self._begun: frozenset[str] = frozenset()
        """Releases that begin with the next fold."""
        self._arrived = 0
        """The number of the next batch."""
        self._check()

    @property
    def layout(self) -> StateLayout:
        """The tables of the store; they stay empty."""
        return self._columns.stored()

    def close(self) -> None:
        """Drop the names that statements used.  The session goes on: it may not be ours."""
        for name in self._names:
            self._spark.catalog.dropTempView(self._view(name))
        if self._own is not None:
            self._own.cleanup()

    def _check(self) -> None:
        """Bind every expression to the columns.  Raises QueryError for a query that cannot run."""
        from pyspark.errors import AnalysisException  # noqa: PLC0415  (loaded when first used)

        with settled(self._spark):
            shape = self._columns.shape()
            rows = f"(SELECT CAST(NULL AS {shape}) AS before, CAST(NULL AS {shape}) AS after)"
            for release in self.program.releases:
                query, render = release.query, self._columns.render
                parts = [query.cell, query.outside, *(part.value for part in query.components)]
                try:
                    texts = [f"{render(part)} AS x{n}" for n, part in enumerate(parts)]
                    self._spark.sql(f"SELECT {', '.join(texts)} FROM {rows}")
                except AnalysisException as error:
                    reason = f"cannot be computed in Spark ({error.getCondition()})"
                    raise QueryError(reason, key=f"release.{release.name}.sql") from None
                except QueryError as error:
                    raise QueryError(str(error), key=f"release.{release.name}.sql") from None

    # -- the state -------------------------------------------------------------------------------------------

    def keep_in(self, store: Path, secret: bytes | None = None) -> None:
        """Keep the state in a folder beside the store."""
        sealing = None
        if secret is not None:
            require_private(self._spark)
            sealing = Sealing(self._spark, secret)
        self._files = StateFiles(self._spark, beside(store, "spark"), sealing)

    @property
    def files(self) -> StateFiles:
        """The files of the state; of an engine without a store, temporary ones."""
        if self._files is None:
            self._own = ScratchFolder()
            self._files = StateFiles(self._spark, Path(self._own.name) / "state")
        return self._files

    def resume(self, version: str | None) -> None:
        """Go on from the committed version of the state.  Raises StoreCorrupt if a part of it is missing."""
        if not self._checked or version != self._committed:
            self._version, self._committed, self._fresh = Version.parse(version), version, []
            self.files.require(self._version)
            self._checked = True

    def version(self) -> str:
        """The state after this tick, as a text to commit.  Everything in it is durable."""
        if self._fresh:
            self._write_waiting()
        return str(self.files.digested(self._version))

    def begin(self, releases: Collection[str], *, state: State) -> None:
        """Let the next fold begin with every row of the state once more, for releases that were added."""
        del state
        self._begun = frozenset(releases)

    def forget(self) -> None:
        """Go on from the committed version: a transaction was rolled back."""
        self._fresh, self._begun, self._checked = [], frozenset(), False

    # -- arrival ---------------------------------------------------------------------------------------------

    def arrive(self, rows: pa.Table, *, state: State, now: int, arrivals: int) -> Arrived:
        """Take a batch of this process."""
        del state
        self._arrived = arrivals + rows.num_rows
        if rows.num_rows:
            with settled(self._spark):
                self._take(frame_of(rows, self._columns, self._spark), now=now, place=arrivals)
        return Arrived({}, {})

    def arrive_remote(self, rows: RemoteRows, *, now: int, arrivals: int) -> Arrived:
        """Take a batch that lies in the session."""
        changes: Changes = rows  # type: ignore[assignment]
        self._arrived = arrivals + 1
        with settled(self._spark):
            frame = changes.frame(self._spark, self._columns)
            self._take(frame, now=now, place=arrivals, in_order=changes.in_order, upto=changes.upto)
        return Arrived({}, {})

    def _take(
        self, frame: DataFrame, *, now: int, place: int, in_order: bool = False, upto: int | None = None
    ) -> None:
        raw = self._named(frame, "raw")
        digest = "digest" if "digest" in frame.columns else "CAST(NULL AS BIGINT)"
        texts = dict(frame.dtypes)["entry"] == "string"
        valued = self._spark.sql(self._columns.valued(raw, now=now, place=place, digest=digest, texts=texts))
        self._fresh.append(Fresh(valued, in_order, upto))

    def waiting(self, since: int | None = None) -> pa.Table:
        """Nothing: changes wait in files of the session."""
        del since
        return pa.table({})

    def _write_waiting(self) -> None:
        with settled(self._spark):
            frame = self._union(self._arriving())
            number = self._version.number + 1
            name = f"waiting-{number:08d}"
            found = self.files.write(frame, name)
            waiting = (*self._version.waiting, name) if found else self._version.waiting
            self._version, self._fresh = self._version.next(waiting=waiting), []

    def fold_stamped(self, stamped: Stamped, *, state: State) -> Backfilled:
        """Fold a stamped history; nothing was read yet."""
        del state
        return Backfilled(Arrived({}, {}), stamped.arrivals, self._stamped(stamped))

    def _stamped(self, stamped: Stamped) -> Iterator[Folded]:
        with settled(self._spark):
            totals, dropped = sums(self._spark, stamped, self._columns, self._name)
        name = folder_of(stamped, self._version.number + 1)
        copied(stamped, self.files.place(name))
        stamped.intact()
        self._arrived = stamped.arrivals
        self._version = self._version.next(state=(name,), since=stamped.arrivals)
        yield only(totals, dropped, dict(stamped.counts))

    # -- folding ---------------------------------------------------------------------------------------------

    def fold(self, *, state: State, watermark: int, reached: int) -> Iterator[Folded]:
        """Enforce and fold what takes effect by `reached`, all units at once."""
        del state
        since, at = self._arrived, watermark
        found: list[Mapping[str, int]] = []
        with settled(self._spark):
            for begin in self._columns.beginnings(watermark, reached):
                if at + 1 < begin:
                    found += self._fold(at, begin - 1, late=watermark)
                found += self._fold(begin - 1, begin, late=watermark, renews=True)
                at = begin
            if at < reached:
                found += self._fold(at, reached, late=watermark)
        self._version = self._version.next(since=since)
        yield folded(found, self._columns)

    def _fold(
        self, watermark: int, reached: int, *, late: int, renews: bool = False
    ) -> list[Mapping[str, int]]:
        """Fold what takes effect after the watermark, up to `reached`; renews: a term begins at it."""
        from pyspark import StorageLevel  # noqa: PLC0415  (loaded when first used)

        version, layout = self._version, self._columns
        again = bool(version.state) and (bool(self._begun) or renews)
        alone = not version.waiting and not again and not renews
        in_order = alone and len(self._fresh) == 1 and self._fresh[0].in_order
        plain = not layout.flows and not layout.owned and layout.program.terms is None
        first = in_order and not version.state and plain
        kept: list[DataFrame] = []

        def keep(statement: str, name: str) -> str:
            kept.append(self._spark.sql(statement).persist(StorageLevel.MEMORY_AND_DISK))
            return self._named(kept[-1], f"{name}{len(kept)}")

        frames = [*map(self._waiting, version.waiting)]
        frames += [one.frame for one in self._fresh] if first else self._arriving()
        if again:
            rows = layout.again(self._named(self._newest(), "all"), self._begun, every=renews)
            frames.append(self._spark.sql(rows))
        kinds = (OwnedFold, OwnedTermFold) if layout.owned else (Fold, TermFold)
        general, fold = (
            one(
                layout, watermark=watermark, reached=reached, since=version.since, late=late,
                in_order=in_order, known=bool(version.state),
            )
            for one in (kinds[0], FirstFold if first else kinds[renews])
        )  # fmt: skip
        totals: list[Mapping[str, int]] = []
        written: list[DataFrame] = []
        number = version.number + 1
        waiting: tuple[str, ...] = ()
        if frames or (layout.owned and version.state):
            whole = self._union(frames or [self._spark.sql(layout.no_changes())])
            if layout.owned:
                kept.append(whole := whole.persist(StorageLevel.MEMORY_AND_DISK))
            every = self._named(whole, "waiting")
            timed = self._named(self._spark.sql(fold.timed(every)), "timed")
            rest = f"waiting-{number:08d}"
            over = in_order and (self._fresh[0].upto or reached + 1) <= reached  # none can go on waiting
            if not over and self.files.write(self._spark.sql(fold.later(timed)), rest):
                waiting = (rest,)
            known = self._known(timed, reached, fold) if version.state else None
            parts = [(fold, timed)]
            if first and (heavy := self._heavy(every)):
                large = self._named(self._spark.sql(general.timed(heavy[1])), "large_timed")
                parts = [(fold, heavy[0]), (general, large)]
            for one, changes in parts:
                decided = one.kept(changes, known, keep)
                totals += self._collected(one.totals(decided))
                written.append(self._spark.sql(one.new_state(decided)))
        if version.state and isinstance(fold, Fold) and fold.some_leave and not renews:  # there, all change
            leaving = self._leaving(fold, timed if frames else None, reached)
            totals += self._collected(fold.left_totals(leaving))
            written.append(self._spark.sql(fold.left_state(leaving)))
        segments = version.state
        if written:
            segments = self._write_state(self._union(written), number, divided=first)
        for frame in kept:
            frame.unpersist()
        self._version, self._fresh = version.next(state=segments, waiting=waiting), []
        self._begun = frozenset()
        return totals

    def _leaving(self, fold: Fold, timed: str | None, reached: int) -> str:
        """The state of the units that must leave and do not change."""
        anti = ""
        if timed is not None:
            due = self._spark.sql(f"SELECT DISTINCT unit FROM {timed} WHERE instant <= {reached}L")
            anti = f" AND unit NOT IN (SELECT unit FROM {self._named(due, 'touched')})"
        state = self._named(self._newest(), "known_all")
        return self._named(self._spark.sql(f"SELECT * FROM {state} WHERE ({fold.leaves()}){anti}"), "leaving")

    def _arriving(self) -> list[DataFrame]:
        """The changes that arrived in this tick, as they wait."""
        layout, version = self._columns, self._version
        if not layout.owned or not self._fresh:
            return [one.named for one in self._fresh]
        fresh = self._named(self._union([one.frame for one in self._fresh]), "fresh")
        waiting, state = None, None
        if version.waiting:
            waiting = self._named(self._union([*map(self._waiting, version.waiting)]), "earlier")
        if version.state:
            state = self._named(self._newest(), "all")
        known = self._named(self._spark.sql(latest(fresh, waiting, state)), "latest")
        return [self._spark.sql(resolved(layout, fresh, known))]

    def _heavy(self, waiting: str) -> tuple[str, str] | None:
        """The changes without those of units that have very many, and these; None: no unit has."""
        units = self._spark.sql(heavy_units(waiting))
        found = units.toArrow()  # as rows they would come back through a process of Python
        if not found.num_rows:
            return None
        listed = self._named(self._spark.createDataFrame(found), "heavy")
        join = f"{listed} ON {waiting}.unit <=> {listed}.unit"
        light = self._spark.sql(f"SELECT * FROM {waiting} LEFT ANTI JOIN {join}")
        large = Fresh(self._spark.sql(f"SELECT * FROM {waiting} LEFT SEMI JOIN {join}"), True, None)
        return self._named(light, "light"), self._named(large.named, "large")

    def _union(self, frames: Sequence[DataFrame]) -> DataFrame:
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionByName(frame)
        return whole

    def _newest(self) -> DataFrame:
        """The state: of several rows of a unit, that of the last folder."""
        names, columns = self._version.state, ", ".join(self._columns.state())
        if len(names) == 1:
            return self._segment(names[0])
        whole = self._union(
            [self._segment(name).selectExpr("*", f"{n} AS folder") for n, name in enumerate(names)]
        )
        view = self._named(whole, "segments")
        return self._spark.sql(  # a folder has all rows of a unit, or none
            f"SELECT {columns} FROM {view} QUALIFY rank() OVER (PARTITION BY unit ORDER BY folder DESC) = 1"
        )

    def _segment(self, name: str) -> DataFrame:
        if name.startswith(PREFIX):
            return state_of(self._spark, self.files.place(name), self._columns)
        found = self.files.read(name)
        if set(found.columns) >= set(self._columns.state()):
            return found
        return self._spark.sql(
            self._columns.widened_state(
                self._named(found, "segment_" + name.replace("-", "_")), found.columns
            )
        )

    def _waiting(self, name: str) -> DataFrame:
        """Changes that wait in a folder."""
        found = self.files.read(name)
        if set(found.columns) >= set(self._columns.changes()):
            return found
        view = self._named(found, "waits_" + name.replace("-", "_"))
        return self._spark.sql(self._columns.widened_changes(view, found.columns))

    def _known(self, timed: str, reached: int, fold: Fold | OwnedFold | TermFold) -> str:
        """The state of the units that change; where units own rows, also of those that must leave."""
        state = self._named(self._newest(), "known_all")
        leaving = f" UNION SELECT unit FROM {state} WHERE {fold.leaves()}" if self._columns.owned else ""
        due = f"(SELECT DISTINCT unit FROM {timed} WHERE instant <= {reached}L{leaving})"
        return self._named(
            self._spark.sql(f"SELECT * FROM {state} LEFT SEMI JOIN {due} USING (unit)"), "known"
        )

    def _write_state(self, fresh: DataFrame, number: int, *, divided: bool) -> tuple[str, ...]:
        """Write the new rows of the state; many folders become one.  divided: one part has each unit."""
        name, before = f"state-{number:08d}", self._version.state
        if not self.files.write(fresh, name, by_unit=not divided):
            return before
        if len(before) < _SEGMENTS:
            return (*before, name)
        whole = f"state-{number:08d}-whole"
        kept, self._version = self._version, Version(state=(*before, name))
        self.files.write(self._newest(), whole, by_unit=True)
        self._version = kept
        return (whole,)

    def _collected(self, statement: str) -> list[Mapping[str, int]]:
        return [row.asDict() for row in self._spark.sql(statement).collect()]

    def _named(self, frame: DataFrame, name: str) -> str:
        self._names.add(name)
        frame.createOrReplaceTempView(self._view(name))
        return self._view(name)

    def _view(self, name: str) -> str:
        return f"{self._name}_{name}"

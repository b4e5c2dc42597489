"""A whole history, from the source to sums and state, for the programs that `can_fold` (views.py) accepts.

    scan      every change: its time, key, the values that releases use (as the number of a distinct row)
    divide    by a hash of the key, in memory or on disk
    enforce   each part by itself, sorted by key and time, so that all changes of a unit are together
    sum       per bin and contribution, then per release and cell

Blocks and parts are worked on by as many threads as there are processors.  The order in which they finish
has no effect: sums are sums of integers, and parts have no unit in common.
"""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from tidegauge.engine.duckdb.past.bins import bins_of
from tidegauge.engine.duckdb.past.digests import Digests
from tidegauge.engine.duckdb.past.distinct import DistinctRows
from tidegauge.engine.duckdb.past.enforce import ALIVE, BEFORE, INFORMED, Log, Rules, Versions, enforce
from tidegauge.engine.duckdb.past.flows import flows_of
from tidegauge.engine.duckdb.past.parts import Part, Texts, different, divided, named, together, unstamped
from tidegauge.engine.duckdb.past.segments import Seen
from tidegauge.engine.duckdb.past.shuffle import Changes, Shuffle, narrow, parts_of, size_of
from tidegauge.engine.duckdb.past.stamps import stamped
from tidegauge.engine.duckdb.past.state import PastState
from tidegauge.engine.duckdb.past.terms import Terms, enforce_terms
from tidegauge.engine.duckdb.past.threads import in_turn
from tidegauge.engine.duckdb.past.totals import totals
from tidegauge.engine.duckdb.past.views import PastViews
from tidegauge.engine.duckdb.past.work import Work, say
from tidegauge.engine.duckdb.render import quote
from tidegauge.engine.duckdb.views import NEVER, arrow_schema
from tidegauge.model.program import Folded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import duckdb
    from numpy.typing import NDArray

    from tidegauge.engine.duckdb.past.enforce import Enforced, Ints
    from tidegauge.engine.duckdb.past.shuffle import Column
    from tidegauge.engine.duckdb.views import Views
    from tidegauge.model.history import History, Keeper, Report
    from tidegauge.model.program import Program, Scope


_HASHES: Final = {"hashes": "((hash(new) >> 32) & 4294901760 | (hash(old) >> 48))::UINTEGER"}
"""16 bits of each row: enough to count, for the operator, old rows that differ from the known ones."""
_OF_KEY: Final = 8
"""Bit of `flags`, behind those that enforcement uses: see `Digests.of_key`."""
UNOWNED: Final = 16
"""Bit of `flags`: the new row is there, but no unit owns it; then ALIVE is not set."""
_UNOWNED_BIT: Final = 4
_FEW: Final = 1 << 27
"""Numbers of distinct rows below this fit into 32 bits, with flags."""


class Past:
    """Folds one history; `columns`: the columns that the program uses, name -> SQL type."""

    _owned: ClassVar[bool] = False
    """Whether units own several rows."""

    def __init__(
        self, db: duckdb.DuckDBPyConnection, program: Program, views: Views, columns: Mapping[str, str]
    ) -> None:
        self._db, self._program, self._views, self._columns = db, program, views, columns
        self._sql = PastViews(views, columns)
        self._threads = max(1, min(os.cpu_count() or 1, 16))
        self.arrivals = 0

    def fold(
        self,
        history: History,
        *,
        reached: int,
        report: Report,
        keeper: Keeper | None = None,
        write: Callable[[pa.Table], None] | None = None,
    ) -> Iterator[Folded]:
        """The result of the history, in parts that have no unit in common.

        `keeper`: keeps what is finished of a history that is divided on disk, so that the next fold of it
        continues.  `write`: takes the stamped changes of each part of the history, before the first result.
        """
        self._terms = Terms.of(self._program.terms, reached)
        with ExitStack() as held:
            pool = held.enter_context(ThreadPoolExecutor(self._threads))
            digests = Digests(self._db, history, self._columns, self._threads, owner=self._program.owner)
            selected = self._selected(history, parts_of(history.rows), digests)
            work = Work(history, keeper, selected, size=size_of(history, owned=self._owned))
            held.callback(work.close)
            shuffle = Shuffle(history.rows, files=work.files, intact=work.intact)
            held.callback(shuffle.close)
            self._hold(history, held)
            before = work.arrivals(shuffle)
            blocks = history.scan(selected) if before is None else ()
            self.arrivals = before or 0
            earliest, combinations = self._divide(history, blocks, shuffle, digests, pool, report=report)
            rules = self._prepare()
            ends = self._bins(earliest, reached)
            outside = self._numbers("SELECT outside FROM pictures ORDER BY number")
            kept = work.results(self.arrivals, before, rules=rules, outside=outside, ends=ends)
            results = None if self._owned else kept  # its changes by unit, the other half, are not kept
            if results is not None and results.found:
                say(report, f"{len(results.found)} of {shuffle.parts} parts are done")

            def result(number: int) -> Part | None:
                if results is not None and (known := results.get(number)) is not None:
                    return known
                part = shuffle.part(number)
                if part is None:
                    return None
                changes = Changes(**part, bits=shuffle.bits)
                found = self._enforced(changes, rules, outside, ends, reached, stamp=write is not None)
                if results is not None:
                    results.put(number, found)
                return found

            found = []
            for number, part in enumerate(in_turn(pool, self._threads, result, range(shuffle.parts))):
                if part is not None:
                    found.append(unstamped(part, write))
                report(6 * shuffle.parts + 3 * (number + 1), 10 * shuffle.parts)
            shuffle.close()
            work.enforced()
            more = self._rest(rules, ends, reached, pool, stamp=write is not None)
            found += [unstamped(part, write) for part in more]
            found = digests.prepare(combinations, found, pool)
            report(1, 1)
            yield from self._folded(found, rules, digests, pool)

    # -- reading ---------------------------------------------------------------------------------------------

    def _hold(self, history: History, held: ExitStack) -> None:
        """Make what else is needed for the history, until `held` is closed."""

    def _selected(self, history: History, parts: int, digests: Digests) -> dict[str, str]:
        """The columns that the fold needs of every change, with their SQL."""
        columns = {
            "time": "time",
            "key": "key",
            "flags": " | ".join(
                f"(({when})::UTINYINT << {bit.bit_length() - 1})"
                for bit, when in {
                    ALIVE: "alive",
                    INFORMED: "informed",
                    BEFORE: "informed AND existed",
                    _OF_KEY: digests.of_key(),
                }.items()
            ),
        }
        if history.key == "VARCHAR":
            columns["part"] = f"(hash(key) % {parts})::UTINYINT"
        if history.informed:
            columns |= _HASHES
        for n, (name, kind) in enumerate(self._columns.items()):
            columns[f"u{n}"] = f"TRY_CAST(new.{quote(name)} AS {kind})"
        return columns

    def _divide(
        self,
        history: History,
        blocks: Iterable[pa.RecordBatch],
        shuffle: Shuffle,
        digests: Digests,
        pool: ThreadPoolExecutor,
        *,
        report: Report,
    ) -> tuple[int | None, pa.Table]:
        """Read every change once; returns the time of the earliest, and the distinct rows.

        `blocks`: all changes; none if all of them were divided before.
        """
        distinct = DistinctRows()
        distinct.restore([table for seen in shuffle.seen for table in seen.combinations])
        earliest = min((seen.earliest for seen in shuffle.seen), default=None)
        digests.follow &= all(seen.follow for seen in shuffle.seen)
        number = np.int32 if distinct.count + history.rows < _FEW else np.int64
        if not self.arrivals and shuffle.divided:
            share = 100 * shuffle.divided // max(1, history.rows)
            say(report, f"{share} % of its changes are divided")

        def numbered() -> Iterator[tuple[pa.RecordBatch, int]]:
            for block in blocks:
                for first, count in shuffle.missing(self.arrivals, block.num_rows):
                    yield block.slice(first - self.arrivals, count), first
                self.arrivals += block.num_rows
                report(6 * self.arrivals, 10 * max(1, history.rows, self.arrivals))

        def work(one: tuple[pa.RecordBatch, int]) -> int:
            block, first = one
            flags, time, key = block["flags"].to_numpy(), block["time"].to_numpy(), narrow(block["key"])
            codes, first_code, rows = distinct.number([block[name] for name in self._values()], len(flags))
            version: NDArray[Any] = codes.astype(number)
            version += number(first_code)
            version <<= 3
            if not np.bitwise_and.reduce(flags) & ALIVE:
                version *= flags & ALIVE | flags >> _UNOWNED_BIT
            version |= flags & (_OF_KEY - 1)
            columns: dict[str, Column] = {"time": time, "key": key, "version": version}
            columns |= {name: block[name].to_numpy() for name in _HASHES if history.informed}
            columns |= self._owners(block)
            if not np.bitwise_and.reduce(flags) & _OF_KEY and ((flags & (_OF_KEY | ALIVE)) == ALIVE).any():
                digests.follow = False
            part = block["part"].to_numpy() if "part" in block.schema.names else divided(key, shuffle.parts)
            least = int(time.min())
            shuffle.add(columns, part, first, Seen(((first, len(flags)),), (rows,), least, digests.follow))
            return least

        for time in in_turn(pool, self._threads, work, numbered()):
            earliest = time if earliest is None else min(time, earliest)
        shuffle.finish()
        combinations = distinct.table()
        if combinations is None:
            combinations = pa.table({name: pa.nulls(0) for name in ("number", *self._values())})
        self._made("combinations", combinations, self._sql.pictures())
        return earliest, combinations

    def _owners(self, block: pa.RecordBatch) -> dict[str, Column]:  # noqa: ARG002
        """More columns of the changes: whose each is."""
        return {}

    def _values(self) -> list[str]:
        """The columns of a scan that have the used values."""
        return [f"u{n}" for n in range(len(self._columns))]

    # -- enforcing -------------------------------------------------------------------------------------------

    def _prepare(self) -> list[Rules]:
        """The contributions of all distinct rows, and the constraint of every scope."""
        rules = []
        for s, scope in enumerate(self._program.scopes):
            self._db.execute(self._sql.contributions(s, scope))
            self._db.execute(self._sql.parts(s, scope))
            codes = self._numbers(self._sql.codes(s, scope)).astype(np.int32)
            flows = flows_of(self._db, self._views, s, scope, int(codes.max(initial=0)) + 1)
            rules.append(replace(self._rules(scope, codes), flows=flows))
        return rules

    def _rules(self, scope: Scope, codes: NDArray[np.int32]) -> Rules:
        texts: Sequence[str | None] = [None]
        labels = None
        if scope.by is not None:
            column = f"label{self._views.labels.index(scope.by)}"
            found = self._db.sql(f"SELECT {column} AS label FROM pictures ORDER BY number").to_arrow_table()
            encoded = found["label"].combine_chunks().dictionary_encode()
            labels, texts = encoded.indices.to_numpy().astype(np.int32), encoded.dictionary.to_pylist()
        allowances = dict(scope.allowances)

        def per_label(name: str) -> Ints:
            found = (getattr(allowances.get(text), name, None) for text in texts)
            return np.array([NEVER if one is None else min(one, NEVER) for one in found], np.int64)

        declared = np.array([text in allowances for text in texts], bool)
        return Rules(
            codes, labels, tuple(texts), per_label("at_most"), per_label("within"), declared, scope.retire
        )

    def _bins(self, earliest: int | None, reached: int) -> Ints:
        """The ends of all bins, of any release, that contain times of the history; makes `places`."""
        ends, places = bins_of(self._program, earliest, reached)
        self._made("found", places, "CREATE OR REPLACE TEMP TABLE places AS FROM found")
        return ends

    def _enforced(
        self, part: Changes, rules: Sequence[Rules], outside: Ints, ends: Ints, reached: int, *, stamp: bool
    ) -> Part:
        rows = Versions.of(Log.of(part, ends), part)
        exists = np.flatnonzero(rows.last & rows.alive)
        enforced = [
            enforce(rows, one, ends=ends, reached=reached, stamp=stamp)
            if self._terms is None
            else enforce_terms(rows, one, self._terms, ends, stamp=stamp)
            for one in rules
        ]
        return Part(
            rows.keys,
            rows.key[exists],
            rows.picture[exists],
            part.row[rows.place[exists]],
            tuple(replace(of_scope, stamps=None) for of_scope in enforced),
            rows.counts,
            int(outside[part.version >> 3].sum()) if outside.any() else 0,
            stamps=tuple(
                stamped(s, named(pa.array(rows.keys)), of_scope.stamps) for s, of_scope in enumerate(enforced)
            )
            if stamp
            else (),
        )

    def _rest(
        self,
        rules: Sequence[Rules],  # noqa: ARG002
        ends: Ints,  # noqa: ARG002
        reached: int,  # noqa: ARG002
        pool: ThreadPoolExecutor,  # noqa: ARG002
        *,
        stamp: bool,  # noqa: ARG002
    ) -> Iterable[Part]:
        """More parts, after those of all keys."""
        return ()

    # -- the result ------------------------------------------------------------------------------------------

    def _folded(
        self, parts: Sequence[Part], rules: Sequence[Rules], digests: Digests, pool: ThreadPoolExecutor
    ) -> Iterator[Folded]:
        """The results of all parts, small parts together; the first result has the sums and counts of all."""
        enforced = [part.enforced for part in parts if part.enforced]
        for s, one in enumerate(rules):
            self._net(s, one, [each[s] for each in enforced])
        scopes = len(rules)
        counts = Counter({"outside_domain": sum(part.outside for part in parts), "dropped": 0})
        for part in parts:
            counts.update(part.counts)
            counts["dropped"] += sum(one.dropped for one in part.enforced)
        texts = [self._excess(s, rules[s], [each[s] for each in enforced]) for s in range(scopes)]
        pictures = self._db.sql(self._sql.stored()).to_arrow_table()
        layout = self._views.layout
        state = PastState(layout, rules, texts, pictures, digests, terms=self._terms)
        named = [name for name in ("entry", "unit") if name in layout.entries]
        gone = arrow_schema(layout.entries).empty_table().select(named)
        used = arrow_schema(layout.used).empty_table()

        names = [release.name for release in self._program.releases]
        summed = pool.submit(totals, self._db, scopes, names)  # meanwhile the first tables are made
        for number, (entries, units) in enumerate(self._tables(state, parts, pool)):
            accepted, dropped = summed.result() if number == 0 else ([], [])
            yield Folded(
                totals=accepted,
                entries=entries,
                gone=gone,
                units=units,
                used=used,
                counts=dict(counts),
                dropped=dropped,
            )
            counts = Counter()

    def _tables(
        self, state: PastState, parts: Sequence[Part], pool: ThreadPoolExecutor
    ) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Tables of rows and of counters."""
        return in_turn(pool, self._threads, state.tables, together(parts))

    def _net(self, s: int, rules: Rules, enforced: Sequence[Enforced]) -> None:
        """Make `net_s`."""
        tables = []
        for of_scope in enforced:
            for (places, times), accepted, true in (
                (of_scope.accepted_changes, 1, 1), (of_scope.other_changes, 0, 1), (of_scope.exits, 1, 0)
            ):  # fmt: skip
                moved = {"place": places, "accepted": accepted * times, "true_": true * times}
                tables.append(pa.table(moved))
        empty = {name: pa.array([], pa.int64()) for name in ("place", "accepted", "true_")}
        self._made(
            "moved",
            pa.concat_tables([pa.table(empty), *tables]),
            self._sql.net(s).replace("$width", str(rules.width)),
        )

    def _excess(self, s: int, rules: Rules, enforced: Sequence[Enforced]) -> Texts:
        """The text of `units.excess` for each pair of contributions (true and accepted) that differ."""
        pairs = different(enforced, rules.width)
        true, accepted = np.divmod(pairs, rules.width)
        self._db.register("pairs", pa.table({"number": pairs, "true_": true, "accepted": accepted}))
        texts = self._db.sql(self._sql.excess(s)).to_arrow_table()
        self._db.unregister("pairs")
        return Texts(rules.width, texts["number"].to_numpy(), texts["excess"].combine_chunks())

    def _numbers(self, statement: str) -> Ints:
        """One column of integers."""
        found: Ints = self._db.sql(statement).to_arrow_table().column(0).to_numpy().astype(np.int64)
        return found

    def _made(self, name: str, table: pa.Table, statement: str) -> None:
        """Run a statement that makes a table from `table`, which it finds under this name."""
        self._db.register(name, table)
        self._db.execute(statement)
        self._db.unregister(name)

"""How the fold of whole histories scales: raw and stamped, many releases and groups, hard keys, processors.

    python -m bench.scale [--quick] [--large] [--only sizes shapes processors] [--folder FOLDER] [--docs]

`sizes`       a whole history of 1 and 10 million changes (--large: 100 million as well): the GROUP BY without
              privacy, a scan, the raw fold, `tidegauge stamp` and the fold of what it wrote; changes
              a second, peak memory, ratios to GROUP BY, growth exponents.
`shapes`      1 million changes (10 million units with --large): 100 releases, 100,000 groups, a constraint
              that renews, a flow, units of three rows, a unit that owns 10,000 rows, keys of which few have
              most changes, one change a row; each beside its own GROUP BY.  Units of several rows with
              10 million changes as well.
`processors`  the raw fold on all processors and on one.

Every measurement runs in a process of its own, --rounds times in turn with the others; the fastest counts.
--processors counts seconds of all processors instead of the clock, for a machine that does other work at the
same time.  --quick: small sizes, one round.  --docs writes what was measured into docs/scaling.md.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import duckdb

import tidegauge as tg
from bench import throughput
from bench.machine import machine, peak_memory
from bench.result import Ratio, Result, Table, markdown, options, say
from tidegauge.engine.registry import open_engine
from tidegauge.source.files.source import Files
from tidegauge.store.secret.stamped import open_stamped

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).parents[1]
MILLION: Final = 1_000_000
DAY: Final = 86_400_000_000
BEGIN, END = "<!-- scale -->", "<!-- end of scale -->"
START: Final = 1_735_689_600_000_000


class Measured(NamedTuple):
    """One piece of work: seconds, seconds of processors of the whole process, peak GiB."""

    seconds: float
    processors: float
    memory: float


@dataclass(frozen=True)
class Shape:
    """A changelog, and releases over it, that are hard in one way."""

    title: str
    key: str = "hash(i * 7 + 1) % {rows}"
    group: str = "'g' || lpad((hash(i * 13 + 5) % 50)::VARCHAR, 2, '0')"
    unit: str | None = None
    days: int = 100
    releases: int = 1
    groups: int = 50
    changes_a_row: int = 10
    source: Mapping[str, Any] = field(default_factory=dict)
    """More keys of [source]."""
    constraint: Mapping[str, Any] = field(default_factory=dict)
    """More keys of [constraint]."""
    flow: str | None = None
    """The SQL of one more release, a flow."""

    def invent(self, path: Path, changes: int) -> None:
        """Write the changelog, in the order of time, with new values alone."""
        rows = max(1, changes // self.changes_a_row)
        owner = "" if self.unit is None else f", ({self.unit.format(rows=rows)})::BIGINT AS after_person"
        with duckdb.connect() as db:
            db.execute(f"""
                COPY (SELECT make_timestamp({START} + (i * {self.days * DAY // changes})::BIGINT) AS time,
                             ({self.key.format(rows=rows)})::BIGINT AS id, {self.group} AS after_region{owner}
                      FROM range({changes}) AS numbers(i)) TO '{path}' (FORMAT parquet)""")

    def gauge(self, path: Path, store: Path) -> tg.Gauge:
        every = {"start": "2025-01-01", "every": "1 day", "for": f"{self.days} days", "strategy": "disjoint"}
        names = [f"g{n:02d}" for n in range(50)]
        if self.groups > len(names):
            names = [f"g{n}" for n in range(self.groups)]
        releases: dict[str, Any] = {
            "by_region": {"sql": throughput.SQL, "groups": {"region": names}, **every}
        }
        for n in range(1, self.releases):
            some = ", ".join(f"'g{(n + step) % 50:02d}'" for step in range(n % 7 + 1))
            releases[f"some_{n}"] = {"sql": f"SELECT COUNT(*) FROM people WHERE region IN ({some})", **every}
        if self.flow is not None:
            releases["moved"] = {"sql": self.flow, **every}
        return tg.Gauge(
            source={"kind": "files", "path": str(path), "table": "people", "time": "time", "key": "id",
                    "after": "after_", **self.source},
            constraint={"at_most": 8, **self.constraint},
            budget={"rho": "1/8"},
            releases=releases,
            store=store,
        )  # fmt: skip


ROWS_OF_ONE: Final = 10_000
SHAPES: Final = {
    "one": Shape("one release, 50 groups"),
    "releases": Shape("100 releases", releases=100),
    "groups": Shape("100,000 groups", group="'g' || (hash(i * 13 + 5) % 100000)", groups=100_000, days=5),
    "skewed": Shape("skewed keys", key="floor({rows} ** (hash(i * 7 + 1) / 18446744073709551616.0)) - 1"),
    "once": Shape("one change a row", key="i", changes_a_row=1),
    "renewed": Shape("a constraint that renews every 30 days", constraint={"renews": "30 days"}),
    "flow": Shape(
        "one release and a flow",
        flow="SELECT COUNT(*) FROM changes(people) WHERE before.region = 'g01' AND after.region <> 'g01'",
    ),
    "family": Shape(
        "units of three rows",
        unit="hash(i * 7 + 1) % {rows} // 3",
        source={"unit": "person", "max_rows": 3},
    ),
    "owner": Shape(
        "a unit with 10,000 rows",
        unit=f"CASE WHEN hash(i * 7 + 1) % {{rows}} < {ROWS_OF_ONE} THEN -1 ELSE hash(i * 7 + 1) % {{rows}} "
        "END",
        source={"unit": "person", "max_rows": 3},
    ),
}
SEVERAL: Final = ("family", "owner")
"""Shapes whose units own several rows: measured with ten times as many changes as well."""


def grouped(path: Path) -> float:
    """Seconds of the GROUP BY without privacy over new values: rows a day and group."""
    with duckdb.connect() as db:
        begin = time.perf_counter()
        db.sql(
            f"SELECT time::DATE AS day, after_region, count(*) FROM '{path}' GROUP BY ALL"
        ).to_arrow_table()
        return time.perf_counter() - begin


def folded(shape: Shape, path: Path, folder: Path) -> float:
    """Seconds from the file to sums and state; planning and opening the engine apart."""
    planned = shape.gauge(path, folder / "plan.db").plan()
    reached = planned.releases[0].release.schedule.bin_end(shape.days)
    source = Files(str(path), time="time", key="id", table="people", after="after_",
                   unit=shape.source.get("unit"))  # fmt: skip
    source.select(planned.program.wanted(source.columns))
    return throughput.first_fold(planned, source, reached, Nothing())


class Nothing(throughput.Empty):
    """The state of a store that has nothing, for programs that go through the statements of a tick."""

    def any_keys(self) -> bool:
        return False

    def keys(self, _: object) -> dict[str, object]:
        return {}

    def __getattr__(self, name: str) -> Any:
        """Empty tables of the state; the engine selects its columns."""
        return lambda *_: NoRows()


class NoRows:
    """A table of the state without rows, with whatever columns are asked for."""

    def select(self, names: list[str]) -> Any:
        import pyarrow as pa  # noqa: PLC0415

        return pa.table({name: pa.nulls(0) for name in names})


def stamp(path: Path, folder: Path) -> float:
    """Seconds of `tidegauge stamp`; planning included.  Keeps the folder beside the changelog."""
    output = path.with_suffix(".stamped")
    shutil.rmtree(output, ignore_errors=True)
    gauge = throughput.gauge(path, folder / "stamp.db")
    begin = time.perf_counter()
    gauge.stamp(output)
    return time.perf_counter() - begin


def stamped(path: Path, folder: Path) -> float:
    """Seconds from the stamped folder to sums and state: every byte is checked, the state is loaded."""
    planned = throughput.gauge(path, folder / "plan.db").plan()
    with open_engine("duckdb", planned.program, planned.columns) as engine:
        gc.collect()  # what planning left behind
        begin = time.perf_counter()
        found = open_stamped(path.with_suffix(".stamped"), plan=planned.hash, layout=engine.layout.tables())
        for _ in engine.fold_stamped(found, state=throughput.Empty()).parts:  # type: ignore[attr-defined]
            pass
        return time.perf_counter() - begin


def work(what: str, path: Path, scratch: Path) -> float:
    """Carry one piece of work out, in this process."""
    if what == "alone":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        return throughput.fold(path, scratch)
    if what in throughput.WORK:
        return throughput.WORK[what](path, scratch)
    if what in SHAPES:
        return folded(SHAPES[what], path, scratch)
    return {"grouped": lambda: grouped(path), "stamp": lambda: stamp(path, scratch),
            "stamped": lambda: stamped(path, scratch)}[what]()  # fmt: skip


PROCESSORS: Final = [option for option in sys.argv[1:] if option == "--processors"]


def in_turn(wanted: Mapping[str, Path], rounds: int) -> dict[str, Measured]:
    """Every piece of work in a process of its own, in turn, so many times; the fastest of each."""
    best: dict[str, Measured] = {}
    for _ in range(rounds):
        for what, path in wanted.items():
            command = [
                sys.executable,
                "-m",
                "bench.scale",
                "--one",
                what,
                "--folder",
                str(path.resolve()),
                *PROCESSORS,
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
            if done.returncode:
                sys.exit(done.stderr)
            found = Measured(*map(float, done.stdout.split()[-3:]))
            if what not in best or found.seconds < best[what].seconds:
                best[what] = found
    return best


def kept(folder: Path, name: str, make: Any) -> Path:
    """A changelog, invented once."""
    path = folder / name
    if not path.exists():
        part = path.with_suffix(".part")
        make(part)
        part.rename(path)
    return path


def seconds_of(found: Measured) -> list[str]:
    return [f"{found.seconds:.2f}", f"{found.memory:.2f} GiB"]


def sizes(folder: Path, counts: list[int], rounds: int) -> Result:
    """Histories of several sizes, raw and stamped."""
    names = {"plain": "GROUP BY without privacy", "scan": "scan of the file",
             "fold": "raw: from the file to sums and state", "stamp": "`tidegauge stamp`",
             "stamped": "[stamped](stamp.md): every byte checked, to sums and state"}  # fmt: skip
    known: dict[str, list[tuple[int, float]]] = {}
    rows, ratios = [], []
    for changes in counts:
        path = kept(folder, f"{changes}.parquet", lambda part, n=changes: throughput.invent(part, n))
        found = in_turn({"stamp": path}, 1) | in_turn(
            dict.fromkeys(("plain", "scan", "fold", "stamped"), path),
            rounds if changes < 100 * MILLION else 1,
        )
        for what, name in names.items():
            one = found[what]
            known.setdefault(what, []).append((changes, one.seconds))
            rows.append([f"{changes:,}", name, *seconds_of(one), f"{changes / one.seconds:,.0f}",
                         f"{one.seconds / found['plain'].seconds:.1f}"])  # fmt: skip
        for what, wanted in (("fold", 8.0), ("stamped", 2.0)):
            ratios.append(
                Ratio(f"{what}, {changes:,} changes", found[what].seconds, "GROUP BY",
                      found["plain"].seconds, "s", wanted if changes >= 10 * MILLION else None)
            )  # fmt: skip
        ratios.append(Ratio(f"fold, {changes:,} changes, memory", found["fold"].memory, "limit", 6, "GiB", 1))
    growth = [[names[what], f"{exponent(times):.2f}"] for what, times in known.items()]
    if counts[-1] >= 10 * MILLION:
        ratios += [
            Ratio(f"{what}, growth exponent from {counts[0]:,} to {counts[-1]:,}", exponent(known[what]),
                  "proportional", 1, "", 1.1)
            for what in ("fold", "stamped")
        ]  # fmt: skip
    head = ["changes", "what", "seconds", "peak memory", "changes a second", "times GROUP BY"]
    return Result("", "", ratios, [
        Table("Ten changes a row, 50 groups, 400 days, `at_most = 8`", head, rows),
        Table(f"Time grows, from {counts[0]:,} to {counts[-1]:,} changes, with the size to the power of",
              ["what", "power"], growth),
    ])  # fmt: skip


def exponent(times: list[tuple[int, float]]) -> float:
    """The power of the size with which the time grows."""
    (few, first), (many, last) = times[0], times[-1]
    return math.log(last / first) / math.log(many / few)


def shapes(folder: Path, changes: int, rounds: int, *, large: bool) -> Result:
    """Changelogs that are hard in one way, each beside its own GROUP BY."""
    alone = 0.0
    rows, ratios = [], []
    counts = [(name, 10 * MILLION if large and name == "once" else changes) for name in SHAPES]
    for name, count in [*counts, *((name, 10 * changes) for name in SEVERAL)]:
        shape = SHAPES[name]
        file = "one" if name in {"releases", "renewed", "flow"} else name
        path = kept(folder, f"{file}-{count}.parquet", lambda part, s=shape, n=count: s.invent(part, n))
        found = in_turn({"grouped": path, name: path}, rounds)
        alone = alone or found[name].seconds
        times = found[name].seconds / count / (alone / changes)
        rows.append([shape.title, f"{count:,}", *seconds_of(found[name]), f"{times:.1f}",
                     f"{found[name].seconds / found['grouped'].seconds:.1f}"])  # fmt: skip
        if name == "releases":
            ratios.append(Ratio("fold, 100 releases", found[name].seconds, "one release", alone, "s", 5))
        if name in SEVERAL and count > changes:
            ratios.append(
                Ratio(f"fold, {shape.title}, {count:,} changes", found[name].seconds, "GROUP BY",
                      found["grouped"].seconds, "s", 8 if count >= 10 * MILLION else None)
            )  # fmt: skip
    head = ["what", "changes", "seconds", "peak memory", "times one release, a change", "times GROUP BY"]
    return Result("", "", ratios, [Table("Hard changelogs: 100 days, new values alone", head, rows)])


def processors(folder: Path, changes: int, rounds: int) -> Result:
    """The raw fold on all processors and on one."""
    path = kept(folder, f"{changes}.parquet", lambda part: throughput.invent(part, changes))
    if not hasattr(os, "sched_setaffinity"):
        return Result("", "", absent={"one processor": "This system cannot bind a process to one."})
    found = in_turn({"fold": path, "alone": path}, rounds)
    rows = [
        [f"{len(os.sched_getaffinity(0))}", *seconds_of(found["fold"])],
        ["1", *seconds_of(found["alone"])],
    ]
    ratio = Ratio(f"fold, {changes:,} changes, all processors", found["fold"].seconds, "one processor",
                  found["alone"].seconds, "s")  # fmt: skip
    return Result("", "", [ratio], [
        Table(f"The raw fold of {changes:,} changes", ["processors", "seconds", "peak memory"], rows)
    ])  # fmt: skip


def write_docs(found: Result) -> None:
    """Put what was measured between the marks of docs/scaling.md."""
    path = ROOT / "docs" / "scaling.md"
    before, _, rest = path.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    here = ", ".join(f"{name} {value}" for name, value in machine().items())
    lines = f"Machine: {here}.\n\n{markdown(found)}".splitlines()
    text = "\n".join(line if line.startswith("|") else textwrap.fill(line, 110) for line in lines)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", "utf-8")


def main() -> int:
    parser = options(__doc__, quick="small sizes, one round")
    parts = ("sizes", "shapes", "processors")
    parser.add_argument("--large", action="store_true", help="100 million changes, 10 million units as well")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="keep the changelogs here")
    parser.add_argument("--processors", action="store_true", help="seconds of all processors, not the clock")
    parser.add_argument("--docs", action="store_true", help="write the figures into docs/scaling.md")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.processors:
        setattr(time, "perf_counter", time.process_time)  # noqa: B010  (bench.throughput has this clock)
    with tempfile.TemporaryDirectory() as scratch:
        if asked.one:
            seconds = work(asked.one, asked.folder, Path(scratch))
            print(seconds, time.process_time(), peak_memory())
            return 0
        folder, rounds = asked.folder or Path(scratch), 1 if asked.quick else asked.rounds
        few = MILLION // 10 if asked.quick else MILLION
        counts = [few, 10 * few, *([100 * MILLION] if asked.large else [])]
        work_of = {
            "sizes": lambda: sizes(folder, counts, rounds),
            "shapes": lambda: shapes(folder, few, rounds, large=asked.large),
            "processors": lambda: processors(folder, 10 * few, rounds),
        }
        found = [work_of[part]() for part in asked.only]
    clock = "Seconds of all processors" if asked.processors else "Seconds of the clock"
    whole = Result(
        "Scale",
        "Whole histories in Parquet, raw and stamped, beside the GROUP BY without privacy in the same "
        f"engine; each in a process of its own. {clock}, the fastest of {rounds} (100 million changes: "
        "once); start-up and planning apart, except for `tidegauge stamp`.",
        [ratio for one in found for ratio in one.ratios],
        [table for one in found for table in one.tables],
        absent={name: reason for one in found for name, reason in one.absent.items()},
    )
    if asked.docs:
        write_docs(whole)
    return say(whole, as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())

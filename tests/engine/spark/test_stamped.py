"""A stamped changelog in Spark: the sums and the state of the changelog itself, and a run that goes on."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.engine.harness import COLUMNS, START, batch_table, last_end
from tests.engine.spark.test_gauge import changes, gauge, read, written
from tests.engine.test_past import ENDS, TableHistory
from tests.engine.test_stamps import PLAN, WORLDS, stamped_result
from tests.engine.test_stamps import write as stamp
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.errors import SourceError, SpecError
from tidegauge.model.program import Allowance, Program, Release, Scope
from tidegauge.model.quantity import Span
from tidegauge.model.schedule import Schedule
from tidegauge.model.tick import NOTHING_YET
from tidegauge.store.secret.stamped import open_stamped

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tests.engine.harness import World
    from tidegauge.engine.spark.engine import SparkEngine
    from tidegauge.model.program import Folded

FILES = {"kind": "files", "path": "log.parquet"}


def sums(found: Folded) -> list[dict[Any, int]]:
    return [
        {(one.release, one.component, one.bin, one.cell): one.amount for one in totals if one.amount}
        for totals in (found.totals, found.dropped)
    ]


def portable(program: Program) -> Program:
    """The program in expressions that both engines render, with flows that see their own columns."""
    from tests.engine.spark.programs import QUERIES

    releases = tuple(
        replace(one, query=replace(QUERIES[one.name], own_columns=one.query.kind == "flow"))
        for one in program.releases
    )
    return replace(program, releases=releases, partial=())


def state(engine: SparkEngine, reached: int = 0) -> list[tuple[Any, ...]]:
    """The committed state in one form, without units of which nothing is left."""
    engine.resume(engine.version())
    found = engine._newest().collect() if engine._version.state else []
    rows = [plain(row.asDict(recursive=True), engine, reached) for row in found]
    numbered(rows)
    return sorted((tuple(sorted(row.items())) for row in rows if lives(row)), key=str)


def lives(row: dict[str, Any]) -> bool:
    counts = any(row[name] is not None for name in row if name[0] in "mx")
    return bool(row.get("alive") or row.get("entry") or counts)


def plain(row: dict[str, Any], engine: SparkEngine, reached: int) -> dict[str, Any]:
    """Without what nothing depends on: digests, labels of rows that do not exist, amounts without a cell.

    An end after the term is the same as none.
    """
    terms, exists = engine.program.terms, row.get("alive") or row.get("entry") is not None
    until = 2**63 - 1 if terms is None else terms.bin_end(terms.bin_at(reached + 1))
    found = {}
    for name, value in row.items():
        cell = {"a": f"a{name[1:2]}", "v": f"c{name[1:2]}"}.get(name[0])
        unused = "_" in name and cell is not None and row[cell] is None
        if name == "digest" or unused or (name.startswith("label") and not exists):
            continue
        found[name] = str(value) if name == "image" else value
        if name[0] == "e" and name != "entry" and value is not None:
            found[name] = 2**63 - 1 if value >= until else value
        if name[0] == "x":
            found[name] = tuple(sorted(tuple(one.items()) for one in value or ())) or None
    return found


def numbered(rows: list[dict[str, Any]]) -> None:
    """The places of rows that a unit got at one time become their numbers."""
    names = {name for row in rows for name in row if name.startswith("at")}
    for name in names:
        places = sorted((row["unit"], *row[name].values()) for row in rows if row[name] is not None)
        for row in rows:
            if row[name] is not None:
                row[name] = row[name]["since"], places.index((row["unit"], *row[name].values()))


def begun(world: World, reached: int, ending: str) -> pa.Table:
    """The changes up to this instant, in the order of time."""
    owned = world.program.max_rows is not None
    some = [one for one in world.mutations if one[0] <= reached]
    if ending == "later":
        some = [one for one in world.mutations if one[0] > reached]
    return batch_table(sorted(some, key=lambda one: one[0]), owned=owned)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "seed"),
    [(kind, seed) for kind in WORLDS for seed in (8001, 8003, 8004 if kind == "any" else 8000)],
)
@pytest.mark.usefixtures("spark")
def test_a_stamped_history_is_the_same_as_the_history(kind: str, seed: int, tmp_path: Path) -> None:
    """Its sums and state are those of the changelog, and what follows is the same as well."""
    from tidegauge.engine.spark.engine import SparkEngine

    world = WORLDS[kind](seed)
    program = world.program = portable(world.program)
    reached, end = last_end(program, START, 30), last_end(program, START, ENDS)
    assert reached is not None
    assert end is not None
    rows, more = (begun(world, reached, part) for part in ("first", "later"))
    with DuckEngine(program, COLUMNS) as engine:
        stamp(engine, TableHistory(rows, reached), tmp_path / "stamped")
    with DuckEngine(program, COLUMNS) as engine:
        embedded = stamped_result(tmp_path / "again")(engine, rows, reached).run
        stamped = open_stamped(tmp_path / "stamped", plan=PLAN, layout=engine.layout.tables())
    found = []
    for name in ("raw", "stamped"):
        with SparkEngine(program, COLUMNS) as spark:
            spark.keep_in(tmp_path / f"{name}.db")
            spark.resume(None)
            if name == "raw":
                spark.arrive(rows, state=None, now=10**9, arrivals=0)  # type: ignore[arg-type]
                (part,) = spark.fold(state=None, watermark=NOTHING_YET, reached=reached)  # type: ignore[arg-type]
            else:
                (part,) = spark.fold_stamped(stamped, state=None).parts  # type: ignore[arg-type]
            first = sums(part), state(spark, reached)
            spark.arrive(more, state=None, now=10**9, arrivals=rows.num_rows)  # type: ignore[arg-type]
            later = spark.fold(state=None, watermark=reached, reached=end)  # type: ignore[arg-type]
            found.append((*first, [sums(one) for one in later], state(spark, end)))
    for one, other in zip(*found, strict=True):
        assert one == other
    assert found[1][0][0] == embedded.sums


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_gauge_begins_with_a_stamped_changelog_and_goes_on(tmp_path: Path) -> None:
    for folder in (tmp_path / "plain", tmp_path / "again"):
        folder.mkdir()
        written(changes(3), folder / "log.parquet")
    plain = tmp_path / "plain"
    read(gauge(plain, FILES, "duckdb", "2026-01-06"))
    embedded = read(gauge(plain, FILES, "duckdb"))
    first = gauge(tmp_path / "again", FILES, "spark", "2026-01-06")
    assert list(first.run(stamped=first.stamp()))
    assert read(gauge(tmp_path / "again", FILES, "spark")) == embedded


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_changed_folder_is_refused(tmp_path: Path) -> None:
    written(changes(0, 40), tmp_path / "log.parquet")
    one = gauge(tmp_path, FILES, "spark")
    folder = one.stamp()
    with (folder / "rows.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(SourceError, match="changed or cut short"):
        list(one.run(stamped=folder))
    assert not (tmp_path / "spark.spark").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_stamps_of_an_encrypted_store_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would read Parquet itself, and keep the state in the clear."""
    monkeypatch.setenv("TIDEGAUGE_TEST_KEY", "7d" * 32)
    written(changes(0, 40), tmp_path / "log.parquet")
    with pytest.raises(SpecError, match="the engine 'spark' cannot read an encrypted stamped changelog"):
        gauge(tmp_path, FILES, "spark", key="env:TIDEGAUGE_TEST_KEY").stamp()
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


@pytest.mark.slow
def test_values_that_flows_look_at_are_those_of_the_row(spark: SparkSession, tmp_path: Path) -> None:
    """The embedded engine has them as JSON."""
    from tests.engine.spark.programs import QUERIES
    from tidegauge.engine.spark.layout import Layout
    from tidegauge.engine.spark.session import settled
    from tidegauge.engine.spark.stamped_state import StampedState

    rows: dict[str, list[str]] = {
        "VARCHAR": ["'a\"b\\u0041'", "''", "chr(1) || chr(10) || 'é😀'", "NULL"],
        "DOUBLE": ["'nan'", "'-inf'", "0.1", "1e300"],
        "FLOAT": ["0.1", "'inf'", "1e-40", "NULL"],
        "DECIMAL(30,5)": ["12345678901234567.12345", "-0.00001", "0", "NULL"],
        "UBIGINT": ["18446744073709551615", "0", "1", "NULL"],
        "BIGINT": ["-9223372036854775808", "9223372036854775807", "0", "NULL"],
        "BOOLEAN": ["true", "false", "NULL", "NULL"],
        "DATE": ["'2026-01-02'", "'0001-01-01'", "'9999-12-31'", "NULL"],
        "TIMESTAMP": ["'2026-03-29 01:30:00.123456'", "'0001-01-01'", "'9999-12-31 23:59:59.999999'", "NULL"],
    }
    columns = {f"Column {n}`": kind for n, kind in enumerate(rows)}
    query = replace(QUERIES["flow"], before=tuple(columns), after=tuple(columns), own_columns=True)
    schedule = Schedule(0, Span(micros=10))
    program = Program((Release("flow", query, schedule),), (Scope(("flow",), ((None, Allowance(2)),)),))
    layout = Layout(program, columns)
    with closing(duckdb.connect()) as db:
        fields = [
            ", ".join(
                f'"{name}" := CAST({values[n]} AS {kind})'
                for name, (kind, values) in zip(columns, rows.items(), strict=True)
            )
            for n in range(4)
        ]
        union = " UNION ALL ".join(
            f"SELECT {n} AS n, struct_pack({one}) AS row" for n, one in enumerate(fields)
        )
        made = db.sql(f"SELECT n, to_json(row)::VARCHAR AS image, row FROM ({union}) ORDER BY n")
        pq.write_table(made.to_arrow_table(), tmp_path / "rows.parquet")
    with settled(spark):
        spark.read.parquet(str(tmp_path / "rows.parquet")).createOrReplaceTempView("stamped_rows")
        names = [f"`{name.replace('`', '``')}`" for name in columns]
        kinds = [layout.columns[name] for name in columns]
        image = StampedState(layout, 0)._image(["image"])
        same = ", ".join(
            f"image.{name} <=> CAST(row.{name} AS {kind}) AS same{n}"
            for n, (name, kind) in enumerate(zip(names, kinds, strict=True))
        )
        found = spark.sql(f"SELECT {same} FROM (SELECT row, {image} AS image FROM stamped_rows)").collect()
    assert len(found) == 4
    assert [row.asDict() for row in found] == [{f"same{n}": True for n in range(len(columns))}] * 4

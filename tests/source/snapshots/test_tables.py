"""What only tables that are read whole can do to a source."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tests.source.life import State, applied
from tidegauge.errors import SourceError, SpecError
from tidegauge.source.postgres.reader import PostgresReader
from tidegauge.source.snapshots.history import History
from tidegauge.source.snapshots.place import Place
from tidegauge.source.snapshots.readers import DuckDBReader, ParquetReader, SQLiteReader
from tidegauge.source.snapshots.source import Snapshots

if TYPE_CHECKING:
    from tests.servers.postgres import Server
    from tidegauge.model.mutation import Source

END = 2**62


def write(path: Path, rows: list[dict[str, Any]], **kinds: pa.DataType) -> None:
    parquet.write_table(pa.Table.from_pylist(rows, pa.schema(list(kinds.items()))), path)


def read(source: Source, position: str | None, until: int = END) -> tuple[list[dict[str, Any]], str]:
    (batch,) = source.read(position, until)
    assert batch.upto == until
    return batch.rows.to_pylist(), batch.position


class TestReaders:
    def test_types_of_duckdb(self, tmp_path: Path) -> None:
        path = tmp_path / "a.duckdb"
        with closing(duckdb.connect(str(path))) as db:
            db.execute("""CREATE TABLE t AS SELECT
                          7::HUGEINT h, TIMESTAMPTZ '2026-01-01 12:00:00+02' z, 'a'::ENUM('a') e,
                          1::UTINYINT x, 1.5::DECIMAL(5,2) d, [1] l, 'x'::BLOB b,
                          TIMESTAMP_NS '2026-01-01 00:00:00.000001' n, NULL::DATE nothing""")
        reader = DuckDBReader(path, "t")
        assert list(reader.columns.values()) == ["DECIMAL(38,0)", "TIMESTAMP", "VARCHAR", "SMALLINT",
                                                 "DECIMAL(5,2)", "VARCHAR", "VARCHAR",
                                                 "TIMESTAMP", "DATE"]  # fmt: skip
        (columns,) = reader.scan(["h"], reader.columns)
        row = [str(column[0].as_py()) for column in columns]
        assert row == [
            "7",
            "7",
            "2026-01-01 10:00:00",
            "a",
            "1",
            "1.50",
            "[1]",
            "x",
            "2026-01-01 00:00:00.000001",
            "None",
        ]

    def test_what_is_not_there(self, tmp_path: Path) -> None:
        (tmp_path / "bad.parquet").write_text("no")
        with closing(sqlite3.connect(tmp_path / "a.db")) as db:
            db.execute("CREATE TABLE t (id INTEGER)")
        for reader in (DuckDBReader(tmp_path / "none", "t"), ParquetReader(tmp_path / "none.parquet"),
                       ParquetReader(tmp_path / "bad.parquet"),
                       SQLiteReader(tmp_path / "a.db", "none"),
                       SQLiteReader(tmp_path / "none", "t")):  # fmt: skip
            source = Snapshots(reader, key="id", folder=tmp_path)
            with pytest.raises(SourceError):
                read(source, None)
            assert not source.doctor()[0].ok
        for scan in (
            ParquetReader(tmp_path / "none.parquet").scan([], {"a": "DATE"}),
            SQLiteReader(tmp_path / "a.db", "t").scan(["x"], {}),
        ):
            with pytest.raises(SourceError, match="cannot be read"):
                list(scan)

    def test_damage_behind_the_first_rows_is_refused_without_quoting_a_value(self, tmp_path: Path) -> None:
        path, rows = tmp_path / "t.parquet", 250_000
        table = pa.table({"x": [f"secret {n:06}" for n in range(rows)]})
        parquet.write_table(table, path, use_dictionary=False, compression="none", row_group_size=50_000)
        content = bytearray(path.read_bytes())
        content[content.index(b"secret 249000") + 5] = 255
        path.write_bytes(content)
        with pytest.raises(SourceError, match="cannot be read") as error:
            list(ParquetReader(path).scan(["x"], {}))
        assert "249000" not in str(error.value)

    def test_a_view_of_postgres_needs_select_alone(
        self, postgres: Server, fresh: str, tmp_path: Path
    ) -> None:
        with postgres.connect() as connection:
            for statement in (
                f"CREATE SCHEMA {fresh}", f"CREATE TABLE {fresh}.t (id integer, c char(5))",
                f"INSERT INTO {fresh}.t VALUES (1, 'a'), (2, NULL)",
                f"CREATE VIEW {fresh}.v AS SELECT * FROM {fresh}.t", "CREATE ROLE viewer LOGIN",
                f"GRANT USAGE ON SCHEMA {fresh} TO viewer",
                f"GRANT SELECT ON {fresh}.v TO viewer",
            ):  # fmt: skip
                connection.execute(statement.encode())
            try:
                reader = PostgresReader(postgres.dsn(user="viewer"), "v", schema=fresh)
                rows, _ = read(Snapshots(reader, key="id", folder=tmp_path), None)
                assert [row["after"]["c"] for row in rows] == ["a", None]
                with pytest.raises(SourceError, match="SQLSTATE 42501"):
                    list(PostgresReader(postgres.dsn(user="viewer"), "t", schema=fresh).scan(["id"], {}))
                with pytest.raises(SourceError, match="there is no table"):
                    _ = PostgresReader(postgres.dsn(), "none", schema=fresh).columns
                with pytest.raises(SourceError, match="refuses the login"):
                    _ = PostgresReader(postgres.dsn(user="stranger"), "v", schema=fresh).columns
            finally:
                connection.execute("DROP OWNED BY viewer")
                connection.execute("DROP ROLE viewer")


class TestSnapshots:
    def table(self, path: Path, *rows: tuple[int | None, str | None, int | None]) -> Snapshots:
        write(
            path / "t.parquet",
            [dict(zip(("id", "name", "n"), row, strict=True)) for row in rows],
            id=pa.int64(),
            name=pa.string(),
            n=pa.int32(),
        )
        return Snapshots(
            ParquetReader(path / "t.parquet"), key="id", folder=path / "images", now=lambda: 1000
        )

    def test_only_what_changed(self, tmp_path: Path) -> None:
        source = self.table(tmp_path, (1, "a", 1), (2, "b", 2), (3, None, None))
        rows, position = read(source, None)
        assert [(row["time"], row["entry"], row["before"]) for row in rows] == [
            (1000, "1", None),
            (1000, "2", None),
            (1000, "3", None),
        ]
        source.acknowledge(position)
        source = self.table(tmp_path, (1, "a", 1), (2, "b", None), (4, "d", 4))
        rows, position = read(source, position)
        assert [(row["entry"], row["before"] and row["before"]["n"], row["after"] and row["after"]["n"],
                 row["informed"]) for row in rows] == [
            ("2", 2, None, True), ("3", None, None, True), ("4", None, 4, True),
        ]  # fmt: skip
        assert [row["after"] is None for row in rows] == [False, True, False]
        source.acknowledge(position)
        images = list((tmp_path / "images").iterdir())
        assert len(images) == 1
        assert images[0].stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "images").stat().st_mode & 0o777 == 0o700
        assert read(source, position)[0] == []

    def test_only_when_it_is_time(self, tmp_path: Path) -> None:
        self.table(tmp_path, (1, "a", 1))
        moment = [10_000_000]
        source = Snapshots(
            ParquetReader(tmp_path / "t.parquet"),
            key="id",
            folder=tmp_path / "i",
            every="10 seconds",
            now=lambda: moment[0],
        )
        _, position = read(source, None, 10_000_000)
        self.table(tmp_path, (1, "a", 2))
        moment[0] = 21_000_000
        rows, position = read(source, position, 19_999_999)
        assert rows == []
        rows, position = read(source, position, 20_000_000)
        assert [(row["time"], row["after"]["n"]) for row in rows] == [(20_000_000, 2)]

    def test_an_image_that_was_lost(self, tmp_path: Path) -> None:
        source = self.table(tmp_path, (1, "a", 1), (2, "b", 2))
        (batch,) = source.read(None, END)
        state = applied({}, batch)
        for image in (tmp_path / "images").iterdir():
            image.unlink()
        source = self.table(tmp_path, (2, "b", 3))
        (again,) = source.read(batch.position, END)
        assert again.rows["entry"].to_pylist() == [None, "2"]
        assert applied(state, again) == {"2": (None, {"id": 2, "name": "b", "n": 3})}

    def test_columns_that_come_go_and_change(self, tmp_path: Path) -> None:
        path = tmp_path / "t.parquet"
        source = self.table(tmp_path, (1, "a", 1))
        _, position = read(source, None)
        write(
            path,
            [{"id": 1, "name": "a", "n": 1, "more": 5}],
            id=pa.int64(),
            name=pa.string(),
            n=pa.int32(),
            more=pa.int32(),
        )
        rows, position = read(source, position)
        assert rows == [], "a new column changes nothing"
        write(path, [{"id": 1, "name": "a", "n": 1}], id=pa.int64(), name=pa.string(), n=pa.int64())
        with pytest.raises(SourceError, match='"n" is missing, or has another type'):
            read(source, position)
        write(path, [{"id": 1, "name": "a"}], id=pa.int64(), name=pa.string())
        with pytest.raises(SourceError, match='"n" is missing, or has another type'):
            read(source, position)
        source.select(["n"])
        with pytest.raises(SourceError, match='has no column "n"'):
            read(source, position)

    def test_no_column_at_all(self, tmp_path: Path) -> None:
        source = self.table(tmp_path, (1, "a", 1), (2, "b", 2))
        source.select([])
        rows, position = read(source, None)
        assert [row["after"] for row in rows] == [{}, {}]
        source = self.table(tmp_path, (2, "c", 3))
        source.select([])
        assert [(row["entry"], row["after"]) for row in read(source, position)[0]] == [("1", None)]

    def test_rows_that_cannot_be_told_apart(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="several rows have the same key"):
            read(self.table(tmp_path, (1, "a", 1), (1, "b", 2)), None)
        assert read(self.table(tmp_path, (None, "a", 1), (None, "b", 2)), None)[0] == []

    def test_a_crash_while_an_image_is_written_leaves_the_last_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = self.table(tmp_path, (1, "a", 1))
        _, position = read(source, None)
        with monkeypatch.context() as patched:
            patched.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "no space")))
            with pytest.raises(OSError, match="no space"):
                read(source, position)
        assert [path.name for path in (tmp_path / "images").iterdir()] == ["image-000000000001.parquet"]
        (tmp_path / "images" / "writing-torn").touch()
        source = self.table(tmp_path, (1, "a", 2))
        rows, position = read(source, position)
        assert [row["after"]["n"] for row in rows] == [2]
        source.acknowledge(position)
        assert [path.name for path in (tmp_path / "images").iterdir()] == ["image-000000000002.parquet"]

    def test_what_is_declared(self, tmp_path: Path) -> None:
        with pytest.raises(SpecError, match="primary key"):
            Snapshots(ParquetReader(tmp_path / "t.parquet"), key=[], folder=tmp_path)
        with pytest.raises(SourceError, match="not one of a source of snapshots"):
            Place.parse("{}")
        source = self.table(tmp_path, (1, "a", 1))
        assert source.table == "t"
        assert source.doctor()[0].ok
        assert dict(source.columns) == {"id": "BIGINT", "name": "VARCHAR", "n": "INTEGER"}


version = st.tuples(
    st.integers(1, 3),
    st.integers(0, 5),
    st.one_of(st.none(), st.integers(0, 6)),
    st.integers(0, 3),
    st.booleans(),
)


class TestHistory:
    def source(self, folder: Path, versions: list[Any], **options: Any) -> History:
        write(folder / "h.parquet",
              [dict(zip(("id", "f", "t", "n", "gone"), row, strict=True)) for row in versions],
              id=pa.int64(), f=pa.timestamp("us"), t=pa.timestamp("us"),
              n=pa.int64(), gone=pa.bool_())  # fmt: skip
        return History(ParquetReader(folder / "h.parquet"), key="id", folder=folder / "images",
                       valid_from="f", valid_to="t",
                       deleted="gone", **options)  # fmt: skip

    @staticmethod
    def standing(versions: list[Any], at: int) -> dict[str, int]:
        """By the definition: of each row the version that holds at a moment, the one that began last."""
        rows: dict[str, tuple[Any, ...]] = {}
        for key, begin, end, n, gone in versions:
            if begin <= at and (end is None or end > at):
                best = (begin, float("inf") if end is None else end, -n, not gone)
                rows[str(key)] = max(rows.get(str(key), best), best)
        return {key: -n for key, (_, _, n, alive) in rows.items() if alive}

    @given(st.lists(version, max_size=8), st.lists(version, max_size=4), st.integers(0, 6))
    @settings(max_examples=10, deadline=None)
    def test_every_moment_is_as_the_versions_say(
        self, tmp_path_factory: pytest.TempPathFactory, first: list[Any], second: list[Any], split: int
    ) -> None:
        """Replayed at its own times, whatever overlaps;
        and what is written into the past later is made up for."""
        folder = tmp_path_factory.mktemp("h")
        first = [v for v in first if not self.ambiguous(first, v)]
        everything = [v for v in [*first, *second] if not self.ambiguous([*first, *second], v)]
        source = self.source(folder, first)
        (batch,) = source.read(None, split)
        state: State = {}
        by_time: dict[int, list[dict[str, Any]]] = {}
        for row in batch.rows.to_pylist():
            by_time.setdefault(row["time"], []).append(row)
        known: dict[str, int] = {}
        for moment in range(split + 1):
            for row in by_time.get(moment, []):
                known.pop(row["entry"], None)
                if row["after"] is not None:
                    known[row["entry"]] = row["after"]["n"]
            assert known == self.standing(first, moment)
        state = applied(state, batch)
        source = self.source(folder, everything)
        (late,) = source.read(batch.position, 7)
        state = applied(state, late)
        assert {entry: row["n"] for entry, (_, row) in state.items()} == self.standing(everything, 7)
        assert [row["time"] for row in late.rows.to_pylist()] == sorted(
            row["time"] for row in late.rows.to_pylist()
        )
        assert all(row["time"] >= split for row in late.rows.to_pylist())

    @staticmethod
    def ambiguous(versions: list[Any], one: Any) -> bool:
        """Two versions of a row that begin and end together contradict each other: either may win."""
        return len([other for other in versions if other[:3] == one[:3]]) > 1

    def test_as_dbt_writes_it(self, tmp_path: Path) -> None:
        path = tmp_path / "dbt.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute(
                "CREATE TABLE s (id INTEGER, status TEXT, dbt_scd_id TEXT, dbt_valid_from TEXT, dbt_valid_to "
                "TEXT, dbt_is_deleted TEXT)"
            )
            db.executemany("INSERT INTO s VALUES (?, ?, 'x', ?, ?, ?)", [
                (1, "ill", "2026-01-01 00:00:00", "2026-01-05 00:00:00", "False"),
                (1, "well", "2026-01-05 00:00:00", None, "False"),
                (2, "ill", "2026-01-02 00:00:00", "2026-01-03 00:00:00", "False"),
                (2, "ill", "2026-01-03 00:00:00", None, "True"),
                (3, "ill", "2026-01-04 00:00:00", "2026-01-06 00:00:00", "False"),
            ])  # fmt: skip
        source = History(SQLiteReader(path, "s"), key="id", folder=tmp_path / "i", deleted="dbt_is_deleted")
        assert list(source.columns) == ["id", "status", "dbt_scd_id"]
        source.select(["status"])
        rows, position = read(source, None)
        day = 86_400_000_000
        start = 20_454 * day
        assert [((row["time"] - start) // day + 1, row["entry"], row["after"] and row["after"]["status"])
                for row in rows] == [
            (1, "1", "ill"), (2, "2", "ill"), (3, "2", None),
            (4, "3", "ill"), (5, "1", "well"), (6, "3", None),
        ]  # fmt: skip
        source.acknowledge(position)
        assert read(source, position)[0] == []
        assert source.doctor()[0].ok

    def test_what_is_declared(self, tmp_path: Path) -> None:
        with pytest.raises(SpecError, match="primary key"):
            History(ParquetReader(tmp_path / "t.parquet"), key=[], folder=tmp_path)
        source = self.source(tmp_path, [(None, 1, None, 1, False)])
        assert read(source, None)[0] == [], "what has no key counts nowhere"
        missing = History(ParquetReader(tmp_path / "h.parquet"), key="id", folder=tmp_path)
        with pytest.raises(SourceError, match='has no column "dbt_valid_from", "dbt_valid_to"'):
            read(missing, None)
        assert not missing.doctor()[0].ok
        assert source.table == "h"

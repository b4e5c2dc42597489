"""What only SQLite, and the applications that use it, can do to a source."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.source.harness import now
from tests.source.life import State, applied
from tidegauge.errors import SourceError, SpecError
from tidegauge.source import sqlite as module
from tidegauge.source.names import quote
from tidegauge.source.sqlite import Place, SQLite, sql_type
from tidegauge.source.sqlite_triggers import install, log_name, uninstall

if TYPE_CHECKING:
    from collections.abc import Iterator


TABLES = [
    "(id INTEGER PRIMARY KEY, email TEXT UNIQUE, n INTEGER)",
    "(id INTEGER PRIMARY KEY, email TEXT UNIQUE COLLATE NOCASE, n INTEGER)",
    "(id INTEGER, email TEXT NOT NULL DEFAULT 'x' PRIMARY KEY COLLATE NOCASE, n INTEGER UNIQUE)",
    "(id INTEGER, email TEXT, n INTEGER, PRIMARY KEY (id, n))",
    "(id INTEGER, email TEXT UNIQUE, n INTEGER, PRIMARY KEY (id, n), UNIQUE (n, email))",
    "(id INTEGER PRIMARY KEY, email TEXT, n INTEGER, UNIQUE (email, n)) WITHOUT ROWID",
    "(id INTEGER PRIMARY KEY, email TEXT NOT NULL UNIQUE, n INTEGER)",
]
ENTRIES = {TABLES[-1]: "email"}
"""Keys other than the primary key."""


class World:
    """A file with a table `t`, and a source that follows it."""

    def __init__(self, path: Path, table: str = TABLES[0], **options: Any) -> None:
        self.path = path
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.run(f"CREATE TABLE t {table}")
        install(path, "t", **{name: value for name, value in options.items() if name == "entry"})
        self.source = SQLite(path, "t", **options)
        self.state: State = {}
        self.position: str | None = None

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)

    def read(self) -> list[dict[str, Any]]:
        time.sleep(0.002)
        mutations: list[dict[str, Any]] = []
        for batch in self.source.read(self.position, now()):
            self.state, self.position = applied(self.state, batch), batch.position
            mutations += batch.rows.to_pylist()
            self.source.acknowledge(batch.position)
        return mutations

    def truth(self) -> list[dict[str, Any]]:
        cursor = self.connection.execute("SELECT * FROM t")
        names = [column[0] for column in cursor.description]
        return _ordered([dict(zip(names, row, strict=True)) for row in cursor])

    def known(self) -> list[dict[str, Any]]:
        return _ordered([row for _, row in self.state.values()])


def _ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "app.db")
    yield made
    made.connection.close()


small = st.integers(0, 3)
text = st.sampled_from(["a", "A", "b", "B", None])
operation = st.one_of(
    st.tuples(st.sampled_from(["INSERT OR REPLACE INTO", "INSERT OR IGNORE INTO", "REPLACE INTO", "INSERT INTO"]),
              small, text, small).map(lambda v: (f"{v[0]} t VALUES (?, ?, ?)", v[1:])),
    st.tuples(small, text, small).map(
        lambda v: ("INSERT INTO t VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET email = excluded.email", v)),
    st.tuples(text, small).map(lambda v: ("UPDATE OR REPLACE t SET email = ? WHERE id = ?", v)),
    st.tuples(small, small).map(lambda v: ("UPDATE OR REPLACE t SET id = ? WHERE id = ?", v)),
    st.tuples(small, small).map(lambda v: ("UPDATE OR IGNORE t SET id = ? WHERE n = ?", v)),
    st.tuples(small).map(lambda v: ("UPDATE t SET n = n + 1 WHERE id >= ?", v)),
    st.tuples(small).map(lambda v: ("DELETE FROM t WHERE id = ?", v)),
    st.just(("DELETE FROM t", ())),
    st.just(("BEGIN", ())), st.just(("COMMIT", ())), st.just(("ROLLBACK", ())),
)  # fmt: skip


REPLACE, UPDATE = (
    "INSERT OR REPLACE INTO t VALUES (?, ?, ?)",
    "UPDATE OR REPLACE t SET email = ? WHERE id = ?",
)
THROWN_OUT: list[tuple[str, tuple[Any, ...]]] = [
    ("INSERT INTO t VALUES (?, ?, ?)", (1, "a", 1)), ("INSERT INTO t VALUES (?, ?, ?)", (2, "b", 2)), (REPLACE, (3, "a", 2)),
    (REPLACE, (3, "B", 3)), (REPLACE, (0, "b", 0)), (REPLACE, (2, "A", 2)), (REPLACE, (1, "B", 2)), (UPDATE, ("A", 0)), (UPDATE, ("a", 1)),
]  # fmt: skip
"""Rows that stand in the way of others, in every table above that has something for them to agree in."""


@pytest.mark.parametrize("table", TABLES)
@given(operations=st.lists(operation, max_size=12), recursive=st.booleans())
@example(operations=THROWN_OUT, recursive=False)
@example(operations=THROWN_OUT[:-1], recursive=False)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_however_the_application_writes(
    tmp_path_factory: pytest.TempPathFactory,
    table: str,
    operations: list[tuple[str, tuple[Any, ...]]],
    recursive: bool,
) -> None:
    """Whatever REPLACE, IGNORE and upserts do, what is known is what is there."""
    world = World(tmp_path_factory.mktemp("w") / "a.db", table, entry=ENTRIES.get(table, ()))
    world.run("PRAGMA synchronous = OFF", f"PRAGMA recursive_triggers = {'ON' if recursive else 'OFF'}")
    try:
        for statement, values in operations:
            try:
                world.connection.execute(statement, values)
            except sqlite3.Error:  # a constraint, or no transaction to end: the application's own business
                continue
            if not world.connection.in_transaction and "t" in statement and len(operations) % 2:
                world.read()
                assert world.known() == world.truth()
        if world.connection.in_transaction:
            world.run("COMMIT")
        world.read()
        assert world.known() == world.truth()
    finally:
        world.connection.close()


def test_a_transaction_that_is_open_comes_later(world: World) -> None:
    world.read()
    world.run("PRAGMA journal_mode = WAL", "BEGIN", "INSERT INTO t VALUES (1, 'a', 1)")
    assert world.read() == []
    before = now()
    world.run("COMMIT")
    (late,) = world.read()
    assert late["time"] <= before, "its time is that of the statement: late news"
    assert world.known() == world.truth()


def test_a_reader_does_not_keep_the_application_waiting(world: World) -> None:
    """Without WAL a reader that holds its lock would; so it does not hold it while a batch is away."""
    world.run("PRAGMA journal_mode = DELETE", "PRAGMA busy_timeout = 0", "INSERT INTO t VALUES (1, 'a', 1)")
    for batch in world.source.read(None, now()):
        world.run("INSERT INTO t VALUES (2, 'b', 2)")
        world.position = batch.position
    time.sleep(0.002)
    reading = world.source.read(world.position, now())
    assert next(reading).rows["entry"].to_pylist() == ["2"]
    world.run("INSERT INTO t VALUES (3, 'c', 3)")


def test_vacuum_and_new_columns(world: World) -> None:
    world.run("INSERT INTO t VALUES (5, 'a', 1), (9, 'b', 2)")
    world.source.select(["id", "email", "n"])
    world.read()
    world.run(
        "DELETE FROM t WHERE id = 5",
        "ALTER TABLE t ADD COLUMN more TEXT DEFAULT 'm'",
        "VACUUM",
        "UPDATE t SET n = 7",
    )
    assert [(row["entry"], row["after"] and row["after"]["n"]) for row in world.read()] == [
        ("5", None),
        ("9", 7),
    ]


def test_what_was_read_is_removed(world: World) -> None:
    world.run(*(f"INSERT INTO t VALUES ({n}, NULL, 0)" for n in range(5)))
    world.read()
    world.run("UPDATE t SET n = 1")
    world.read()
    assert world.connection.execute('SELECT count(*) FROM "_tidegauge:log:t"').fetchone() == (0,)
    world.run("UPDATE t SET n = 2")
    assert len(world.read()) == 5


def test_a_busy_file_is_cleaned_up_the_next_time(world: World) -> None:
    world.read()
    world.run("INSERT INTO t VALUES (1, NULL, 0)", "BEGIN IMMEDIATE")
    start = time.monotonic()
    world.read()
    assert time.monotonic() - start < 5
    world.run("COMMIT")
    assert world.connection.execute('SELECT count(*) FROM "_tidegauge:log:t"').fetchone() == (1,)
    assert world.read() == []
    assert world.connection.execute('SELECT count(*) FROM "_tidegauge:log:t"').fetchone() == (0,)


def test_a_table_that_was_rebuilt(world: World) -> None:
    """As migrations do: the triggers go with the old table."""
    world.run("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    world.read()
    world.run("CREATE TABLE u (id INTEGER PRIMARY KEY, email TEXT UNIQUE, n INTEGER)", "INSERT INTO u SELECT * FROM t",
              "DROP TABLE t", "ALTER TABLE u RENAME TO t", "DELETE FROM t WHERE id = 1", "UPDATE t SET n = 3")  # fmt: skip
    with pytest.raises(SourceError, match="not, or no longer, recorded"):
        world.read()
    assert [(check.name, check.ok) for check in world.source.doctor()] == [
        ("file", True),
        ("table", True),
        ("triggers", False),
    ][::2]
    install(world.path, "t")
    reloaded = world.read()
    assert reloaded[0]["entry"] is None
    assert len({row["time"] for row in reloaded}) == 1
    assert world.known() == world.truth()
    world.run("UPDATE t SET n = 4")
    assert len(world.read()) == 1


def test_columns_we_need_are_recorded(world: World) -> None:
    install(world.path, "t", columns=["n"])
    world.source.select(["email"])
    with pytest.raises(SourceError, match="not, or no longer, recorded"):
        world.read()
    world.source.select(["n"])
    world.run("INSERT INTO t VALUES (1, 'a', 1)")
    (row,) = world.read()
    assert row["after"] == {"n": 1}
    world.run("UPDATE t SET email = 'z'")
    assert world.read() == [], "a column that is not recorded costs the application nothing"
    with pytest.raises(sqlite3.OperationalError, match="error in trigger"):
        world.run("ALTER TABLE t DROP COLUMN n")
    world.run("ALTER TABLE t RENAME COLUMN n TO m")
    with pytest.raises(SourceError, match="not, or no longer, recorded"):
        world.read()


def test_the_order_is_that_of_the_log_where_the_clock_was_set_back(world: World) -> None:
    world.read()
    world.run("INSERT INTO t VALUES (1, 'a', 1)", "UPDATE t SET n = 2", "UPDATE t SET n = 3")
    log, hour = quote(log_name("t")), 3600 * 1_000_000
    world.run(
        f"UPDATE {log} SET at = at - {hour} * (SELECT count(*) FROM {log} before WHERE before.id < {log}.id)"
    )
    time.sleep(0.002)
    batches = [batch for batch in world.source.read(world.position, now()) if batch.rows.num_rows]
    assert [[row["after"]["n"] for row in batch.rows.to_pylist()] for batch in batches] == [[1], [2], [3]]
    assert all(max(batch.rows["time"].to_pylist()) <= batch.upto for batch in batches)


def test_installing_twice_changes_nothing_and_uninstalling_leaves_nothing(world: World) -> None:
    world.run("CREATE TABLE other (id INTEGER PRIMARY KEY)")
    before = world.connection.execute("SELECT * FROM _tidegauge").fetchall()
    install(world.path, "t")
    assert world.connection.execute("SELECT * FROM _tidegauge").fetchall() == before
    install(world.path, "other")
    uninstall(world.path, "t")
    world.run("INSERT INTO t VALUES (1, 'a', 1)")
    uninstall(world.path, "other")
    uninstall(world.path, "other")
    names = world.connection.execute(
        "SELECT name FROM sqlite_schema WHERE name LIKE '%tidegauge%'"
    ).fetchall()
    assert names == []


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ("a TEXT, b TEXT", {}, "no primary key, and VACUUM may renumber"),
        ("id INTEGER PRIMARY KEY, a TEXT", {"entry": "b"}, 'no column "b"'),
        (
            "id INTEGER PRIMARY KEY, a TEXT",
            {"entry": "a"},
            '"a" is neither the primary key of "t" nor unique',
        ),
    ],
)
def test_what_cannot_be_recorded(tmp_path: Path, table: str, options: dict[str, Any], message: str) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE t ({table})")
    with pytest.raises((SourceError, SpecError), match=message):
        install(path, "t", **options)
    with pytest.raises(SourceError, match="there is no table"):
        install(path, "T ")
    assert [check.ok for check in SQLite(path, "t", **options).doctor()] == [True, False]
    with sqlite3.connect(path) as connection:
        assert connection.execute(
            "SELECT count(*) FROM sqlite_schema WHERE name LIKE '%tidegauge%'"
        ).fetchone() == (0,)
    connection.close()


def test_a_unique_expression_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
        connection.execute("CREATE UNIQUE INDEX low ON t (lower(a))")
    connection.close()
    with pytest.raises(SourceError, match="unique index on an expression"):
        install(path, "t")


def test_keys_and_values_of_all_kinds(tmp_path: Path) -> None:
    world = World(tmp_path / "a.db", "(a TEXT, b BLOB, c, r REAL, d DECIMAL(6,2), f BOOLEAN, w NUMERIC, born DATE, PRIMARY KEY (a, b))",
                  types={"born": "DATE"}, unit="c")  # fmt: skip
    world.run(
        "INSERT INTO t VALUES ('x', x'01', 5, 1, 0.1, 1, 7, '2026-01-31'), ('y', 'z', 'p', 'no', 1e9, 0, 'x', 'never')"
    )
    assert dict(world.source.columns) == {"a": "VARCHAR", "b": "VARCHAR", "c": "VARCHAR", "r": "DOUBLE", "d": "DECIMAL(6,2)",
                                          "f": "BOOLEAN", "w": "DECIMAL(38,9)", "born": "DATE"}  # fmt: skip
    first, second = sorted(world.read(), key=lambda row: row["entry"])
    assert (first["entry"], first["unit"]) == ('["x","01"]', "5")
    assert [str(v) for v in first["after"].values()] == [
        "x",
        "01",
        "5",
        "1.0",
        "0.10",
        "True",
        "7.000000000",
        "2026-01-31",
    ]
    assert [str(v) for v in second["after"].values()] == [
        "y",
        "z",
        "p",
        "None",
        "9999.99",
        "False",
        "None",
        "None",
    ]
    world.run("INSERT INTO t VALUES ('n', NULL, 1, 1, 1, 1, 1, 1)")
    (nobody,) = world.read()
    assert (nobody["entry"], nobody["after"]) == ("", None)
    world.connection.close()


def test_declared_types() -> None:
    told = [
        "INT",
        "BIGINT UNSIGNED",
        "VARCHAR(9)",
        "",
        "DOUBLE PRECISION",
        "NUMERIC(40,2)",
        "NUMERIC(5)",
        "TIMESTAMP",
        "POINT",
    ]
    assert [sql_type(kind) for kind in told] == ["BIGINT", "BIGINT", "VARCHAR", "VARCHAR", "DOUBLE", "DECIMAL(38,9)", "DECIMAL(5,0)",
                                                 "VARCHAR", "BIGINT"]  # fmt: skip


def test_one_instant_is_one_batch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 7)
    monkeypatch.setattr(module, "_BATCH", 10)
    world.read()
    numbers = "WITH RECURSIVE g(n) AS (SELECT {} UNION ALL SELECT n + 1 FROM g LIMIT 30) INSERT INTO t SELECT n, NULL, 0 FROM g"
    for start in (0, 100, 200):
        world.run(numbers.format(start))
        time.sleep(0.003)
    batches = list(world.source.read(world.position, now()))
    assert [batch.rows.num_rows for batch in batches] == [30, 30, 30]
    assert all(len(set(batch.rows["time"].to_pylist())) == 1 for batch in batches)
    middle = batches[1].rows["time"][0].as_py()
    first = list(world.source.read(world.position, middle - 1))
    assert sum(batch.rows.num_rows for batch in first) == 30
    rest = list(world.source.read(first[-1].position, now()))
    assert sum(batch.rows.num_rows for batch in rest) == 60


def test_what_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    with pytest.raises(SourceError, match="not an SQLite file"):
        install(path, "t")
    path.write_text("this is no database " * 100)
    source = SQLite(path, "t")
    with pytest.raises(SourceError, match="not an SQLite file"):
        list(source.read(None, now()))
    assert not source.doctor()[0].ok
    with pytest.raises(SourceError, match="not one of an SQLite source"):
        Place.parse("{}")
    with pytest.raises(SpecError, match="is not a type"):
        SQLite(path, "t", types={"a": "COLOUR"})


def test_a_type_for_a_column_that_is_none(world: World) -> None:
    with pytest.raises(SpecError, match='no column "x"'):
        _ = SQLite(world.path, "t", types={"x": "DATE"}).columns
    with pytest.raises(SourceError, match="there is no table"):
        _ = SQLite(world.path, "none").columns

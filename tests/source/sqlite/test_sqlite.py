"""What only SQLite, and the applications that use it, can do to a source."""

from __future__ import annotations

import json
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
from tidegauge.source.batch.names import quote
from tidegauge.source.sqlite import source as module
from tidegauge.source.sqlite.source import Place, SQLite, sql_type
from tidegauge.source.sqlite.triggers import connect, install, log_name, primary_key, rivals_name, uninstall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


TABLES = [
    "(id INTEGER PRIMARY KEY, email TEXT UNIQUE, n INTEGER)",
    "(id INTEGER PRIMARY KEY, email TEXT UNIQUE COLLATE NOCASE, n INTEGER)",
    "(id INTEGER, email TEXT NOT NULL DEFAULT 'x' PRIMARY KEY COLLATE NOCASE, n INTEGER UNIQUE)",
    "(id INTEGER, email TEXT, n INTEGER, PRIMARY KEY (id, n))",
    "(id INTEGER, email TEXT UNIQUE, n INTEGER, PRIMARY KEY (id, n), UNIQUE (n, email))",
    "(id INTEGER PRIMARY KEY, email TEXT, n INTEGER, UNIQUE (email, n)) WITHOUT ROWID",
    "(id INTEGER PRIMARY KEY, email TEXT NOT NULL UNIQUE, n INTEGER)",
    (
        "(id INTEGER PRIMARY KEY, email TEXT NOT NULL DEFAULT 'A' "
        "UNIQUE COLLATE NOCASE, n INTEGER NOT NULL UNIQUE)"
    ),
    "(id INTEGER PRIMARY KEY, email TEXT, n INTEGER)",
]
ENTRIES = {TABLES[-3]: "email", TABLES[-2]: "n"}
"""Keys other than the primary key."""


class World:
    """A file with a table `t`, and a source that follows it."""

    def __init__(self, path: Path, table: str = TABLES[0], **options: Any) -> None:
        self.path = path
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.run(f"CREATE TABLE t {table}")
        install(path, "t", **{name: value for name, value in options.items() if name == "key"})
        self.source = SQLite(path, "t", **options)
        entry = options.get("key", ())
        self.key = [entry] if isinstance(entry, str) else [*entry] or primary_key(self.connection, "t")
        self.state: State = {}
        self.position: str | None = None

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)

    def read(self) -> list[dict[str, Any]]:
        mutations: list[dict[str, Any]] = []
        for batch in self.source.read(self.position, now()):
            _require_sense(self.state.keys(), batch.rows.to_pylist())
            self.state, self.position = applied(self.state, batch), batch.position
            mutations += batch.rows.to_pylist()
            self.source.acknowledge(batch.position)
        return mutations

    def truth(self) -> list[dict[str, Any]]:
        cursor = self.connection.execute("SELECT * FROM t")
        names = [column[0] for column in cursor.description]
        rows = (dict(zip(names, row, strict=True)) for row in cursor)
        return _ordered([row for row in rows if None not in (row[name] for name in self.key)])

    def known(self) -> list[dict[str, Any]]:
        return _ordered([row for _, row in self.state.values()])


def _require_sense(known: Iterable[str], mutations: list[dict[str, Any]]) -> None:
    """Only a living row is renamed or deleted, and only onto a key that no living row has."""
    alive = set(known)
    for mutation in mutations:
        entry, previous = mutation["entry"], mutation.get("previous")
        if entry is None:
            alive = set()
        elif entry != "":
            if previous is not None:
                assert previous in alive, "renamed from a key that is not there"
                assert entry not in alive, "renamed onto a living row whose deletion was not delivered"
                alive.remove(previous)
            if mutation["after"] is None:
                assert entry in alive, "a deletion of a row that is not there"
                alive.remove(entry)
            else:
                alive.add(entry)


def _ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "app.db")
    yield made
    made.connection.close()


UPSERT = "INSERT INTO t VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET email = excluded.email"
small = st.integers(0, 3)
text = st.sampled_from(["a", "A", "b", "B", None])
operation = st.one_of(
    st.tuples(st.sampled_from(["INSERT OR REPLACE INTO", "INSERT OR IGNORE INTO", "REPLACE INTO",
                               "INSERT INTO"]),
              small, text, small).map(lambda v: (f"{v[0]} t VALUES (?, ?, ?)", v[1:])),
    st.tuples(small, text, small).map(lambda v: (UPSERT, v)),
    st.tuples(small, text, small).map(
        lambda v: ("INSERT INTO t VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET id = excluded.id, n = "
                   "excluded.n", v)),
    st.tuples(small, text, small).map(lambda v: ("INSERT INTO t VALUES (?, ?, ?) ON CONFLICT DO NOTHING", v)),
    st.tuples(text, small).map(lambda v: ("INSERT OR REPLACE INTO t (email, n) VALUES (?, ?)", v)),
    st.tuples(small, small).map(lambda v: ("UPDATE OR REPLACE t SET n = ? WHERE n = ?", v)),
    st.tuples(small, small).map(lambda v: ("UPDATE OR REPLACE t SET rowid = ? WHERE id = ?", v)),
    st.just(("UPDATE OR FAIL t SET n = n + 1, id = id + 1", ())),
    st.just(("INSERT OR FAIL INTO t SELECT id + 1, email, n FROM t", ())),
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
    ("INSERT INTO t VALUES (?, ?, ?)", (1, "a", 1)),
    ("INSERT INTO t VALUES (?, ?, ?)", (2, "b", 2)), (REPLACE, (3, "a", 2)),
    (REPLACE, (3, "B", 3)), (REPLACE, (0, "b", 0)), (REPLACE, (2, "A", 2)),
    (REPLACE, (1, "B", 2)), (UPDATE, ("A", 0)), (UPDATE, ("a", 1)),
]  # fmt: skip
"""Rows that stand in the way of others, in every table above that has something for them to agree in."""
UPSERTED: list[tuple[str, tuple[Any, ...]]] = [
    (UPDATE, ("a", 0)), ("UPDATE t SET n = n + 1 WHERE id >= ?", (0,)), (UPSERT, (0, "a", 0)),
    (REPLACE, (0, "a", 0)), (UPSERT, (0, "A", 0)),
]  # fmt: skip
"""An upsert that changes the key of a row which was replaced in its place before."""


MANY = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("table", TABLES)
@given(operations=st.lists(operation, max_size=12), recursive=st.booleans())
@example(operations=THROWN_OUT, recursive=False)
@example(operations=THROWN_OUT[:-1], recursive=False)
@example(operations=UPSERTED, recursive=False)
@example(operations=UPSERTED[1:], recursive=False)
@settings(parent=MANY, max_examples=200)
def test_however_the_application_writes(
    tmp_path_factory: pytest.TempPathFactory,
    table: str,
    operations: list[tuple[str, tuple[Any, ...]]],
    recursive: bool,
) -> None:
    """Whatever REPLACE, IGNORE and upserts do, the followed rows are the rows of the table."""
    _follow(tmp_path_factory.mktemp("w") / "a.db", table, operations, recursive=recursive)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
@given(operations=st.lists(operation, max_size=12), recursive=st.booleans())
@MANY
def test_however_the_application_writes_at_length(
    tmp_path_factory: pytest.TempPathFactory,
    table: str,
    operations: list[tuple[str, tuple[Any, ...]]],
    recursive: bool,
) -> None:
    _follow(tmp_path_factory.mktemp("w") / "a.db", table, operations, recursive=recursive)


def _follow(
    path: Path, table: str, operations: list[tuple[str, tuple[Any, ...]]], *, recursive: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:  # nothing here is about power cuts
        patch.setattr("tidegauge.source.sqlite.triggers.connect", _careless)
        _write(path, table, operations, recursive=recursive)


def _careless(path: Path, wait: float = 10.0) -> sqlite3.Connection:
    connection = connect(path, wait)
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def _write(path: Path, table: str, operations: list[tuple[str, tuple[Any, ...]]], *, recursive: bool) -> None:
    world = World(path, table, key=ENTRIES.get(table, ()))
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
    assert late["time"] <= before, "its time is that of the statement"
    assert world.known() == world.truth()


def test_a_reader_does_not_keep_the_application_waiting(world: World) -> None:
    """Without WAL a reader that holds its lock would; so it does not hold it while a batch is away."""
    world.run("PRAGMA journal_mode = DELETE", "PRAGMA busy_timeout = 0", "INSERT INTO t VALUES (1, 'a', 1)")
    reading = world.source.read(None, now())
    world.position = next(reading).position
    world.run("INSERT INTO t VALUES (2, 'b', 2)")
    assert list(reading) == []
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
    assert world.connection.execute('SELECT count(*) FROM "_tidegauge:log:t"').fetchone() == (1,)
    world.run("UPDATE t SET n = 2")
    assert len(world.read()) == 5


def test_a_statement_that_fails_half_way_gives_no_number_twice(world: World) -> None:
    """With OR FAIL the rows before the failure stay, and SQLite forgets that their changes were numbered."""
    world.read()
    world.run("INSERT INTO t VALUES (1, 'a', 1), (3, 'c', 1)")
    world.read()
    with pytest.raises(sqlite3.IntegrityError):
        world.run("INSERT OR FAIL INTO t VALUES (4, 'd', 1), (5, 'e', 1), (1, 'z', 1)")
    world.read()
    world.run("UPDATE t SET n = 2 WHERE id = 1")
    world.read()
    assert world.known() == world.truth()


def test_a_busy_file_is_cleaned_up_the_next_time(world: World) -> None:
    world.read()
    world.run("INSERT INTO t VALUES (1, NULL, 0)", "BEGIN IMMEDIATE")
    start = time.monotonic()
    world.read()
    assert time.monotonic() - start < 5
    world.run("COMMIT")
    assert world.connection.execute('SELECT count(*) FROM "_tidegauge:log:t"').fetchone() == (1,)
    world.run("UPDATE t SET n = 1")
    assert len(world.read()) == 1
    assert world.connection.execute('SELECT count(*) FROM "_tidegauge:log:t"').fetchone() == (1,)


def test_a_table_that_was_rebuilt(world: World) -> None:
    """As migrations do: the triggers go with the old table."""
    world.run("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    world.read()
    world.run("CREATE TABLE u (id INTEGER PRIMARY KEY, email TEXT UNIQUE, n INTEGER)",
              "INSERT INTO u SELECT * FROM t",
              "DROP TABLE t", "ALTER TABLE u RENAME TO t",
              "DELETE FROM t WHERE id = 1", "UPDATE t SET n = 3")  # fmt: skip
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
    (batch,) = world.source.read(world.position, now())
    assert [row["after"]["n"] for row in batch.rows.to_pylist()] == [1, 2, 3]
    times = batch.rows["time"].to_pylist()
    assert times == sorted(times, reverse=True)


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
    world = World(tmp_path / "a.db",
                  "(a TEXT, b BLOB, c, r REAL, d DECIMAL(6,2), f "
                  "BOOLEAN, w NUMERIC, born DATE, PRIMARY KEY (a, b))",
                  types={"born": "DATE"}, unit="c")  # fmt: skip
    world.run(
        "INSERT INTO t VALUES ('x', x'01', 5, 1, 0.1, 1, 7, "
        "'2026-01-31'), ('y', 'z', 'p', 'no', 1e9, 0, 'x', 'never')"
    )
    assert dict(world.source.columns) == {"a": "VARCHAR", "b": "VARCHAR", "c": "VARCHAR", "r": "DOUBLE",
                                          "d": "DECIMAL(6,2)",
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
    (row,) = world.read()
    assert (row["entry"], row["after"]) == ("", None)
    world.connection.close()


def test_declared_types() -> None:
    said = [
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
    assert [sql_type(kind) for kind in said] == ["BIGINT", "BIGINT", "VARCHAR", "VARCHAR", "DOUBLE",
                                                 "DECIMAL(38,9)", "DECIMAL(5,0)",
                                                 "VARCHAR", "BIGINT"]  # fmt: skip


def test_batches_are_cut_anywhere_and_only_the_last_is_complete(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", 7)
    monkeypatch.setattr(module, "_BATCH", 10)
    world.read()
    world.run(
        "WITH RECURSIVE g(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM g "
        "LIMIT 60) INSERT INTO t SELECT n, NULL, 0 FROM g"
    )
    until = now()
    reading = world.source.read(world.position, until)
    batches = [next(reading)]
    world.run("INSERT INTO t VALUES (1000, NULL, 0)")  # after the read began: not part of it
    batches += reading
    assert [batch.rows.num_rows for batch in batches] == [14, 14, 14, 14, 4]
    assert [batch.upto for batch in batches] == [None, None, None, None, until]
    assert [entry for batch in batches for entry in batch.rows["entry"].to_pylist()] == [
        str(n) for n in range(60)
    ]
    for number, batch in enumerate(batches):
        rest = [
            row for part in world.source.read(batch.position, now()) for row in part.rows["entry"].to_pylist()
        ]
        assert rest == [*(str(n) for n in range(min(60, 14 * number + 14), 60)), "1000"]


def test_stamps_are_delivered_as_they_are_and_hold_nothing_back(world: World) -> None:
    """Not even a stamp far in the future, or a moment asked for that lies before everything."""
    world.read()
    world.run(
        "INSERT INTO t VALUES (1, 'a', 1)",
        "INSERT INTO t VALUES (2, 'b', 1)",
        "INSERT INTO t VALUES (3, 'c', 1)",
    )
    stamps = {1: now() + 3600 * 1_000_000, 2: 5, 3: now() - 1}
    for number, stamp in stamps.items():
        world.run(f"UPDATE {quote(log_name('t'))} SET at = {stamp} WHERE new_id = {number}")
    for until in (now(), 0):
        (batch,) = world.source.read(world.position, until)
        assert batch.upto == until
        assert batch.rows["time"].to_pylist() == list(stamps.values())


def test_a_position_of_an_older_version(world: World) -> None:
    world.read()
    assert world.position is not None
    world.run("INSERT INTO t VALUES (1, 'a', 1)")
    world.position = json.dumps({"clock": 7, **json.loads(world.position)})
    assert [row["entry"] for row in world.read()] == ["1"]


def test_a_replaced_row_is_deleted_before_the_rename(world: World) -> None:
    world.run("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    world.read()
    world.run("UPDATE OR REPLACE t SET id = 2, email = 'c' WHERE id = 1")
    said = [(row["previous"], row["entry"], row["after"] is not None) for row in world.read()]
    assert said == [(None, "2", False), (None, "3", False), ("1", "2", True)]
    assert world.known() == world.truth()


def test_triggers_of_the_application_that_write_the_same_table(tmp_path: Path) -> None:
    """A statement within a statement leaves the notes of the outer one alone."""
    world = World(tmp_path / "a.db")
    world.run(
        "CREATE TRIGGER a BEFORE INSERT ON t WHEN NEW.id < 100 BEGIN INSERT INTO t VALUES (NEW.id + 100, "
        "NEW.email || '!', 0); UPDATE t SET n = n + 1 WHERE email = NEW.email; END",
        "CREATE TRIGGER b AFTER INSERT ON t WHEN NEW.id < 100 BEGIN INSERT INTO t VALUES (NEW.id + 200, "
        "NEW.email || '?', 0); UPDATE t SET id = id + 300 WHERE id = NEW.id + 100; END",
    )
    for statement in ("INSERT INTO t VALUES (1, 'a', 1)", "INSERT INTO t VALUES (2, 'b', 1)",
                      "REPLACE INTO t VALUES (3, 'a', 1)",
                      "UPDATE OR REPLACE t SET id = 2, email = 'c' WHERE id = 3",
                      "REPLACE INTO t VALUES (9, 'c', 5)"):  # fmt: skip
        world.run(statement)
        world.read()
        assert world.known() == world.truth(), statement
    world.connection.close()


def test_notes_of_insertions_that_were_ignored_do_not_pile_up(world: World) -> None:
    world.read()
    world.run("INSERT INTO t VALUES (1, 'a', 1)", *["INSERT OR IGNORE INTO t VALUES (2, 'a', 1)"] * 5)
    rivals = f"SELECT count(*) FROM {quote(rivals_name('t'))}"
    assert world.connection.execute(rivals).fetchone() == (1,)
    world.read()
    assert world.connection.execute(rivals).fetchone() == (0,)


def test_what_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    with pytest.raises(SourceError, match="there is no such file"):
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

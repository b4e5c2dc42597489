"""What the doctor prints helps in one round, and no write of the application fails after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.source.harness import clear, now
from tests.source.life import State, applied
from tidegauge.errors import SourceError
from tidegauge.run.gauge import Gauge
from tidegauge.source.postgres.source import Postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers.postgres import Server
    from tidegauge.model.source import Check


class World:
    def __init__(self, server: Server, schema: str) -> None:
        self.server, self.schema = server, schema
        self.admin = psycopg.connect(server.dsn(), autocommit=True)
        self.run(
            f"CREATE SCHEMA {schema}", f"SET search_path = {schema}",
            f"CREATE ROLE {schema}_reader LOGIN REPLICATION",
            f"GRANT USAGE ON SCHEMA {schema} TO {schema}_reader",
            f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {schema}_reader",
        )  # fmt: skip
        self.sources: list[Postgres] = []

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.admin.execute(statement.encode())

    def source(self, **options: Any) -> Postgres:
        """A gauge's source whose role may not make anything itself."""
        given: dict[str, Any] = {"key": "id", "publication": f"{self.schema}_p", "slot": f"{self.schema}_s"}
        made = Postgres(self.server.dsn(user=f"{self.schema}_reader"), "t", schema=self.schema, patience=5,
                        **(given | options))  # fmt: skip
        self.sources.append(made)
        return made

    def fix(self, source: Postgres) -> None:
        """One round: what is printed is carried out in its order,
        and the application writes after each statement."""
        fixes = [check.fix for check in source.doctor() if not check.ok]
        assert fixes
        for fix in fixes:
            assert fix is not None
            for statement in fix.split("; "):
                self.run(statement)
                self.write()
        assert bad(source.doctor()) == {}

    def write(self) -> None:
        """Update and delete in every table and partition of the schema, as an application does."""
        for (name,) in self.admin.execute(
            "SELECT c.oid::regclass::text FROM pg_class c WHERE "
            "relkind = 'r' AND relnamespace = %s::regnamespace",
            [self.schema],
        ).fetchall():
            self.run(
                f"BEGIN; UPDATE {name} SET n = n + 1000; DELETE FROM {name}; ROLLBACK",
                f"UPDATE {name} SET n = n + 1000",
            )

    def follows(self, source: Postgres) -> None:
        """Rows are updated, renamed and deleted in every partition; what is known is what is there."""
        state: State = {}
        position: str | None = None
        for step in ("SELECT 1", "UPDATE t SET n = n + 1000", "UPDATE t SET id = id + 1 WHERE id % 2 = 0",
                     "DELETE FROM t WHERE id % 3 = 0", "DELETE FROM t"):  # fmt: skip
            self.run(step)
            for batch in source.read(position, now()):
                state, position = applied(state, batch), batch.position
                source.acknowledge(position)
            truth = {str(key): n for key, n in self.admin.execute("SELECT id, n FROM t WHERE id IS NOT NULL")}
            assert {key: row["n"] for key, (_, row) in state.items()} == truth, step

    def end(self) -> None:
        for source in self.sources:
            source.close()
        clear(self.admin)
        self.run(f"DROP SCHEMA {self.schema} CASCADE", f"DROP OWNED BY {self.schema}_reader",
                 f"DROP ROLE {self.schema}_reader")  # fmt: skip
        self.admin.close()


def bad(checks: list[Check]) -> dict[str, str | None]:
    return {check.name: check.fix for check in checks if not check.ok}


@pytest.fixture(params=[0, 1])
def world(
    request: pytest.FixtureRequest, postgres_servers: Callable[[int], Server], fresh: str
) -> Iterator[World]:
    made = World(postgres_servers(request.param), fresh)
    yield made
    made.end()


NESTED = [
    "CREATE TABLE t ({columns}) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (50)",
    "CREATE TABLE high PARTITION OF t FOR VALUES FROM (50) TO (1000) PARTITION BY HASH (id)",
    "CREATE TABLE even PARTITION OF high FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE odd PARTITION OF high FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
]
FILL = "INSERT INTO t (id, n) SELECT 2 * i, i FROM generate_series(1, 60) i"


@pytest.mark.parametrize(
    ("columns", "also"),
    [
        ("id int, n int", []),
        ("id int, n int", ["ALTER TABLE t REPLICA IDENTITY FULL"]),  # does not reach the partitions
        ("id int, n int", ["ALTER TABLE even REPLICA IDENTITY FULL", "ALTER TABLE low ADD PRIMARY KEY (id)"]),
        ("id int PRIMARY KEY, n int", ["ALTER TABLE odd REPLICA IDENTITY NOTHING"]),
        ("id int PRIMARY KEY, n int NOT NULL",
         ["CREATE UNIQUE INDEX other ON odd (n)", "ALTER TABLE odd REPLICA IDENTITY USING INDEX other"]),
        ("id int PRIMARY KEY, n int", ["ALTER TABLE t REPLICA IDENTITY FULL"]),
    ],
    ids=["bare", "root full", "mixed", "nothing", "other key", "keyed, root full"],
)  # fmt: skip
def test_every_partition_is_looked_at(world: World, columns: str, also: list[str]) -> None:
    world.run(*(statement.format(columns=columns) for statement in NESTED), *also, FILL)
    source = world.source()
    before = bad(source.doctor())
    assert ("table" in before) == (
        also != ["ALTER TABLE t REPLICA IDENTITY FULL"] or "PRIMARY" not in columns
    )
    if "table" in before:
        with pytest.raises(SourceError, match="in every partition"):
            list(source.read(None, now()))
        with pytest.raises(SourceError, match="in every partition"):
            source.install()
    world.fix(source)
    world.follows(source)


def test_a_partition_whose_key_is_changed_later(world: World) -> None:
    world.run(*(statement.format(columns="id int PRIMARY KEY, n int NOT NULL") for statement in NESTED), FILL)
    source = world.source()
    world.fix(source)
    (loaded,) = source.read(None, now())
    source.acknowledge(loaded.position)
    world.run(
        "CREATE UNIQUE INDEX other ON odd (n)", "ALTER TABLE odd REPLICA IDENTITY USING INDEX other",
        "DELETE FROM t WHERE id = (SELECT min(id) FROM odd)",
    )  # fmt: skip
    with pytest.raises(SourceError, match="in every partition"):
        list(source.read(loaded.position, now()))
    (fix,) = bad(source.doctor(loaded.position)).values()
    assert fix is not None
    world.run(fix)
    with pytest.raises(
        SourceError, match="other columns than the key"
    ):  # the log names the deleted row by n alone
        list(source.read(loaded.position, now()))
    source.close()
    reloading = world.source(on_lost="reload")
    rows = [
        row for batch in reloading.read(loaded.position, now()) for row in batch.rows["entry"].to_pylist()
    ]
    assert rows[0] is None
    assert len(rows) == 60


def test_a_publication_whose_other_tables_have_no_key(world: World) -> None:
    world.run(
        "CREATE TABLE t (id int PRIMARY KEY, n int)", "CREATE TABLE bare (id int, n int)",
        f"CREATE PUBLICATION {world.schema}_p FOR TABLE t, bare WITH (publish = 'insert')", FILL,
    )  # fmt: skip
    source = world.source()
    (check,) = (check for check in source.doctor() if not check.ok)
    assert (check.name, check.fix) == ("publication", None)
    assert "Choose another" in check.detail
    with pytest.raises(SourceError, match="Choose another"):
        list(source.read(None, now()))
    world.run("ALTER TABLE bare ADD PRIMARY KEY (id)")
    world.fix(source)
    world.follows(source)


def test_everything_wrong_with_a_publication_is_one_round(world: World) -> None:
    world.run(*(statement.format(columns="id int PRIMARY KEY, n int") for statement in NESTED), FILL)
    world.run(f"CREATE PUBLICATION {world.schema}_p WITH (publish = 'insert')")
    source = world.source()
    world.fix(source)
    world.follows(source)


def test_a_column_list_of_another_publication(world: World) -> None:
    """REPLICA IDENTITY FULL would make PostgreSQL refuse updates: the list does not cover it."""
    world.run("CREATE TABLE t (id int, n int, note text)", FILL)
    world.run(f"CREATE PUBLICATION {world.schema}_other FOR TABLE t (id, n) WITH (publish = 'insert')")
    checks = [check for check in world.source().doctor() if not check.ok]
    assert [(check.name, check.fix) for check in checks] == [("table", None)]
    assert "column list" in checks[0].detail
    world.run(f"DROP PUBLICATION {world.schema}_other")
    source = world.source()
    world.fix(source)
    world.follows(source)


def test_generated_columns_and_the_whole_row_as_identity(world: World) -> None:
    world.run("CREATE TABLE t (id int, n int, twice int GENERATED ALWAYS AS (n * 2) STORED)", FILL)
    source = world.source()
    world.fix(source)
    world.follows(source)


class TestStore:
    """The doctor looks at where the store has come."""

    @pytest.fixture
    def gauge(self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Gauge]:
        monkeypatch.setenv("DOCTOR_DSN", world.server.dsn())
        world.run("CREATE TABLE t (id int PRIMARY KEY, n int)", FILL)

        def declared(*lines: str, store: str = "tidegauge.db") -> Gauge:
            slot = [] if any(line.startswith("slot") for line in lines) else [f'slot = "{world.schema}_s"']
            text = DECLARATION.format(more="\n".join([*slot, *lines]), schema=world.schema)
            (tmp_path / "tidegauge.toml").write_text(text)
            return Gauge.from_file(tmp_path / "tidegauge.toml", store=tmp_path / store)

        return declared

    def test_a_slot_that_was_dropped(self, world: World, gauge: Callable[..., Gauge]) -> None:
        assert bad(gauge().doctor()) == {}
        list(gauge().run())
        assert bad(gauge().doctor()) == {}
        world.run(f"SELECT pg_drop_replication_slot('{world.schema}_s')", "DELETE FROM t WHERE id > 60")
        (check,) = (check for check in gauge().doctor() if not check.ok)
        assert (check.name, check.fix) == ("slot", '[source] on_lost = "reload"')
        assert "cannot continue from its position" in check.detail
        with pytest.raises(SourceError, match="is gone"):
            list(gauge().run())
        assert bad(gauge('on_lost = "reload"').doctor()) == {}  # what was printed leads to a gauge that runs
        list(gauge('on_lost = "reload"').run())
        assert bad(gauge('on_lost = "reload"').doctor()) == {}
        assert bad(gauge().doctor()) == {}

    def test_a_second_gauge_on_the_same_slot(self, world: World, gauge: Callable[..., Gauge]) -> None:
        list(gauge().run())
        (check,) = (check for check in gauge(store="second.db").doctor() if not check.ok)
        assert check.name == "slot"
        assert "belongs to a gauge that has already loaded" in check.detail
        with pytest.raises(SourceError, match="Nothing was read, committed or spent"):
            list(gauge(store="second.db").run())
        assert gauge(store="second.db").status().plan is None
        list(gauge(f'slot = "{world.schema}_own"', store="second.db").run())
        list(gauge().run())

    def test_a_table_that_was_replaced(self, world: World, gauge: Callable[..., Gauge]) -> None:
        list(gauge().run())
        world.run("ALTER TABLE t RENAME TO u", "CREATE TABLE t (LIKE u INCLUDING ALL)")
        found = bad(gauge().doctor())
        assert found["slot"] == '[source] on_lost = "reload"'


DECLARATION = """
[source]
kind = "postgres"
dsn = "env:DOCTOR_DSN"
table = "t"
schema = "{schema}"
entry = "id"
publication = "{schema}_p"
{more}

[constraint]
at_most = 4

[budget]
epsilon = 1

[release.people]
sql = "SELECT COUNT(*) FROM t"
every = "1 second"
"""

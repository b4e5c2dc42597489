"""What only PostgreSQL can do to a source."""

from __future__ import annotations

import functools
import json
import logging
import re
import threading
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.source.harness import clear, now
from tests.source.life import State, applied
from tidegauge.errors import SourceError, SpecError
from tidegauge.source.batch import spool
from tidegauge.source.postgres import follow as postgres_follow
from tidegauge.source.postgres import pgoutput
from tidegauge.source.postgres.follow import Place
from tidegauge.source.postgres.slot import default_name
from tidegauge.source.postgres.source import Postgres
from tidegauge.source.postgres.stream import lsn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.postgres import Server


class World:
    """A database with a table `t`, and a source that follows it."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.dsn, self.schema = dsn, schema
        self.connection = psycopg.connect(dsn, autocommit=True, options=f"-c search_path={schema}")
        self.run(f"CREATE SCHEMA {schema}")
        self.run("CREATE TABLE t (id integer PRIMARY KEY, person text, note text, age integer)")
        self.run("INSERT INTO t VALUES (1, 'ann', 'a', 1), (2, 'bob', 'b', 2)")
        self.sources: list[Postgres] = []
        self.position: str | None = None
        self.state: State = {}

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement.encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(query.encode()).fetchall()

    def source(self, **options: Any) -> Postgres:
        defaults: dict[str, Any] = {"table": "t", "key": "id", "patience": 10, "schema": self.schema}
        made = Postgres(self.dsn, **(defaults | options))
        self.sources.append(made)
        return made

    def read(self, source: Postgres, *, acknowledge: bool = True) -> list[dict[str, Any]]:
        """Read to now, keep what was read, and give the mutations."""
        mutations = []
        for batch in source.read(self.position, now()):
            self.state, self.position = applied(self.state, batch), batch.position
            mutations += batch.rows.to_pylist()
            if acknowledge:
                source.acknowledge(batch.position)
        return mutations

    def truth(self, columns: str = "id, person, note, age", table: str = "t") -> dict[str, dict[str, Any]]:
        names = columns.split(", ")
        return {
            str(row[0]): dict(zip(names, row, strict=True))
            for row in self.rows(f"SELECT {columns} FROM {table}")
        }

    def known(self) -> dict[str, dict[str, Any]]:
        return {entry: row for entry, (_, row) in self.state.items()}

    def end(self) -> None:
        for source in self.sources:
            source.close()
        clear(self.connection)
        self.connection.close()


@pytest.fixture
def world(postgres: Server, fresh: str) -> Iterator[World]:
    made = World(postgres.dsn(), fresh)
    yield made
    made.end()


LONG = "(SELECT string_agg(md5(g::text), '') FROM generate_series(1, 500) g)"


class TestValues:
    def test_a_load_and_the_stream_say_the_same_of_every_type(self, world: World) -> None:
        world.run(
            "CREATE TYPE mood AS ENUM ('low', 'high')",
            "CREATE DOMAIN years AS integer CHECK (value >= 0)",
            "CREATE DOMAIN ages AS years",
            "CREATE TABLE v (id uuid PRIMARY KEY, b boolean, s smallint, i bigint, f real, d double "
            "precision, n numeric, m numeric(12,3), day date, at timestamp, zoned timestamptz, clock "
            "time, c char(6), x bytea, j jsonb, e mood, a ages, g integer GENERATED ALWAYS AS (1) "
            "STORED, arr integer[], v varchar(9), gap interval)",
        )
        rows = [
            "true, -3, 9223372036854775807, 1.5, 0.1, 12345.678901234, 1.005, '2026-02-28', "
            "'2026-01-01 12:00:00.000001', '2026-01-01 12:00:00+05:45', '23:59:59.5', 'ab', "
            "'\\x00ff', '{\"b\":1}', 'low', 7, '{1,2}', '', '1 day'",
            "false, 3, -1, 'NaN', 'Infinity', 'NaN', -99999999.999, 'infinity', '-infinity', 'infinity', "
            "'24:00:00', '', '', '[]', 'high', 0, '{}', 'é', '0'",
            ", ".join(["NULL"] * 19),
            "NULL, 0, 0, 0, 0, 1e30, 0, '0044-03-15 BC', '20000-01-01', '1900-01-01 00:00:00.5+00', '00:00', "
            "' x ', NULL, NULL, NULL, NULL, NULL, NULL, NULL",
        ]
        names = "id, b, s, i, f, d, n, m, day, at, zoned, clock, c, x, j, e, a, arr, v, gap"
        for number, row in enumerate(rows):
            world.run(
                f"INSERT INTO v ({names}) VALUES ('00000000-0000-0000-0000-00000000000{number}', {row})"
            )
        source = world.source(table="v")
        kinds = dict(source.columns)
        assert kinds["n"] == "DECIMAL(38,9)"
        assert kinds["m"] == "DECIMAL(12,3)"
        assert kinds["a"] == "INTEGER"
        assert kinds["e"] == "VARCHAR"
        assert "g" not in kinds
        loaded = {row["entry"]: row["after"] for row in world.read(source)}
        world.run("UPDATE v SET v = v")
        streamed = {row["entry"]: row["after"] for row in world.read(source)}
        assert repr(loaded) == repr(streamed)
        first, second, third, fourth = (loaded[key] for key in sorted(loaded))
        assert (first["c"], first["x"], first["e"], first["a"]) == ("ab", "\\x00ff", "low", 7)
        assert str(first["zoned"]) == "2026-01-01 06:15:00"
        assert str(first["n"]) == "12345.678901234"
        assert second["n"] is None
        assert str(second["day"]) == "9999-12-31"
        assert second["v"] == "é"
        assert set(third.values()) == {None, "00000000-0000-0000-0000-000000000002"}
        assert str(fourth["day"]) == "0001-01-01"
        assert fourth["n"] > 9 * 10**28
        assert fourth["c"] == " x"

    def test_a_key_of_several_columns(self, world: World) -> None:
        world.run("CREATE TABLE k (a text, b text, n integer, PRIMARY KEY (a, b))",
                  """INSERT INTO k VALUES ('x', 'y","z', 1), ('x","y', 'z', 2)""")  # fmt: skip
        source = world.source(table="k", key=["a", "b"])
        assert len({row["entry"] for row in world.read(source)}) == 2
        world.run("UPDATE k SET n = n + 1", "UPDATE k SET b = 'w' WHERE n = 3")
        changed = world.read(source)
        assert [row["previous"] is not None for row in changed] == [False, False, True]
        assert sorted(row["n"] for row in world.known().values()) == [2, 3]

    def test_long_values_that_did_not_change(self, world: World) -> None:
        source = world.source(unit="person")
        world.read(source)
        world.run(f"UPDATE t SET note = {LONG} WHERE id = 1", "UPDATE t SET age = 5 WHERE id = 1")
        first, second = world.read(source)
        assert first["kept"] is None
        assert second["kept"] == ["note"]
        assert second["after"]["note"] is None
        assert world.known() == world.truth()
        world.run("ALTER TABLE t REPLICA IDENTITY FULL", "UPDATE t SET age = 6 WHERE id = 1")
        (third,) = world.read(source)
        assert third["kept"] is None
        assert third["informed"]
        assert world.known() == world.truth()

    def test_a_long_unit_that_did_not_change(self, world: World) -> None:
        source = world.source(unit="person")
        source.select(["age"])
        world.run(f"UPDATE t SET person = {LONG} WHERE id = 1")
        world.read(source)
        world.run("UPDATE t SET age = 5 WHERE id = 1")
        (row,) = world.read(source)
        assert row["unit"] is None
        assert row["kept"] == ["person"]

    def test_a_query_may_need_no_column_at_all(self, world: World) -> None:
        source = world.source()
        source.select([])
        assert [row["after"] for row in world.read(source)] == [{}, {}]
        world.run("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (3)")
        assert [row["after"] for row in world.read(source)] == [None, {}]

    def test_a_row_without_a_key_counts_nowhere(self, world: World) -> None:
        world.run("CREATE TABLE f (id integer, n integer)", "ALTER TABLE f REPLICA IDENTITY FULL")
        source = world.source(table="f")
        world.read(source)
        world.run(
            "INSERT INTO f VALUES (NULL, 1)",
            "UPDATE f SET id = 7",
            "UPDATE f SET id = 8",
            "UPDATE f SET id = NULL",
            "DELETE FROM f",
        )
        rows = world.read(source)
        said = [(row["previous"], row["entry"], row["after"] and row["after"]["n"]) for row in rows]
        assert said == [
            (None, "", None),
            (None, "7", 1),
            ("7", "8", 1),
            (None, "8", None),
            (None, "", None),
        ]


class TestTime:
    def test_the_end_of_a_read_is_fixed_when_it_begins(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(postgres_follow, "_BATCH", 3)
        source = world.source()
        world.read(source)
        world.run(*(f"INSERT INTO t VALUES ({number})" for number in range(3, 10)))
        until = now()
        reading = source.read(world.position, until)
        batches = [next(reading)]
        world.run("INSERT INTO t VALUES (99)")
        batches += reading
        assert [batch.rows["entry"].to_pylist() for batch in batches] == [
            ["3", "4", "5"],
            ["6", "7", "8"],
            ["9"],
        ]
        assert [batch.upto for batch in batches] == [None, None, until]
        world.position = batches[-1].position
        assert [row["entry"] for row in world.read(source)] == ["99"]

    @pytest.mark.parametrize("until", [-1, 1, 2**62])
    def test_stamps_are_those_of_the_commits_and_hold_nothing_back(self, world: World, until: int) -> None:
        """Whatever moment is asked for: what the log holds is delivered,
        with its own times, and complete at the end."""
        source = world.source()
        world.read(source)
        before = now()
        world.run(
            "INSERT INTO t VALUES (3)", "BEGIN; INSERT INTO t VALUES (4); INSERT INTO t VALUES (5); COMMIT"
        )
        after = now()
        (batch,) = source.read(world.position, until)
        assert batch.upto == until
        assert batch.rows["entry"].to_pylist() == ["3", "4", "5"]
        first, second, third = batch.rows["time"].to_pylist()
        assert before <= first < second == third <= after
        world.position = batch.position
        assert world.read(source) == []

    def test_a_clock_that_was_set_back_changes_neither_order_nor_times(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = world.source()
        world.read(source)
        stamps = iter([5_000_000, 1, 2**61])
        begin = pgoutput.begin
        monkeypatch.setattr(pgoutput, "begin", lambda message: (begin(message)[0], next(stamps)))
        world.run(*(f"UPDATE t SET age = {age} WHERE id = 1" for age in (10, 20, 30)))
        (batch,) = source.read(world.position, now())
        rows = batch.rows.to_pylist()
        assert [(row["time"], row["after"]["age"]) for row in rows] == [(5_000_000, 10), (1, 20), (2**61, 30)]

    def test_a_position_of_an_older_version(self, world: World) -> None:
        source = world.source()
        world.read(source)
        assert world.position is not None
        world.run("INSERT INTO t VALUES (3)")
        world.position = json.dumps({"clock": 7, **json.loads(world.position)})
        assert [row["entry"] for row in world.read(source)] == ["3"]

    def test_an_open_transaction_does_not_hold_up_the_others(self, world: World) -> None:
        source = world.source()
        world.read(source)
        with psycopg.connect(world.dsn) as other:
            other.execute(f"INSERT INTO {world.schema}.t SELECT g FROM generate_series(100, 2000) g".encode())
            world.run("INSERT INTO t VALUES (3)")
            begin = time.monotonic()
            assert [row["entry"] for row in world.read(source)] == ["3"]
            assert time.monotonic() - begin < 10
            other.commit()
        assert len(world.read(source)) == 1901

    def test_a_large_transaction_is_one_batch(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgres_follow, "_BATCH", 100)
        monkeypatch.setattr(postgres_follow, "_CHUNK", 64)
        monkeypatch.setattr(spool.Spool.__init__, "__defaults__", (1 << 12,))
        source = world.source()
        world.read(source)
        world.run(
            *["INSERT INTO t SELECT max(id) + 1 FROM t"] * 250,
            "INSERT INTO t SELECT g FROM generate_series(1000, 5999) g",
        )
        batches = list(source.read(world.position, now()))
        assert sum(batch.rows.num_rows for batch in batches) == 5250
        assert len(batches) >= 3
        assert max(batch.rows.num_rows for batch in batches) >= 5000
        assert [batch.upto is None for batch in batches] == [True] * (len(batches) - 1) + [False]


class TestSchema:
    def test_columns_may_come_and_unused_ones_go(self, world: World) -> None:
        source = world.source()
        source.select(["age", "note"])
        world.read(source)
        world.run(
            "ALTER TABLE t ADD COLUMN more integer DEFAULT 7",
            "INSERT INTO t VALUES (3, 'c', 'c', 3)",
            "ALTER TABLE t DROP COLUMN person",
            "UPDATE t SET age = 4 WHERE id = 3",
            "ALTER TABLE t ALTER more TYPE text",
            "UPDATE t SET age = 5 WHERE id = 3",
        )
        assert [row["after"]["age"] for row in world.read(source)] == [3, 4, 5]

    def test_a_wider_column_of_the_same_type_is_fine(self, world: World) -> None:
        world.run("ALTER TABLE t ALTER note TYPE varchar(10)")
        source = world.source()
        world.read(source)
        world.run("ALTER TABLE t ALTER note TYPE varchar(20)", "UPDATE t SET age = 9",
                  "ALTER TABLE t ADD more text",
                  "UPDATE t SET age = 10")  # fmt: skip
        assert len(world.read(source)) == 4
        assert world.known() == world.truth()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ("ALTER TABLE t DROP COLUMN age", 'the column "age" of "{schema}"."t" was dropped or renamed'),
            (
                "ALTER TABLE t RENAME COLUMN age TO years",
                'the column "age" of "{schema}"."t" was dropped or renamed',
            ),
            ("ALTER TABLE t ALTER age TYPE bigint", 'the column "age" of "{schema}"."t" has another type'),
            ("ALTER TABLE t REPLICA IDENTITY NOTHING", "the server's log does not identify the rows"),
            ("ALTER TABLE t RENAME TO u", 'there is no table "{schema}"."t"'),
            ("ALTER TABLE t RENAME TO u; CREATE TABLE t (LIKE u INCLUDING ALL)", "is another than the one"),
            ("DROP TABLE t", 'there is no table "{schema}"."t"'),
        ],
    )
    def test_what_we_stand_on_may_not_change(self, world: World, change: str, message: str) -> None:
        source = world.source()
        world.read(source)
        world.run("UPDATE t SET note = 'before'", change)
        if "DROP TABLE" not in change and "NOTHING" not in change:
            world.run(f"UPDATE {'u' if 'RENAME TO' in change else 't'} SET note = 'after'")
        for attempt in (source, world.source()):
            with pytest.raises(SourceError, match=re.escape(message.format(schema=world.schema))):
                world.read(attempt)
        (slot,) = world.rows("SELECT confirmed_flush_lsn < pg_current_wal_lsn() FROM pg_replication_slots")
        assert slot == (True,), "nothing was acknowledged"

    def test_a_publication_that_no_longer_tells(self, world: World) -> None:
        source = world.source(publication="ours")
        world.read(source)
        for change, fix in (
            (
                "ALTER PUBLICATION ours SET (publish = 'insert')",
                "SET (publish = 'insert, update, delete, truncate')",
            ),
            ("ALTER PUBLICATION ours DROP TABLE t", 'ALTER PUBLICATION "ours" ADD TABLE "{schema}"."t";'),
        ):
            world.run(change)
            with pytest.raises(SourceError, match=re.escape(fix.format(schema=world.schema))):
                world.read(source)
        if world.connection.info.server_version < 150_000:  # publications have no filters
            return
        for part in ("WHERE (age > 1)", "(id, note)"):
            world.run("DROP PUBLICATION ours", f"CREATE PUBLICATION ours FOR TABLE t {part}")
            with pytest.raises(SourceError, match="does not contain every change"):
                world.read(source)


class TestSlot:
    def test_a_slot_that_is_gone(self, world: World) -> None:
        source = world.source(slot="gone")
        world.read(source)
        source.close()
        world.run(
            "SELECT pg_drop_replication_slot('gone')",
            "UPDATE t SET age = 8 WHERE id = 1",
            "DELETE FROM t WHERE id = 2",
        )
        with pytest.raises(SourceError, match=r'slot gone is gone.*on_lost = "reload"'):
            world.read(source)
        mutations = world.read(world.source(slot="gone", on_lost="reload"))
        assert mutations[0]["entry"] is None
        assert len({mutation["time"] for mutation in mutations}) == 1
        assert world.known() == world.truth()
        world.run("UPDATE t SET age = 9 WHERE id = 1")
        world.read(world.source(slot="gone"))
        assert world.known() == world.truth()

    def test_a_reload_that_was_not_committed_is_done_again(self, world: World) -> None:
        source = world.source(slot="again")
        world.read(source)
        source.close()
        world.run("SELECT pg_drop_replication_slot('again')", "DELETE FROM t WHERE id = 2")
        position, state = world.position, world.state
        lost = world.source(slot="again", on_lost="reload")
        world.read(lost, acknowledge=False)
        lost.close()
        world.position, world.state = position, state
        world.run("INSERT INTO t VALUES (7)")
        world.read(world.source(slot="again", on_lost="reload"))
        assert world.known() == world.truth()

    def test_a_slot_that_another_process_reads(self, world: World) -> None:
        source = world.source(slot="busy")
        world.read(source)
        list(source.read(world.position, now()))
        with pytest.raises(SourceError, match="another process reads this replication slot"):
            list(world.source(slot="busy", patience=0.5).read(world.position, now()))

    def test_a_slot_of_another_gauge_is_left_alone(self, world: World) -> None:
        source = world.source(slot="theirs")
        world.read(source)
        source.close()
        with pytest.raises(SourceError, match="belongs to a gauge that has already loaded"):
            list(world.source(slot="theirs").read(None, now()))
        world.run("INSERT INTO t VALUES (3)")
        assert len(world.read(source)) == 1

    def test_a_slot_of_another_kind(self, world: World) -> None:
        source = world.source(slot="kind")
        world.read(source)
        source.close()
        world.run(
            "SELECT pg_drop_replication_slot('kind')",
            "SELECT pg_create_logical_replication_slot('kind', 'test_decoding')",
        )
        with pytest.raises(SourceError, match="of another plugin"):
            world.read(source)

    def test_a_store_that_is_an_old_copy(self, world: World) -> None:
        source = world.source()
        world.read(source)
        old, state = world.position, world.state
        world.run("INSERT INTO t VALUES (3)")
        world.read(source)
        assert old is not None
        deadline = time.monotonic() + 600
        while not world.rows(
            f"SELECT 1 FROM pg_replication_slots WHERE confirmed_flush_lsn > '{lsn(Place.parse(old).lsn)}'"
        ):
            assert time.monotonic() < deadline
            world.read(source)
        source.close()
        world.position, world.state = old, state
        with pytest.raises(SourceError, match="the store is an old copy"):
            world.read(world.source())

    def test_another_server(self, world: World) -> None:
        source = world.source()
        world.read(source)
        assert world.position is not None
        world.position = re.sub(r'"system":"\d+"', '"system":"1"', world.position)
        source.close()
        with pytest.raises(SourceError, match="another PostgreSQL server than the one that was followed"):
            world.read(source)
        world.position = re.sub(r'"lsn":\d+', f'"lsn":{2**60}', world.position)
        with pytest.raises(SourceError, match="log ends before"):
            world.read(source)

    def test_a_table_that_moved_is_loaded_again_where_that_is_wanted(self, world: World) -> None:
        source = world.source()
        world.read(source)
        source.close()
        assert world.position is not None
        world.run(
            "ALTER TABLE t RENAME TO u",
            "CREATE TABLE t (LIKE u INCLUDING ALL)",
            "INSERT INTO t VALUES (2, 'bob', 'b', 9)",
            "DROP TABLE u",
            f'ALTER PUBLICATION "{source._publication}" ADD TABLE t',
        )
        for pattern, other in ((r'"system":"\d+"', '"system":"1"'), (r'"lsn":\d+', f'"lsn":{2**60}')):
            reload = world.source(on_lost="reload")
            world.read(reload)
            assert world.known() == world.truth()
            reload.close()
            world.position = re.sub(pattern, other, world.position)
            world.run("UPDATE t SET age = age + 1")
        world.read(world.source(on_lost="reload"))
        assert world.known() == world.truth()

    def test_a_crash_between_the_commit_and_the_acknowledgement_of_the_load(self, world: World) -> None:
        source = world.source(slot="early")
        world.read(source, acknowledge=False)
        source._disconnect()  # as a crash would
        assert world.rows("SELECT slot_name FROM pg_replication_slots") == [("early_loading",)]
        world.run("INSERT INTO t VALUES (3)")
        assert len(world.read(world.source(slot="early"))) == 1
        assert world.rows("SELECT slot_name FROM pg_replication_slots") == [("early",)]

    def test_names(self) -> None:
        with pytest.raises(SpecError, match="slot"):
            Postgres("", "t", key="id", slot='x"; drop')
        assert default_name("d", "s", "a") != default_name("d", "s", "A") != default_name("e", "s", "A")
        assert len(default_name("d", "s", "x" * 63)) <= 55


class TestRights:
    def test_replication_and_select_are_enough(self, world: World, postgres: Server) -> None:
        world.run(
            "CREATE ROLE reader LOGIN REPLICATION",
            f"GRANT USAGE ON SCHEMA {world.schema} TO reader",
            "GRANT SELECT ON t TO reader",
            "CREATE PUBLICATION ours FOR TABLE t",
        )
        dsn = postgres.dsn(user="reader")
        reader = functools.partial(Postgres, dsn, "t", key="id", schema=world.schema)
        source = reader(publication="ours", slot="rights")
        world.sources.append(source)
        try:
            assert all(check.ok for check in source.doctor())
            world.read(source)
            world.run("INSERT INTO t VALUES (3)")
            world.read(source)
            assert world.known() == world.truth()
            missing = reader(publication="other", slot="rights2")
            with pytest.raises(
                SourceError, match=re.escape(f'CREATE PUBLICATION "other" FOR TABLE "{world.schema}"."t";')
            ):
                list(missing.read(None, now()))
            world.run("REVOKE SELECT ON t FROM reader")
            with pytest.raises(SourceError, match="SQLSTATE 42501"):
                list(reader(publication="ours", slot="rights3").read(None, now()))
        finally:
            world.run("DROP OWNED BY reader", "DROP ROLE reader")

    def test_a_policy_may_not_hide_rows(self, world: World, postgres: Server) -> None:
        world.run("CREATE ROLE half LOGIN REPLICATION", f"GRANT USAGE ON SCHEMA {world.schema} TO half",
                  "GRANT SELECT ON t TO half", "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
                  "CREATE POLICY half ON t USING (id = 1)",
                  "CREATE PUBLICATION ours FOR TABLE t")  # fmt: skip
        source = Postgres(postgres.dsn(user="half"), "t", key="id", publication="ours", schema=world.schema)
        world.sources.append(source)
        try:
            with pytest.raises(SourceError, match="SQLSTATE 42501"):
                list(source.read(None, now()))
            failed = {check.name: check.fix for check in source.doctor() if not check.ok}
            assert failed == {"row security": 'ALTER ROLE "half" BYPASSRLS;'}
        finally:
            world.run("DROP OWNED BY half", "DROP ROLE half")


class TestConnection:
    def test_a_dropped_connection_is_opened_again(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        source = world.source()
        world.read(source)
        with caplog.at_level(logging.INFO):
            for number in range(3, 8):
                world.run(f"INSERT INTO t VALUES ({number})",
                          "SELECT pg_terminate_backend(pid) FROM "
                          "pg_stat_activity WHERE application_name = 'tidegauge'")  # fmt: skip
                assert len(world.read(source)) == 1
        assert world.known() == world.truth()
        assert "trying again for at most 10 s" in caplog.text
        assert "not-to-be-shown" not in caplog.text
        assert "tg-pg-" not in caplog.text

    def test_no_secret_is_told(
        self, postgres: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wrong = [
            ("host=/nowhere dbname=sesame password=not-to-be-shown", "cannot be reached"),
            (postgres.dsn(user="nobody-at-all"), "refuses the login"),
            (postgres.dsn(dbname="sesame"), "has no such database"),
            ("this is not = a connection string not-to-be-shown", "cannot be used"),
        ]
        monkeypatch.setattr("tidegauge.source.postgres.access._SESSION", {"connect_timeout": "1"})
        with caplog.at_level(logging.DEBUG):
            for dsn, message in wrong:
                source = Postgres(dsn, "t", key="id", patience=0.1)
                with pytest.raises((SourceError, SpecError), match=message) as refusal:
                    list(source.read(None, now()))
                assert refusal.value.__suppress_context__
                said = f"{refusal.value} {source!r} {caplog.text}"
                if "cannot be used" not in message:
                    said += str(source.doctor())
                assert not re.search("not-to-be-shown|sesame|nowhere|nobody-at-all|tg-pg-", said)

    def test_a_secret_from_the_environment(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GAUGE_DSN", world.dsn)
        source = Postgres("env:GAUGE_DSN", "t", key="id", schema=world.schema)
        assert "age" in source.columns
        source.close()
        with pytest.raises(SpecError, match="NO_SUCH_VARIABLE is not set"):
            _ = Postgres("env:NO_SUCH_VARIABLE", "t", key="id").columns

    def test_a_load_among_writers_misses_nothing(self, world: World) -> None:
        stop = threading.Event()

        def write(number: int) -> None:
            with psycopg.connect(
                world.dsn, autocommit=True, options=f"-c search_path={world.schema}"
            ) as connection:
                n = 0
                while not stop.is_set():
                    n += 1
                    key = number * 1_000_000 + n
                    connection.execute("INSERT INTO t VALUES (%s, 'w', 'n', 1)", [key])
                    connection.execute("UPDATE t SET age = age + 1 WHERE id = %s", [key - 1])
                    connection.execute("DELETE FROM t WHERE id = %s", [key - 3])

        writers = [threading.Thread(target=write, args=[number]) for number in (1, 2)]
        for writer in writers:
            writer.start()
        try:
            time.sleep(0.2)
            source = world.source()
            for _ in range(3):
                world.read(source)
                time.sleep(0.1)
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        world.read(source)
        assert world.known() == world.truth()

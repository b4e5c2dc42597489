"""The parts that sources are made of."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.source import Check
from tidegauge.source.batch.names import literal, quote, secret
from tidegauge.source.batch.rows import key
from tidegauge.source.batch.spool import Spool
from tidegauge.source.batch.values import arrow_type, from_text, from_values
from tidegauge.source.postgres.access import Patience, final
from tidegauge.source.postgres.login import LoginRefused, NoTLS


def plain(column: pa.Array) -> list[Any]:
    """Values; an instant without a zone as text."""
    return [str(value) if isinstance(value, datetime) else value for value in column.to_pylist()]


class TestValues:
    @pytest.mark.parametrize(
        ("kind", "said", "wanted"),
        [
            ("BIGINT", ["1", None, "-9223372036854775808"], [1, None, -(2**63)]),
            ("INTEGER", ["1", "99999999999", "x"], [1, 2**31 - 1, None]),
            ("BOOLEAN", ["t", "FALSE", "1", "maybe", None], [True, False, True, None, None]),
            ("DECIMAL(5,2)", ["1.5", "NaN", "1e9", "-1e9", "0.125"],
             [Decimal("1.50"), None, Decimal("999.99"), Decimal("-999.99"), Decimal("0.12")]),
            ("DATE", ["2026-01-31", "infinity", "0044-03-15 BC", "12026-01-01"],
             [date(2026, 1, 31), date.max, date.min, date.max]),
            ("TIMESTAMP", ["2026-01-31 10:00:00.5", None], ["2026-01-31 10:00:00.500000", None]),
            ("TIMESTAMP", [None, "2026-01-31 10:00:00+02"], [None, "2026-01-31 08:00:00"]),
            ("TIMESTAMP", ["2026-01-31T10:00:00Z", "-infinity"],
             ["2026-01-31 10:00:00", "0001-01-01 00:00:00"]),
            ("DOUBLE", ["1.5", "Infinity"], [1.5, float("inf")]),
            ("VARCHAR", ["", None, "é"], ["", None, "é"]),
        ],
    )  # fmt: skip
    def test_text(self, kind: str, said: list[str | None], wanted: list[Any]) -> None:
        column = from_text(pa.array(said, pa.string()), kind)
        assert column.type == arrow_type(kind)
        assert plain(column) == wanted

    @pytest.mark.parametrize(
        ("kind", "said", "wanted"),
        [
            ("BIGINT", [1, 2.0, 2.5, "3", "x", None, 2**70], [1, 2, None, 3, None, None, 2**63 - 1]),
            ("DECIMAL(10,2)", [0.1, 1, "2.345", None, float("nan")],
             [Decimal("0.10"), Decimal(1), Decimal("2.34"), None, None]),
            ("VARCHAR", ["a", 1, True, b"\x01", None], ["a", "1", "true", "01", None]),
            ("BOOLEAN", [1, 0, "t", None, 2.5], [True, False, True, None, True]),
            ("DATE", [1, date(2026, 1, 1), datetime(2026, 1, 2, tzinfo=UTC), "2026-01-03"],
             [date(1970, 1, 2), date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)]),
            ("TIMESTAMP", [1, date(2026, 1, 1), datetime(2026, 1, 2, tzinfo=UTC)],
             ["1970-01-01 00:00:00.000001", "2026-01-01 00:00:00", "2026-01-02 00:00:00"]),
        ],
    )  # fmt: skip
    def test_values(self, kind: str, said: list[Any], wanted: list[Any]) -> None:
        assert plain(from_values(said, kind)) == wanted

    def test_a_time_of_day(self) -> None:
        assert from_text(pa.array(["00:00:01.5", "24:00:00"]), "TIME").cast(pa.int64()).to_pylist() == [
            1_500_000,
            None,
        ]

    def test_a_type_that_is_none(self) -> None:
        with pytest.raises(SpecError, match="'BLOB' is not a type"):
            arrow_type("BLOB")


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), unique=True, min_size=1))
def test_different_keys_differ(keys: list[tuple[str, str]]) -> None:
    joined = key([pa.array([a for a, _ in keys], pa.string()), pa.array([b for _, b in keys], pa.string())])
    assert len(set(joined.to_pylist())) == len(keys)


def test_a_key_is_json_where_its_parts_are_plain() -> None:
    assert json.loads(key([pa.array(['a"\\']), pa.array(["b"])])[0].as_py()) == ['a"\\', "b"]
    assert key([pa.array(["a"]), pa.array([None], pa.string())]).to_pylist() == [None]


def test_names_are_only_names() -> None:
    assert quote('x"; drop table y; --') == '"x""; drop table y; --"'
    assert literal("o'clock") == "'o''clock'"


def test_a_secret_is_named_by_its_variable_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIDDEN", "sesame")
    assert secret("env:HIDDEN", key="source.dsn") == "sesame"
    assert secret("open", key="source.dsn") == "open"
    with pytest.raises(SpecError, match="MISSING is not set"):
        secret("env:MISSING", key="source.dsn")


def test_a_check_that_is_passed_needs_no_fix() -> None:
    assert Check("a", ok=True, detail="", fix="do").fix is None
    assert Check("a", ok=False, detail="", fix="do").fix == "do"


class TestSpool:
    schema = pa.schema([("n", pa.int64())])

    def table(self, start: int) -> pa.Table:
        return pa.table({"n": pa.array(range(start, start + 100), pa.int64())})

    @pytest.mark.parametrize("memory", [0, 1000, 1 << 20])
    def test_what_goes_in_comes_out(
        self, memory: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        spool = Spool(self.schema, memory)
        for _ in range(2):
            assert spool.take().num_rows == 0
            for number in range(0, 1000, 100):
                spool.append(self.table(number))
            assert spool.rows == 1000
            table = spool.take()
            assert spool.rows == 0
            assert table["n"].to_pylist() == list(range(1000))
            assert list(tmp_path.iterdir()) == [], "the file has no name"


class TestPatience:
    def test_it_waits_longer_and_longer_and_then_gives_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        at = [0.0]
        pauses: list[float] = []
        monkeypatch.setattr("time.monotonic", lambda: at[0])

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            at[0] += seconds

        patience = Patience(100, sleep)
        error = psycopg.OperationalError("host secret")
        while sum(pauses) <= 100:
            patience.wait(error)
        with pytest.raises(SourceError, match="cannot be reached"):
            patience.wait(error)
        assert max(pauses) <= 30
        assert pauses[0] < 0.11

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (psycopg.errors.InsufficientPrivilege("x"), "refuses .SQLSTATE 42501"),
            (psycopg.errors.UndefinedFile("x"), "no longer has the log after our position"),
            (psycopg.errors.ConfigurationLimitExceeded("x"), "SQLSTATE 53400"),
            (LoginRefused("28P01"), "refuses the login"),
            (LoginRefused("55000"), "refuses the login"),
            (LoginRefused("3D000"), "has no such database"),
            (NoTLS(), "no TLS connection"),
        ],
    )
    def test_what_waiting_does_not_cure(self, error: psycopg.Error, message: str) -> None:
        with pytest.raises(SourceError, match=message):
            Patience(100, lambda _: None).wait(error)

    def test_what_may_pass(self) -> None:
        for error in (psycopg.errors.AdminShutdown("x"), psycopg.errors.TooManyConnections("x"),
                      psycopg.errors.ObjectInUse("x"),
                      psycopg.OperationalError("x"), LoginRefused("57P03"),
                      LoginRefused("53300")):  # fmt: skip
            assert final(error) is None

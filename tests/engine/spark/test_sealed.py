"""Encrypted stores on Spark: what lies on the disk, and what is refused."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.spark.killing import IN_A_COMMIT
from tests.engine.spark.test_gauge import changes, gauge, read, written
from tidegauge.errors import SpecError, StoreCorrupt, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tidegauge.run.gauge import Gauge

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
KEY = secrets.token_bytes(32)
SOURCE = {"kind": "spark", "path": "log/*.parquet"}
OWNED = {"unit": "person", "max_rows": 2}
FLOW = {
    "out": {
        "sql": "SELECT COUNT(*) FROM changes(log) WHERE after.status = 'out'",
        "start": "2026-01-02",
        "every": "1 day",
        "for": "9 days",
    }
}


@pytest.fixture(autouse=True)
def plain_values(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A key, and files in which a value that is not encrypted would be found.

    The session of the tests does not encrypt its temporary files; that of `run` does.
    """
    from tidegauge.engine.spark import engine

    monkeypatch.setenv("TIDEGAUGE_TEST_KEY", KEY.hex())
    monkeypatch.setattr(engine, "require_private", lambda _: None)
    spark.conf.set("spark.sql.orc.compression.codec", "none")
    yield
    spark.conf.unset("spark.sql.orc.compression.codec")


def sealed(folder: Path, until: str = "2026-01-20", **more: Any) -> Gauge:
    return gauge(folder, SOURCE | OWNED, "spark", until, key="env:TIDEGAUGE_TEST_KEY", **more)


def logged(folder: Path, *parts: list[dict[str, Any]]) -> None:
    """Files of a log, of people with names that can be searched for."""
    import pyarrow.parquet as pq

    (folder / "log").mkdir(exist_ok=True)
    for n, rows in enumerate(parts):
        path = folder / "log" / f"{n}.parquet"
        written(rows, path)
        table = pq.read_table(path)
        people = [f"Zanzibar{row['id'] // 2}" for row in rows]
        pq.write_table(table.append_column("person", [people]), path)


def state(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "spark.spark").rglob("*") if path.is_file())


def words(folder: Path) -> list[bytes]:
    """How the key, the secret of the engine and the key of its files can be written."""
    from tidegauge.engine.spark.sealed import _derived
    from tidegauge.store.store import Store

    with Store(folder / "spark.db", key=KEY) as store:
        secret = store.engine_secret
    assert secret is not None
    return [
        word
        for key in (KEY, secret, _derived(secret, b"files"))
        for word in (key, key.hex().encode(), key.hex().upper().encode(), b64encode(key))
    ]


def test_readings_are_those_of_a_plain_store_and_no_file_has_a_value_or_a_key(tmp_path: Path) -> None:
    from tests.engine.spark.test_gauge import RELEASES

    rows, found = changes(31), {}
    for name, one in (("sealed", sealed), ("plain", None)):
        folder = tmp_path / name
        folder.mkdir()
        for n, until in enumerate(("2026-01-04", "2026-01-09 12:00", "2026-01-20")):
            logged(folder, *(rows[m * 100 : m * 100 + 100] for m in range(n + 1)))
            releases = RELEASES | FLOW
            declared = (
                one(folder, until, releases=releases)
                if one
                else gauge(folder, SOURCE | OWNED, "spark", until, releases=releases)
            )
            found[name] = read(declared)
    assert len(found["sealed"]) > 20
    assert found["sealed"] == found["plain"]
    kept = [path.read_bytes() for path in state(tmp_path / "sealed")]
    assert len(kept) > 3
    assert not [one for one in kept if b"Zanzibar" in one]
    whole = [path.read_bytes() for path in (tmp_path / "sealed").rglob("*") if path.is_file()]
    assert not [one for one in whole if any(word in one for word in words(tmp_path / "sealed"))]
    assert [one for one in map(Path.read_bytes, state(tmp_path / "plain")) if b"Zanzibar" in one]


def test_the_twin_that_must_fail(spark: SparkSession, tmp_path: Path) -> None:
    """The search finds a value in a file that ORC did not encrypt, and such a file is refused."""
    from tidegauge.engine.spark.sealed import Sealing, data_files

    frame = spark.createDataFrame([("Zanzibar1", 1)], "unit string, c0 long")
    frame.coalesce(1).write.orc((tmp_path / "plain").as_uri())
    (file,) = data_files(tmp_path / "plain")
    assert b"Zanzibar" in file.read_bytes()
    with pytest.raises(StoreError, match="did not encrypt"):
        Sealing(spark, KEY)._require_encrypted(file)
    assert not file.exists()


def test_without_the_key_orc_shows_nothing_and_tidegauge_reads_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values of every type come back, and field names may have any character."""
    from datetime import UTC, date, datetime
    from decimal import Decimal

    from tidegauge.engine.spark.sealed import Sealing
    from tidegauge.engine.spark.session import settled

    kinds = "`a ``.ü'\\\\` string, `n` double, `d` decimal(9, 2), `day` date, `t` timestamp, `b` boolean"
    times = (datetime(1, 1, 2, tzinfo=UTC), datetime(1582, 10, 5, 1, 2, 3, 456789, tzinfo=UTC), None)
    rows = [
        ("Zanzibar", ("\x1f\u00e4\U0001f600", float("-inf"), Decimal("-1.25"), date(1, 1, 1), time, None))
        for time in times
    ]
    sealing = Sealing(spark, KEY)
    with settled(spark):
        frame = spark.createDataFrame([*rows, ("nobody", None)], f"unit string, image struct<{kinds}>")
        sealing.write(frame, tmp_path / "sealed")
        found = sealing.read(tmp_path / "sealed")
        assert found.dtypes == frame.dtypes
        assert found.exceptAll(frame).isEmpty()
        assert frame.exceptAll(found).isEmpty()
        assert {row[0] for row in spark.read.orc((tmp_path / "sealed").as_uri()).collect()} != {"Zanzibar"}
    monkeypatch.setattr(sealing, "_name", "another")
    with pytest.raises(StoreError, match="cannot be encrypted"):
        sealing.read(tmp_path / "sealed")


def test_a_log_of_all_calls_into_java_has_no_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At level DEBUG, Py4J logs the arguments of every call."""
    logged(tmp_path, changes(34, 20))
    with caplog.at_level("DEBUG"), caplog.at_level("DEBUG", "py4j"):
        assert read(sealed(tmp_path, "2026-01-04"))
    assert "Command to send" in caplog.text
    assert not [word for word in words(tmp_path) if word in caplog.text.encode()]


def test_altered_files_and_other_keys_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = changes(32, 200)
    logged(tmp_path, rows[:100])
    read(sealed(tmp_path, "2026-01-04"))
    before = {path: path.read_bytes() for path in state(tmp_path)}
    shutil.copytree(tmp_path / "spark.spark", tmp_path / "older")
    logged(tmp_path, rows[:100], rows[100:])
    read(sealed(tmp_path, "2026-01-09"))
    now = {path: path.read_bytes() for path in state(tmp_path)}
    parts = [path for path in now if path.name.startswith("part-")]
    first, last = parts[0], parts[-1]
    assert first in before

    def refused() -> None:
        with pytest.raises(StoreCorrupt, match="altered"):
            read(sealed(tmp_path))
        for path in state(tmp_path):
            if path not in now:
                path.unlink()
        for path, content in now.items():
            path.write_bytes(content)

    middle = len(now[first]) // 2
    first.write_bytes(now[first][:middle] + bytes([now[first][middle] ^ 1]) + now[first][middle + 1 :])
    refused()
    last.write_bytes(now[first])  # another file of the same store
    refused()
    (first.parent / "part-99999.orc").write_bytes(now[first])
    refused()
    shutil.rmtree(tmp_path / "spark.spark")
    shutil.copytree(tmp_path / "older", tmp_path / "spark.spark")
    with pytest.raises(StoreCorrupt, match="not complete"):
        read(sealed(tmp_path))
    shutil.rmtree(tmp_path / "spark.spark")
    for path, content in now.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    monkeypatch.setenv("TIDEGAUGE_TEST_KEY", secrets.token_hex(32))
    with pytest.raises(StoreError, match="another key"):
        read(sealed(tmp_path))
    monkeypatch.setenv("TIDEGAUGE_TEST_KEY", KEY.hex())
    assert read(sealed(tmp_path))


@pytest.mark.parametrize(("setting", "answer", "message"), [
    ("isLocal", False, "on one machine only"), ("get", "false", "does not encrypt them")
])  # fmt: skip
def test_sessions_that_would_not_keep_it_secret_are_refused_before_a_plan_is_committed(
    setting: str, answer: object, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    from tidegauge.engine.spark import engine
    from tidegauge.engine.spark.sealed import require_private as original

    def told(name: str, known: object) -> Any:
        return answer if name == setting else known

    def require(_: object) -> None:
        local = SimpleNamespace(sc=lambda: SimpleNamespace(isLocal=lambda: told("isLocal", True)))
        conf = SimpleNamespace(get=lambda *_: told("get", "true"))
        session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=local, getConf=lambda: conf))
        original(session)

    monkeypatch.setattr(engine, "require_private", require)
    logged(tmp_path, changes(33, 20))
    one = sealed(tmp_path)
    with pytest.raises(SpecError, match=message):
        read(one)
    assert not one.committed
    assert not (tmp_path / "spark.spark").exists()


RUN = (
    IN_A_COMMIT
    + """
from tests.engine.spark.test_sealed import sealed
for name, value in (pair.split("=") for pair in sys.argv[4:]):
    from pyspark.sql import SparkSession
    from tidegauge.engine.spark.session import _own_settings
    builder = globals().get("builder", SparkSession.builder.master("local[2]")).config(name, value)
if len(sys.argv) > 4:
    for name, value in _own_settings().items():
        builder = builder.config(name, value)
    builder.getOrCreate()
list(sealed(Path(sys.argv[1]), sys.argv[3]).run())
"""
)


def run(folder: Path, kill: int, until: str, **settings: str) -> subprocess.CompletedProcess[bytes]:
    named = [f"{name.replace('__', '.')}={value}" for name, value in settings.items()]
    command = [sys.executable, "-c", RUN, str(folder), str(kill), until, *named]
    environment = os.environ | {"TMPDIR": str(folder / "temporary")}
    (folder / "temporary").mkdir(exist_ok=True)
    return subprocess.run(command, capture_output=True, check=False, cwd=ROOT, env=environment)


def test_a_kill_between_state_and_ledger_and_what_spark_writes_about_a_run(tmp_path: Path) -> None:
    """Nothing is lost or doubled; the event log, which has every plan, has no key and no value of a row."""
    rows = sorted(changes(4, 200), key=lambda row: row["at"])
    logged(tmp_path, rows[:100])
    first = read(sealed(tmp_path, "2026-01-06"))
    logged(tmp_path, rows[:100], rows[100:])
    events = tmp_path / "events"
    events.mkdir()
    log = {"eventLog__enabled": "true", "eventLog__dir": events.as_uri(), "eventLog__compress": "false"}
    ended = run(tmp_path, 1, "2026-01-20", **{f"spark__{name}": value for name, value in log.items()})
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()[-2000:]
    assert b"Zanzibar" not in ended.stdout + ended.stderr
    left = [path for path in tmp_path.rglob("*") if path.is_file() and (tmp_path / "log") not in path.parents]
    told = b"".join(path.read_bytes() for path in left if events in path.parents)
    assert b"SparkListenerSQLExecutionStart" in told
    secret = words(tmp_path)
    for path in left:
        content = path.read_bytes()
        assert b"Zanzibar" not in content, path
        assert not any(word in content for word in secret), path
    found = read(sealed(tmp_path))
    assert set(first) <= set(found)
    logged(tmp_path, rows)
    (tmp_path / "log" / "1.parquet").unlink()
    embedded = {"kind": "files", "path": "log/*.parquet", **OWNED}
    assert found == read(gauge(tmp_path, embedded, "duckdb"))

"""The outbox: at least once, in order, each publisher by itself, and nothing is lost across a kill."""

from __future__ import annotations

import base64
import csv
import hmac
import io
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.publish.dying import POINTS, PUBLISH
from tests.publish.receiver import receiver
from tests.publish.ward import RELEASES, START, Ward
from tidegauge.errors import SpecError
from tidegauge.model.quantity import instant, moment, rfc3339
from tidegauge.publish import outbox
from tidegauge.publish.outbox import Outbox
from tidegauge.publish.public.reader import PublicFile

ROOT = Path(__file__).parents[2]
SELDOM = {("file written", 1), ("folder done", 1), ("public done", 1), ("cursor moved", 1)}
"""Points next to others that are always tried."""


def rows(folder: Path) -> list[dict[str, str]]:
    """Every row of a folder of CSV files."""
    texts = (path.read_text("utf-8") for path in sorted(folder.rglob("*.csv")))
    return [row for text in texts for row in csv.DictReader(io.StringIO(text))]


def published(ward: Ward) -> list[dict[str, Any]]:
    return [one.as_json() for one in ward.gauge().published()]


def test_roll_ups_and_local_days_are_numbered_without_gaps(tmp_path: Path) -> None:
    releases = {
        "by_ward": RELEASES["by_ward"] | {"for": "180 days"},
        "monthly": {"of": "by_ward", "every": "1 month"},
        "in_month": {"of": "by_ward", "every": "1 month", "window": "1 month"},
    }
    ward = Ward(tmp_path, {"page": {"kind": "public"}}, releases=releases, time_zone="Europe/Berlin")
    for day in (40, 120):
        assert not ward.run(day).undelivered
    expected = published(ward)
    with PublicFile(tmp_path / "public.db") as public:
        found = [one.as_json() for info in public.releases for one in public.readings(info.name)]
        assert sorted(map(str, found)) == sorted(map(str, expected))
        assert public.span("by_ward") == range(121)
        assert public.span("monthly") == range(5)
        assert public.span("in_month") == range(4)
        due = {info.name: rfc3339(public.next_due(info.name) or 0) for info in public.releases}
        assert due == {
            "by_ward": "2026-05-01T22:00:00Z",
            "monthly": "2026-05-31T22:00:00Z",
            "in_month": "2026-05-31T22:00:00Z",
        }
        since = instant("2026-04-01T00:00:00+02:00")
        assert [rfc3339(one.time) for one in public.readings("monthly", since=since, cells=[0])] == [
            "2026-03-31T22:00:00Z",
            "2026-04-30T22:00:00Z",
        ]


def test_denoised_series_reach_to_the_newest_reading_or_are_not_there(tmp_path: Path) -> None:
    ward = Ward(tmp_path, {"page": {"kind": "public", "denoised": True}})
    path = tmp_path / "public.db"
    for day in (10, 20):
        ward.run(day)
        expected = {
            (one.release, one.time, str(one.group)): one.model and one.model.value
            for one in ward.gauge().published(denoised="all")
        }
        with PublicFile(path) as public:
            names = [info.name for info in public.releases]
            found = [one for name in names for one in public.denoised(name)]
        assert {(one.release, moment(one.time), str(one.group)): one.value for one in found} == expected
        assert all(one.low < one.value < one.high and one.stderr > 0 for one in found)
    ward.publish = {"page": {"kind": "public"}}
    ward.run(21)
    with PublicFile(path) as public:
        assert [public.denoised(name) for name in names] == [(), (), ()]
        assert public.span("by_ward") == range(22)


def hook(url: str) -> dict[str, Any]:
    return {"kind": "webhook", "url": url, "secret": "env:HOOK", "timeout": 20}


def test_a_webhook_gets_everything_once_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "whsec_" + base64.b64encode(b"key").decode())
    with receiver() as got:
        ward = Ward(tmp_path, {"hook": hook(got.url)})
        for day in (-1, 0, 3):
            assert not ward.run(day).undelivered
        assert [json.loads(body)["readings"] == [] for _, body in got.requests] == [False] * 2
        assert sorted(map(str, got.readings.values())) == sorted(map(str, published(ward)))
        assert sum(len(json.loads(body)["readings"]) for _, body in got.requests) == len(got.readings)
        for headers, body in got.requests:
            key, stamp = headers["webhook-id"], headers["webhook-timestamp"]
            code = base64.b64encode(hmac.digest(b"key", f"{key}.{stamp}.".encode() + body, "sha256"))
            assert headers["webhook-signature"] == f"v1,{code.decode()}"
            assert headers["idempotency-key"] == key == json.loads(body)["key"]
        assert len({headers["webhook-id"] for headers, _ in got.requests}) == 2


def test_what_failed_is_sent_again_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "key")
    with receiver() as got:
        ward = Ward(tmp_path, {"hook": hook(got.url)})
        got.status = 500
        (failure,) = ward.run(3).undelivered
        assert failure.reason == "the webhook's receiver answered with status 500"
        got.status = 302
        gauge = ward.run(9)  # more readings are due, yet the batch is the same
        assert gauge.undelivered[0].reason.endswith("status 302")
        assert ward.gauge().status().as_json()["publishers"] == {"hook": {"waiting": 20 + 6 + 2}}
        got.status = 204
        assert not ward.run(9).undelivered
        *again, last = (body for _, body in got.requests)
        assert len(set(again)) == 1
        assert last not in again
        assert sorted(map(str, got.readings.values())) == sorted(map(str, published(ward)))
        assert ward.gauge().status().as_json()["publishers"] == {"hook": {"waiting": 0}}


def test_one_that_hangs_delays_neither_the_tick_nor_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", "key")
    with receiver() as got:
        got.hold.clear()
        ward = Ward(tmp_path, {"slow": hook(got.url), "page": {"kind": "public"}})
        ward.clock.now = START
        run = ward.gauge().run(follow=True, until="2026-01-02T12:00")
        for reading in run:  # ticks go on while the receiver holds the first request
            if reading.time.day == 2:
                break
        assert len(got.requests) == 1
        assert not got.hold.is_set()
        page = tmp_path / "public.db"
        for _ in range(2000):
            if page.exists():
                with PublicFile(page) as public:
                    if public.count("by_ward") == 4:
                        break
            threading.Event().wait(0.01)
        else:
            pytest.fail("the other publisher was held up")
        got.hold.set()
        list(run)
        assert sorted(map(str, got.readings.values())) == sorted(map(str, published(ward)))


def test_retries_come_later_and_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Stuck:
        name = "stuck"
        tries = 0

        def step(self, until: int | None, *, stopped: Any) -> None:
            self.tries += 1
            if self.tries < 4:
                raise OSError("postgres://user:password@host")
            done.set()

    done, stuck = threading.Event(), Stuck()
    box = Outbox([stuck], longest=0.02)  # type: ignore[list-item]
    caplog.set_level("INFO", "tidegauge")
    box.start(None)
    assert done.wait(30)
    assert box.finish() == []
    waits = [vars(one)["again_in_seconds"] for one in caplog.records]
    assert waits == [0.02] * 3
    assert "password" not in caplog.text
    assert all(vars(one)["reason"].startswith("builtins.OSError at test_outbox") for one in caplog.records)
    assert [min(outbox.LONGEST, 2.0**n / 2) for n in (1, 2, 3, 12)] == [1, 2, 4, 300]


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        pytest.param(point, nth, marks=[pytest.mark.slow] if (point, nth) in SELDOM else [])
        for point, nth in [*((point, 1) for point in POINTS), ("cursor moved", 3)]
    ],
)
def test_nothing_is_lost_where_it_is_killed(tmp_path: Path, point: str, nth: int) -> None:
    """Killed there, then started again: everything has arrived, and what arrived twice has the same key."""
    ward = Ward(tmp_path, {})
    ward.run(20)
    words = [sys.executable, "-m", "tests.publish.dying", str(tmp_path), point, str(nth)]
    killed = subprocess.run(words, cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    ward.publish = PUBLISH
    gauge = ward.gauge()
    gauge.publish()
    assert not gauge.undelivered
    assert gauge.publish() == 0
    want = published(ward)
    with PublicFile(tmp_path / "public.db") as public:
        assert [
            one.as_json() for name in ("by_ward", "week", "weekly") for one in public.readings(name)
        ] == want
    lines = (tmp_path / "got").read_text().splitlines()
    assert set(lines) == {json.dumps(one) for one in want}
    keys = (tmp_path / "keys").read_text().split()
    assert len(lines) == len(want) * len(keys)
    assert len(set(keys)) == 1
    assert len(rows(tmp_path / "readings")) == len(want)
    assert not [path for path in tmp_path.rglob("*.new") if path.name != "public.db.new"]


def test_another_target_starts_from_the_first_reading(tmp_path: Path) -> None:
    ward = Ward(tmp_path, {"files": {"kind": "folder", "path": "one"}})
    ward.run(9)
    ward.publish = {"files": {"kind": "folder", "path": "two"}}
    ward.run(10)
    assert len(rows(tmp_path / "one")) + 2 + 2 == len(rows(tmp_path / "two"))


def test_a_command_gets_json_lines_and_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "secret")
    monkeypatch.setenv("PASSED", "yes")
    program = (
        "import os, sys; open('env', 'w').write(repr(sorted(os.environ))); open('in', "
        "'w').write(sys.stdin.read())"
    )
    command = {"kind": "command", "command": [sys.executable, "-c", program], "env": ["PASSED"]}
    ward = Ward(tmp_path, {"it": command})
    assert not ward.run(2).undelivered
    assert [json.loads(line) for line in (tmp_path / "in").read_text().splitlines()] == sorted(
        published(ward), key=lambda one: (one["time"], ["by_ward", "week", "weekly"].index(one["release"]))
    )
    names = (tmp_path / "env").read_text()
    assert "PASSED" in names
    assert "TIDEGAUGE_KEY" in names
    assert "DATABASE_URL" not in names


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["/bin/sh", "-c", "exit 3"], "sh ended with exit code 3"),
        (["/nowhere/it"], "it cannot be started: No such file or directory"),
        (["/bin/sh", "-c", "sleep 1000"], "sh did not end within 0.05 seconds"),
    ],
)
def test_a_command_that_fails(tmp_path: Path, command: list[str], reason: str) -> None:
    ward = Ward(tmp_path, {"it": {"kind": "command", "command": command, "timeout": 0.05}})
    assert [one.reason for one in ward.run(2).undelivered] == [reason]


def test_what_is_wrong_with_a_declaration_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong, message in (
        (
            {"kind": "webhok"},
            "publish.x.kind: there is no such kind; one of public, .*did you mean 'webhook'?",
        ),
        ({}, "publish.x.kind: is missing"),
        ({"kind": "public", "pth": "a"}, "publish.x.pth: is not a key here; did you mean 'path'?"),
        ({"kind": "webhook", "url": "ftp://x", "secret": "env:A"}, "publish.x.url: write http"),
        (
            {"kind": "webhook", "url": "http://a:b@x", "secret": "env:A"},
            "publish.x.url: an address with a pass",
        ),
        (
            {"kind": "webhook", "url": "http://x", "secret": "A"},
            "publish.x.secret: secrets come from the env",
        ),
        ({"kind": "postgres", "dsn": "env:A", "table": "a;b"}, "publish.x.table: write the table's name"),
        ({"kind": "command", "command": []}, "publish.x.command: "),
    ):
        with pytest.raises(SpecError, match=message):
            Ward(tmp_path, {"x": wrong}).gauge()
    monkeypatch.delenv("HOOK", raising=False)
    with pytest.raises(SpecError, match=r"publish.x.secret: the environment variable HOOK is not set"):
        Ward(tmp_path, {"x": hook("http://x")}).run(1)
    with pytest.raises(SpecError, match="there is no such publisher; there is x"):
        Ward(tmp_path, {"x": {"kind": "public"}}).gauge().publish("y")
    with pytest.raises(SpecError, match="there is none: declare"):
        Ward(tmp_path, {}).gauge().publish()


def test_publishers_may_change_and_the_plan_stays(tmp_path: Path) -> None:
    Ward(tmp_path, {}).run(2)
    assert not Ward(tmp_path, {"page": {"kind": "public"}}).run(3).undelivered


def test_a_month_is_one_file_and_names_are_safe(tmp_path: Path) -> None:
    releases = {"../x/ä": Ward(tmp_path, {}).more["releases"]["by_ward"]}
    for form in ("csv", "parquet"):
        home = tmp_path / form
        home.mkdir()
        ward = Ward(home, {"it": {"kind": "folder", "format": form}}, releases=releases)
        for day in (0, 29, 32):
            ward.run(day)
        files = sorted(path.relative_to(home / "readings").as_posix() for path in home.rglob(f"*.{form}"))
        folder = "release=..%2Fx%2F%C3%A4"
        assert files == [f"{folder}/month=2026-{m}/readings.{form}" for m in ("01", "02")]
        import duckdb

        read = "read_csv" if form == "csv" else "read_parquet"
        whole = f"{read}('{home}/readings/**/*.{form}', hive_partitioning = true)"
        ((count, low),) = duckdb.execute(f"SELECT count(*), min(value) FROM {whole}").fetchall()
        want = ward.gauge().published()
        assert (count, low) == (len(want), min(one.value or 0.0 for one in want))

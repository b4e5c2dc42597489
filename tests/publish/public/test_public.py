"""The public file: it has what the store published, nothing else, and is replaced as a whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.publish.ward import START, Ward
from tidegauge.errors import StoreError
from tidegauge.model.quantity import DAY, rfc3339
from tidegauge.publish.public.reader import PublicFile, identity

PUBLIC = {"page": {"kind": "public", "title": "Wards"}}


def test_everything_that_is_published_is_in_the_file(tmp_path: Path) -> None:
    ward = Ward(tmp_path, PUBLIC)
    for day in (0, 3, 20):
        gauge = ward.run(day)
        assert not gauge.undelivered
    with PublicFile(tmp_path / "public.db") as public:
        assert [one.name for one in public.releases] == ["by_ward", "week", "weekly"]
        found = [one.as_json() for name in ("by_ward", "week", "weekly") for one in public.readings(name)]
        assert found == [one.as_json() for one in gauge.published()]
        for one, reading in zip(public.readings("week"), gauge.published("week"), strict=True):
            assert (one.low_50, one.high_50) == reading.interval(0.5)
        assert [entry.as_json() for entry in public.ledger] == [one.as_json() for one in gauge.ledger()]
        assert public.about.title == "Wards"
        assert public.guarantee.epsilon == 2
        assert "reveals at most" not in public.guarantee.sentence  # simulated noise promises nothing
        assert public.document.plan == gauge.plan().as_json()
        assert public.last_tick == START + 20 * DAY
        with closing(sqlite3.connect(tmp_path / "store.db")) as db:
            assert [(s.seq, s.time, s.hash) for s in public.seals()] == db.execute(
                "SELECT seq, instant, hash FROM ticks"
            ).fetchall()


def test_readings_by_time_group_and_page(tmp_path: Path) -> None:
    Ward(tmp_path, PUBLIC).run(20)
    with PublicFile(tmp_path / "public.db") as public:
        every = public.readings("by_ward")
        assert len(every) == public.count("by_ward") == 42
        since, until = START + 3 * DAY, START + 5 * DAY + 1
        some = public.readings("by_ward", since=since, until=until)
        assert some == tuple(one for one in every if since <= one.time <= until)
        assert public.count("by_ward", since=since, until=until) == len(some) == 6
        (cell,) = public.cells("by_ward", {"ward": ["b"]})
        chosen = public.readings("by_ward", cells=[cell], since=since)
        assert [one.group for one in chosen] == [{"ward": "b"}] * 18
        for size in (1, 2, 3, 5, 50):
            pages = [
                one
                for offset in range(0, 42, size)
                for one in public.readings("by_ward", offset=offset, limit=size)
            ]
            assert tuple(pages) == every, size
        assert public.latest("by_ward") == every[-2:]
        assert public.next_due("by_ward") == START + 21 * DAY
        assert rfc3339(public.latest("week")[0].time) == "2026-01-21T00:00:00Z"
        assert public.readings("by_ward", offset=1000, limit=5) == ()
        assert public.readings("by_ward", until=0) == ()
        with pytest.raises(KeyError):
            public.cells("by_ward", {"bed": ["b"]})


def test_there_is_a_file_before_the_first_reading(tmp_path: Path) -> None:
    Ward(tmp_path, PUBLIC).run(-5)
    with PublicFile(tmp_path / "public.db") as public:
        assert public.readings("by_ward") == public.latest("by_ward") == ()
        assert public.last_tick is None
        assert public.next_due("weekly") == START + 2 * DAY


def test_a_reader_keeps_what_it_has_open(tmp_path: Path) -> None:
    ward = Ward(tmp_path, PUBLIC)
    ward.run(3)
    with PublicFile(tmp_path / "public.db") as before:
        ward.run(9)
        assert before.count("by_ward") == 8
        assert before.identity != identity(tmp_path / "public.db")
    with PublicFile(tmp_path / "public.db") as after:
        assert after.count("by_ward") == 20


@pytest.mark.parametrize("lost", ["removed", "older"])
def test_what_the_file_lost_is_written_again(tmp_path: Path, lost: str) -> None:
    ward, path = Ward(tmp_path, PUBLIC), tmp_path / "public.db"
    ward.run(3)
    old = path.read_bytes()
    ward.run(9)
    if lost == "removed":
        path.unlink()
    else:
        path.write_bytes(old)
    gauge = ward.run(10)
    with PublicFile(path) as public:
        assert [one.as_json() for one in public.readings("by_ward")] == [
            one.as_json() for one in gauge.published("by_ward")
        ]
        assert [one.seq for one in public.seals()] == list(range(1, public.last_seal.seq + 1))


def test_another_gauge_does_not_write_into_it(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    shared = {"page": {"kind": "public", "path": "../public.db"}}
    assert not Ward(tmp_path / "one", shared).run(3).undelivered
    before = (tmp_path / "public.db").read_bytes()
    other = Ward(tmp_path / "two", shared)
    other.more["releases"] = {"weekly": other.more["releases"]["weekly"]}
    (failure,) = other.run(3).undelivered
    assert "published by another gauge" in failure.reason
    assert (tmp_path / "public.db").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"not a database", None])
def test_what_is_no_public_file_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "it.db"
    if content is not None:
        path.write_bytes(content)
    else:
        Ward(tmp_path, {}).run(2)
        path = tmp_path / "store.db"
    with pytest.raises(StoreError, match="not a public file"):
        PublicFile(path)
    with pytest.raises(StoreError, match="cannot be read"):
        PublicFile(tmp_path / "nowhere.db")

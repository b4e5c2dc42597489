"""The collector: malformed, foreign, late and duplicate reports; files; merging; speed."""

from __future__ import annotations

import stat
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tidegauge.errors import LocalError, StoreCorrupt, StoreError, StoreLocked
from tidegauge.local import Collector, Receipt, Reporter, Survey
from tidegauge.local.reporter import HEADER
from tidegauge.local.survey import PROTOCOLS


def make(protocol: str = "snapshots+tilted", **more: Any) -> Survey:
    values: dict[str, Any] = {
        "answers": ["a", "b", "c"],
        "windows": 4,
        "changes": 2,
        "epsilon": 2,
        "protocol": protocol,
    }
    return Survey(**(values | {"reveals_change_times": protocol == "memoized"} | more))


def some(survey: Survey, people: int = 30) -> list[bytes]:
    reports = []
    for _ in range(people):
        reporter = Reporter(survey, {})
        reports += [reporter.report(window, "a") for window in range(survey.windows)]
    return reports


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_order_batches_and_repetition_do_not_matter(protocol: str) -> None:
    survey = make(protocol)
    reports = some(survey)
    once, mixed = Collector(survey), Collector(survey)
    assert once.add(reports) == Receipt(accepted=120)
    shuffled = [reports[i] for i in np.random.default_rng(1).permutation(120)]
    for begin in range(0, 120, 7):
        mixed.add(shuffled[begin : begin + 7])
        mixed.add(b"".join(shuffled[: begin + 3]))
    assert (once.tally == mixed.tally).all()
    assert mixed.estimate() == once.estimate()
    assert mixed.refused["duplicate"] > 100


def test_what_is_refused_is_counted_and_the_rest_is_kept() -> None:
    survey = make()
    good = some(survey)
    other = some(make(seed="other"), 2)
    longer = some(make(answers=[*"abcdefghijklmnopqrstuvwxyz"], protocol="snapshots", epsilon=1), 1)
    assert len(longer[0]) != len(good[0])
    bad = [b"", b"x", good[0][:-1], good[0] + b"\0", bytes(len(good[0])), b"\2" + good[0][1:]]
    collector = Collector(survey)
    collector.close_through(0)
    receipt = collector.add([*good, *other, *longer, *bad, *good[:3]])
    assert receipt == Receipt(accepted=90, malformed=6, other_survey=12, late=31, duplicate=2)
    assert dict(collector.refused) == {"malformed": 6, "other_survey": 12, "late": 31, "duplicate": 2}
    clean = Collector(survey)
    clean.close_through(0)
    clean.add(good)
    assert (clean.tally == collector.tally).all()


def test_a_cut_off_batch_loses_only_its_last_report() -> None:
    survey = make()
    blob = b"".join(some(survey))
    assert Collector(survey).add(blob[:-1]) == Receipt(accepted=119, malformed=1)
    assert Collector(survey).add(b"") == Receipt()
    assert Collector(survey).add([]) == Receipt()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_corrupted_byte_is_refused_or_harmless(protocol: str) -> None:
    """No bytes can make the collector fail, or count more than one report."""
    survey = make(protocol)
    for report in some(survey, 3):
        for at, value in product(range(len(report)), (0, 1, 3, 127, 255)):
            collector = Collector(survey)
            receipt = collector.add([report[:at] + bytes([value]) + report[at + 1 :]])
            assert sum(vars(receipt).values()) == 1
            people = collector.tally[:, 1 : 1 + 2 * len(survey.spec.roles)].sum()
            assert people == receipt.accepted
            assert collector.tally.sum() <= 2 + len(survey.answers)


def test_random_bytes() -> None:
    survey, random = make(), np.random.default_rng(2)
    size = HEADER.size + survey.spec.payload
    collector = Collector(survey)
    head = bytes([1, 0]) + survey.spec.hash
    receipt = collector.add([head + random.bytes(size - 10) for _ in range(2000)])
    assert receipt.accepted == 0
    assert receipt.malformed == 2000
    assert not collector.tally.any()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_payloads_that_no_reporter_sends(protocol: str) -> None:
    survey = make(protocol, windows=8)
    speaking = next(report for report in some(survey) if not report[1] & 2)
    full = speaking[: HEADER.size] + b"\xff" * survey.spec.payload
    idle_with_payload = speaking[:1] + b"\x02" + speaking[2 : HEADER.size] + b"\x01" * survey.spec.payload
    assert Collector(survey).add([full, idle_with_payload]).malformed == 2


def test_a_level_that_speaks_out_of_turn() -> None:
    survey = make("tilted", windows=8, options={"levels": 2})
    report = next(r for r in some(survey) if HEADER.unpack_from(r)[4] == 0 and r[1] & 2)
    assert Collector(survey).add([report[:1] + b"\x01" + report[2:]]).malformed == 1


def test_late_reports() -> None:
    survey = make()
    reports, collector = some(survey), Collector(survey)
    collector.add([r for r in reports if HEADER.unpack_from(r)[4] == 0])
    collector.close_through(1)
    assert collector.add(reports) == Receipt(accepted=60, late=60)
    with pytest.raises(LocalError, match="windows 0 to 3"):
        collector.close_through(4)


def test_nothing_was_reported() -> None:
    for protocol in PROTOCOLS:
        table = Collector(make(protocol)).estimate()
        assert table.column_names == ["window", "answer", "value", "stderr"]
        assert len(table) == 12
        assert table["value"].null_count == (0 if protocol.startswith("response") else 12)


# -- files and merging ---------------------------------------------------------------------------------


def test_a_file_goes_on_where_it_was(tmp_path: Path) -> None:
    survey, path = make(), tmp_path / "collector.db"
    reports = some(survey)
    first = Collector(survey, path=path)
    first.add(reports[:50])
    first.add([b"x", *reports[:10]])
    first.close_through(0)
    first.close()
    second = Collector(survey, path=path)
    assert second.closed == 1
    assert dict(second.refused) == {"malformed": 1, "other_survey": 0, "late": 0, "duplicate": 10}
    receipt = second.add(reports)
    second.close()
    assert receipt == Receipt(accepted=90 - 37, duplicate=37, late=30)
    assert Collector.load(path).estimate() == second.estimate()
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}


def test_a_file_is_for_one_survey_and_one_process(tmp_path: Path) -> None:
    path = tmp_path / "collector.db"
    holder = Collector(make(), path=path)
    holder.add(some(make(), 1))
    with pytest.raises(StoreLocked, match="another collector"):
        Collector(make(), path=path)
    assert Collector.load(path).tally.any()  # reading goes on
    holder.close()
    with pytest.raises(LocalError, match="another survey"):
        Collector(make(epsilon=3), path=path)
    Collector(make(), path=path).close()


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such collector"):
        Collector.load(tmp_path / "absent.db")
    (tmp_path / "text.db").write_text("hello " * 1000)
    with pytest.raises(StoreCorrupt):
        Collector.load(tmp_path / "text.db")
    with pytest.raises(StoreCorrupt):
        Collector(make(), path=tmp_path / "text.db")


def test_a_batch_that_cannot_be_written_is_not_counted(tmp_path: Path) -> None:
    survey = make()
    collector = Collector(survey, path=tmp_path / "collector.db")
    collector.add(some(survey, 2))
    before = collector.tally.copy()
    collector._store._database.execute("PRAGMA query_only = ON")  # type: ignore[union-attr]
    reports = some(survey, 5)
    with pytest.raises(StoreError, match="not counted"):
        collector.add(reports)
    assert (collector.tally == before).all()
    collector._store._database.execute("PRAGMA query_only = OFF")  # type: ignore[union-attr]
    assert collector.add(reports) == Receipt(accepted=20)
    collector.close()


def test_merged_collectors_are_one(tmp_path: Path) -> None:
    survey = make()
    reports = some(survey)
    whole, left, right = Collector(survey), Collector(survey, path=tmp_path / "left.db"), Collector(survey)
    whole.add(reports)
    left.add(reports[:40])
    right.add([*reports[40:], b"x"])
    left.merge(right)
    left.close()
    assert (left.tally == whole.tally).all()
    assert left.refused["malformed"] == 1
    kept = Collector.load(tmp_path / "left.db")
    assert (kept.tally == whole.tally).all()
    assert kept.add(reports).duplicate == 120


def test_what_cannot_be_merged() -> None:
    survey = make()
    reports = some(survey)
    left, right = Collector(survey), Collector(survey)
    left.add(reports)
    right.add(reports[:1])
    before = left.tally.copy()
    with pytest.raises(LocalError, match="nothing was merged"):
        left.merge(right)
    with pytest.raises(LocalError, match="another survey"):
        left.merge(Collector(make(epsilon=3)))
    closed = Collector(survey)
    closed.add(some(survey, 1))
    closed.close_through(0)
    with pytest.raises(LocalError, match="nothing was merged"):
        left.merge(closed)
    assert (left.tally == before).all()


# -- missed windows and late joiners -------------------------------------------------------------------


def test_missed_windows_cost_accuracy_but_no_bias() -> None:
    """A tenth of all reports never arrive; first reports give the roster, silent people are left out."""
    survey = make("tilted", windows=6, epsilon=8, answers=["a", "b"], options={"levels": 1})
    random, people, reports = np.random.default_rng(3), 3000, []
    for person in range(people):
        reporter = Reporter(survey, {})
        there = [window for window in range(6) if window == 0 or random.random() > 0.1]
        reports += [reporter.report(window, "a" if person % 3 or window < 3 else "b") for window in there]
    collector = Collector(survey)
    collector.add(reports)
    found = collector.histogram()
    assert (found.roster == people).all()
    truth = np.array([[3000, 0]] * 3 + [[2000, 1000]] * 3)
    assert (np.abs(found.value - truth) / found.stderr).max() < 6.5
    assert found.stderr.max() < 300


def test_people_who_join_later_are_counted_from_then_on() -> None:
    survey = make("tilted", windows=4, epsilon=8, answers=["a", "b"], options={"levels": 1})
    reports = []
    for person in range(2000):
        begin = 2 if person % 2 else 0
        reporter = Reporter(survey, {}, first_window=begin)
        reports += [reporter.report(window, "b" if begin else "a") for window in range(begin, 4)]
    collector = Collector(survey)
    collector.add(reports)
    found = collector.histogram()
    assert found.roster.tolist() == [1000, 1000, 2000, 2000]
    truth = np.array([[1000, 0]] * 2 + [[1000, 1000]] * 2)
    assert (np.abs(found.value - truth) / found.stderr).max() < 6.5

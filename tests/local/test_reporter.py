"""The reporter on the device: refused requests, lost and restored states, surveys that cannot be trusted."""

from __future__ import annotations

import ast
import copy
import json
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tidegauge.local import (
    FileState,
    Reporter,
    ReporterError,
    Survey,
    report_from_json,
    report_to_json,
)
from tidegauge.local import reporter as module
from tidegauge.local.reporter import FIRST, HEADER, IDLE
from tidegauge.local.survey import PROTOCOLS

SECRET = bytes(range(32))


def make(protocol: str = "tilted", **more: Any) -> Survey:
    values: dict[str, Any] = {
        "answers": ["a", "b", "c"],
        "windows": 8,
        "changes": 2,
        "epsilon": 2,
        "protocol": protocol,
    }
    return Survey(**(values | {"reveals_change_times": protocol == "memoized"} | more))


def flags(report: bytes) -> int:
    return report[1]


def bottom(survey: Survey) -> bytes:
    """A secret whose owner reports changes in every window."""
    for number in range(1000):
        secret = number.to_bytes(32, "big")
        if not flags(Reporter(survey, {}, secret=secret).report(0, "a")) & IDLE:
            return secret
    raise AssertionError("no role speaks in the first window")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_report_for_every_window_all_of_one_length(protocol: str) -> None:
    survey, reporter = make(protocol), Reporter(make(protocol), {})
    reports = [reporter.report(window, "a" if window else None) for window in range(8)]
    assert {len(report) for report in reports} == {HEADER.size + survey.spec.payload}
    assert [HEADER.unpack_from(report)[4] for report in reports] == list(range(8))
    assert [bool(flags(report) & FIRST) for report in reports] == [True] + [False] * 7
    tokens = {HEADER.unpack_from(report)[5] for report in reports}
    assert len(tokens) == 8  # nothing links the windows of a person but the role


def test_asked_again_it_says_the_same() -> None:
    reporter = Reporter(make(), {})
    first = reporter.report(0, "a")
    assert reporter.report(0, "b") == first
    second = reporter.report(1, "b")
    assert reporter.report(1, None) == second
    with pytest.raises(ReporterError, match="window 0 is past"):
        reporter.report(0, "a")


@pytest.mark.parametrize(
    ("window", "answer", "why"),
    [(-1, "a", "windows 0 to 7"), (8, "a", "windows 0 to 7"), (0, "d", "answers")],
)
def test_what_it_refuses_changes_nothing(window: int, answer: str, why: str) -> None:
    state: dict[str, Any] = {}
    reporter = Reporter(make(), state)
    before = copy.deepcopy(state)
    with pytest.raises(ReporterError, match=why):
        reporter.report(window, answer)
    assert state == before


def test_the_message_does_not_repeat_an_answer() -> None:
    with pytest.raises(ReporterError) as caught:
        Reporter(make(), {}).report(0, "a secret of mine")
    assert "secret of mine" not in str(caught.value)


def test_the_same_state_goes_on_in_another_process() -> None:
    survey = make()
    state: dict[str, Any] = {}
    answers = ["a", "a", "b", "b", None, None, "c", "c"]
    through = Reporter(survey, {}, secret=SECRET)
    expected = [through.report(window, answer) for window, answer in enumerate(answers)]
    found = []
    for window, answer in enumerate(answers):
        state = json.loads(json.dumps(state))
        found.append(Reporter(survey.to_json(), state, secret=SECRET).report(window, answer))
    assert found == expected


def test_the_state_is_written_before_the_report_is_returned() -> None:
    class Failing(dict[str, Any]):
        full = False

        def __setitem__(self, name: str, value: Any) -> None:
            if self.full:
                raise OSError("disk full")
            super().__setitem__(name, value)

    state = Failing()
    reporter = Reporter(make(), state)
    state.full = True
    with pytest.raises(OSError, match="disk full"):
        reporter.report(0, "a")


# -- lost, restored, missed ----------------------------------------------------------------------------


def test_a_lost_state_is_never_a_second_pattern() -> None:
    survey = make()
    state: dict[str, Any] = {}
    reporter = Reporter(survey, state)
    reporter.report(0, "a")
    reporter.report(1, "b")
    again: dict[str, Any] = {}
    for window in range(2, 8):
        report = Reporter(survey, again).report(window, "c")
        assert flags(report) == IDLE
        assert not any(report[HEADER.size :])


def test_a_restored_state_does_not_spend_twice() -> None:
    survey = make(epsilon=40)
    state: dict[str, Any] = {}
    secret = bottom(survey)
    reporter = Reporter(survey, state, secret=secret)
    reporter.report(0, "a")
    old = copy.deepcopy(state)
    spoken = [reporter.report(window, "b") for window in (1, 2)]
    for window in range(3, 8):
        assert flags(Reporter(survey, old, secret=secret).report(window, "b")) == IDLE
    assert not any(flags(report) & IDLE for report in spoken)


def test_a_restored_state_repeats_itself_when_it_is_asked_the_same() -> None:
    for protocol in PROTOCOLS:
        survey = make(protocol)
        state: dict[str, Any] = {}
        reporter = Reporter(survey, state)
        reporter.report(0, "a")
        old = copy.deepcopy(state)
        expected = [reporter.report(window, "b") for window in range(1, 8)]
        rolled_back = Reporter(survey, old)
        assert [rolled_back.report(window, "b") for window in range(1, 8)] == expected


def test_missed_windows_make_it_idle_or_are_caught_up() -> None:
    survey = make(epsilon=1000)
    secret = bottom(survey)
    careful, vouched = (
        Reporter(survey, {}, secret=secret, state_is_current=known) for known in (False, True)
    )
    for reporter in (careful, vouched):
        reporter.report(0, "a")
    assert flags(careful.report(3, "a")) == IDLE
    assert flags(vouched.report(3, "a")) == 0


def test_a_missed_window_matters_only_where_the_role_speaks() -> None:
    survey = make(options={"levels": 2})
    for number in range(40):
        reporter = Reporter(survey, {}, secret=number.to_bytes(32, "big"))
        high = bool(flags(reporter.report(0, "a")) & IDLE)  # level 1 speaks in windows 1, 3, 5 and 7
        reporter.report(1, "a")
        assert bool(flags(reporter.report(3, "a")) & IDLE) is not high


def test_a_snapshot_is_not_lost_to_missed_windows() -> None:
    survey, spoken = make("snapshots"), 0
    for _ in range(100):
        reporter = Reporter(survey, {})
        reporter.report(0, "a")
        spoken += not flags(reporter.report(7, "a")) & IDLE
    assert spoken > 0


def test_joining_later() -> None:
    survey = make()
    assert flags(Reporter(survey, {}, first_window=3).report(3, "a")) & FIRST
    assert flags(Reporter(survey, {}).report(3, "a")) == IDLE
    assert flags(Reporter(survey, {}, state_is_current=True).report(3, "a")) & FIRST


def test_a_survey_that_says_when_its_windows_are_is_answered_now_or_never() -> None:
    """So that not even a host that makes up for what a restored state has missed can spend twice."""
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    survey, now = make(start=begin, every=timedelta(hours=1)), [begin.timestamp() + 1.0]
    reporter = Reporter(survey, {}, clock=lambda: now[0])
    for other in (1, 7):
        with pytest.raises(ReporterError, match="not now"):
            reporter.report(other, "a")
    first = reporter.report(0, "a")
    now[0] += 3 * 3600
    assert reporter.report(0, "b") == first
    for other in (1, 2, 4):
        with pytest.raises(ReporterError, match="not now"):
            reporter.report(other, "a")
    assert (
        HEADER.unpack_from(reporter.report(3, "a"))[4]
        == 3
        == survey.window_at(begin + timedelta(hours=3, seconds=1))
    )


@pytest.mark.parametrize("kept", [{"secret": "zz"}, {"secret": "00"}, {}, 7])
def test_a_damaged_state_is_not_guessed_at(kept: Any) -> None:
    survey = make()
    with pytest.raises(ReporterError, match="damaged"):
        Reporter(survey, {survey.hash[:16]: kept})


def test_a_secret_that_lives_apart() -> None:
    survey = make()
    state: dict[str, Any] = {}
    Reporter(survey, state, secret=SECRET).report(0, "a")
    assert SECRET.hex() not in json.dumps(state)
    with pytest.raises(ReporterError, match="damaged"):
        Reporter(survey, {}, secret=b"short")


def test_a_file_as_state(tmp_path: Path) -> None:
    survey, path = make(), tmp_path / "reporter.json"
    first = Reporter(survey, FileState(path)).report(0, "a")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Reporter(survey, FileState(path)).report(0, "b") == first
    other = make(seed="another survey")
    Reporter(other, FileState(path)).report(0, "a")
    state = FileState(path)
    assert set(state) == {survey.hash[:16], other.hash[:16]}
    del state[other.hash[:16]]
    assert len(FileState(path)) == 1
    path.write_text("{")
    with pytest.raises(ReporterError, match="damaged"):
        Reporter(survey, FileState(path))


def test_two_reporters_on_one_state_are_one() -> None:
    survey, state = make(), dict[str, Any]()
    one, two = Reporter(survey, state), Reporter(survey, state)
    assert one.report(0, "a") == two.report(0, "b")
    assert two.report(1, "b") == one.report(1, "c")
    with pytest.raises(ReporterError, match="window 0 is past"):
        two.report(0, "a")


# -- surveys that cannot be trusted --------------------------------------------------------------------


def forged(survey: Survey, **group: Any) -> str:
    data = json.loads(survey.to_json())
    data["groups"][0].update(group)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("protocol", "group"),
    [
        ("response-hdcr", {"branching": -2}),
        ("response-hdcr", {"branching": 1}),
        ("response-hdcr", {"layers": 0}),
        ("tilted", {"nu": str(1 << 64)}),
        ("tilted", {"nu": "0"}),
        ("tilted", {"nu": "much"}),
        ("tilted", {"map": "mine"}),
        ("tilted", {"level": -1}),
        ("tilted", {"changes": 0}),
        ("tilted", {"changes": 1.5}),
        ("tilted", {"changes": 10**30}),
        ("tilted", {"good": None}),
        ("tilted", {"good": [[1, 0], 3]}),
        ("tilted", {"good": [[1, 2, 3]]}),
        ("tilted", {"good": [[9, 9]]}),
        ("tilted", {"share": 0}),
        ("tilted", {"kind": "choose"}),
        ("tilted", {"kind": "memoized", "oracle": "grr"}),
        ("snapshots", {"oracle": "plain"}),
        ("snapshots", {"share": None}),
    ],
)
def test_a_forged_group_is_refused(protocol: str, group: dict[str, Any]) -> None:
    with pytest.raises(ReporterError):
        Reporter(forged(make(protocol), **group), {})


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"epsilon": "0"},
        {"epsilon": "1/0"},
        {"answers": []},
        {"changes": 0},
        {"windows": 0},
        {"groups": []},
    ],
)
def test_a_forged_survey_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ReporterError):
        Reporter(json.dumps(json.loads(make().to_json()) | change), {})


def test_a_report_that_fails_fails_for_any_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A survey whose pattern cannot be drawn does not find out which answers change."""

    def never(*_: object, **__: object) -> None:
        raise MemoryError

    survey = make()
    secret = bottom(survey)
    monkeypatch.setattr(module, "pattern_weights", never)
    for answer in ("a", "b", "c", None):
        with pytest.raises(MemoryError):
            Reporter(survey, {}, secret=secret).report(0, answer)


def test_text_that_is_no_survey() -> None:
    for text in ("", "[]", "{}", "7"):
        with pytest.raises(ReporterError):
            Reporter(text, {})


# -- the file itself -----------------------------------------------------------------------------------


def test_it_needs_the_standard_library_only() -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names | {"__future__"}


def test_it_runs_when_it_is_vendored(tmp_path: Path) -> None:
    (tmp_path / "reporter.py").write_text(Path(module.__file__).read_text())
    (tmp_path / "survey.json").write_text(make().to_json())
    code = (
        "import reporter; survey = open('survey.json').read(); "
        "print(reporter.Reporter(survey, {}, secret=bytes(32)).report(0, 'a').hex())"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, '.'); {code}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert bytes.fromhex(done.stdout.strip()) == Reporter(make(), {}, secret=bytes(32)).report(0, "a")


def test_a_report_as_json() -> None:
    reporter = Reporter(make("snapshots+tilted"), {})
    for window in range(8):
        report = reporter.report(window, "a")
        assert report_from_json(report_to_json(report)) == report
    for text in ("", "{}", '{"version": "x"}', "[1]"):
        with pytest.raises(ReporterError):
            report_from_json(text)


def test_roles_are_spread_as_the_survey_says() -> None:
    survey = make("snapshots+tilted", windows=64)
    roles = [Reporter(survey, {}).role for _ in range(3000)]
    snapshot = len(survey.spec.roles) - 1
    share = survey.groups[-1].share / sum(group.share for group in survey.groups)
    assert abs(roles.count(snapshot) / 3000 - share) < 6.1 * (share * (1 - share) / 3000) ** 0.5


TIMED = """
import sys, time
from tidegauge.local import Reporter, Survey
for protocol in sys.argv[1:]:
    size = {"answers": ["a", "b", "c"], "windows": 64, "changes": 2, "epsilon": 2}
    survey = Survey(**size, protocol=protocol, reveals_change_times=True)
    reporters, start = [Reporter(survey, {}) for _ in range(10)], time.process_time()
    for window in range(64):
        for reporter in reporters:
            reporter.report(window, "abc"[window // 22])
    print((time.process_time() - start) / 640)
"""


def test_a_report_takes_less_than_50_microseconds() -> None:
    """In a process of its own, where no coverage is measured."""
    done = subprocess.run(
        [sys.executable, "-c", TIMED, *PROTOCOLS], capture_output=True, text=True, check=True
    )
    times = [float(line) for line in done.stdout.split()]
    assert len(times) == len(PROTOCOLS)
    assert max(times) < 50e-6

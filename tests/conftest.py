"""What holds for all tests: examples that Hypothesis draws,
and processes that end with the test that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.quick import thin_out
from tidegauge.model.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

# Two processes run tests on two cores: threads of linear algebra would only wait for each other.  NumPy reads
# this when it is loaded, and the processes that tests start inherit it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_CALM = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # whatever else the machine does
settings.register_profile("fixed", _CALM, derandomize=True)
settings.register_profile("random", _CALM, derandomize=False)  # also where CI is set
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(autouse=True)
def no_place_for_temporary_files_is_left_chosen() -> Iterator[None]:
    """An encrypted store chooses one for the rest of the process."""
    yield
    if (scratch := sys.modules.get("tidegauge.scratch")) is not None:
        scratch.use(None)


_REGISTRIES: dict[str, Registry[Any]] = {}
"""Every registry of a module that is loaded."""
_SEARCHED: set[str] = set()


def registered() -> dict[str, tuple[str, ...]]:
    """The names in every registry of the package."""
    for name in [name for name in sys.modules if name.startswith("tidegauge.") and name not in _SEARCHED]:
        _SEARCHED.add(name)
        here = vars(sys.modules[name]).values()
        _REGISTRIES.update({one.one: one for one in here if isinstance(one, Registry)})
    return {name: one.names() for name, one in _REGISTRIES.items()}


@pytest.fixture(autouse=True)
def every_plug_in_of_a_test_is_unregistered() -> Iterator[None]:
    """One that stayed would change the plans of the tests after it, whichever these are."""
    before = registered()
    yield
    left = {name: now for name, now in registered().items() if now != before.get(name, now)}
    for name, now in left.items():
        for plug_in in set(now) - set(before[name]):
            _REGISTRIES[name].unregister(plug_in)
    assert not left, f"the test registered or removed a plug-in and did not undo it: {left}"


@pytest.fixture(autouse=True)
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kill, with all of its group, whatever Python process a test started and did not end.

    Each gets a session, and so a group, of its own.  A server that several tests share ends with whoever
    started it.
    """
    started: list[subprocess.Popen[Any]] = []
    begin = subprocess.Popen.__init__

    def init(self: subprocess.Popen[Any], args: Any, *more: Any, **options: Any) -> None:
        ours = isinstance(args, list) and args[:1] == [sys.executable]
        begin(self, args, *more, **(options | ({"start_new_session": True} if ours else {})))
        if ours:
            started.append(self)

    monkeypatch.setattr(subprocess.Popen, "__init__", init)
    yield
    for process in started:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave many cases of long tests to `make test-all`."""
    thin_out(items)

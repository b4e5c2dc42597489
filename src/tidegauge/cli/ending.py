"""Ends the process after a signal: one line, the right exit code, an intact store, no temporary files.

A signal never raises an exception in the middle of other code, because libraries convert or swallow such
exceptions.  The handler sets a flag, and `run` checks the flag between two readings and while it waits.  If
the process does not check it in time (a query over millions of rows, an import), it exits at once.  That is
safe: a tick is one transaction, and the next run repeats what was not committed.

This module imports little, so that signals are handled from the start.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from itertools import pairwise
from time import gmtime, strftime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_PATIENCE: Final = 1.0
"""Seconds that `run` has to end by itself; a second signal ends it at once."""
_END: Final = b"\0"


class Stopped(BaseException):
    """Raised after a signal; the open transaction is rolled back, and the next run repeats it."""


class Ending:
    """Records signals, and ends the process if it does not end by itself."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.signal: int | None = None
        """The first signal that came."""
        self._came = threading.Event()
        self._said = threading.Lock()
        self._trying = threading.Lock()
        """Held while a file exists that only the main thread removes."""
        self._pipe = -1
        self._patience = 0.0
        self._service = False
        self._after: Callable[[], str] = str
        self._clean: Callable[[], None] = lambda: None

    # -- used by verbs --------------------------------------------------------------------------------------

    @property
    def code(self) -> int:
        """The exit code: 128 + signal, or 0 for a service ended by SIGTERM."""
        assert self.signal is not None
        return 0 if self._service and self.signal == signal.SIGTERM else 128 + self.signal

    def check(self) -> None:
        """Raise Stopped if a signal came; called where stopping is safe."""
        if self._came.is_set():
            raise Stopped

    def sleep(self, seconds: float) -> None:
        """Wait this long, or until a signal comes; then raise Stopped."""
        self._came.wait(seconds)
        self.check()

    @contextmanager
    def careful(self, after: str | Callable[[], str] = "") -> Iterator[None]:
        """A block in which the verb calls `check` and has time to end by itself.

        `after` is printed if it was stopped; a function is called then.  SIGHUP is ignored in the block:
        there is no configuration to reload, and a closed terminal must not end a service.
        """
        self._patience, self._after = _PATIENCE, (lambda: after) if isinstance(after, str) else after
        ours = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN) if ours else None
        try:
            yield
        finally:
            self._patience = 0.0
            if ours:
                signal.signal(signal.SIGHUP, before or signal.SIG_DFL)

    def hush(self) -> None:
        """Print nothing when this process ends: the process that started it says why."""
        self._said.acquire(blocking=False)

    def say(self) -> None:
        """Print, once, why the process ends."""
        if self.signal is None or not self._said.acquire(blocking=False):
            return
        what = "Interrupted." if self.signal == signal.SIGINT else "Stopped by SIGTERM."
        bar = os.isatty(2) and os.environ.get("TERM", "dumb") != "dumb"
        line = f"{_CLEARED if bar else ''}{f'{what} {self._after()}'.rstrip()}\n"
        if ("--log", "json") in pairwise(
            sys.argv
        ) or "--log=json" in sys.argv:  # every line is an object there
            now = strftime("%Y-%m-%dT%H:%M:%SZ", gmtime())
            line = f'{{"time": "{now}", "level": "info", "event": "{what}"}}\n'
        with suppress(OSError):
            os.write(2, line.encode())  # not sys.stderr: the main thread may hold its lock

    # -- the process -----------------------------------------------------------------------------------------

    @contextmanager
    def watching(self, *, service: bool) -> Iterator[None]:
        """A block in which SIGINT and SIGTERM are handled, even if they were ignored before.

        All temporary files of the process are in one folder.

        `service`: whether SIGTERM is the normal way to end this process (exit code 0).
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._begin()
        self._service = service
        reading, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        woken = signal.set_wakeup_fd(self._pipe, warn_on_full_buffer=False)
        before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        watcher = threading.Thread(target=self._watch, args=(reading,), daemon=True, name="signals")
        watcher.start()
        try:
            from tidegauge.scratch import process_folder, temporary_folder  # noqa: PLC0415  (slow to load)

            with self._trying:  # the search for a folder that can be written makes a file in it
                temporary_folder()
            with process_folder() as self._clean:
                yield
            if self.signal is not None:  # the HTTP server handled the signal itself and has ended
                self.say()
                sys.exit(self.code)
        finally:
            atexit.register(_deafen)
            os.write(self._pipe, _END)
            watcher.join()
            signal.set_wakeup_fd(woken)
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)
            os.close(reading)
            os.close(self._pipe)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.signal = self.signal or number
        if signal.set_wakeup_fd(self._pipe, warn_on_full_buffer=False) != self._pipe:
            os.write(self._pipe, bytes([number]))  # an event loop replaced our pipe

    def _watch(self, pipe: int) -> None:
        """Run in a separate thread: in a long query the main thread does not handle signals for minutes."""
        while (number := os.read(pipe, 1)) != _END:
            if signal.getsignal(number[0]) != self._handle:
                continue  # uvicorn handles this one
            self.signal = self.signal or number[0]
            self._came.set()
            if select.select([pipe], [], [], self._patience)[0] and os.read(pipe, 1) == _END:
                return
            self._leave()

    def _leave(self) -> None:
        self._trying.acquire(timeout=_PATIENCE)
        self._clean()
        self.say()  # last: another thread draws the progress bar
        os._exit(self.code)


_CLEARED: Final = "\r\x1b[2K\x1b[?25h"
"""Clears the progress bar and shows the cursor."""


def _deafen() -> None:
    """Ignore signals while the interpreter shuts down: the verb has ended."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


ENDING: Final = Ending()

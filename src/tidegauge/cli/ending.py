"""How a process ends when a signal asks for it: one line, the right exit code, an intact store, no temporary files.

A signal never raises an exception in the middle of other code: libraries turn such an exception into an error of their own, or
swallow it.  It is noted, and `run` looks for the note between two readings and while it waits.  A process that does not get
there in time (a query over millions of rows, an import) is ended where it is.  The store is made for that: a tick is one
transaction, and what is not committed is done again by the next run.

This module imports little, so that signals are answered from the first moment on.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_PATIENCE: Final = 1.0
"""Seconds that `run` gets to end by itself; a second signal ends it at once."""
_END: Final = b"\0"


class Stopped(BaseException):
    """A signal came: what is not committed is rolled back, and the next run goes on from what is."""


class Ending:
    """Notes signals, and ends the process where it does not end by itself."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.signal: int | None = None
        """The first signal that came."""
        self._came = threading.Event()
        self._said = threading.Lock()
        self._pipe = -1
        self._patience = 0.0
        self._service = False
        self._after = ""
        self._clean: Callable[[], None] = lambda: None

    # -- what a verb asks and says ----------------------------------------------------------------------------------

    @property
    def code(self) -> int:
        """The exit code: as shells have it, or 0 for a service without end that SIGTERM ends as it should."""
        assert self.signal is not None
        return 0 if self._service and self.signal == signal.SIGTERM else 128 + self.signal

    def check(self) -> None:
        """Raise Stopped if a signal came; called where stopping is harmless."""
        if self._came.is_set():
            raise Stopped

    def sleep(self, seconds: float) -> None:
        """Wait, but not past a signal."""
        self._came.wait(seconds)
        self.check()

    @contextmanager
    def careful(self, after: str = "") -> Iterator[None]:
        """Inside, the verb calls `check` and gets a moment to end by itself; `after` is said when it was stopped.

        SIGHUP changes nothing there: nothing that is committed can change, and a closed terminal ends no service.
        """
        self._patience, self._after = _PATIENCE, after
        ours = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN) if ours else None
        try:
            yield
        finally:
            self._patience = 0.0
            if ours:
                signal.signal(signal.SIGHUP, before or signal.SIG_DFL)

    def say(self) -> None:
        """Say, once, why the process ends."""
        if self.signal is None or not self._said.acquire(blocking=False):
            return
        what = "Interrupted." if self.signal == signal.SIGINT else "Stopped by SIGTERM."
        bar = os.isatty(2) and os.environ.get("TERM", "dumb") != "dumb"
        line = f"{_CLEARED if bar else ''}{what}{f' {self._after}' if self._after else ''}\n"
        with suppress(OSError):
            os.write(2, line.encode())  # not by sys.stderr, whose lock the main thread may hold

    # -- the process ------------------------------------------------------------------------------------------------

    @contextmanager
    def watching(self, *, service: bool) -> Iterator[None]:
        """Answer SIGINT and SIGTERM, whatever this process inherited, and keep its temporary files together.

        `service`: whether SIGTERM is how it is meant to end.
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
            from tidegauge.cli.temporary import together  # noqa: PLC0415  (what it imports takes a while)

            with together() as self._clean:
                yield
            if self.signal is not None:  # an application of its own (serve) was ended by it, and has ended
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
            os.write(self._pipe, bytes([number]))  # an event loop had taken the place of our pipe

    def _watch(self, pipe: int) -> None:
        """Runs in a thread of its own: the main thread may be deep in a query and not look at signals for minutes."""
        while (number := os.read(pipe, 1)) != _END:
            if signal.getsignal(number[0]) != self._handle:
                continue  # uvicorn answers this one
            self.signal = self.signal or number[0]
            self._came.set()
            if select.select([pipe], [], [], self._patience)[0] and os.read(pipe, 1) == _END:
                return
            self._leave()

    def _leave(self) -> None:
        self._clean()
        self.say()  # last: a progress bar is drawn by a thread of its own
        os._exit(self.code)


_CLEARED: Final = "\r\x1b[2K\x1b[?25h"
"""Takes a progress bar away and shows the cursor again."""


def _deafen() -> None:
    """The verb has ended: a signal while the interpreter takes itself apart changes nothing any more."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


ENDING: Final = Ending()

"""Starts HTTP servers: the web process over a public file, and the operator's routes inside `run`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidegauge.cli.address import listening
from tidegauge.cli.ending import ENDING
from tidegauge.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tidegauge.plan.spec.declaration import GaugeSpec
    from tidegauge.run.gauge import Gauge
    from tidegauge.serve.operator import Exit

TOKEN: Final = "TIDEGAUGE_OPERATOR_TOKEN"  # noqa: S105  (the name of a variable)
_PASSED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "VIRTUAL_ENV")
"""Variables that the web process gets: no connection string, no key, no token."""
_AGAIN: Final = 5.0
"""Seconds before a web process that ended is started again."""


def public_file(spec: GaugeSpec, base: Path) -> Path | None:
    """The public file that a declaration publishes; None without a publisher of kind public."""
    from tidegauge.publish.public.kind import PublicSpec  # noqa: PLC0415

    found = [one.path for one in spec.publish.values() if isinstance(one, PublicSpec)]
    return base / found[0] if found else None


def _uvicorn() -> Any:
    try:
        import uvicorn  # noqa: PLC0415  (an extra)
    except ImportError:
        raise SpecError("serve needs the extra 'serve': pip install '.[serve]'") from None
    return uvicorn


def serve_public(path: Path, listen: str, *, workers: int, say: Callable[[str], None]) -> None:
    """Serve a public file until interrupted."""
    _uvicorn()
    if path.is_file():
        from tidegauge.publish.public.reader import PublicFile  # noqa: PLC0415

        PublicFile(path).close()  # says at once what is wrong with it
    with closing(listening(listen)) as door:
        waiting = "" if path.is_file() else f" ({path.name} is not there yet)"
        say(f"Serving {path.name} at {_address(door)} until interrupted{waiting}.")
        if workers == 1:
            answer_requests(path, door)
            return
        with web_processes(path, door, workers):
            while True:
                ENDING.sleep(3600)


def answer_requests(path: Path, door: socket.socket) -> None:
    """Answer the requests of a socket in this process, until a signal."""
    from tidegauge.serve.app import create_app  # noqa: PLC0415

    uvicorn = _uvicorn()
    config = uvicorn.Config(
        create_app(path),
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    uvicorn.Server(config).run(sockets=[door])


def answer_as_child(path: Path, handle: int) -> None:
    """Answer the requests of a socket that the parent process opened, until that process ends."""
    ENDING.hush()
    end_with_parent()
    with closing(socket.socket(fileno=handle)) as door:
        answer_requests(path, door)


def _address(door: socket.socket) -> str:
    host, port = door.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def end_with_parent() -> None:
    """End this process once its standard input is closed: the process that started it has ended."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True, name="parent").start()


class _Child(threading.Thread):
    """A web process, started again whenever it ends."""

    def __init__(self, path: Path, door: socket.socket) -> None:
        super().__init__(daemon=True, name="web")
        handle = str(door.fileno())
        self._words = [sys.executable, "-m", "tidegauge", "serve", str(path.absolute()), "--child", handle]
        self._door, self._over, self._lock = door, threading.Event(), threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
        while True:
            with self._lock:
                if self._over.is_set():
                    return
                self._process = subprocess.Popen(  # noqa: S603
                    self._words, stdin=subprocess.PIPE, env=passed, pass_fds=(self._door.fileno(),), cwd="/"
                )
            self._process.wait()
            self._over.wait(_AGAIN)

    def end(self) -> None:
        """End the process and do not start another."""
        self._over.set()
        with self._lock:
            process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()
        self.join(1)


@contextmanager
def web_processes(path: Path, door: socket.socket, count: int = 1) -> Iterator[None]:
    """A block in which child processes answer the requests of a socket.

    A child gets the socket, the path of the public file, and nothing else of this process: no store, no
    declaration, no variable with a secret.  It ends with the block, also where this process is killed.
    """
    children = [_Child(path, door) for _ in range(count)]
    for one in children:
        one.start()
    try:
        yield
    finally:
        for one in children:
            one.end()


@contextmanager
def operator_routes(gauge: Gauge, listen: str | None) -> Iterator[None]:
    """A block in which the operator's routes are served at this address, in a thread; nowhere without one.

    Raises SpecError where the environment has no token for them.
    """
    if listen is None:
        yield
        return
    uvicorn = _uvicorn()
    from tidegauge.cli.exit_state import recorded_end  # noqa: PLC0415
    from tidegauge.serve.operator import Watch, operator_app, require_token  # noqa: PLC0415

    token = os.environ.get(TOKEN, "")
    require_token(token)
    door: socket.socket = listening(listen)
    with closing(door), recorded_end(gauge.path) as last:
        app = operator_app(Watch(gauge.status, partial(_metrics, gauge, last)), token)
        config = uvicorn.Config(app, access_log=False, log_level="warning", server_header=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=_quietly, args=(server, door), daemon=True, name="operator")
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(3)


def _metrics(gauge: Gauge, last: Exit | None) -> str:
    from tidegauge.model.quantity import instant  # noqa: PLC0415
    from tidegauge.serve.operator import open_metrics  # noqa: PLC0415

    return open_metrics(gauge.status(), now=instant(datetime.now(UTC)), last=last)


@contextmanager
def beside(
    gauge: Gauge, base: Path, listen: str | None, operator: str | None, say: Callable[[str], None]
) -> Iterator[None]:
    """A block in which a gauge runs, with a web process and the operator's routes where they are asked for.

    listen: where the web process listens; None: there is none.  operator: where the operator's routes are.
    """
    public = public_file(gauge.spec, base)
    if listen is not None and public is None:
        raise SpecError(
            "serves a public file: declare a publisher of kind public ([publish.NAME])", key="--serve"
        )
    with ExitStack() as stack:
        stack.enter_context(operator_routes(gauge, operator))
        if listen is not None and public is not None:
            _uvicorn()
            door = stack.enter_context(closing(listening(listen)))
            stack.enter_context(web_processes(public, door))
            say(f"Serving {public.name} at {_address(door)} while the gauge runs.")
        yield


def _quietly(server: Any, door: socket.socket) -> None:
    import asyncio  # noqa: PLC0415

    asyncio.run(server.serve(sockets=[door]))

"""A headless chromium, driven over its debugging pipe: no driver program and no package is needed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM: Final = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
MISSING: Final = "no browser: apt-get install chromium (or put google-chrome on the PATH)"
PATIENCE: Final = 300.0
"""Seconds to wait for an answer; only a browser that hangs needs them."""
_FLAGS: Final = [
    "--headless=new", "--no-sandbox", "--disable-gpu",
    "--no-first-run", "--hide-scrollbars", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--remote-debugging-pipe", "--force-color-profile=srgb", "--lang=en",
]  # fmt: skip


class PageProblem(AssertionError):
    """A script on the page failed."""


class Tab:
    """One page; `problems` has what its console complained of."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._buffer, self._number, self._session = b"", 0, ""
        self._events: list[dict[str, Any]] = []
        self.problems: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._number:
                if "error" in found:
                    raise PageProblem(f"{method}: {found['error']['message']}")
                return dict(found["result"])
            self._event(found)

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise PageProblem("the browser does not answer")
            part = os.read(self._answers, 1 << 20)
            if not part:
                raise PageProblem("the browser has ended")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(text))

    def _event(self, found: dict[str, Any]) -> None:
        self._events.append(found)
        method, params = found.get("method"), found.get("params", {})
        if method == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
            self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"])[:500])

    def go(self, address: str) -> None:
        """Open a page and wait until it is loaded."""
        self._events.clear()
        self.ask("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._event(self._next())

    def run(self, script: str) -> Any:
        """The value of an expression on the page; a promise is waited for."""
        found = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise PageProblem(json.dumps(found["exceptionDetails"])[:800])
        return found["result"].get("value")

    def look(
        self,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        script: bool = True,
        media: str = "",
    ) -> None:
        """How wide the screen is, light or dark, with scripts or without, on screen or in print."""
        phone = width < 600
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.ask("Emulation.setScriptExecutionDisabled", value=not script)

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key, as a person does."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37,
                 "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}  # fmt: skip
        text = {"Enter": "\r", " ": " "}.get(key)
        more = {"text": text} if text else {}
        common = {"key": key, "windowsVirtualKeyCode": codes[key], "modifiers": 8 if shift else 0}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **common, **more)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def point(self, x: float, y: float) -> None:
        """Move the pointer."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, *, tallest: int = 4000) -> bytes:
        """The whole page as a PNG."""
        width, height = self.run(
            "[document.documentElement.clientWidth, document.documentElement.scrollHeight]"
        )
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, tallest), "scale": 1}
        found = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(found["data"])

    def tree(self) -> list[tuple[str, str]]:
        """Role and name of everything that a screen reader meets."""
        nodes = self.ask("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node.get("ignored")
        ]


@contextmanager
def browser(profile: Path) -> Iterator[Tab]:
    """A browser with one page, which ends with the block."""
    assert PROGRAM is not None
    ends: list[int] = []

    def pipe() -> tuple[int, int]:
        """Numbers above those that the browser uses (3 and 4)."""
        pair = os.pipe()
        moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in pair]
        for end in pair:
            os.close(end)
        ends.extend(moved)
        return moved[0], moved[1]

    (commands_out, commands), (answers, answers_in) = pipe(), pipe()
    log = os.open(profile / "chromium.log", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
    ends.append(log)
    actions = [(os.POSIX_SPAWN_DUP2, commands_out, 3), (os.POSIX_SPAWN_DUP2, answers_in, 4)]
    actions += [(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
    arguments = [PROGRAM, *_FLAGS, f"--user-data-dir={profile / 'profile'}"]
    process = os.posix_spawn(PROGRAM, arguments, os.environ, file_actions=actions, setpgroup=0)
    try:
        for end in (commands_out, answers_in):
            os.close(end)
            ends.remove(end)
        yield Tab(commands, answers)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        for end in ends:
            os.close(end)

"""Where change events are received: durable before they are acknowledged, and authentic before they are read."""

from __future__ import annotations

import base64
import binascii
import fcntl
import hmac
import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from tidegauge.errors import SourceError, SpecError, StoreLocked
from tidegauge.source.debezium_events import NOTHING, event, mark

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SEGMENT: Final = 64 << 20
_FRESH: Final = 300
"""Seconds by which a signed request may be old or early."""


class Inbox:
    """A folder of event files; one process writes it, the source `Debezium(folder, consume=True)` reads it."""

    def __init__(self, folder: Path, segment: int = _SEGMENT) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._limit = segment
        self._mutex = threading.Lock()
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StoreLocked("another process receives events into this inbox") from None
        self._file = -1
        self._number = max((int(path.stem) for path in folder.glob("[0-9]*.jsonl")), default=0)
        if self._number:
            _mend(self._path)
        self._next()

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._number:015}.jsonl"

    def _next(self) -> None:
        """Begin a new file; its name must be durable too, and come after every name there ever was."""
        if self._file >= 0:
            os.close(self._file)
        self._number = max(self._number + 1, time.time_ns() // 1_000_000)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._size = 0
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def append(self, body: bytes) -> None:
        """Keep one event, or a list of them; when this returns they survive a power cut."""
        lines = _lines(body)
        if not lines:
            return
        with self._mutex:
            if self._size > self._limit:
                self._next()
            data = b"".join(lines)
            try:
                _write(self._file, data)
                os.fsync(self._file)
            except OSError:
                self._size = self._limit + 1  # half a line may be there, and nothing may follow it
                raise
            self._size += len(data)

    def close(self) -> None:
        """Let another process receive."""
        os.close(self._file)
        os.close(self._lock)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _mend(path: Path) -> None:
    """Cut off a line that a crash left half written: it was never acknowledged."""
    with path.open("rb+") as file:
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)
        os.fsync(file.fileno())


def _lines(body: bytes) -> list[bytes]:
    """The events of a request, one a line; refused as a whole where one of them could not be read later."""
    if not body.strip():
        return []
    if body in NOTHING:  # a tombstone
        return []
    try:
        told: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise SourceError("the request's body is not JSON") from None
    lines = []
    for one in told if isinstance(told, list) else [told]:
        line = json.dumps(one, separators=(",", ":")).encode()
        try:
            found = event(line)
        except SourceError as refusal:
            raise SourceError(f"an event {refusal}; nothing of the request was kept") from None
        if found is None:
            continue
        if found.kind != "r" and mark(found) is None:
            raise SourceError(
                "the event does not say where in its database's log it happened, so a repetition could not be recognised: "
                "known are the connectors for PostgreSQL, MySQL, MariaDB and SQL Server"
            )
        lines.append(line + b"\n")
    return lines


class Gatekeeper:
    """Tells requests that come from our Debezium: by a bearer token, or by a signature (its 'standard-webhooks')."""

    def __init__(self, *, token: str | None = None, signing_secret: str | None = None) -> None:
        if not token and not signing_secret:
            raise SpecError("an inbox needs a token or a signing secret", key="source.token")
        if token and not token.isascii():
            raise SpecError("a header cannot carry it: use ASCII", key="source.token")
        self._token = token
        self._secret = None
        if signing_secret:
            try:
                self._secret = base64.b64decode(signing_secret.removeprefix("whsec_"), validate=True)
            except binascii.Error:
                raise SpecError("is not base64 (whsec_...)", key="source.signing_secret") from None

    def admits(self, headers: Mapping[str, str], body: bytes, now: float | None = None) -> bool:
        """Whether the request may come in; headers have lower-case names."""
        if self.knows(headers):
            return True
        return self._secret is not None and self._signed(
            self._secret, headers, body, time.time() if now is None else now
        )

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether the token is right."""
        given = headers.get("authorization", "").encode()
        return self._token is not None and hmac.compare_digest(given, f"Bearer {self._token}".encode())

    def hopeless(self, headers: Mapping[str, str]) -> bool:
        """Whether no body can make the request admissible: then none need be read."""
        return not self.knows(headers) and (self._secret is None or not headers.get("webhook-signature"))

    @staticmethod
    def _signed(secret: bytes, headers: Mapping[str, str], body: bytes, now: float) -> bool:
        number, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not stamp.isdigit() or abs(int(stamp) - now) > _FRESH:
            return False
        right = base64.b64encode(hmac.digest(secret, f"{number}.{stamp}.".encode() + body, "sha256"))
        return any(
            hmac.compare_digest(f"v1,{right.decode()}".encode(), one.encode())
            for one in headers.get("webhook-signature", "").split(" ")
        )

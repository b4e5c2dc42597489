"""The kind `command`: JSON lines to a program's standard input, one line a reading.

The program is started for each batch, without a shell, and gets PATH, HOME, LANG and the variables that
`env` names; TIDEGAUGE_KEY is the batch's idempotency key.  Exit code 0 means that the batch arrived.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from tidegauge.errors import PublishError
from tidegauge.model.declared import Name, PublisherSpec
from tidegauge.model.publisher import Delivery, Place, PublisherKind
from tidegauge.publish.batch import Batch

if TYPE_CHECKING:
    from pathlib import Path

_PASSED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")


class CommandSpec(PublisherSpec):
    """[publish.NAME] with kind = "command"."""

    kind: Literal["command"]
    command: Annotated[list[Name], Field(min_length=1)]
    env: list[Name] = []  # noqa: RUF012  (pydantic copies defaults)
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 300.0


@dataclass(frozen=True)
class CommandPublisher:
    """Starts the program for each batch."""

    command: tuple[str, ...]
    env: tuple[str, ...]
    timeout: float
    folder: Path

    def deliver(self, what: Batch) -> Delivery:
        """Write the readings to the program, and wait until it ends."""
        lines = "".join(json.dumps(one.as_json(), ensure_ascii=False) + "\n" for one in what.readings)
        passed = {name: os.environ[name] for name in (*_PASSED, *self.env) if name in os.environ}
        program = self.command[0].rpartition("/")[2]
        try:
            process = subprocess.Popen(  # noqa: S603  (the operator declared it; there is no shell)
                list(self.command),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                cwd=self.folder,
                env=passed | {"TIDEGAUGE_KEY": what.key},
                start_new_session=True,
            )
        except OSError as error:
            raise PublishError(f"{program} cannot be started: {error.strerror}") from None
        try:
            process.communicate(lines.encode(), timeout=self.timeout)
        except subprocess.TimeoutExpired:
            raise PublishError(f"{program} did not end within {self.timeout:g} seconds") from None
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()
        if process.returncode:
            raise PublishError(f"{program} ended with exit code {process.returncode}")
        return Delivery(len(what.readings), program)


class CommandKind(PublisherKind[CommandSpec, Batch]):
    """Starts a program."""

    spec = CommandSpec
    keyed = True

    def open(self, spec: CommandSpec, place: Place) -> CommandPublisher:
        """The publisher for this program."""
        return CommandPublisher(tuple(spec.command), tuple(spec.env), spec.timeout, place.base.absolute())


KIND: Final = CommandKind()

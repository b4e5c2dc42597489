"""What a service says: what happens, without saying anything secret."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path

from tidegauge.errors import SpecError

_PLAIN = frozenset(vars(logging.makeLogRecord({})))


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One object a line: time, level, event and what belongs to it."""
        return json.dumps({"time": _time(record), "level": record.levelname.lower(), "event": record.getMessage(),
                           **_extra(record)}, default=str)  # fmt: skip


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """The same for people."""
        extra = "".join(f" {name}={value}" for name, value in _extra(record).items())
        return f"{_time(record)} {record.levelname.lower()} {record.getMessage()}{extra}"


def _time(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _PLAIN and name != "message"}


def setup_log(form: str) -> None:
    """Send Tidegauge's log to stderr."""
    if form not in ("none", "text", "json"):
        raise SpecError("must be none, text or json", key="--log")
    if form != "none":
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Json() if form == "json" else _Text())
        logger = logging.getLogger("tidegauge")
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)


def unforeseen(error: BaseException) -> str:
    """An error that nobody provided for: where it happened, and of which kind.  Its own words may quote data."""
    frames = traceback.extract_tb(error.__traceback__)
    where = "\n".join(f"  {Path(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in frames)
    return (
        f"tidegauge stopped because of an error in itself ({type(error).__module__}.{type(error).__name__}). What was "
        f"committed before stands. Please report this:\n{where}"
    )

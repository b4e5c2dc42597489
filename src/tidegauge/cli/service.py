"""The log of a running gauge, and the message of an internal error.  Neither holds anything secret."""

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
        """One JSON object a line: time, level, event and its fields."""
        fixed = {"time": _time(record), "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps(fixed | _extra(record), default=str)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """The same fields as a line of text."""
        extra = "".join(f" {name}={value}" for name, value in _extra(record).items())
        return f"{_time(record)} {record.levelname.lower()} {record.getMessage()}{extra}"


def _time(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _PLAIN and name != "message"}


def setup_log(form: str) -> None:
    """Send Tidegauge's log to stderr in this form.  Raises SpecError for an unknown form."""
    if form not in ("none", "text", "json"):
        raise SpecError("must be none, text or json", key="--log")
    if form != "none":
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Json() if form == "json" else _Text())
        logger = logging.getLogger("tidegauge")
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)


def internal_error(error: BaseException) -> str:
    """The message for an unexpected error: its type and where it happened.  Its own text may quote data."""
    frames = traceback.extract_tb(error.__traceback__)
    where = "\n".join(f"  {Path(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in frames)
    return (
        f"Internal error (please report this bug): {type(error).__module__}.{type(error).__name__}\n{where}\n"
        "Everything committed before is intact."
    )

"""Names for SQL statements, and secrets from the environment."""

from __future__ import annotations

import os

from tidegauge.errors import SpecError


def quote(name: str) -> str:
    """An SQL identifier, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """An SQL string."""
    return "'" + text.replace("'", "''") + "'"


def secret(text: str, *, key: str) -> str:
    """The secret itself, or for 'env:NAME' the value of that environment variable."""
    if not text.startswith("env:"):
        return text
    name = text.removeprefix("env:")
    value = os.environ.get(name)
    if not value:
        raise SpecError(f"the environment variable {name} is not set", key=key)
    return value

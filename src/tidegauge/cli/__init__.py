"""The verbs, named after what they do."""

from tidegauge.cli.main import app, main

__all__ = ["app", "main"]
